#include "engine/solve/certify.h"

#include <math.h>

#include "base/mem.h"

struct pass {
    struct points *own; /* NULL where the problem's exact points serve */
    const struct points *X;
    struct mat A, R;
    double *numbers; /* [4 t] */
};

static int64_t rows_at_once(struct view P, struct view Q, double piece)
{
    const bool same = P.points == Q.points && P.index == NULL && Q.index == NULL &&
                      P.first == Q.first && P.count == Q.count;
    if (same && (double)P.count * (double)Q.count <= 2.0 * piece) {
        return P.count;
    }
    const double rows = fmin(floor(piece / (double)Q.count), (double)P.count);
    return rows > 1.0 ? (int64_t)rows : 1;
}

int certify_subtract(struct backend *be, struct view P, struct view Q, double piece,
                     const struct mat *A, const struct certify_stop *stop, const struct mat *R,
                     struct err *err)
{
    const int64_t most = rows_at_once(P, Q, piece);
    for (int64_t i = 0; i < P.count; i += most) {
        if (stop != NULL && stop->asked(stop->context)) {
            return err_set(err, ERR_CANCELLED, "Stopped while the residual was computed.");
        }
        struct view rows = P;
        rows.count = P.count - i < most ? P.count - i : most;
        rows.first += P.index == NULL ? i : 0;
        rows.index = P.index == NULL ? NULL : P.index + i;
        const struct mat part = mat_rows(*R, i, rows.count);
        const int r = be->ops->kmv(be, rows, Q, -1.0, A, 1.0, &part, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int compute(struct pass *c, const struct problem *p, const struct mat *A,
                   const struct certify_stop *stop, double *ret, struct err *err)
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
        r = certify_subtract(p->be, all, all, CERTIFY_PIECE, &c->A, stop, &c->R, err);
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
                     const struct mat *A, const struct certify_stop *stop, double *ret,
                     struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    struct pass c = {.numbers = mem_array((size_t)p->t, 4 * sizeof(double))};
    /* On a grid products would have the errors of those that the solver went by, which agree. */
    const bool serve = p->exact != NULL && p->product_share == 0.0;
    int r = c.numbers != NULL ? 0 : err_no_memory(err);
    if (r == 0 && !serve) {
        r = o->points_new(p->be, kernel, DTYPE_F64, host, &c.own, err);
    }
    c.X = serve ? p->exact : c.own;
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, p->n, p->t, &c.A, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, p->n, p->t, &c.R, err);
    }
    if (r == 0) {
        r = compute(&c, p, A, stop, ret, err);
    }
    o->mat_free(p->be, &c.R);
    o->mat_free(p->be, &c.A);
    if (c.own != NULL) {
        o->points_free(p->be, c.own);
    }
    mem_free(c.numbers);
    return r;
}

bool certify_samples(int64_t n, int64_t entries)
{
    return (double)n * (double)n > fmax(CERTIFY_ENTRIES, (double)entries / CERTIFY_SHARE);
}

int certify(const struct problem *p, const struct kernel *kernel, const struct rows *host,
            const struct mat *A, int64_t entries, const struct certify_stop *stop,
            struct certificate *ret, struct err *err)
{
    if (p->restricted != NULL) {
        return certify_restricted(p, A, stop, ret, err);
    }
    ret->whitened = ret->distance = NAN;
    if (certify_samples(p->n, entries)) {
        return certify_sampled(p, kernel, host, A, CERTIFY_ROWS, p->seed, stop, ret, err);
    }
    const int r = certify_residual(p, kernel, host, A, stop, &ret->residual, err);
    ret->bound = ret->residual;
    ret->sampled = false;
    return r;
}
