/*
 * Matrices in ordinary memory: allocation, conversion, and the column operations. All of these are
 * bound by memory traffic, and all are small beside one kernel product.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu.h"
#include "engine/memory.h"

/* From this size on it is worth asking the system what it has. */
#define LARGE_BYTES (INT64_C(64) << 20)

/* Below this many elements starting threads costs more than it saves. */
#define PARALLEL_MIN 200000

static bool worth_threads(const struct mat *m)
{
    return m->rows > 0 && m->cols > PARALLEL_MIN / m->rows;
}

static bool same_shape(const struct mat *A, const struct mat *B)
{
    return A->rows == B->rows && A->cols == B->cols;
}

static int64_t mat_bytes(const struct mat *m)
{
    return m->ld * m->cols * (int64_t)dtype_size(m->dtype);
}

int cpu__mat_new(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols, struct mat *ret,
                 struct err *err)
{
    struct mat m = {.dtype = dtype, .rows = rows, .cols = cols, .ld = rows > 0 ? rows : 1};
    int64_t bytes = 0;
    if (rows < 0 || cols < 0 || __builtin_mul_overflow(m.ld, cols, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)dtype_size(dtype), &bytes)) {
        return err_no_memory(err);
    }
    if (bytes > LARGE_BYTES && bytes > memory_available_on(be)) {
        return err_set(err, ERR_NO_MEMORY,
                       "A %lld x %lld matrix needs %.1f GB, more than is available.",
                       (long long)rows, (long long)cols, (double)bytes / 1e9);
    }
    m.data = mem_zarray((size_t)(bytes > 0 ? bytes : 1), 1);
    if (m.data == NULL) {
        return err_no_memory(err);
    }
    cpu__account(be, bytes);
    *ret = m;
    return 0;
}

void cpu__mat_free(struct backend *be, struct mat *m)
{
    if (m->data != NULL) {
        cpu__account(be, -mat_bytes(m));
        mem_free(m->data);
    }
    memset(m, 0, sizeof *m);
}

void cpu__convert(enum dtype to, void *dst, enum dtype from, const void *src, int64_t n)
{
    if (to == from) {
        memcpy(dst, src, (size_t)n * dtype_size(to));
    } else if (to == DTYPE_F32) {
        for (int64_t i = 0; i < n; i++) {
            ((float *)dst)[i] = (float)((const double *)src)[i];
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            ((double *)dst)[i] = (double)((const float *)src)[i];
        }
    }
}

static void *column(const struct mat *m, int64_t j)
{
    return mat_cols(*m, j, 1).data;
}

int cpu__copy(struct backend *be, const struct mat *src, const struct mat *dst, struct err *err)
{
    const int rc = cpu__expect(same_shape(src, dst), "copy", err);
    if (rc < 0) {
        return rc;
    }
#pragma omp parallel for num_threads(be->threads) if (worth_threads(src))
    for (int64_t j = 0; j < src->cols; j++) {
        cpu__convert(dst->dtype, column(dst, j), src->dtype, column(src, j), src->rows);
    }
    return 0;
}

int cpu__mat_put(struct backend *be, const double *src, int64_t ld, const struct mat *dst,
                 struct err *err)
{
    union {
        const double *in;
        void *data;
    } host = {.in = src}; /* struct mat has no const twin; cpu__copy only reads it */
    const struct mat from = {
        .dtype = DTYPE_F64, .rows = dst->rows, .cols = dst->cols, .ld = ld, .data = host.data};
    return cpu__copy(be, &from, dst, err);
}

int cpu__mat_get(struct backend *be, const struct mat *src, double *dst, int64_t ld,
                 struct err *err)
{
    const struct mat to = {
        .dtype = DTYPE_F64, .rows = src->rows, .cols = src->cols, .ld = ld, .data = dst};
    return cpu__copy(be, src, &to, err);
}

/* Eight interleaved sums: a fixed order that the compiler can keep in vectors. */
#define DOT(T)                                                                                     \
    static double dot_##T(const T *x, const T *y, int64_t n)                                       \
    {                                                                                              \
        double lane[8] = {0};                                                                      \
        int64_t i = 0;                                                                             \
        for (; i + 8 <= n; i += 8) {                                                               \
            for (int k = 0; k < 8; k++) {                                                          \
                lane[k] += (double)x[i + k] * (double)y[i + k];                                    \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; i < n; i++, k++) {                                                         \
            lane[k] += (double)x[i] * (double)y[i];                                                \
        }                                                                                          \
        return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +                                       \
               ((lane[4] + lane[5]) + (lane[6] + lane[7]));                                        \
    }
DOT(float)
DOT(double)

int cpu__col_dots(struct backend *be, const struct mat *A, const struct mat *B, double *ret,
                  struct err *err)
{
    const int rc = cpu__expect(same_shape(A, B) && A->dtype == B->dtype, "col_dots", err);
    if (rc < 0) {
        return rc;
    }
#pragma omp parallel for num_threads(be->threads) if (worth_threads(A))
    for (int64_t j = 0; j < A->cols; j++) {
        ret[j] = A->dtype == DTYPE_F32 ? dot_float(column(A, j), column(B, j), A->rows)
                                       : dot_double(column(A, j), column(B, j), A->rows);
    }
    return 0;
}

/* y <- a x + b y. The arithmetic is float64; b = 0 must not let a NaN in y through. */
#define AXPBY(T)                                                                                   \
    static void axpby_##T(double a, const T *x, double b, T *y, int64_t n)                         \
    {                                                                                              \
        if (b == 0.0) {                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                      \
                y[i] = (T)(a * (double)x[i]);                                                      \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            y[i] = (T)(a * (double)x[i] + b * (double)y[i]);                                       \
        }                                                                                          \
    }
AXPBY(float)
AXPBY(double)

int cpu__col_axpby(struct backend *be, const double *a, const struct mat *X, const double *b,
                   const struct mat *Y, struct err *err)
{
    const int rc = cpu__expect(same_shape(X, Y) && X->dtype == Y->dtype, "col_axpby", err);
    if (rc < 0) {
        return rc;
    }
#pragma omp parallel for num_threads(be->threads) if (worth_threads(X))
    for (int64_t j = 0; j < X->cols; j++) {
        if (a[j] == 0.0 && b[j] == 1.0) {
            continue;
        }
        if (X->dtype == DTYPE_F32) {
            axpby_float(a[j], column(X, j), b[j], column(Y, j), X->rows);
        } else {
            axpby_double(a[j], column(X, j), b[j], column(Y, j), X->rows);
        }
    }
    return 0;
}

int cpu__gather_rows(struct backend *be, const struct mat *A, const int64_t *index,
                     const struct mat *B, struct err *err)
{
    const int rc = cpu__expect(A->cols == B->cols && A->dtype == B->dtype, "gather_rows", err);
    if (rc < 0) {
        return rc;
    }
#pragma omp parallel for num_threads(be->threads) if (worth_threads(B))
    for (int64_t j = 0; j < B->cols; j++) {
        if (A->dtype == DTYPE_F32) {
            const float *from = column(A, j);
            float *to = column(B, j);
            for (int64_t i = 0; i < B->rows; i++) {
                to[i] = from[index[i]];
            }
        } else {
            const double *from = column(A, j);
            double *to = column(B, j);
            for (int64_t i = 0; i < B->rows; i++) {
                to[i] = from[index[i]];
            }
        }
    }
    return 0;
}

int cpu__add_rows(struct backend *be, const double *a, const struct mat *A, const int64_t *index,
                  const struct mat *B, struct err *err)
{
    const int rc = cpu__expect(A->cols == B->cols && A->dtype == B->dtype, "add_rows", err);
    if (rc < 0) {
        return rc;
    }
#pragma omp parallel for num_threads(be->threads) if (worth_threads(A))
    for (int64_t j = 0; j < A->cols; j++) {
        for (int64_t i = 0; i < A->rows; i++) {
            mat_set(B, index[i], j, mat_at(B, index[i], j) + a[j] * mat_at(A, i, j));
        }
    }
    return 0;
}

/* Rows first .. first+n-1, column by column, so that memory is read in its own order. */
static void deflate_rows(const struct mat *F, const struct mat *d, int64_t first, int64_t n)
{
    for (int64_t j = 0; j < F->cols; j++) {
        for (int64_t i = first; i < first + n; i++) {
            const double f = mat_at(F, i, j);
            mat_set(d, i, 0, mat_at(d, i, 0) - f * f);
        }
    }
    for (int64_t i = first; i < first + n; i++) {
        mat_set(d, i, 0, fmax(mat_at(d, i, 0), 0.0));
    }
}

int cpu__deflate_diag(struct backend *be, const struct mat *F, const struct mat *d, struct err *err)
{
    const int rc = cpu__expect(F->rows == d->rows && d->cols == 1, "deflate_diag", err);
    if (rc < 0) {
        return rc;
    }
    const int64_t block = 1024;
#pragma omp parallel for num_threads(be->threads) if (worth_threads(F))
    for (int64_t i = 0; i < F->rows; i += block) {
        deflate_rows(F, d, i, F->rows - i < block ? F->rows - i : block);
    }
    return 0;
}

int cpu__add_diag(struct backend *be, double value, const struct mat *A, struct err *err)
{
    (void)be;
    const int rc = cpu__expect(A->rows == A->cols, "add_diag", err);
    if (rc < 0) {
        return rc;
    }
    for (int64_t i = 0; i < A->rows; i++) {
        mat_set(A, i, i, mat_at(A, i, i) + value);
    }
    return 0;
}

int cpu__scale_rows(struct backend *be, const double *factors, const struct mat *A, struct err *err)
{
    (void)be;
    (void)err;
    for (int64_t j = 0; j < A->cols; j++) {
        for (int64_t i = 0; i < A->rows; i++) {
            mat_set(A, i, j, factors[i] * mat_at(A, i, j));
        }
    }
    return 0;
}

int cpu__clear_upper(struct backend *be, const struct mat *A, struct err *err)
{
    (void)be;
    const int rc = cpu__expect(A->rows == A->cols, "clear_upper", err);
    for (int64_t j = 0; rc == 0 && j < A->cols; j++) {
        for (int64_t i = 0; i < j; i++) {
            mat_set(A, i, j, 0.0);
        }
    }
    return rc;
}
