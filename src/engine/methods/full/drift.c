#include "engine/methods/full/drift.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"

enum { ROWS_LEAST = 256, ROWS_MOST = 2048, SHARE = 32 };

static int64_t choose_rows(int64_t n)
{
    const int64_t wish = n / SHARE;
    const int64_t rows = wish < ROWS_LEAST ? ROWS_LEAST : wish > ROWS_MOST ? ROWS_MOST : wish;
    return rows < n ? rows : n;
}

int drift_init(struct drift *d, const struct problem *p, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    *d = (struct drift){.p = p, .rows = choose_rows(p->n)};
    d->index = mem_array((size_t)d->rows, sizeof(*d->index));
    d->numbers = mem_array((size_t)p->t, 2 * sizeof(*d->numbers));
    if (d->index == NULL || d->numbers == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new(p->seed, RNG_SOLVER);
    int r = rng_choose(&rng, p->n, d->rows, d->index, err);
    if (r == 0) {
        r = o->mat_new(p->be, p->dtype, d->rows, p->t, &d->S, err);
    }
    return r == 0 ? o->mat_new(p->be, p->dtype, d->rows, p->t, &d->T, err) : r;
}

void drift_deinit(struct drift *d)
{
    if (d->p != NULL) {
        d->p->be->ops->mat_free(d->p->be, &d->S);
        d->p->be->ops->mat_free(d->p->be, &d->T);
    }
    mem_free(d->index);
    mem_free(d->numbers);
    *d = (struct drift){0};
}

/* S += a X of the rows drawn. */
static int add_drawn(struct drift *d, double a, const struct mat *X, struct err *err)
{
    const struct problem *p = d->p;
    double *scale = d->numbers, *one = d->numbers + p->t;
    for (int64_t j = 0; j < p->t; j++) {
        scale[j] = a;
        one[j] = 1.0;
    }
    const int r = p->be->ops->gather_rows(p->be, X, d->index, &d->T, err);
    return r == 0 ? p->be->ops->col_axpby(p->be, scale, &d->T, one, &d->S, err) : r;
}

/* S = the rows drawn of from - (K + ridge I) B. */
static int subtract_product(struct drift *d, const struct mat *from, const struct mat *B,
                            struct err *err)
{
    const struct problem *p = d->p;
    const struct backend_ops *o = p->be->ops;
    int r = o->gather_rows(p->be, from, d->index, &d->S, err);
    if (r == 0) {
        r = o->kmv(p->be, view_index(p->exact, d->index, d->rows), view_all(p->exact, p->n), -1.0,
                   B, 1.0, &d->S, err);
    }
    return r == 0 ? add_drawn(d, -p->ridge, B, err) : r;
}

/* The lengths of S's columns, as if they had all rows. */
static int scaled_lengths(struct drift *d, double *ret, struct err *err)
{
    const struct problem *p = d->p;
    const int r = p->be->ops->col_dots(p->be, &d->S, &d->S, ret, err);
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        ret[j] = sqrt(ret[j] * (double)p->n / (double)d->rows);
    }
    return r;
}

int drift_estimate(struct drift *d, const struct mat *B, const struct mat *R, double *ret,
                   struct err *err)
{
    int r = subtract_product(d, &d->p->Y, B, err);
    if (r == 0) {
        r = add_drawn(d, -1.0, R, err);
    }
    return r == 0 ? scaled_lengths(d, ret, err) : r;
}

int drift_of_product(struct drift *d, const struct mat *P, const struct mat *V, double *ret,
                     struct err *err)
{
    const int r = subtract_product(d, V, P, err);
    return r == 0 ? scaled_lengths(d, ret, err) : r;
}
