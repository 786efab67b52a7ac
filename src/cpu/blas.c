/*
 * Dense algebra by OpenBLAS and its LAPACK: the only file that sees their headers. OpenBLAS has one
 * process-wide number of threads, set before each call, because backends may differ. Its integers
 * have 32 bits here, so every dimension is checked first.
 */
#include <cblas.h>
#include <lapack.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu.h"

const char *backend_cpu_blas_core(void)
{
    return openblas_get_corename();
}

static void use_threads(const struct backend *be)
{
    if (openblas_get_num_threads() != be->threads) {
        openblas_set_num_threads(be->threads);
    }
}

static bool fits_int(const struct mat *m)
{
    return m->rows <= INT32_MAX && m->cols <= INT32_MAX && m->ld <= INT32_MAX;
}

static int check_limits(const struct mat *A, const struct mat *B, struct err *err)
{
    if (fits_int(A) && fits_int(B)) {
        return 0;
    }
    return err_set(err, ERR_TOO_LARGE,
                   "A dense matrix has more than %d rows or columns, the limit of the linear "
                   "algebra library.",
                   INT32_MAX);
}

static enum CBLAS_TRANSPOSE transposed(bool yes)
{
    return yes ? CblasTrans : CblasNoTrans;
}

/* C, one column, <- a op(A) b + beta C: reads A once and packs nothing, as gemm would. */
static void multiply_column(bool ta, bool tb, double a, const struct mat *A, const struct mat *B,
                            double beta, const struct mat *C)
{
    const int rows = (int)A->rows, cols = (int)A->cols, ld = (int)A->ld;
    const int step = tb ? (int)B->ld : 1;
    if (beta == 0) {
        memset(C->data, 0, (size_t)C->rows * dtype_size(C->dtype)); /* whatever it held */
    }
    if (C->dtype == DTYPE_F32) {
        cblas_sgemv(CblasColMajor, transposed(ta), rows, cols, (float)a, A->data, ld, B->data, step,
                    (float)beta, C->data, 1);
    } else {
        cblas_dgemv(CblasColMajor, transposed(ta), rows, cols, a, A->data, ld, B->data, step, beta,
                    C->data, 1);
    }
}

int cpu__gemm(struct backend *be, bool ta, bool tb, double a, const struct mat *A,
              const struct mat *B, double b, const struct mat *C, struct err *err)
{
    const int64_t inner = ta ? A->rows : A->cols;
    const bool fits = (ta ? A->cols : A->rows) == C->rows && (tb ? B->rows : B->cols) == C->cols &&
                      inner == (tb ? B->cols : B->rows) && A->dtype == B->dtype &&
                      A->dtype == C->dtype;
    int rc = cpu__expect(fits, "gemm", err);
    if (rc < 0 || (rc = check_limits(A, B, err)) < 0 || (rc = check_limits(C, C, err)) < 0) {
        return rc;
    }
    use_threads(be);
    const int m = (int)C->rows, n = (int)C->cols, k = (int)inner;
    if (n == 1 && m > 0 && k > 0) {
        multiply_column(ta, tb, a, A, B, b, C);
    } else if (C->dtype == DTYPE_F32) {
        cblas_sgemm(CblasColMajor, transposed(ta), transposed(tb), m, n, k, (float)a, A->data,
                    (int)A->ld, B->data, (int)B->ld, (float)b, C->data, (int)C->ld);
    } else {
        cblas_dgemm(CblasColMajor, transposed(ta), transposed(tb), m, n, k, a, A->data, (int)A->ld,
                    B->data, (int)B->ld, b, C->data, (int)C->ld);
    }
    return 0;
}

/* ---- products of any number of threads ---- */

/* Of C: threads have pieces enough to share, and what a piece reads stays in a cache. */
enum { PIECE_ROWS = 512, PIECE_COLS = 256 };

static int piece(int64_t size, int64_t at, int64_t most)
{
    return (int)(size - at < most ? size - at : most);
}

static void multiply_piece(const struct gemm_batch *b, int64_t at, int64_t row, int64_t col)
{
    const struct mat *A = &b->A, *B = &b->B, *C = &b->C;
    const int rows = piece(C->rows, row, PIECE_ROWS), cols = piece(C->cols, col, PIECE_COLS);
    cblas_dgemm(CblasColMajor, CblasNoTrans, transposed(b->tb), rows, cols, (int)A->cols, 1.0,
                (const double *)A->data + at * b->next_A + row, (int)A->ld,
                (const double *)B->data + at * b->next_B + col * (b->tb ? 1 : B->ld), (int)B->ld,
                0.0, (double *)C->data + at * b->next_C + row + col * C->ld, (int)C->ld);
}

int cpu__gemm_batch(struct backend *be, const struct gemm_batch *b, struct err *err)
{
    const struct mat *A = &b->A, *B = &b->B, *C = &b->C;
    int rc = check_limits(A, B, err);
    if (rc < 0 || (rc = check_limits(C, C, err)) < 0) {
        return rc;
    }
    if (openblas_get_num_threads() != 1) {
        openblas_set_num_threads(1);
    }
    const int64_t down = (C->rows + PIECE_ROWS - 1) / PIECE_ROWS;
    const int64_t across = (C->cols + PIECE_COLS - 1) / PIECE_COLS;
#pragma omp parallel for num_threads(be->threads)
    for (int64_t i = 0; i < b->count * down * across; i++) {
        multiply_piece(b, i / (down * across), i % down * PIECE_ROWS,
                       i / down % across * PIECE_COLS);
    }
    return 0;
}

int cpu__syrk(struct backend *be, bool ta, double a, const struct mat *A, double b,
              const struct mat *C, struct err *err)
{
    const bool fits =
        C->rows == C->cols && C->rows == (ta ? A->cols : A->rows) && A->dtype == C->dtype;
    int rc = cpu__expect(fits, "syrk", err);
    if (rc < 0 || (rc = check_limits(A, C, err)) < 0) {
        return rc;
    }
    use_threads(be);
    const int n = (int)C->rows, k = (int)(ta ? A->rows : A->cols);
    if (C->dtype == DTYPE_F32) {
        cblas_ssyrk(CblasColMajor, CblasLower, transposed(ta), n, k, (float)a, A->data, (int)A->ld,
                    (float)b, C->data, (int)C->ld);
    } else {
        cblas_dsyrk(CblasColMajor, CblasLower, transposed(ta), n, k, a, A->data, (int)A->ld, b,
                    C->data, (int)C->ld);
    }
    return 0;
}

/* b <- op(L)^-1 b, one column: half the time of trsm, which packs all of L for it. */
static void solve_column(bool tl, const struct mat *L, const struct mat *b)
{
    const int n = (int)L->rows, ld = (int)L->ld;
    if (b->dtype == DTYPE_F32) {
        cblas_strsv(CblasColMajor, CblasLower, transposed(tl), CblasNonUnit, n, L->data, ld,
                    b->data, 1);
    } else {
        cblas_dtrsv(CblasColMajor, CblasLower, transposed(tl), CblasNonUnit, n, L->data, ld,
                    b->data, 1);
    }
}

int cpu__trsm(struct backend *be, bool right, bool tl, const struct mat *L, const struct mat *B,
              struct err *err)
{
    const bool fits =
        L->rows == L->cols && L->rows == (right ? B->cols : B->rows) && L->dtype == B->dtype;
    int rc = cpu__expect(fits, "trsm", err);
    if (rc < 0 || (rc = check_limits(L, B, err)) < 0) {
        return rc;
    }
    use_threads(be);
    const enum CBLAS_SIDE side = right ? CblasRight : CblasLeft;
    const int m = (int)B->rows, n = (int)B->cols;
    if (!right && n == 1) {
        solve_column(tl, L, B);
    } else if (B->dtype == DTYPE_F32) {
        cblas_strsm(CblasColMajor, side, CblasLower, transposed(tl), CblasNonUnit, m, n, 1.0F,
                    L->data, (int)L->ld, B->data, (int)B->ld);
    } else {
        cblas_dtrsm(CblasColMajor, side, CblasLower, transposed(tl), CblasNonUnit, m, n, 1.0,
                    L->data, (int)L->ld, B->data, (int)B->ld);
    }
    return 0;
}

/* The first column whose pivot is not above min_pivot (NaN is not above anything), or -1. */
static int64_t find_bad_pivot(const struct mat *A, int64_t columns, double min_pivot)
{
    for (int64_t j = 0; j < columns; j++) {
        const double diagonal = mat_at(A, j, j);
        if (!(diagonal * diagonal > min_pivot)) {
            return j;
        }
    }
    return -1;
}

int cpu__potrf(struct backend *be, const struct mat *A, double min_pivot, int64_t *ret_column,
               struct err *err)
{
    int rc = cpu__expect(A->rows == A->cols, "potrf", err);
    if (rc < 0 || (rc = check_limits(A, A, err)) < 0) {
        return rc;
    }
    use_threads(be);
    const lapack_int n = (lapack_int)A->rows, ld = (lapack_int)A->ld;
    lapack_int info = 0;
    if (A->dtype == DTYPE_F32) {
        LAPACK_spotrf("L", &n, A->data, &ld, &info);
    } else {
        LAPACK_dpotrf("L", &n, A->data, &ld, &info);
    }
    if (info < 0) {
        return err_set(err, ERR_INTERNAL, "The Cholesky factorization refused its arguments.");
    }
    /* The columns before info - 1 are done; one of them may be below the caller's own limit. */
    int64_t bad = find_bad_pivot(A, info > 0 ? info - 1 : n, min_pivot);
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
                   (long long)bad + 1, (long long)n, min_pivot);
}

/* The workspace of xSYEVD for vectors, in numbers; its own answer to a query is rounded. */
static int64_t eigh_work(int64_t n)
{
    return 1 + 6 * n + 2 * n * n;
}

/* w[n] <- eigenvalues, of A's type. Returns LAPACK's info. */
static int eigh_in_type(const struct mat *A, void *w, void *work, lapack_int *iwork)
{
    const lapack_int n = (lapack_int)A->rows, ld = (lapack_int)A->ld;
    const lapack_int lwork = (lapack_int)eigh_work(n), liwork = 3 + 5 * n;
    lapack_int info = 0;
    if (A->dtype == DTYPE_F32) {
        LAPACK_ssyevd("V", "L", &n, A->data, &ld, w, work, &lwork, iwork, &liwork, &info);
    } else {
        LAPACK_dsyevd("V", "L", &n, A->data, &ld, w, work, &lwork, iwork, &liwork, &info);
    }
    return info;
}

int cpu__eigh(struct backend *be, const struct mat *A, double *ret_values, struct err *err)
{
    const int64_t n = A->rows;
    int rc = cpu__expect(A->rows == A->cols, "eigh", err);
    if (rc < 0 || (rc = check_limits(A, A, err)) < 0 || n == 0) {
        return rc;
    }
    if (n > 30000 || eigh_work(n) > INT32_MAX) {
        return err_set(err, ERR_TOO_LARGE,
                       "A matrix of %lld rows is too large for an eigendecomposition here.",
                       (long long)n);
    }
    use_threads(be);
    const size_t size = dtype_size(A->dtype);
    cleanup_mem void *w = mem_array((size_t)n, size);
    cleanup_mem void *work = mem_array((size_t)eigh_work(n), size);
    cleanup_mem lapack_int *iwork = mem_array((size_t)(3 + 5 * n), sizeof(lapack_int));
    if (w == NULL || work == NULL || iwork == NULL) {
        return err_no_memory(err);
    }
    const int info = eigh_in_type(A, w, work, iwork);
    if (info != 0) {
        return err_set(err, info < 0 ? ERR_INTERNAL : ERR_DIVERGED,
                       "The eigendecomposition of a %lld x %lld matrix did not converge.",
                       (long long)n, (long long)n);
    }
    cpu__convert(DTYPE_F64, ret_values, A->dtype, w, n);
    return 0;
}
