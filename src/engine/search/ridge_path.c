#include "engine/search/ridge_path.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"

enum { DIAGONAL_BLOCK = 128 }; /* columns of Q on the host at a time */

struct ridge_path {
    struct backend *be;
    struct points *X;
    int64_t n, t;
    const double *Y;
    struct mat Q;   /* n x n */
    struct mat C;   /* n x t: workspace */
    struct mat V;   /* n x t: workspace */
    double *values; /* [n], ascending */
    double *work;   /* [n t] */
};

struct ridge_path *ridge_path_free(struct ridge_path *p)
{
    if (p == NULL) {
        return NULL;
    }
    const struct backend_ops *o = p->be->ops;
    o->mat_free(p->be, &p->Q);
    o->mat_free(p->be, &p->C);
    o->mat_free(p->be, &p->V);
    if (p->X != NULL) {
        o->points_free(p->be, p->X);
    }
    mem_free(p->values);
    mem_free(p->work);
    return mem_free(p);
}

static int allocate(struct ridge_path *p, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    p->values = mem_array((size_t)p->n, sizeof(double));
    p->work = mem_array((size_t)(p->n * p->t), sizeof(double));
    if (p->values == NULL || p->work == NULL) {
        return err_no_memory(err);
    }
    int r =
        memory_check_matrix(p->be, 3 * p->n, p->n, DTYPE_F64, "search's eigendecomposition", err);
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, p->n, p->n, &p->Q, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, p->n, p->t, &p->C, err);
    }
    return r == 0 ? o->mat_new(p->be, DTYPE_F64, p->n, p->t, &p->V, err) : r;
}

int ridge_path_new(struct backend *be, const struct kernel *k, enum dtype points,
                   const struct rows *X, const double *Y, int64_t t, struct ridge_path **ret,
                   struct err *err)
{
    const struct backend_ops *o = be->ops;
    struct ridge_path *p = mem_zalloc(sizeof(*p));
    if (p == NULL) {
        return err_no_memory(err);
    }
    p->be = be;
    p->n = X->n;
    p->t = t;
    p->Y = Y;
    int r = allocate(p, err);
    if (r == 0) {
        r = o->points_new(be, k, points, X, &p->X, err);
    }
    if (r == 0) {
        r = o->kblock(be, view_all(p->X, p->n), view_all(p->X, p->n), &p->Q, err);
    }
    if (r == 0) {
        r = o->eigh(be, &p->Q, p->values, err);
    }
    if (r < 0) {
        ridge_path_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

bool ridge_path_defined(const struct ridge_path *p, double ridge)
{
    const double largest = fmax(fabs(p->values[0]), fabs(p->values[p->n - 1]));
    return p->values[0] + ridge > (double)p->n * DBL_EPSILON * largest;
}

double ridge_path_log_det(const struct ridge_path *p, double ridge)
{
    double sum = 0;
    for (int64_t i = 0; i < p->n; i++) {
        sum += log(p->values[i] + ridge);
    }
    return sum;
}

/* B [n, t] on the host <- Q (D + ridge)^-1 Q' B. */
static int apply_inverse(struct ridge_path *p, double ridge, double *B, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    int r = o->mat_put(p->be, B, p->n, &p->V, err);
    if (r == 0) {
        r = o->gemm(p->be, true, false, 1.0, &p->Q, &p->V, 0.0, &p->C, err);
    }
    if (r == 0) {
        r = o->mat_get(p->be, &p->C, B, p->n, err);
    }
    for (int64_t k = 0; r == 0 && k < p->n * p->t; k++) {
        B[k] /= p->values[k % p->n] + ridge;
    }
    if (r == 0) {
        r = o->mat_put(p->be, B, p->n, &p->C, err);
    }
    if (r == 0) {
        r = o->gemm(p->be, false, false, 1.0, &p->Q, &p->C, 0.0, &p->V, err);
    }
    return r == 0 ? o->mat_get(p->be, &p->V, B, p->n, err) : r;
}

/* work <- Y - (K + ridge I) A by the oracle. */
static int residual(struct ridge_path *p, double ridge, const double *A, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_all(p->X, p->n);
    int r = o->mat_put(p->be, A, p->n, &p->V, err);
    if (r == 0) {
        r = o->kmv(p->be, all, all, 1.0, &p->V, 0.0, &p->C, err);
    }
    if (r == 0) {
        r = o->mat_get(p->be, &p->C, p->work, p->n, err);
    }
    for (int64_t k = 0; r == 0 && k < p->n * p->t; k++) {
        p->work[k] = p->Y[k] - p->work[k] - ridge * A[k];
    }
    return r;
}

int ridge_path_solve(struct ridge_path *p, double ridge, bool refine, double *ret, struct err *err)
{
    const int64_t count = p->n * p->t;
    for (int64_t k = 0; k < count; k++) {
        ret[k] = p->Y[k];
    }
    int r = apply_inverse(p, ridge, ret, err);
    if (r < 0 || !refine) {
        return r;
    }
    r = residual(p, ridge, ret, err);
    if (r == 0) {
        r = apply_inverse(p, ridge, p->work, err);
    }
    for (int64_t k = 0; r == 0 && k < count; k++) {
        ret[k] += p->work[k];
    }
    return r;
}

/* Of columns first .. first+cols-1 of Q: ret(i,l) += q(i,j)^2 / (d_j + ridge_l). */
static void add_squares(const struct ridge_path *p, const double *Q, int64_t first, int64_t cols,
                        const double *ridges, int64_t count, double *ret)
{
    for (int64_t l = 0; l < count; l++) {
        double *sum = ret + l * p->n;
        for (int64_t j = 0; j < cols; j++) {
            const double *q = Q + j * p->n;
            const double inverse = 1.0 / (p->values[first + j] + ridges[l]);
            for (int64_t i = 0; i < p->n; i++) {
                sum[i] += q[i] * q[i] * inverse;
            }
        }
    }
}

int ridge_path_diagonals(struct ridge_path *p, const double *ridges, int64_t count, double *ret,
                         struct err *err)
{
    cleanup_mem double *Q = mem_array((size_t)p->n, DIAGONAL_BLOCK * sizeof(double));
    if (Q == NULL) {
        return err_no_memory(err);
    }
    for (int64_t k = 0; k < p->n * count; k++) {
        ret[k] = 0;
    }
    for (int64_t j = 0; j < p->n; j += DIAGONAL_BLOCK) {
        const int64_t cols = p->n - j < DIAGONAL_BLOCK ? p->n - j : DIAGONAL_BLOCK;
        const struct mat block = mat_cols(p->Q, j, cols);
        const int r = p->be->ops->mat_get(p->be, &block, Q, p->n, err);
        if (r < 0) {
            return r;
        }
        add_squares(p, Q, j, cols, ridges, count, ret);
    }
    return 0;
}

/* One fold's matrices: M = (G^-1)_SS = T T', T = Q(S,:) (D + ridge)^-1/2. */
struct fold {
    struct mat T, M, B;
};

static void fold_deinit(struct backend *be, struct fold *f)
{
    be->ops->mat_free(be, &f->T);
    be->ops->mat_free(be, &f->M);
    be->ops->mat_free(be, &f->B);
}

static int fold_init(struct ridge_path *p, int64_t s, struct fold *f, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    *f = (struct fold){.T = {0}};
    int r = o->mat_new(p->be, DTYPE_F64, s, p->n, &f->T, err);
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, s, s, &f->M, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, s, p->t, &f->B, err);
    }
    if (r < 0) {
        fold_deinit(p->be, f);
    }
    return r;
}

/* M's Cholesky factor. `numbers` [2 n]: zeros, then the scales. */
static int factor_fold(struct ridge_path *p, double ridge, const int64_t *index, double *numbers,
                       struct fold *f, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    double *scales = numbers + p->n;
    for (int64_t j = 0; j < p->n; j++) {
        numbers[j] = 0;
        scales[j] = 1.0 / sqrt(p->values[j] + ridge);
    }
    int r = o->gather_rows(p->be, &p->Q, index, &f->T, err);
    if (r == 0) {
        r = o->col_axpby(p->be, numbers, &f->T, scales, &f->T, err);
    }
    if (r == 0) {
        r = o->syrk(p->be, false, 1.0, &f->T, 0.0, &f->M, err);
    }
    return r == 0 ? o->potrf(p->be, &f->M, 0.0, NULL, err) : r;
}

static int solve_fold(struct ridge_path *p, double ridge, const int64_t *index, int64_t count,
                      struct fold *f, double *B, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    cleanup_mem double *numbers = mem_array((size_t)p->n, 2 * sizeof(double));
    int r = numbers != NULL ? factor_fold(p, ridge, index, numbers, f, err) : err_no_memory(err);
    if (r == 0) {
        r = o->mat_put(p->be, B, count, &f->B, err);
    }
    if (r == 0) {
        r = o->trsm(p->be, false, false, &f->M, &f->B, err);
    }
    if (r == 0) {
        r = o->trsm(p->be, false, true, &f->M, &f->B, err);
    }
    return r == 0 ? o->mat_get(p->be, &f->B, B, count, err) : r;
}

int ridge_path_fold(struct ridge_path *p, double ridge, const int64_t *index, int64_t count,
                    const double *A, double *ret, struct err *err)
{
    struct fold f;
    for (int64_t c = 0; c < p->t; c++) {
        for (int64_t i = 0; i < count; i++) {
            ret[i + c * count] = A[index[i] + c * p->n];
        }
    }
    int r = fold_init(p, count, &f, err);
    if (r == 0) {
        r = solve_fold(p, ridge, index, count, &f, ret, err);
        fold_deinit(p->be, &f);
    }
    return r;
}
