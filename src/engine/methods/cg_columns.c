#include "engine/methods/cg_columns.h"

#include <math.h>

#include "base/mem.h"
#include "wire/reason.h"

enum { ARRAYS = 9 };

int cg_columns_init(struct cg_columns *c, struct backend *be, int64_t t, struct err *err)
{
    *c = (struct cg_columns){.be = be, .t = t};
    c->frozen = mem_zarray((size_t)t, sizeof(*c->frozen));
    c->broken = mem_zarray((size_t)t, sizeof(*c->broken));
    c->arrays = mem_zarray((size_t)t, ARRAYS * sizeof(double));
    if (c->frozen == NULL || c->broken == NULL || c->arrays == NULL) {
        return err_no_memory(err);
    }
    double **const members[ARRAYS] = {&c->norm,  &c->relative, &c->best, &c->omega, &c->eta,
                                      &c->gamma, &c->dots,     &c->one,  &c->work};
    for (int i = 0; i < ARRAYS; i++) {
        *members[i] = c->arrays + i * t;
    }
    return 0;
}

void cg_columns_deinit(struct cg_columns *c)
{
    mem_free(c->frozen);
    mem_free(c->broken);
    mem_free(c->arrays);
    *c = (struct cg_columns){0};
}

bool cg_columns_frozen(const struct cg_columns *c)
{
    for (int64_t j = 0; j < c->t; j++) {
        if (!c->frozen[j]) {
            return false;
        }
    }
    return true;
}

bool cg_columns_below(const struct cg_columns *c, double tolerance)
{
    for (int64_t j = 0; j < c->t; j++) {
        if (!c->frozen[j] && c->relative[j] > tolerance) {
            return false;
        }
    }
    return true;
}

double cg_columns_largest(const struct cg_columns *c)
{
    double largest = 0;
    for (int64_t j = 0; j < c->t; j++) {
        largest = fmax(largest, c->relative[j]);
    }
    return largest;
}

int cg_columns_diverged(struct err *err)
{
    return err_at(err, ERR_DIVERGED, "#/regularization",
                  "The conjugate gradient iteration produced infinity or NaN. Scale the features "
                  "and the target, use precision float64, or raise `regularization`.");
}

int cg_columns_directions(struct cg_columns *c, const struct mat *Z, const struct mat *R,
                          const struct mat *P, struct err *err)
{
    int r = c->be->ops->col_dots(c->be, Z, R, c->dots, err);
    if (r < 0) {
        return r;
    }
    bool broken = false;
    for (int64_t j = 0; j < c->t; j++) {
        const double omega_new = c->dots[j];
        c->gamma[j] = 1.0;
        c->one[j] = 0.0;
        c->broken[j] = false;
        if (c->frozen[j]) {
            continue;
        }
        if (!isfinite(omega_new)) {
            return cg_columns_diverged(err);
        }
        if (omega_new <= 0) {
            broken = c->broken[j] = true;
            continue;
        }
        c->one[j] = 1.0;
        c->gamma[j] = c->omega[j] > 0 ? omega_new / c->omega[j] : 0.0;
        c->omega[j] = omega_new;
    }
    r = c->be->ops->col_axpby(c->be, c->one, Z, c->gamma, P, err);
    return r == 0 && broken ? REASON_BREAKDOWN : r;
}

int cg_columns_lengths(struct cg_columns *c, const struct mat *P, const struct mat *V,
                       struct err *err)
{
    int r = c->be->ops->col_dots(c->be, P, V, c->dots, err);
    bool broken = false;
    for (int64_t j = 0; r == 0 && j < c->t; j++) {
        c->eta[j] = 0.0;
        if (c->frozen[j] || c->broken[j]) {
            continue;
        }
        if (!isfinite(c->dots[j])) {
            return cg_columns_diverged(err);
        }
        if (c->dots[j] <= 0) {
            broken = c->broken[j] = true;
            continue;
        }
        c->eta[j] = c->omega[j] / c->dots[j];
    }
    return r == 0 && broken ? REASON_BREAKDOWN : r;
}

int cg_columns_move(struct cg_columns *c, const struct mat *Q, const struct mat *V,
                    const struct mat *B, const struct mat *R, struct err *err)
{
    const struct backend_ops *o = c->be->ops;
    for (int64_t j = 0; j < c->t; j++) {
        c->work[j] = -c->eta[j];
        c->one[j] = 1.0;
    }
    const int r = o->col_axpby(c->be, c->eta, Q, c->one, B, err);
    return r == 0 ? o->col_axpby(c->be, c->work, V, c->one, R, err) : r;
}

int cg_columns_measure(struct cg_columns *c, const struct mat *R, struct err *err)
{
    const int r = c->be->ops->col_dots(c->be, R, R, c->dots, err);
    for (int64_t j = 0; r == 0 && j < c->t; j++) {
        if (c->frozen[j]) {
            continue;
        }
        if (!isfinite(c->dots[j])) {
            return cg_columns_diverged(err);
        }
        c->relative[j] = sqrt(c->dots[j]) / c->norm[j];
    }
    return r;
}

int cg_columns_update(struct cg_columns *c, const struct mat *P, const struct mat *V,
                      const struct mat *B, const struct mat *R, struct err *err)
{
    const int r = cg_columns_move(c, P, V, B, R, err);
    return r == 0 ? cg_columns_measure(c, R, err) : r;
}
