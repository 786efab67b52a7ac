#include "engine/normal.h"

#include "engine/products.h"

int normal_gradient(const struct restricted *r, struct backend *be, struct normal_pass *pass,
                    const struct mat *V, bool targets, const struct mat *G, struct err *err)
{
    const struct view Z = view_all(r->Z, r->m);
    const int64_t tiles = rowset_tiles(r->rows);
    double values = 0;
    while (pass->tile < tiles && values < NORMAL_PIECE) {
        struct row_tile t;
        int rc = rowset_tile(r->rows, pass->tile, &t, err);
        if (rc == 0) {
            const double *weights = r->row_weights != NULL ? r->row_weights + t.first : NULL;
            rc = product_normal(be, t.rows, Z, weights, V, targets ? &t.Y : NULL, pass->tile > 0, G,
                                err);
        }
        if (rc < 0) {
            return rc;
        }
        values += (double)t.count * (double)r->m;
        pass->tile++;
    }
    if (pass->tile < tiles) {
        return 0;
    }
    pass->tile = 0;
    return 1;
}

int normal_add_core(const struct restricted *r, struct backend *be, double a, const struct mat *V,
                    const struct mat *G, struct err *err)
{
    const struct view Z = view_all(r->core, r->m);
    return be->ops->kmv(be, Z, Z, a, V, 1.0, G, err);
}
