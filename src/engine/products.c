#include "engine/products.h"

#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"

#define BLOCK_BYTES (32L << 20)  /* of kernel values at a time */
#define SKETCH_BYTES (16L << 20) /* of columns of Phi */
#define BLOCK_ROWS 4096          /* more make dense products no faster */

static struct view part(const struct view *v, int64_t first, int64_t count)
{
    return v->index != NULL ? view_index(v->points, v->index + first, count)
                            : view_range(v->points, v->first + first, count);
}

/* How many rows of so many bytes fit; at least one. */
static int64_t rows_in(int64_t bytes, int64_t row, int64_t rows)
{
    const int64_t fit = row > 0 ? bytes / row : rows;
    return min_i64(min_i64(fit > 1 ? fit : 1, BLOCK_ROWS), rows);
}

/* ---- K' diag(weights) (K V - T) ---- */

/* One block of P's rows: its values, and what they give with V. */
struct normal {
    struct backend *be;
    const double *weights;
    const struct mat *T, *wanted; /* or NULL */
    struct mat K, U;
    double *minus; /* [t] of -1, behind it a [t] of 1 */
};

static int normal_block(const struct normal *s, struct view P, struct view Q, int64_t first,
                        const struct mat *V, bool add, const struct mat *Y, struct err *err)
{
    const struct backend_ops *o = s->be->ops;
    const struct mat K = mat_rows(s->K, 0, P.count), U = mat_rows(s->U, 0, P.count);
    int rc = o->kblock(s->be, P, Q, &K, err);
    if (rc == 0) {
        rc = o->gemm(s->be, false, false, 1.0, &K, V, 0.0, &U, err);
    }
    if (rc == 0 && s->T != NULL) {
        const struct mat T = mat_rows(*s->T, first, P.count);
        rc = o->col_axpby(s->be, s->minus, &T, s->minus + V->cols, &U, err);
    }
    if (rc == 0 && s->weights != NULL) {
        rc = o->scale_rows(s->be, s->weights + first, &U, err);
    }
    if (rc == 0 && s->wanted != NULL) {
        const struct mat to = mat_rows(*s->wanted, first, P.count);
        rc = o->copy(s->be, &U, &to, err);
    }
    return rc == 0 ? o->gemm(s->be, true, false, 1.0, &K, &U, add ? 1.0 : 0.0, Y, err) : rc;
}

static int normal_blocks(struct normal *s, const struct view *P, const struct view *Q,
                         const struct mat *V, bool add, const struct mat *Y, struct err *err)
{
    const struct backend_ops *o = s->be->ops;
    const int64_t row = Q->count * (int64_t)dtype_size(V->dtype);
    const int64_t rows = rows_in(BLOCK_BYTES, row, P->count);
    int rc = o->mat_new(s->be, V->dtype, rows, Q->count, &s->K, err);
    if (rc == 0) {
        rc = o->mat_new(s->be, V->dtype, rows, V->cols, &s->U, err);
    }
    s->minus = mem_array((size_t)V->cols, 2 * sizeof(double));
    if (rc == 0 && s->minus == NULL) {
        rc = err_no_memory(err);
    }
    for (int64_t j = 0; rc == 0 && j < V->cols; j++) {
        s->minus[j] = -1.0;
        s->minus[V->cols + j] = 1.0;
    }
    for (int64_t i = 0; rc == 0 && i < P->count; i += rows) {
        rc = normal_block(s, part(P, i, min_i64(rows, P->count - i)), *Q, i, V, add || i > 0, Y,
                          err);
    }
    return rc;
}

/* Y <- 0. */
static int clear(struct backend *be, const struct mat *Y, struct err *err)
{
    cleanup_mem double *zero = mem_zarray((size_t)(Y->rows * Y->cols), sizeof(double));
    return zero == NULL ? err_no_memory(err) : be->ops->mat_put(be, zero, Y->rows, Y, err);
}

int product_normal_by_blocks(struct backend *be, struct view P, struct view Q,
                             const double *weights, const struct mat *V, const struct mat *T,
                             const struct mat *U, bool add, const struct mat *Y, struct err *err)
{
    struct normal s = {.be = be, .weights = weights, .T = T, .wanted = U};
    if (P.count == 0) {
        return add ? 0 : clear(be, Y, err);
    }
    const int rc = normal_blocks(&s, &P, &Q, V, add, Y, err);
    be->ops->mat_free(be, &s.K);
    be->ops->mat_free(be, &s.U);
    mem_free(s.minus);
    return rc;
}

int product_normal(struct backend *be, struct view P, struct view Q, const double *weights,
                   const struct mat *V, const struct mat *T, bool add, const struct mat *Y,
                   struct err *err)
{
    return be->ops->kmtkv != NULL
               ? be->ops->kmtkv(be, P, Q, weights, V, T, NULL, add, Y, err)
               : product_normal_by_blocks(be, P, Q, weights, V, T, NULL, add, Y, err);
}

int product_residual(struct backend *be, struct view P, struct view Q, const struct mat *V,
                     const struct mat *T, const struct mat *U, bool add, const struct mat *Y,
                     struct err *err)
{
    return be->ops->kmtkv != NULL ? be->ops->kmtkv(be, P, Q, NULL, V, T, U, add, Y, err)
                                  : product_normal_by_blocks(be, P, Q, NULL, V, T, U, add, Y, err);
}

/* ---- Phi K ---- */

struct sketch {
    struct backend *be;
    const struct sign_sketch *phi;
    struct mat K, Phi; /* a block of each */
    double *host;      /* of Phi */
};

/* Phi's columns first .. first+count-1, dense. */
static int load_columns(const struct sketch *s, int64_t first, const struct mat *Phi,
                        struct err *err)
{
    const struct sign_sketch *phi = s->phi;
    memset(s->host, 0, (size_t)(phi->rows * Phi->cols) * sizeof *s->host);
    for (int64_t j = 0; j < Phi->cols; j++) {
        for (int k = 0; k < sign_sketch_numbers(phi); k++) {
            const struct sign_entry e = sign_sketch_entry(phi, first + j, k);
            if (e.row >= 0) {
                s->host[e.row + j * phi->rows] += e.negative ? -phi->scale : phi->scale;
            }
        }
    }
    return s->be->ops->mat_put(s->be, s->host, phi->rows, Phi, err);
}

/* S <- Phi(:, block) K(block, Q), added to S but for the first block; some columns of Q at a time.
 */
static int sketch_block(const struct sketch *s, struct view P, const struct view *Q, int64_t first,
                        bool add, const struct mat *S, struct err *err)
{
    const struct backend_ops *o = s->be->ops;
    const struct mat Phi = mat_cols(s->Phi, 0, P.count);
    int rc = load_columns(s, first, &Phi, err);
    for (int64_t j = 0; rc == 0 && j < Q->count; j += s->K.cols) {
        const int64_t cols = min_i64(s->K.cols, Q->count - j);
        const struct mat K = mat_rows(mat_cols(s->K, 0, cols), 0, P.count);
        const struct mat part_of_S = mat_cols(*S, j, cols);
        rc = o->kblock(s->be, P, part(Q, j, cols), &K, err);
        if (rc == 0) {
            rc = o->gemm(s->be, false, false, 1.0, &Phi, &K, add || first > 0 ? 1.0 : 0.0,
                         &part_of_S, err);
        }
    }
    return rc;
}

static int sketch_blocks(struct sketch *s, const struct view *P, const struct view *Q, bool add,
                         const struct mat *S, struct err *err)
{
    const struct backend_ops *o = s->be->ops;
    const int64_t size = (int64_t)dtype_size(S->dtype), d = s->phi->rows;
    const int64_t rows = rows_in(SKETCH_BYTES, d * (int64_t)sizeof(double), P->count);
    int rc =
        o->mat_new(s->be, S->dtype, rows, rows_in(BLOCK_BYTES, rows * size, Q->count), &s->K, err);
    if (rc == 0) {
        rc = o->mat_new(s->be, S->dtype, d, rows, &s->Phi, err);
    }
    s->host = mem_array((size_t)d, (size_t)rows * sizeof(double));
    if (rc == 0 && s->host == NULL) {
        rc = err_no_memory(err);
    }
    for (int64_t i = 0; rc == 0 && i < P->count; i += rows) {
        rc = sketch_block(s, part(P, i, min_i64(rows, P->count - i)), Q, i, add, S, err);
    }
    return rc;
}

int product_sketch_by_blocks(struct backend *be, const struct sign_sketch *phi, struct view P,
                             struct view Q, bool add, const struct mat *S, struct err *err)
{
    struct sketch s = {.be = be, .phi = phi};
    if (S->rows != phi->rows || S->cols != Q.count || !sign_sketch_valid(phi, P.count)) {
        return err_set(err, ERR_INTERNAL,
                       "A product with a sketch got shapes that do not fit together.");
    }
    if (P.count == 0) {
        return add ? 0 : clear(be, S, err);
    }
    const int rc = sketch_blocks(&s, &P, &Q, add, S, err);
    be->ops->mat_free(be, &s.K);
    be->ops->mat_free(be, &s.Phi);
    mem_free(s.host);
    return rc;
}

int product_sketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                   bool add, const struct mat *S, struct err *err)
{
    return be->ops->ksketch != NULL ? be->ops->ksketch(be, phi, P, Q, add, S, err)
                                    : product_sketch_by_blocks(be, phi, P, Q, add, S, err);
}
