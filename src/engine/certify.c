#include "engine/certify.h"

#include <math.h>

#include "base/mem.h"

struct pass {
    struct points *X;
    struct mat A, R;
    double *numbers; /* [4 t] */
};

static int compute(struct pass *c, const struct problem *p, const struct mat *A, double *ret,
                   struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_all(c->X, p->n);
    double *minus_ridge = c->numbers, *one = c->numbers + p->t;
    double *yy = c->numbers + 2 * p->t, *rr = c->numbers + 3 * p->t;
    for (int64_t j = 0; j < p->t; j++) {
        minus_ridge[j] = -p->ridge;
        one[j] = 1.0;
    }
    int r = o->copy(p->be, A, &c->A, err);
    if (r == 0) {
        r = o->copy(p->be, &p->Y, &c->R, err);
    }
    if (r == 0) {
        r = o->col_dots(p->be, &c->R, &c->R, yy, err);
    }
    if (r == 0) {
        r = o->kmv(p->be, all, all, -1.0, &c->A, 1.0, &c->R, err);
    }
    if (r == 0) {
        r = o->col_axpby(p->be, minus_ridge, &c->A, one, &c->R, err);
    }
    if (r == 0) {
        r = o->col_dots(p->be, &c->R, &c->R, rr, err);
    }
    double largest = 0;
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        const double rel = sqrt(rr[j]) / (yy[j] > 0 ? sqrt(yy[j]) : 1.0);
        largest = isnan(rel) || isnan(largest) ? NAN : fmax(largest, rel);
    }
    if (r == 0) {
        *ret = largest;
    }
    return r;
}

int certify_residual(const struct problem *p, const struct kernel *kernel, const struct rows *host,
                     const struct mat *A, double *ret, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    struct pass c = {.numbers = mem_array((size_t)p->t, 4 * sizeof(double))};
    int r = c.numbers != NULL ? 0 : err_no_memory(err);
    if (r == 0) {
        r = o->points_new(p->be, kernel, DTYPE_F64, host, &c.X, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, p->n, p->t, &c.A, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, p->n, p->t, &c.R, err);
    }
    if (r == 0) {
        r = compute(&c, p, A, ret, err);
    }
    o->mat_free(p->be, &c.R);
    o->mat_free(p->be, &c.A);
    if (c.X != NULL) {
        o->points_free(p->be, c.X);
    }
    mem_free(c.numbers);
    return r;
}

bool certify_samples(int64_t n, int64_t entries)
{
    return (double)n * (double)n > fmax(CERTIFY_ENTRIES, (double)entries / CERTIFY_SHARE);
}

int certify(const struct problem *p, const struct kernel *kernel, const struct rows *host,
            const struct mat *A, int64_t entries, struct certificate *ret, struct err *err)
{
    if (certify_samples(p->n, entries)) {
        return certify_sampled(p, kernel, host, A, CERTIFY_ROWS, p->seed, ret, err);
    }
    const int r = certify_residual(p, kernel, host, A, &ret->residual, err);
    ret->bound = ret->residual;
    ret->sampled = false;
    return r;
}
