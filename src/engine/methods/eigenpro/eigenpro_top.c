#include "engine/methods/eigenpro/eigenpro_top.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"

enum stage { START, MULTIPLYING, COMPLETE };

struct eigenpro_top {
    struct backend *be;
    struct view S;
    int64_t s;
    int64_t count; /* pairs wanted, then pairs found */
    int64_t l;     /* columns of the subspace; 0: the dense way */
    struct rng rng;
    enum stage stage;
    int pass;       /* products with K_S completed, of EIGENPRO_POWERS + 2 */
    int64_t column; /* of the present product: made so far */
    struct mat Q, Z;
    struct mat V;
    double *values; /* [count] */
    double least;
};

struct eigenpro_top *eigenpro_top_free(struct eigenpro_top *e)
{
    if (e != NULL) {
        e->be->ops->mat_free(e->be, &e->Q);
        e->be->ops->mat_free(e->be, &e->Z);
        e->be->ops->mat_free(e->be, &e->V);
        mem_free(e->values);
        mem_free(e);
    }
    return NULL;
}

static int allocate(struct eigenpro_top *e, struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    e->values = mem_zarray((size_t)e->count, sizeof(double));
    if (e->values == NULL) {
        return err_no_memory(err);
    }
    if (e->l == 0) {
        const int r = memory_check_matrix(e->be, e->s, 3 * e->s, DTYPE_F64, "the subsample", err);
        return r == 0 ? o->mat_new(e->be, DTYPE_F64, e->s, e->s, &e->Q, err) : r;
    }
    int r = memory_check_matrix(e->be, e->s, 3 * e->l, DTYPE_F64, "the subsample", err);
    if (r == 0) {
        r = o->mat_new(e->be, DTYPE_F64, e->s, e->l, &e->Q, err);
    }
    return r == 0 ? o->mat_new(e->be, DTYPE_F64, e->s, e->l, &e->Z, err) : r;
}

int eigenpro_top_new(struct backend *be, const struct points *X, const int64_t *index, int64_t s,
                     int64_t count, struct rng rng, struct eigenpro_top **ret, struct err *err)
{
    struct eigenpro_top *e = mem_zalloc(sizeof(*e));
    if (e == NULL) {
        return err_no_memory(err);
    }
    const int64_t wide = count + EIGENPRO_OVERSAMPLE;
    const bool dense = s <= EIGENPRO_DENSE_ROWS || wide > s / 2;
    *e = (struct eigenpro_top){
        .be = be,
        .S = view_index(X, index, s),
        .s = s,
        .count = count,
        .l = dense ? 0 : wide,
        .rng = rng,
    };
    const int r = allocate(e, err);
    if (r < 0) {
        eigenpro_top_free(e);
        return r;
    }
    *ret = e;
    return 0;
}

static bool all_finite(const double *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

/* eigh with infinity or NaN in the answer as an error: they come from the kernel. */
static int decompose(struct eigenpro_top *e, const struct mat *A, double *ret_values,
                     struct err *err)
{
    const int r = e->be->ops->eigh(e->be, A, ret_values, err);
    if (r == 0 && !all_finite(ret_values, A->rows)) {
        return kernel_overflows(err);
    }
    return r;
}

/* The last columns of U, in reverse order, into V; their values likewise. */
static int take_top(struct eigenpro_top *e, const struct mat *U, const double *ascending,
                    const struct mat *V, struct err *err)
{
    const int64_t n = U->cols;
    e->least = ascending[0];
    int r = 0;
    for (int64_t i = 0; r == 0 && i < e->count; i++) {
        const struct mat from = mat_cols(*U, n - 1 - i, 1), to = mat_cols(*V, i, 1);
        e->values[i] = ascending[n - 1 - i];
        r = e->be->ops->copy(e->be, &from, &to, err);
    }
    return r;
}

/* K_S = V diag(values) V', all of it. */
static int decompose_dense(struct eigenpro_top *e, struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    cleanup_mem double *ascending = mem_array((size_t)e->s, sizeof(double));
    if (ascending == NULL) {
        return err_no_memory(err);
    }
    int r = o->kblock(e->be, e->S, e->S, &e->Q, err);
    if (r == 0) {
        r = decompose(e, &e->Q, ascending, err);
    }
    if (r == 0) {
        r = o->mat_new(e->be, DTYPE_F64, e->s, e->count, &e->V, err);
    }
    if (r == 0) {
        r = take_top(e, &e->Q, ascending, &e->V, err);
    }
    o->mat_free(e->be, &e->Q);
    e->stage = COMPLETE;
    return r;
}

/* Q = Omega, independent normal numbers. */
static int draw_start(struct eigenpro_top *e, struct err *err)
{
    cleanup_mem double *column = mem_array((size_t)e->s, sizeof(double));
    if (column == NULL) {
        return err_no_memory(err);
    }
    int r = 0;
    for (int64_t j = 0; r == 0 && j < e->l; j++) {
        for (int64_t i = 0; i < e->s; i++) {
            column[i] = rng_normal(&e->rng);
        }
        const struct mat to = mat_cols(e->Q, j, 1);
        r = e->be->ops->mat_put(e->be, column, e->s, &to, err);
    }
    e->stage = MULTIPLYING;
    return r;
}

/* W <- U Theta^-1/2 for the directions of the Gram matrix U Theta U' above rounding error, in place
 * of U's last columns. Returns how many. */
static int64_t whiten(struct eigenpro_top *e, const struct mat *U, const double *theta,
                      double *work, struct err *err)
{
    const int64_t l = U->cols;
    int64_t kept = 0;
    while (kept < l && theta[l - 1 - kept] > (double)l * DBL_EPSILON * theta[l - 1]) {
        kept++;
    }
    for (int64_t j = 0; j < kept; j++) {
        work[j] = 1.0 / sqrt(theta[l - kept + j]);
        work[l + j] = 0.0;
    }
    const struct mat W = mat_cols(*U, l - kept, kept);
    const int r = kept > 0 ? e->be->ops->col_axpby(e->be, work, &W, work + l, &W, err) : 0;
    return r < 0 ? r : kept;
}

/* To <- an orthonormal basis of From's columns, fewer where they depend on each other. */
static int orthonormalise(struct eigenpro_top *e, const struct mat *From, struct mat *To,
                          struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    const int64_t l = From->cols;
    struct mat G = {0};
    cleanup_mem double *theta = mem_array((size_t)l, 3 * sizeof(double));
    int r = theta != NULL ? o->mat_new(e->be, DTYPE_F64, l, l, &G, err) : err_no_memory(err);
    if (r == 0) {
        r = o->syrk(e->be, true, 1.0, From, 0.0, &G, err);
    }
    if (r == 0) {
        r = decompose(e, &G, theta, err);
    }
    const int64_t kept = r == 0 ? whiten(e, &G, theta, theta + l, err) : r;
    if (kept >= 0) {
        const struct mat W = mat_cols(G, l - kept, kept);
        *To = mat_cols(*To, 0, kept);
        r = kept > 0 ? o->gemm(e->be, false, false, 1.0, From, &W, 0.0, To, err) : 0;
    }
    o->mat_free(e->be, &G);
    return kept < 0 ? (int)kept : r;
}

/* Q' Z = Q' K_S Q = U Theta U', V = Q U. */
static int project(struct eigenpro_top *e, const struct mat *Q, const struct mat *Z,
                   struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    const int64_t l = e->l;
    struct mat B = {0}, U = {0};
    cleanup_mem double *ascending = mem_array((size_t)l, sizeof(double));
    int r = ascending != NULL ? o->mat_new(e->be, DTYPE_F64, l, l, &B, err) : err_no_memory(err);
    if (r == 0) {
        r = o->mat_new(e->be, DTYPE_F64, l, e->count, &U, err);
    }
    if (r == 0) {
        r = o->gemm(e->be, true, false, 1.0, Q, Z, 0.0, &B, err);
    }
    if (r == 0) {
        r = decompose(e, &B, ascending, err);
    }
    if (r == 0) {
        r = take_top(e, &B, ascending, &U, err);
    }
    if (r == 0) {
        r = o->mat_new(e->be, DTYPE_F64, e->s, e->count, &e->V, err);
    }
    if (r == 0) {
        r = o->gemm(e->be, false, false, 1.0, Q, &U, 0.0, &e->V, err);
    }
    o->mat_free(e->be, &U);
    o->mat_free(e->be, &B);
    return r;
}

/* After a product Z = K_S Q: the next basis, or the answer. */
static int finish_pass(struct eigenpro_top *e, struct err *err)
{
    const struct mat Q = mat_cols(e->Q, 0, e->l), Z = mat_cols(e->Z, 0, e->l);
    e->column = 0;
    if (++e->pass == EIGENPRO_POWERS + 2) {
        const int r = project(e, &Q, &Z, err);
        e->be->ops->mat_free(e->be, &e->Q);
        e->be->ops->mat_free(e->be, &e->Z);
        e->stage = COMPLETE;
        return r;
    }
    struct mat first = Q;
    int r = orthonormalise(e, &Z, &first, err);
    struct mat second = mat_cols(Z, 0, first.cols);
    if (r == 0 && first.cols > 0) {
        r = orthonormalise(e, &first, &second, err);
    }
    e->l = second.cols > 0 ? second.cols : 1; /* K_S = 0: any direction will do */
    e->count = e->count < e->l ? e->count : e->l;
    const struct mat basis = e->Z;
    e->Z = e->Q;
    e->Q = basis;
    return r;
}

static int multiply(struct eigenpro_top *e, struct err *err)
{
    const int64_t left = e->l - e->column;
    const int64_t cols = left < EIGENPRO_COLUMNS ? left : EIGENPRO_COLUMNS;
    const struct mat Q = mat_cols(e->Q, e->column, cols), Z = mat_cols(e->Z, e->column, cols);
    const int r = e->be->ops->kmv(e->be, e->S, e->S, 1.0, &Q, 0.0, &Z, err);
    e->column += cols;
    return r == 0 && e->column == e->l ? finish_pass(e, err) : r;
}

int eigenpro_top_step(struct eigenpro_top *e, double *ret_fraction, struct err *err)
{
    int r = 0;
    if (e->stage == START) {
        r = e->l == 0 ? decompose_dense(e, err) : draw_start(e, err);
    } else if (e->stage == MULTIPLYING) {
        r = multiply(e, err);
    }
    const double part = e->l > 0 ? (double)e->column / (double)e->l : 0.0;
    *ret_fraction =
        e->stage == COMPLETE ? 1.0 : ((double)e->pass + part) / (double)(EIGENPRO_POWERS + 2);
    return r < 0 ? r : e->stage == COMPLETE;
}

int64_t eigenpro_top_count(const struct eigenpro_top *e)
{
    return e->count;
}

const double *eigenpro_top_values(const struct eigenpro_top *e)
{
    return e->values;
}

struct mat eigenpro_top_vectors(const struct eigenpro_top *e)
{
    return mat_cols(e->V, 0, e->count);
}

double eigenpro_top_least(const struct eigenpro_top *e)
{
    return e->least;
}
