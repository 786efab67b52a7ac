#include "engine/normal.h"

#include "engine/products.h"

/* What a pass sums up, of one tile; whether G has sums of others. */
typedef int tile_function(const struct restricted *r, struct backend *be, const struct row_tile *t,
                          const struct mat *V, bool add, const struct mat *G, struct err *err);

static int advance(const struct restricted *r, struct backend *be, struct normal_pass *pass,
                   tile_function *sum, const struct mat *V, const struct mat *G, struct err *err)
{
    const int64_t tiles = rowset_tiles(r->rows);
    double values = 0;
    while (pass->tile < tiles && values < NORMAL_PIECE) {
        struct row_tile t;
        int rc = rowset_tile(r->rows, pass->tile, &t, err);
        rc = rc == 0 ? sum(r, be, &t, V, pass->tile > 0, G, err) : rc;
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

static int product(const struct restricted *r, struct backend *be, const struct row_tile *t,
                   const struct mat *V, const struct mat *Y, bool add, const struct mat *G,
                   struct err *err)
{
    const double *weights = r->row_weights != NULL ? r->row_weights + t->first : NULL;
    return product_normal(be, t->rows, view_all(r->Z, r->m), weights, V, Y, add, G, err);
}

static int residual_of_tile(const struct restricted *r, struct backend *be,
                            const struct row_tile *t, const struct mat *V, bool add,
                            const struct mat *G, struct err *err)
{
    return product(r, be, t, V, &t->Y, add, G, err);
}

static int product_of_tile(const struct restricted *r, struct backend *be, const struct row_tile *t,
                           const struct mat *V, bool add, const struct mat *G, struct err *err)
{
    return product(r, be, t, V, NULL, add, G, err);
}

static int both_of_tile(const struct restricted *r, struct backend *be, const struct row_tile *t,
                        const struct mat *V, bool add, const struct mat *G, struct err *err)
{
    const struct backend_ops *o = be->ops;
    const int64_t cols = t->Y.cols;
    struct mat twice = {0};
    int rc = o->mat_new(be, t->Y.dtype, t->Y.rows, 2 * cols, &twice, err);
    for (int i = 0; rc == 0 && i < 2; i++) {
        const struct mat half = mat_cols(twice, i * cols, cols);
        rc = o->copy(be, &t->Y, &half, err);
    }
    rc = rc == 0 ? product(r, be, t, V, &twice, add, G, err) : rc;
    o->mat_free(be, &twice);
    return rc;
}

int normal_gradient(const struct restricted *r, struct backend *be, struct normal_pass *pass,
                    const struct mat *V, bool targets, const struct mat *G, struct err *err)
{
    return advance(r, be, pass, targets ? residual_of_tile : product_of_tile, V, G, err);
}

int normal_gradient_and_sums(const struct restricted *r, struct backend *be,
                             struct normal_pass *pass, const struct mat *V, const struct mat *G,
                             struct err *err)
{
    return advance(r, be, pass, both_of_tile, V, G, err);
}

int normal_add_core(const struct restricted *r, struct backend *be, double a, const struct mat *V,
                    const struct mat *G, struct err *err)
{
    const struct view Z = view_all(r->core, r->m);
    return be->ops->kmv(be, Z, Z, a, V, 1.0, G, err);
}
