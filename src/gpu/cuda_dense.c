/*
 * Dense algebra by cuBLAS and cuSOLVER, with their 64-bit interfaces. Empty products and sums are
 * decided here; the libraries get no empty matrix.
 */
#include "base/mem.h"
#include "gpu/cuda.h"

#define POTRF_HEAD 256 /* bytes before cuSOLVER's workspace, for its info; keeps it aligned */

static int transposed(bool yes)
{
    return yes ? OP_T : OP_N;
}

/* C <- b C where the product has nothing to add. */
static int scale(struct cuda_backend *cu, bool lower, double b, const struct mat *C,
                 struct err *err)
{
    if (b == 1.0) {
        return 0;
    }
    return cuda__status(launch_scale(cu->stream, lower, b, C), "scale a matrix", err);
}

int cuda__gemm(struct backend *be, bool ta, bool tb, double a, const struct mat *A,
               const struct mat *B, double b, const struct mat *C, struct err *err)
{
    const int64_t m = C->rows, n = C->cols, k = ta ? A->rows : A->cols;
    const bool fits = (ta ? A->cols : A->rows) == m && (tb ? B->rows : B->cols) == n &&
                      k == (tb ? B->cols : B->rows) && A->dtype == B->dtype && A->dtype == C->dtype;
    struct cuda_backend *cu = cuda_of(be);
    const struct dense_library *lib = &cu->dense;
    const int rc = cuda__begin(be, fits, "gemm", err);
    if (rc < 0 || m == 0 || n == 0) {
        return rc;
    }
    if (k == 0) {
        return scale(cu, false, b, C, err);
    }
    int status = 0;
    if (C->dtype == DTYPE_F32) {
        status = lib->sgemm(lib->blas, transposed(ta), transposed(tb), m, n, k, &(float){(float)a},
                            A->data, A->ld, B->data, B->ld, &(float){(float)b}, C->data, C->ld);
    } else {
        status = lib->dgemm(lib->blas, transposed(ta), transposed(tb), m, n, k, &a, A->data, A->ld,
                            B->data, B->ld, &b, C->data, C->ld);
    }
    return dense_library_blas(lib, status, err);
}

int cuda__syrk(struct backend *be, bool ta, double a, const struct mat *A, double b,
               const struct mat *C, struct err *err)
{
    const int64_t n = C->rows, k = ta ? A->rows : A->cols;
    const bool fits = n == C->cols && n == (ta ? A->cols : A->rows) && A->dtype == C->dtype;
    struct cuda_backend *cu = cuda_of(be);
    const struct dense_library *lib = &cu->dense;
    const int rc = cuda__begin(be, fits, "syrk", err);
    if (rc < 0 || n == 0) {
        return rc;
    }
    if (k == 0) {
        return scale(cu, true, b, C, err);
    }
    int status = 0;
    if (C->dtype == DTYPE_F32) {
        status = lib->ssyrk(lib->blas, FILL_LOWER, transposed(ta), n, k, &(float){(float)a},
                            A->data, A->ld, &(float){(float)b}, C->data, C->ld);
    } else {
        status = lib->dsyrk(lib->blas, FILL_LOWER, transposed(ta), n, k, &a, A->data, A->ld, &b,
                            C->data, C->ld);
    }
    return dense_library_blas(lib, status, err);
}

int cuda__trsm(struct backend *be, bool right, bool tl, const struct mat *L, const struct mat *B,
               struct err *err)
{
    const bool fits =
        L->rows == L->cols && L->rows == (right ? B->cols : B->rows) && L->dtype == B->dtype;
    const struct dense_library *lib = &cuda_of(be)->dense;
    const int rc = cuda__begin(be, fits, "trsm", err);
    if (rc < 0 || B->rows == 0 || B->cols == 0) {
        return rc;
    }
    const int side = right ? SIDE_RIGHT : SIDE_LEFT;
    int status = 0;
    if (B->dtype == DTYPE_F32) {
        status = lib->strsm(lib->blas, side, FILL_LOWER, transposed(tl), DIAG_NON_UNIT, B->rows,
                            B->cols, &(float){1.0F}, L->data, L->ld, B->data, B->ld);
    } else {
        status = lib->dtrsm(lib->blas, side, FILL_LOWER, transposed(tl), DIAG_NON_UNIT, B->rows,
                            B->cols, &(double){1.0}, L->data, L->ld, B->data, B->ld);
    }
    return dense_library_blas(lib, status, err);
}

/* ---- Cholesky ---- */

/* cuSOLVER's factorization: *ret_info is 0, or the 1-based column whose pivot was not positive. */
static int factorize(struct cuda_backend *cu, const struct mat *A, int *ret_info, struct err *err)
{
    const struct dense_library *lib = &cu->dense;
    const int type = A->dtype == DTYPE_F32 ? TYPE_R_32F : TYPE_R_64F;
    size_t device_size = 0, host_size = 0;
    int rc =
        dense_library_solver(lib->potrf_size(lib->solver, lib->params, FILL_LOWER, A->rows, type,
                                             A->data, A->ld, type, &device_size, &host_size),
                             err);
    if (rc < 0 || (rc = cuda__reserve(&cu->work, POTRF_HEAD + device_size, err)) < 0) {
        return rc;
    }
    cleanup_mem void *host_work = mem_alloc(host_size);
    if (host_work == NULL) {
        return err_no_memory(err);
    }
    int *const info = cu->work.data;
    if ((rc = cuda__zero(cu, info, sizeof *info, err)) < 0) {
        return rc;
    }
    rc = dense_library_solver(lib->potrf(lib->solver, lib->params, FILL_LOWER, A->rows, type,
                                         A->data, A->ld, type, (char *)cu->work.data + POTRF_HEAD,
                                         device_size, host_work, host_size, info),
                              err);
    return rc < 0 ? rc : cuda__download(cu, ret_info, info, sizeof *ret_info, err);
}

/* The first of `columns` whose pivot is not above min_pivot (NaN is not above anything), or -1. */
static int find_bad_pivot(struct cuda_backend *cu, const struct mat *A, int64_t columns,
                          double min_pivot, int64_t *ret, struct err *err)
{
    const size_t bytes = (size_t)A->rows * sizeof(double);
    cleanup_mem double *diagonal = mem_alloc(bytes);
    if (diagonal == NULL) {
        return err_no_memory(err);
    }
    int rc = cuda__reserve(&cu->work, bytes, err);
    if (rc < 0 ||
        (rc = cuda__status(launch_get_diag(cu->stream, A, cu->work.data), "read a diagonal", err)) <
            0 ||
        (rc = cuda__download(cu, diagonal, cu->work.data, bytes, err)) < 0) {
        return rc;
    }
    int64_t j = 0;
    while (j < columns && diagonal[j] * diagonal[j] > min_pivot) {
        j++;
    }
    *ret = j < columns ? j : -1;
    return 0;
}

int cuda__potrf(struct backend *be, const struct mat *A, double min_pivot, int64_t *ret_column,
                struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    int rc = cuda__begin(be, A->rows == A->cols, "potrf", err);
    if (rc < 0 || A->rows == 0) {
        return rc;
    }
    int info = 0;
    rc = factorize(cu, A, &info, err);
    cuda__trim(&cu->work);
    if (rc < 0) {
        return rc;
    }
    if (info < 0) {
        return err_set(err, ERR_INTERNAL, "The Cholesky factorization refused its arguments.");
    }
    /* The columns before info - 1 are done; one of them may be below the caller's own limit. */
    int64_t bad = -1;
    rc = find_bad_pivot(cu, A, info > 0 ? info - 1 : A->rows, min_pivot, &bad, err);
    if (rc < 0) {
        return rc;
    }
    if (bad < 0 && info > 0) {
        bad = info - 1;
    }
    if (bad < 0) {
        return 0;
    }
    if (ret_column != NULL) {
        *ret_column = bad;
    }
    return err_set(err, ERR_NOT_POSITIVE_DEFINITE,
                   "The matrix is not positive definite to working precision: pivot %lld of %lld "
                   "is not above %.3g.",
                   (long long)bad + 1, (long long)A->rows, min_pivot);
}

/* ---- eigenvectors ---- */

/* A status of cuSOLVER's, whose arguments were right. Matrices that it has no room in its integers
 * for, or that hold NaN, it may refuse by one that tells of neither; the device goes on, and this
 * is `code` then. */
static int accepted(struct cuda_backend *cu, int status, enum err_code code, const char *sentence,
                    const struct mat *A, struct err *err)
{
    const int rc = dense_library_solver(status, err);
    if (rc != -ERR_DEVICE || cuda__wait(cu, NULL) < 0) {
        return rc;
    }
    return err_set(err, code, "%s (%lld x %lld; status %d of cuSOLVER).", sentence,
                   (long long)A->rows, (long long)A->rows, status);
}

/* The workspace starts with LAPACK's info and the n eigenvalues, of A's type. */
static size_t eigh_head(const struct mat *A)
{
    const size_t bytes = POTRF_HEAD + (size_t)A->rows * sizeof(double);
    return (bytes + POTRF_HEAD - 1) / POTRF_HEAD * POTRF_HEAD;
}

static int run_syevd(struct cuda_backend *cu, const struct mat *A, int *ret_info, struct err *err)
{
    const struct dense_library *lib = &cu->dense;
    const int type = A->dtype == DTYPE_F32 ? TYPE_R_32F : TYPE_R_64F;
    const size_t head = eigh_head(A);
    size_t device_size = 0, host_size = 0;
    int rc = cuda__reserve(&cu->work, head, err);
    if (rc < 0) {
        return rc;
    }
    /* Not documented to go without the eigenvalues' place, which may move below. */
    int status = lib->syevd_size(lib->solver, lib->params, EIG_VECTORS, FILL_LOWER, A->rows, type,
                                 A->data, A->ld, type, (const char *)cu->work.data + POTRF_HEAD,
                                 type, &device_size, &host_size);
    rc = accepted(cu, status, ERR_TOO_LARGE, "A matrix is too large for an eigendecomposition here",
                  A, err);
    if (rc < 0 || (rc = cuda__reserve(&cu->work, head + device_size, err)) < 0) {
        return rc;
    }
    cleanup_mem void *host_work = mem_alloc(host_size);
    if (host_work == NULL) {
        return err_no_memory(err);
    }
    int *const info = cu->work.data;
    char *const values = (char *)cu->work.data + POTRF_HEAD;
    if ((rc = cuda__zero(cu, info, sizeof *info, err)) < 0) {
        return rc;
    }
    status = lib->syevd(lib->solver, lib->params, EIG_VECTORS, FILL_LOWER, A->rows, type, A->data,
                        A->ld, type, values, type, (char *)cu->work.data + head, device_size,
                        host_work, host_size, info);
    rc = accepted(cu, status, ERR_DIVERGED, "The eigendecomposition of a matrix did not converge",
                  A, err);
    return rc < 0 ? rc : cuda__download(cu, ret_info, info, sizeof *ret_info, err);
}

/* values[n] of A's type, still in the workspace. */
static int download_values(struct cuda_backend *cu, const struct mat *A, double *ret,
                           struct err *err)
{
    const char *const values = (const char *)cu->work.data + POTRF_HEAD;
    const size_t n = (size_t)A->rows;
    if (A->dtype == DTYPE_F64) {
        return cuda__download(cu, ret, values, n * sizeof(double), err);
    }
    cleanup_mem float *narrow = mem_array(n, sizeof(float));
    if (narrow == NULL) {
        return err_no_memory(err);
    }
    const int rc = cuda__download(cu, narrow, values, n * sizeof(float), err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        ret[i] = (double)narrow[i];
    }
    return rc;
}

static int decompose(struct cuda_backend *cu, const struct mat *A, double *ret_values,
                     struct err *err)
{
    int info = 0;
    const int rc = run_syevd(cu, A, &info, err);
    if (rc < 0) {
        return rc;
    }
    if (info != 0) {
        return err_set(err, info < 0 ? ERR_INTERNAL : ERR_DIVERGED,
                       "The eigendecomposition of a %lld x %lld matrix did not converge.",
                       (long long)A->rows, (long long)A->rows);
    }
    return download_values(cu, A, ret_values, err);
}

int cuda__eigh(struct backend *be, const struct mat *A, double *ret_values, struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    int rc = cuda__begin(be, A->rows == A->cols, "eigh", err);
    if (rc < 0 || A->rows == 0) {
        return rc;
    }
    rc = decompose(cu, A, ret_values, err);
    cuda__trim(&cu->work);
    return rc;
}
