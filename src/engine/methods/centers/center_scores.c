#include "engine/methods/centers/center_scores.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/preconds/precond_pieces.h"
#include "engine/methods/row_order.h"

enum { ATTEMPTS = 10, DIAGONAL_BLOCK = 256, PIECE_LEAST = 128, PIECE_MOST = 4096 };
enum { LARGEST_SAMPLE = 1024 };

/* Multiplications a piece, and the smallest lambda / max k of which scores are made in float32. */
#define PIECE_MULTIPLICATIONS 8e9
#define NARROW_LEAST 1e-6

void center_scores_deinit(struct center_scores *s)
{
    if (s->task != NULL) {
        struct backend *be = s->task->be;
        be->ops->points_free(be, s->J);
        be->ops->mat_free(be, &s->core);
        be->ops->mat_free(be, &s->narrow);
        be->ops->mat_free(be, &s->C);
        be->ops->mat_free(be, &s->diagonal);
    }
    mem_free(s->stands);
    mem_free(s->host);
    *s = (struct center_scores){.m = 0};
}

static int64_t choose_piece(int64_t m, int64_t n)
{
    const double rows = m > 0 ? PIECE_MULTIPLICATIONS / ((double)m * (double)m) : PIECE_MOST;
    const int64_t piece = rows > PIECE_MOST    ? PIECE_MOST
                          : rows < PIECE_LEAST ? PIECE_LEAST
                                               : (int64_t)rows;
    return piece < n ? piece : n;
}

static bool is_narrow(const struct center_scores *s)
{
    return s->task->dtype == DTYPE_F32 &&
           s->ridge >= NARROW_LEAST * s->largest * (double)s->task->rows->n;
}

static int allocate(struct center_scores *s, struct err *err)
{
    struct backend *be = s->task->be;
    const enum dtype dtype = is_narrow(s) ? DTYPE_F32 : DTYPE_F64;
    static const char name[] = "selection of centers by leverage scores";
    s->stands = mem_array((size_t)s->m, sizeof(double));
    s->host = mem_array((size_t)s->piece, sizeof(double));
    int rc = s->stands != NULL && s->host != NULL ? 0 : err_no_memory(err);
    if (rc == 0) {
        rc = is_narrow(s)
                 ? memory_check_pair(be, s->m, s->m, DTYPE_F64, s->m, s->m, DTYPE_F32, name, err)
                 : memory_check_matrix(be, s->m, s->m, DTYPE_F64, name, err);
    }
    if (rc == 0) {
        rc = be->ops->mat_new(be, DTYPE_F64, s->m, s->m, &s->core, err);
    }
    if (rc == 0 && is_narrow(s)) {
        rc = be->ops->mat_new(be, DTYPE_F32, s->m, s->m, &s->narrow, err);
    }
    if (rc == 0) {
        rc = be->ops->mat_new(be, dtype, s->m, s->piece, &s->C, err);
    }
    return rc == 0 ? be->ops->mat_new(be, DTYPE_F64, s->piece, 1, &s->diagonal, err) : rc;
}

int center_scores_start(struct center_scores *s, const struct center_task *task,
                        const struct center_set *J, double lambda, double largest, struct err *err)
{
    center_scores_deinit(s);
    s->task = task;
    s->ridge = fmax(lambda, center_least_lambda(task, largest)) * (double)task->rows->n;
    s->largest = largest;
    s->m = J->m;
    s->piece = choose_piece(s->m, task->rows->n);
    s->ready = s->m == 0;
    int rc = allocate(s, err);
    for (int64_t j = 0; rc == 0 && j < s->m; j++) {
        s->stands[j] = J->stands[j];
    }
    const struct rows X = {.dtype = J->dtype, .n = J->m, .d = J->d, .data = J->points};
    if (rc == 0 && s->m > 0) {
        rc = task->be->ops->points_new(task->be, task->kernel, J->dtype, &X, &s->J, err);
    }
    return rc;
}

/* core(j,j) += ridge / s_j + jitter, by blocks of the diagonal and an identity matrix. */
static int add_diagonal(struct center_scores *s, struct err *err)
{
    struct backend *be = s->task->be;
    const struct backend_ops *o = be->ops;
    double values[DIAGONAL_BLOCK];
    int64_t index[DIAGONAL_BLOCK];
    struct mat I = {0};
    int rc = o->mat_new(be, DTYPE_F64, DIAGONAL_BLOCK, DIAGONAL_BLOCK, &I, err);
    if (rc == 0) {
        rc = o->add_diag(be, 1.0, &I, err);
    }
    for (int64_t first = 0; rc == 0 && first < s->m; first += DIAGONAL_BLOCK) {
        const int64_t left = s->m - first, b = left < DIAGONAL_BLOCK ? left : DIAGONAL_BLOCK;
        for (int64_t j = 0; j < b; j++) {
            values[j] = s->ridge / s->stands[first + j] + s->jitter;
            index[j] = j;
        }
        const struct mat block = mat_cols(mat_rows(s->core, first, b), first, b);
        const struct mat one = mat_cols(mat_rows(I, 0, b), 0, b);
        rc = o->add_rows(be, values, &one, index, &block, err);
    }
    o->mat_free(be, &I);
    return rc;
}

static int assemble(struct center_scores *s, struct err *err)
{
    const struct view J = view_all(s->J, s->m);
    const int rc = s->task->be->ops->kblock(s->task->be, J, J, &s->core, err);
    s->assembled = rc == 0;
    s->next = 0;
    return rc == 0 ? add_diagonal(s, err) : rc;
}

/* Rounding of the kernel values, which the ridge was too small for: more on the diagonal. */
static void raise_jitter(struct center_scores *s)
{
    const double eps = s->task->rows->dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    s->jitter = s->attempts == 0 ? eps * s->largest : 10.0 * s->jitter;
    s->attempts++;
    s->assembled = false;
}

int center_scores_build(struct center_scores *s, struct err *err)
{
    if (s->ready) {
        return 1;
    }
    if (!s->assembled) {
        return assemble(s, err);
    }
    int rc = piece_factor(s->task->be, &s->next, &s->core, err);
    if (rc == -ERR_NOT_POSITIVE_DEFINITE && s->attempts < ATTEMPTS) {
        raise_jitter(s);
        return 0;
    }
    if (rc == -ERR_NOT_POSITIVE_DEFINITE) {
        return err_at(err, ERR_NOT_POSITIVE_DEFINITE, "#/kernel",
                      "The regularized kernel matrix of %lld rows, from which leverage scores are "
                      "made, is not positive definite. Choose a positive definite kernel, or "
                      "another way to select centers.",
                      (long long)s->m);
    }
    if (rc > 0) {
        s->ready = true;
        rc = s->narrow.data != NULL ? s->task->be->ops->copy(s->task->be, &s->core, &s->narrow, err)
                                    : 0;
        return rc < 0 ? rc : 1;
    }
    return rc;
}

int64_t center_scores_piece(const struct center_scores *s)
{
    return s->piece;
}

/* host[i] <- |L^-1 k_J(x_i)|^2 */
static int explained(struct center_scores *s, struct view rows, struct err *err)
{
    struct backend *be = s->task->be;
    const struct mat C = mat_cols(s->C, 0, rows.count);
    const struct mat *L = s->narrow.data != NULL ? &s->narrow : &s->core;
    if (s->m == 0) {
        for (int64_t i = 0; i < rows.count; i++) {
            s->host[i] = 0;
        }
        return 0;
    }
    int rc = be->ops->kblock(be, view_all(s->J, s->m), rows, &C, err);
    if (rc == 0) {
        rc = be->ops->trsm(be, false, false, L, &C, err);
    }
    return rc == 0 ? be->ops->col_dots(be, &C, &C, s->host, err) : rc;
}

int center_scores_of(struct center_scores *s, const void *X, int64_t count, double *ret,
                     struct err *err)
{
    struct backend *be = s->task->be;
    const struct row_source *source = s->task->rows;
    const struct rows rows = {.dtype = source->dtype, .n = count, .d = source->d, .data = X};
    const struct mat d = mat_rows(s->diagonal, 0, count);
    struct points *P = NULL;
    int rc = be->ops->points_new(be, s->task->kernel, rows.dtype, &rows, &P, err);
    if (rc == 0) {
        rc = explained(s, view_all(P, count), err);
    }
    if (rc == 0) {
        rc = be->ops->kdiag(be, view_all(P, count), &d, err);
    }
    if (rc == 0) {
        rc = be->ops->mat_get(be, &d, ret, count, err);
    }
    be->ops->points_free(be, P);
    const double top = s->largest * (double)source->n + s->ridge;
    for (int64_t i = 0; rc == 0 && i < count; i++) {
        const double least = fmax(ret[i] / top, DBL_EPSILON / (double)source->n);
        ret[i] = fmin(fmax((ret[i] - s->host[i]) / s->ridge, least), 1.0);
    }
    return rc;
}

double center_least_lambda(const struct center_task *task, double largest)
{
    return largest * (task->rows->dtype == DTYPE_F32 ? (double)FLT_EPSILON : 1e-14);
}

static int largest_of_sample(const struct center_task *task, int64_t *index, void *X,
                             double *values, double *ret, struct err *err)
{
    const struct row_source *source = task->rows;
    const struct row_order order = row_order_new(task->seed, ORDER_SAMPLE, 0, source->n);
    const int64_t count = source->n < LARGEST_SAMPLE ? source->n : LARGEST_SAMPLE;
    const struct rows rows = {.dtype = source->dtype, .n = count, .d = source->d, .data = X};
    const struct backend_ops *o = task->be->ops;
    struct points *P = NULL;
    struct mat d = {0};
    for (int64_t i = 0; i < count; i++) {
        index[i] = row_order_at(&order, i);
    }
    int rc = source->read(source, 0, index, count, X, NULL, err);
    if (rc == 0) {
        rc = o->points_new(task->be, task->kernel, rows.dtype, &rows, &P, err);
    }
    if (rc == 0) {
        rc = o->mat_new(task->be, DTYPE_F64, count, 1, &d, err);
    }
    if (rc == 0) {
        rc = o->kdiag(task->be, view_all(P, count), &d, err);
    }
    if (rc == 0) {
        rc = o->mat_get(task->be, &d, values, count, err);
    }
    o->points_free(task->be, P);
    o->mat_free(task->be, &d);
    for (int64_t i = 0; rc == 0 && i < count; i++) {
        *ret = fmax(*ret, values[i]);
    }
    return rc;
}

int center_largest(const struct center_task *task, double *ret, struct err *err)
{
    if (kernel_uses_distance(task->kernel->id)) {
        *ret = 1.0;
        return 0;
    }
    const size_t d = (size_t)task->rows->d;
    cleanup_mem int64_t *index = mem_array(LARGEST_SAMPLE, sizeof(*index));
    cleanup_mem double *values = mem_array(LARGEST_SAMPLE, sizeof(*values));
    cleanup_mem void *X = mem_array(d, LARGEST_SAMPLE * sizeof(double));
    if (index == NULL || values == NULL || X == NULL) {
        return err_no_memory(err);
    }
    double largest = 0;
    const int rc = largest_of_sample(task, index, X, values, &largest, err);
    if (rc < 0) {
        return rc;
    }
    if (!isfinite(largest)) {
        return kernel_overflows(err);
    }
    *ret = largest > 0 ? largest : 1.0; /* k = 0: any scale will do */
    return 0;
}
