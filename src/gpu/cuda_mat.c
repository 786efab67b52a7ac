/*
 * Matrices in device memory and the column operations. The host's numbers are float64; they pass
 * through the stage, a piece at a time, where a kernel converts them.
 */
#include <string.h>

#include "gpu/cuda.h"

static bool same_shape(const struct mat *A, const struct mat *B)
{
    return A->rows == B->rows && A->cols == B->cols;
}

static bool is_empty(const struct mat *m)
{
    return m->rows == 0 || m->cols == 0;
}

static int64_t mat_bytes(const struct mat *m)
{
    return m->ld * m->cols * (int64_t)dtype_size(m->dtype);
}

int cuda__mat_new(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols, struct mat *ret,
                  struct err *err)
{
    struct mat m = {.dtype = dtype, .rows = rows, .cols = cols, .ld = rows > 0 ? rows : 1};
    int64_t bytes = 0;
    if (rows < 0 || cols < 0 || __builtin_mul_overflow(m.ld, cols, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)dtype_size(dtype), &bytes)) {
        return err_no_memory(err);
    }
    int rc = cuda__begin(be, true, "mat_new", err);
    if (rc < 0 || (rc = cuda__alloc((size_t)bytes, &m.data, err)) < 0) {
        return rc;
    }
    rc = cuda__zero(cuda_of(be), m.data, (size_t)bytes, err);
    if (rc < 0) {
        cuda__release(m.data);
        return rc;
    }
    cuda__account(be, bytes);
    *ret = m;
    return 0;
}

void cuda__mat_free(struct backend *be, struct mat *m)
{
    if (m->data != NULL) {
        cuda__account(be, -mat_bytes(m));
        cuda__release(m->data);
    }
    memset(m, 0, sizeof *m);
}

/* ---- between host and device ---- */

/* A part of a matrix small enough for the stage, and the stage as a matrix of its shape. */
struct piece {
    struct mat part, staged;
    int64_t row, col; /* where the part begins */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whole columns when one fits the stage, else a stretch of one column. */
static struct piece piece_at(const struct mat *m, int64_t row, int64_t col, void *stage)
{
    const int64_t room = (int64_t)(CUDA_STAGE_BYTES / sizeof(double));
    const int64_t rows = least(m->rows - row, room);
    const int64_t cols = rows == m->rows ? least(m->cols - col, room / rows) : 1;
    return (struct piece){
        .part = mat_rows(mat_cols(*m, col, cols), row, rows),
        .staged = {.dtype = DTYPE_F64, .rows = rows, .cols = cols, .ld = rows, .data = stage},
        .row = row,
        .col = col};
}

/* The piece after p; false after the last. */
static bool next_piece(const struct mat *m, struct piece *p)
{
    int64_t row = p->row + p->part.rows, col = p->col;
    if (row == m->rows) {
        row = 0;
        col += p->part.cols;
    }
    if (col == m->cols) {
        return false;
    }
    *p = piece_at(m, row, col, p->staged.data);
    return true;
}

static int first_piece(struct cuda_backend *cu, const struct mat *m, struct piece *ret,
                       struct err *err)
{
    const struct piece p = piece_at(m, 0, 0, NULL);
    const size_t bytes = (size_t)(p.part.rows * p.part.cols) * sizeof(double);
    const int rc = cuda__reserve(&cu->stage, bytes, err);
    if (rc == 0) {
        *ret = piece_at(m, 0, 0, cu->stage.data);
    }
    return rc;
}

/* The host's columns lie ld apart; one copy when that leaves no gaps. */
static int put_piece(struct cuda_backend *cu, const struct piece *p, const double *src, int64_t ld,
                     struct err *err)
{
    const int64_t rows = p->part.rows, cols = p->part.cols;
    const int64_t run = ld == rows ? cols : 1; /* columns a copy */
    for (int64_t j = 0; j < cols; j += run) {
        const int rc =
            cuda__upload(cu, (double *)p->staged.data + j * rows, src + p->row + (p->col + j) * ld,
                         (size_t)(rows * run) * sizeof(double), err);
        if (rc < 0) {
            return rc;
        }
    }
    return cuda__status(launch_convert(cu->stream, &p->staged, &p->part), "convert numbers", err);
}

static int get_piece(struct cuda_backend *cu, const struct piece *p, double *dst, int64_t ld,
                     struct err *err)
{
    const int64_t rows = p->part.rows, cols = p->part.cols;
    const int64_t run = ld == rows ? cols : 1;
    int rc = cuda__status(launch_convert(cu->stream, &p->part, &p->staged), "convert numbers", err);
    for (int64_t j = 0; rc == 0 && j < cols; j += run) {
        rc = cuda__download(cu, dst + p->row + (p->col + j) * ld,
                            (const double *)p->staged.data + j * rows,
                            (size_t)(rows * run) * sizeof(double), err);
    }
    return rc;
}

int cuda__mat_put(struct backend *be, const double *src, int64_t ld, const struct mat *dst,
                  struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    struct piece p;
    int rc = cuda__begin(be, ld >= dst->rows, "mat_put", err);
    if (rc < 0 || is_empty(dst) || (rc = first_piece(cu, dst, &p, err)) < 0) {
        return rc;
    }
    do {
        rc = put_piece(cu, &p, src, ld, err);
    } while (rc == 0 && next_piece(dst, &p));
    return rc;
}

int cuda__mat_get(struct backend *be, const struct mat *src, double *dst, int64_t ld,
                  struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    struct piece p;
    int rc = cuda__begin(be, ld >= src->rows, "mat_get", err);
    if (rc < 0 || is_empty(src) || (rc = first_piece(cu, src, &p, err)) < 0) {
        return rc;
    }
    do {
        rc = get_piece(cu, &p, dst, ld, err);
    } while (rc == 0 && next_piece(src, &p));
    return rc;
}

int cuda__copy(struct backend *be, const struct mat *src, const struct mat *dst, struct err *err)
{
    const int rc = cuda__begin(be, same_shape(src, dst), "copy", err);
    if (rc < 0 || is_empty(src)) {
        return rc;
    }
    return cuda__status(launch_convert(cuda_of(be)->stream, src, dst), "copy a matrix", err);
}

/* ---- columns ---- */

int cuda__col_dots(struct backend *be, const struct mat *A, const struct mat *B, double *ret,
                   struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    int rc = cuda__begin(be, same_shape(A, B) && A->dtype == B->dtype, "col_dots", err);
    if (rc < 0 || A->cols == 0) {
        return rc;
    }
    if (A->rows == 0) {
        memset(ret, 0, (size_t)A->cols * sizeof *ret);
        return 0;
    }
    const int64_t partials = launch_dots_work(A->rows, A->cols);
    rc = cuda__reserve(&cu->work, (size_t)(partials + A->cols) * sizeof(double), err);
    if (rc < 0) {
        return rc;
    }
    double *work = cu->work.data, *sums = work + partials;
    rc = cuda__status(launch_dots(cu->stream, A, B, work, sums), "multiply columns", err);
    return rc < 0 ? rc : cuda__download(cu, ret, sums, (size_t)A->cols * sizeof *ret, err);
}

int cuda__col_axpby(struct backend *be, const double *a, const struct mat *X, const double *b,
                    const struct mat *Y, struct err *err)
{
    int rc = cuda__begin(be, same_shape(X, Y) && X->dtype == Y->dtype, "col_axpby", err);
    if (rc < 0 || is_empty(X)) {
        return rc;
    }
    for (int64_t j = 0; rc == 0 && j < X->cols; j += LAUNCH_AXPBY_COLS) {
        const int64_t cols = least(X->cols - j, LAUNCH_AXPBY_COLS);
        const struct mat x = mat_cols(*X, j, cols), y = mat_cols(*Y, j, cols);
        rc = cuda__status(launch_axpby(cuda_of(be)->stream, a + j, &x, b + j, &y), "add columns",
                          err);
    }
    return rc;
}

/* An index outside would end the process's use of the device, not just this call. */
static bool index_valid(const int64_t *index, int64_t count, int64_t rows)
{
    bool valid = true;
    for (int64_t i = 0; i < count; i++) {
        valid = valid && index[i] >= 0 && index[i] < rows;
    }
    return valid;
}

/* The list of rows, checked and on the device. */
static int put_index(struct cuda_backend *cu, const int64_t *index, int64_t count,
                     const int64_t **ret, struct err *err)
{
    const size_t bytes = (size_t)count * sizeof *index;
    struct cuda_buffer *list = &cu->lists[0];
    const int rc = cuda__reserve(list, bytes, err);
    *ret = list->data;
    return rc < 0 ? rc : cuda__upload(cu, list->data, index, bytes, err);
}

int cuda__gather_rows(struct backend *be, const struct mat *A, const int64_t *index,
                      const struct mat *B, struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const bool fits = A->cols == B->cols && A->dtype == B->dtype;
    int rc = cuda__begin(be, fits && index_valid(index, B->rows, A->rows), "gather_rows", err);
    const int64_t *list = NULL;
    if (rc < 0 || is_empty(B) || (rc = put_index(cu, index, B->rows, &list, err)) < 0) {
        return rc;
    }
    return cuda__status(launch_gather(cu->stream, A, list, B), "gather rows", err);
}

int cuda__add_rows(struct backend *be, const double *a, const struct mat *A, const int64_t *index,
                   const struct mat *B, struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const bool fits = A->cols == B->cols && A->dtype == B->dtype;
    int rc = cuda__begin(be, fits && index_valid(index, A->rows, B->rows), "add_rows", err);
    const int64_t *list = NULL;
    if (rc < 0 || is_empty(A) || (rc = put_index(cu, index, A->rows, &list, err)) < 0) {
        return rc;
    }
    for (int64_t j = 0; rc == 0 && j < A->cols; j += LAUNCH_AXPBY_COLS) {
        const int64_t cols = least(A->cols - j, LAUNCH_AXPBY_COLS);
        const struct mat from = mat_cols(*A, j, cols), to = mat_cols(*B, j, cols);
        rc = cuda__status(launch_add_rows(cu->stream, a + j, &from, list, &to), "add rows", err);
    }
    return rc;
}

int cuda__deflate_diag(struct backend *be, const struct mat *F, const struct mat *d,
                       struct err *err)
{
    const int rc = cuda__begin(be, F->rows == d->rows && d->cols == 1, "deflate_diag", err);
    if (rc < 0 || d->rows == 0) {
        return rc;
    }
    return cuda__status(launch_deflate(cuda_of(be)->stream, F, d), "deflate a diagonal", err);
}

int cuda__add_diag(struct backend *be, double value, const struct mat *A, struct err *err)
{
    const int rc = cuda__begin(be, A->rows == A->cols, "add_diag", err);
    if (rc < 0 || A->rows == 0) {
        return rc;
    }
    return cuda__status(launch_add_diag(cuda_of(be)->stream, value, A), "add to a diagonal", err);
}

int cuda__scale_rows(struct backend *be, const double *factors, const struct mat *A,
                     struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const size_t bytes = (size_t)A->rows * sizeof *factors;
    struct cuda_buffer *list = &cu->lists[0];
    int rc = cuda__begin(be, true, "scale_rows", err);
    if (rc < 0 || is_empty(A) || (rc = cuda__reserve(list, bytes, err)) < 0 ||
        (rc = cuda__upload(cu, list->data, factors, bytes, err)) < 0) {
        return rc;
    }
    return cuda__status(launch_scale_rows(cu->stream, list->data, A), "scale rows", err);
}

int cuda__clear_upper(struct backend *be, const struct mat *A, struct err *err)
{
    const int rc = cuda__begin(be, A->rows == A->cols, "clear_upper", err);
    if (rc < 0 || is_empty(A)) {
        return rc;
    }
    return cuda__status(launch_clear_upper(cuda_of(be)->stream, A), "clear a triangle", err);
}
