#include "engine/methods/stochastic/hessian_sketch.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/sort.h"
#include "engine/memory.h"
#include "engine/methods/normal_core.h"
#include "engine/methods/row_order.h"
#include "engine/methods/spectrum.h"
#include "engine/methods/stochastic/stochastic.h"
#include "engine/products.h"
#include "engine/rowset.h"

enum { PIECE_ROWS = 1024, STAGE_CENTERS = 0, STAGE_ROWS, STAGE_FACTOR };

void hessian_sketch_deinit(struct hessian_sketch *h)
{
    struct mat *const all[] = {&h->L, &h->C, &h->A, &h->F, &h->omega, &h->gram, &h->T, &h->W};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        if (h->p.be != NULL) {
            h->p.be->ops->mat_free(h->p.be, all[i]);
        }
    }
    h->index = mem_free(h->index);
}

/* The rows, ascending: a mapped file is read forwards. */
static int draw(struct hessian_sketch *h, struct err *err)
{
    h->index = mem_array((size_t)h->rows, sizeof(*h->index));
    if (h->index == NULL) {
        return err_no_memory(err);
    }
    const struct row_order order = row_order_new(h->p.seed, ORDER_HESSIAN, 0, h->p.n);
    for (int64_t i = 0; i < h->rows; i++) {
        h->index[i] = row_order_at(&order, i);
    }
    sort_i64(h->index, h->rows);
    return 0;
}

/* Random columns, in place of which F comes. */
static int draw_columns(struct hessian_sketch *h, struct err *err)
{
    struct rng rng = rng_new(h->p.seed, RNG_PRECOND);
    const int64_t count = h->m * h->rank;
    cleanup_mem double *numbers = mem_array((size_t)count, sizeof(double));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = rng_normal(&rng);
    }
    return h->p.be->ops->mat_put(h->p.be, numbers, h->m, &h->omega, err);
}

static int allocate(struct hessian_sketch *h, struct err *err)
{
    struct backend *be = h->p.be;
    const struct backend_ops *o = be->ops;
    const int64_t m = h->m, r = h->rank;
    const int wide = o->mat_new(be, DTYPE_F64, m, h->p.t, &h->W, err);
    if (wide < 0) {
        return wide;
    }
    if (h->exact) {
        const int rc =
            memory_check_matrix(be, m, 3 * m, DTYPE_F64, "preconditioner of the centers", err);
        return rc == 0 ? o->mat_new(be, DTYPE_F64, m, m, &h->C, err) : rc;
    }
    int rc = memory_check_matrix(be, m, 3 * r, DTYPE_F64, "preconditioner of the centers", err);
    struct mat *const tall[] = {&h->F, &h->omega};
    struct mat *const square[] = {&h->A, &h->gram};
    for (int i = 0; rc == 0 && i < 2; i++) {
        rc = o->mat_new(be, DTYPE_F64, m, r, tall[i], err);
        rc = rc == 0 ? o->mat_new(be, DTYPE_F64, r, r, square[i], err) : rc;
    }
    rc = rc == 0 ? o->mat_new(be, DTYPE_F64, r, h->p.t, &h->T, err) : rc;
    return rc == 0 ? draw_columns(h, err) : rc;
}

int hessian_sketch_init(struct hessian_sketch *h, const struct problem *p, int64_t rows,
                        int64_t rank, struct err *err)
{
    h->p = *p;
    h->m = p->restricted->m;
    h->rows = rows;
    h->rank = rank;
    h->exact = rank == h->m;
    const int rc = draw(h, err);
    return rc == 0 ? allocate(h, err) : rc;
}

/* ---- sums over the rows ---- */

/* C += (n/s) L^-1 K' K L^-T of the rows P. */
static int add_exact(struct hessian_sketch *h, struct view P, double weight, double keep,
                     struct err *err)
{
    struct backend *be = h->p.be;
    const struct backend_ops *o = be->ops;
    struct mat K = {0};
    int rc = o->mat_new(be, DTYPE_F64, P.count, h->m, &K, err);
    if (rc == 0) {
        rc = o->kblock(be, P, view_all(h->p.restricted->Z, h->m), &K, err);
    }
    if (rc == 0) {
        rc = o->trsm(be, true, true, &h->L, &K, err);
    }
    if (rc == 0) {
        rc = o->syrk(be, true, weight, &K, keep, &h->C, err);
    }
    o->mat_free(be, &K);
    return rc;
}

static int add_rows(struct hessian_sketch *h, struct err *err)
{
    struct backend *be = h->p.be;
    const int64_t left = h->rows - h->next, count = left < PIECE_ROWS ? left : PIECE_ROWS;
    const double weight = (double)h->p.n / (double)h->rows;
    struct row_tile tile;
    int rc = rowset_batch(h->p.restricted->rows, h->index + h->next, count, &tile, err);
    if (rc == 0 && h->exact) {
        rc = add_exact(h, tile.rows, weight, h->next > 0 ? 1.0 : 0.0, err);
    } else if (rc == 0) {
        rc = product_normal(be, tile.rows, view_all(h->p.restricted->Z, h->m), NULL, &h->omega,
                            NULL, h->next > 0, &h->F, err);
    }
    h->next += count;
    h->stage = h->next == h->rows ? STAGE_FACTOR : h->stage;
    return rc;
}

/* ---- factors ---- */

/* The smallest eigenvalue of F'F, from above; 0 where rounding hides it. */
static int last_eigenvalue(struct hessian_sketch *h, double *ret, struct err *err)
{
    const struct mat z = mat_cols(h->T, 0, 1),
                     first = mat_rows(mat_cols(h->omega, 0, 1), 0, h->rank);
    const int rc = h->p.be->ops->copy(h->p.be, &first, &z, err);
    return rc == 0 ? spectrum_smallest(h->p.be, &h->gram, &h->A, &z, ret, err) : rc;
}

/* The largest number on the diagonal of a square matrix, and their mean. */
static int diagonal(struct backend *be, const struct mat *S, double *ret_largest, double *ret_mean,
                    struct err *err)
{
    *ret_largest = *ret_mean = 0;
    for (int64_t i = 0; i < S->rows; i++) {
        const struct mat entry = mat_rows(mat_cols(*S, i, 1), i, 1);
        double value = 0;
        const int rc = be->ops->mat_get(be, &entry, &value, 1, err);
        if (rc < 0) {
            return rc;
        }
        *ret_largest = fmax(*ret_largest, value);
        *ret_mean += value / (double)S->rows;
    }
    return 0;
}

/* F <- H_S Omega chol(Omega' H_S Omega)^-T, with a shift of the size of rounding errors. */
static int factor_sketch(struct hessian_sketch *h, struct err *err)
{
    struct backend *be = h->p.be;
    const struct backend_ops *o = be->ops;
    const double scale = sqrt((double)h->p.n / (double)h->rows);
    int rc = o->gemm(be, true, false, 1.0, &h->omega, &h->F, 0.0, &h->A, err);
    double largest = 0, mean;
    rc = rc == 0 ? diagonal(be, &h->A, &largest, &mean, err) : rc;
    if (rc == 0 && !(largest > 0 && isfinite(largest))) {
        return err_at(err, ERR_DIVERGED, "#/kernel",
                      "The kernel values between rows and centers are all 0, or overflow the "
                      "precision: scale the features, or choose another bandwidth.");
    }
    rc = rc == 0 ? o->copy(be, &h->A, &h->gram, err) : rc;
    int tried = -ERR_NOT_POSITIVE_DEFINITE;
    for (double jitter = 10 * problem_rounding(&h->p);
         rc == 0 && tried == -ERR_NOT_POSITIVE_DEFINITE && jitter < 1; jitter *= 100) {
        rc = o->copy(be, &h->gram, &h->A, err);
        rc = rc == 0 ? o->add_diag(be, jitter * largest, &h->A, err) : rc;
        tried = rc == 0 ? o->potrf(be, &h->A, 0.0, NULL, err) : rc;
    }
    rc = rc == 0 ? tried : rc;
    rc = rc == 0 ? o->trsm(be, true, true, &h->A, &h->F, err) : rc;
    if (rc == 0) { /* F F' of the sample is that of all rows */
        cleanup_mem double *factors = mem_array((size_t)h->m, sizeof(double));
        for (int64_t i = 0; factors != NULL && i < h->m; i++) {
            factors[i] = scale;
        }
        rc = factors != NULL ? o->scale_rows(be, factors, &h->F, err) : err_no_memory(err);
    }
    rc = rc == 0 ? o->syrk(be, true, 1.0, &h->F, 0.0, &h->gram, err) : rc;
    return rc == 0 ? last_eigenvalue(h, &h->least, err) : rc;
}

static int complete(struct hessian_sketch *h, struct err *err)
{
    double largest = 0;
    if (h->exact) {
        h->least = h->p.ridge > 0 ? h->p.ridge : DBL_EPSILON * (double)h->p.n;
        return diagonal(h->p.be, &h->C, &largest, &h->mean, err);
    }
    int rc = factor_sketch(h, err);
    rc = rc == 0 ? diagonal(h->p.be, &h->gram, &largest, &h->mean, err) : rc;
    h->least = fmax(h->least, 10 * problem_rounding(&h->p) * largest);
    return rc;
}

int hessian_sketch_build(struct hessian_sketch *h, double *ret_fraction, struct err *err)
{
    int rc = 0;
    *ret_fraction = (double)h->next / (double)h->rows;
    switch (h->stage) {
    case STAGE_CENTERS:
        rc = h->exact ? core_factor(&h->p, &h->L, err) : 0;
        h->stage = STAGE_ROWS;
        return rc;
    case STAGE_ROWS:
        return add_rows(h, err);
    default:
        rc = complete(h, err);
        return rc == 0 ? 1 : rc;
    }
}

int hessian_sketch_damp(struct hessian_sketch *h, double rho, struct err *err)
{
    struct backend *be = h->p.be;
    const struct backend_ops *o = be->ops;
    int rc = 0;
    if (h->A.data == NULL) {
        rc = o->mat_new(be, DTYPE_F64, h->rank, h->rank, &h->A, err);
    }
    rc = rc == 0 ? o->copy(be, h->exact ? &h->C : &h->gram, &h->A, err) : rc;
    rc = rc == 0 ? o->add_diag(be, rho, &h->A, err) : rc;
    h->rho = rho;
    rc = rc == 0 ? core_factor_sum(be, &h->A, 1e-16, err) : rc;
    return rc == 0 && h->exact ? core_multiply_factors(be, &h->L, &h->A, err) : rc;
}

void hessian_sketch_settle(struct hessian_sketch *h)
{
    struct mat *const all[] = {&h->L, &h->C, &h->omega, &h->gram};
    for (int i = 0; i < 4; i++) {
        h->p.be->ops->mat_free(h->p.be, all[i]);
        *all[i] = (struct mat){0};
    }
}

/* R <- (R - F A^-T A^-1 F' R) / rho. */
static int apply_sketch(struct hessian_sketch *h, const struct mat *R, struct err *err)
{
    struct backend *be = h->p.be;
    const struct backend_ops *o = be->ops;
    const struct mat T = mat_cols(h->T, 0, R->cols);
    int rc = o->gemm(be, true, false, 1.0, &h->F, R, 0.0, &T, err);
    rc = rc == 0 ? core_solve(be, &h->A, &T, &T, &T, err) : rc;
    rc = rc == 0 ? o->gemm(be, false, false, -1.0, &h->F, &T, 1.0, R, err) : rc;
    for (int64_t j = 0; rc == 0 && j < R->cols; j++) {
        const struct mat column = mat_cols(*R, j, 1);
        const double over = 1.0 / h->rho, zero = 0;
        rc = o->col_axpby(be, &over, &column, &zero, &column, err);
    }
    return rc;
}

int hessian_sketch_apply(struct hessian_sketch *h, const struct mat *R, struct err *err)
{
    const struct backend_ops *o = h->p.be->ops;
    const struct mat W = mat_cols(h->W, 0, R->cols);
    int rc = o->copy(h->p.be, R, &W, err);
    if (rc == 0) {
        rc = h->exact ? core_solve(h->p.be, &h->A, &W, &W, &W, err) : apply_sketch(h, &W, err);
    }
    return rc == 0 ? o->copy(h->p.be, &W, R, err) : rc;
}
