#include "engine/methods/normal_core.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"

#define BLOCK_BYTES (INT64_C(32) << 20) /* of K_mm's columns at a time */

#define PRODUCT_BLOCK 256

static const double next_try = 100.0;
static const double rounded = 0.25; /* eps: the most that rounding takes of a number below 1 */

/* The diagonal of S, summed up, and its largest number. */
static int diagonal(struct backend *be, const struct mat *S, double *ret_trace, double *ret_largest,
                    struct err *err)
{
    double trace = 0, largest = 0;
    for (int64_t i = 0; i < S->rows; i++) {
        const struct mat entry = mat_rows(mat_cols(*S, i, 1), i, 1);
        double value = 0;
        const int r = be->ops->mat_get(be, &entry, &value, 1, err);
        if (r < 0) {
            return r;
        }
        trace += value;
        largest = fmax(largest, value);
    }
    *ret_trace = trace;
    *ret_largest = largest;
    return 0;
}

/* Shifts of K_mm's diagonal to try, in units of its largest entry. */
struct jitter {
    int tries;
    double first;       /* the first one is this, */
    double noise, most; /* or where it is more, `noise` times the largest entry, up to `most` */
    double next; /* what follows it where it is less; then each is `next_try` times the last */
};

static double shift_at(const struct jitter *j, int attempt, double largest)
{
    double shift = fmax(j->first, fmin(j->noise * largest, j->most));
    for (; attempt > 0; attempt--) {
        shift = shift < j->next ? j->next : next_try * shift;
    }
    return shift;
}

static int try_factor(const struct problem *p, const int64_t *index, const struct jitter *jitter,
                      int attempt, const struct mat *L, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_index(p->restricted->core, index, L->rows);
    double trace, largest;
    int r = o->kblock(p->be, all, all, L, err);
    if (r == 0) {
        r = diagonal(p->be, L, &trace, &largest, err);
    }
    if (r == 0) {
        r = o->add_diag(p->be, shift_at(jitter, attempt, largest) * largest, L, err);
    }
    return r == 0 ? o->potrf(p->be, L, 0.0, NULL, err) : r;
}

/* What the factorisation says of its pivots tells nobody what to do. */
static int explain(int r, struct err *err)
{
    return r == -ERR_NOT_POSITIVE_DEFINITE
               ? err_at(err, ERR_NOT_POSITIVE_DEFINITE, "#/kernel",
                        "The kernel matrix of the centers is not positive definite in this "
                        "precision. Choose a positive definite kernel, use precision float64, or "
                        "raise `regularization`.")
               : r;
}

static int factor_some(const struct problem *p, const int64_t *index, int64_t count,
                       const struct jitter *jitter, struct mat *ret, struct err *err)
{
    int r = memory_check_matrix(p->be, count, count, DTYPE_F64, "matrix of the centers", err);
    if (r == 0) {
        r = p->be->ops->mat_new(p->be, DTYPE_F64, count, count, ret, err);
    }
    if (r == 0) {
        r = -ERR_NOT_POSITIVE_DEFINITE;
    }
    for (int k = 0; r == -ERR_NOT_POSITIVE_DEFINITE && k < jitter->tries; k++) {
        r = try_factor(p, index, jitter, k, ret, err);
    }
    return r == 0 ? p->be->ops->clear_upper(p->be, ret, err) : explain(r, err);
}

int core_factor_some(const struct problem *p, const int64_t *index, int64_t count, struct mat *ret,
                     struct err *err)
{
    const struct jitter jitter = {.tries = CORE_TRIES,
                                  .first = problem_rounding(p) * (double)count};
    return factor_some(p, index, count, &jitter, ret, err);
}

int core_factor(const struct problem *p, struct mat *ret, struct err *err)
{
    return core_factor_some(p, NULL, p->restricted->m, ret, err);
}

int core_factor_variables(const struct problem *p, struct mat *ret, struct err *err)
{
    const double m = (double)p->restricted->m, rounding = problem_rounding(p);
    const double error = rounded * rounding;
    const double eps = p->dtype == DTYPE_F32 ? FLT_EPSILON : DBL_EPSILON;
    const struct jitter jitter = {
        .tries = CORE_TRIES + 1,
        .first = eps,
        .noise = (double)p->n * error * error / p->ridge,
        .most = m * rounding,
        .next = m * eps,
    };
    return factor_some(p, NULL, p->restricted->m, &jitter, ret, err);
}

int core_factor_sum(struct backend *be, const struct mat *S, double jitter, struct err *err)
{
    double trace, largest;
    int r = diagonal(be, S, &trace, &largest, err);
    if (r == 0) {
        r = be->ops->add_diag(be, jitter * trace, S, err);
    }
    return explain(r == 0 ? be->ops->potrf(be, S, 0.0, NULL, err) : r, err);
}

int core_add(const struct problem *p, double a, const struct mat *H, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    const struct points *Z = p->restricted->core;
    const int64_t size = H->rows, fit = BLOCK_BYTES / (size * (int64_t)sizeof(double));
    const int64_t most = fit < 1 ? 1 : fit < size ? fit : size;
    struct mat block = {0};
    cleanup_mem double *factors = mem_array((size_t)most, 2 * sizeof(double));
    int r = factors != NULL ? 0 : err_no_memory(err);
    for (int64_t j = 0; r == 0 && j < most; j++) {
        factors[j] = a;
        factors[most + j] = 1.0;
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, size, most, &block, err);
    }
    for (int64_t j = 0; r == 0 && j < size; j += most) {
        const int64_t cols = size - j < most ? size - j : most;
        const struct mat K = mat_cols(block, 0, cols), part = mat_cols(*H, j, cols);
        r = o->kblock(p->be, view_all(Z, size), view_range(Z, j, cols), &K, err);
        if (r == 0) {
            r = o->col_axpby(p->be, factors, &K, factors + most, &part, err);
        }
    }
    o->mat_free(p->be, &block);
    return r;
}

int core_multiply_factors(struct backend *be, const struct mat *L, const struct mat *A,
                          struct err *err)
{
    const struct backend_ops *o = be->ops;
    const int64_t size = L->rows, most = size < PRODUCT_BLOCK ? size : PRODUCT_BLOCK;
    struct mat rows = {0};
    int r = o->clear_upper(be, A, err);
    r = r == 0 ? o->mat_new(be, DTYPE_F64, most, size, &rows, err) : r;
    for (int64_t end = size; r == 0 && end > 0;) { /* the last rows first: others read them not */
        const int64_t first = end > most ? end - most : 0, count = end - first;
        for (int64_t j = 0; r == 0 && j < end; j += most) {
            const int64_t cols = end - j < most ? end - j : most;
            const struct mat part_L = mat_rows(mat_cols(*L, j, end - j), first, count);
            const struct mat part_A = mat_rows(mat_cols(*A, j, cols), j, end - j);
            const struct mat to = mat_rows(mat_cols(rows, j, cols), 0, count);
            r = o->gemm(be, false, false, 1.0, &part_L, &part_A, 0.0, &to, err);
        }
        const struct mat from = mat_rows(mat_cols(rows, 0, end), 0, count);
        const struct mat into = mat_rows(mat_cols(*A, 0, end), first, count);
        r = r == 0 ? o->copy(be, &from, &into, err) : r;
        end = first;
    }
    o->mat_free(be, &rows);
    return r;
}

int core_solve(struct backend *be, const struct mat *L, const struct mat *W, const struct mat *R,
               const struct mat *Z, struct err *err)
{
    const struct backend_ops *o = be->ops;
    int r = o->copy(be, R, W, err);
    if (r == 0) {
        r = o->trsm(be, false, false, L, W, err);
    }
    if (r == 0) {
        r = o->trsm(be, false, true, L, W, err);
    }
    return r == 0 ? o->copy(be, W, Z, err) : r;
}

int core_whiten(struct backend *be, const struct core_variables *v, const struct mat *X,
                struct err *err)
{
    const struct backend_ops *o = be->ops;
    int r = o->copy(be, X, v->W, err);
    if (r == 0) {
        r = o->trsm(be, false, false, v->L, v->W, err);
    }
    return r == 0 ? o->copy(be, v->W, X, err) : r;
}

int core_unwhiten(struct backend *be, const struct core_variables *v, const struct mat *X,
                  const struct mat *Y, struct err *err)
{
    const struct backend_ops *o = be->ops;
    int r = o->copy(be, X, v->W, err);
    if (r == 0) {
        r = o->trsm(be, false, true, v->L, v->W, err);
    }
    return r == 0 ? o->copy(be, v->W, Y, err) : r;
}

int core_multiply(struct backend *be, const struct core_variables *v, const struct mat *block,
                  const struct mat *X, struct err *err)
{
    const struct backend_ops *o = be->ops;
    int r = o->copy(be, X, v->W, err);
    for (int64_t end = v->L->rows; r == 0 && end > 0;) { /* the last rows first, as above */
        const int64_t first = end > block->rows ? end - block->rows : 0, count = end - first;
        const struct mat rows = mat_rows(mat_cols(*v->L, 0, end), first, count);
        const struct mat from = mat_rows(*v->W, 0, end), into = mat_rows(*v->W, first, count);
        const struct mat to = mat_rows(*block, 0, count);
        r = o->gemm(be, false, false, 1.0, &rows, &from, 0.0, &to, err);
        r = r == 0 ? o->copy(be, &to, &into, err) : r;
        end = first;
    }
    return r;
}
