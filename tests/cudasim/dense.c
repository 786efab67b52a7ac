/*
 * The functions of cuBLAS and cuSOLVER that src/gpu/dense_library.c looks for, with OpenBLAS behind
 * them, in libraries of the same names. What CUDA's refuse is refused, workspaces are overwritten,
 * and the work is done when the stream's is.
 */
#include <cblas.h>
#include <lapack.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cudasim/sim.h"
#include "gpu/dense_library.h"

#define INVALID_VALUE 7 /* of cuBLAS */
#define SOLVER_INVALID_VALUE 3
#define SOLVER_EXECUTION_FAILED 6
#define SOLVER_INTERNAL_ERROR 7
#define NOT_INITIALIZED 1

/* Bytes that the device must have free for a handle, as on a GPU, where it has some of them. */
#define BLAS_NEEDS ((size_t)16 << 20)
#define SOLVER_NEEDS ((size_t)64 << 20)

struct handle {
    void *stream;
};

static int create(void **handle)
{
    *handle = calloc(1, sizeof(struct handle));
    return *handle == NULL ? NOT_INITIALIZED : 0;
}

static int destroy(void *handle)
{
    free(handle);
    return 0;
}

static int set_stream(void *handle, void *stream)
{
    ((struct handle *)handle)->stream = stream;
    return 0;
}

int cublasCreate_v2(void **handle)
{
    const bool full = sim_memory_left(sim_current_device()) < BLAS_NEEDS;
    return full || sim_has_fault("cublas") ? NOT_INITIALIZED : create(handle);
}

int cublasDestroy_v2(void *handle)
{
    return destroy(handle);
}

int cublasSetStream_v2(void *handle, void *stream)
{
    return set_stream(handle, stream);
}

const char *cublasGetStatusString(int status)
{
    return status == INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                   : "CUBLAS_STATUS_NOT_INITIALIZED";
}

int cusolverDnCreate(void **handle)
{
    return sim_memory_left(sim_current_device()) < SOLVER_NEEDS ? SOLVER_INTERNAL_ERROR
                                                                : create(handle);
}

int cusolverDnDestroy(void *handle)
{
    return destroy(handle);
}

int cusolverDnSetStream(void *handle, void *stream)
{
    return set_stream(handle, stream);
}

int cusolverDnCreateParams(void **params)
{
    return create(params);
}

int cusolverDnDestroyParams(void *params)
{
    return destroy(params);
}

/* Column-major, in an allocation of the current device. */
static bool matrix_fits(const void *data, int64_t rows, int64_t cols, int64_t ld, size_t element)
{
    return rows >= 1 && cols >= 1 && ld >= rows && ld <= INT32_MAX &&
           sim_memory_holds(sim_current_device(), data, (size_t)(ld * (cols - 1) + rows) * element);
}

static enum CBLAS_TRANSPOSE transposed(int t)
{
    return t == OP_N ? CblasNoTrans : CblasTrans;
}

static int push(const void *handle, void (*run)(void *), const void *argument, size_t bytes,
                bool valid)
{
    if (!valid) {
        return INVALID_VALUE;
    }
    return sim_stream_push(((const struct handle *)handle)->stream, run, argument, bytes) == 0
               ? 0
               : NOT_INITIALIZED;
}

/* ---- products ---- */

/* C <- alpha op(A) op(B) + beta C, or the lower triangle of C <- alpha op(A) op(A)' + beta C. */
struct multiply {
    bool single;
    int ta, tb;
    int64_t m, n, k;
    double alpha, beta;
    const void *A, *B;
    void *C;
    int64_t lda, ldb, ldc;
};

static void run_gemm(void *argument)
{
    const struct multiply *p = argument;
    const enum CBLAS_TRANSPOSE ta = transposed(p->ta), tb = transposed(p->tb);
    const int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    if (p->single) {
        cblas_sgemm(CblasColMajor, ta, tb, m, n, k, (float)p->alpha, p->A, (int)p->lda, p->B,
                    (int)p->ldb, (float)p->beta, p->C, (int)p->ldc);
    } else {
        cblas_dgemm(CblasColMajor, ta, tb, m, n, k, p->alpha, p->A, (int)p->lda, p->B, (int)p->ldb,
                    p->beta, p->C, (int)p->ldc);
    }
}

static int gemm(const void *handle, const struct multiply *p)
{
    const size_t size = p->single ? sizeof(float) : sizeof(double);
    const bool ta = p->ta != OP_N, tb = p->tb != OP_N;
    return push(handle, run_gemm, p, sizeof *p,
                matrix_fits(p->A, ta ? p->k : p->m, ta ? p->m : p->k, p->lda, size) &&
                    matrix_fits(p->B, tb ? p->n : p->k, tb ? p->k : p->n, p->ldb, size) &&
                    matrix_fits(p->C, p->m, p->n, p->ldc, size));
}

int cublasSgemm_v2_64(void *handle, int ta, int tb, int64_t m, int64_t n, int64_t k,
                      const float *alpha, const float *A, int64_t lda, const float *B, int64_t ldb,
                      const float *beta, float *C, int64_t ldc)
{
    return gemm(handle, &(struct multiply){true, ta, tb, m, n, k, (double)*alpha, (double)*beta, A,
                                           B, C, lda, ldb, ldc});
}

int cublasDgemm_v2_64(void *handle, int ta, int tb, int64_t m, int64_t n, int64_t k,
                      const double *alpha, const double *A, int64_t lda, const double *B,
                      int64_t ldb, const double *beta, double *C, int64_t ldc)
{
    return gemm(handle,
                &(struct multiply){false, ta, tb, m, n, k, *alpha, *beta, A, B, C, lda, ldb, ldc});
}

static void run_syrk(void *argument)
{
    const struct multiply *p = argument;
    const enum CBLAS_TRANSPOSE t = transposed(p->ta);
    const int n = (int)p->n, k = (int)p->k;
    if (p->single) {
        cblas_ssyrk(CblasColMajor, CblasLower, t, n, k, (float)p->alpha, p->A, (int)p->lda,
                    (float)p->beta, p->C, (int)p->ldc);
    } else {
        cblas_dsyrk(CblasColMajor, CblasLower, t, n, k, p->alpha, p->A, (int)p->lda, p->beta, p->C,
                    (int)p->ldc);
    }
}

static int syrk(const void *handle, int fill, const struct multiply *p)
{
    const size_t size = p->single ? sizeof(float) : sizeof(double);
    const bool t = p->ta != OP_N;
    return push(handle, run_syrk, p, sizeof *p,
                fill == FILL_LOWER &&
                    matrix_fits(p->A, t ? p->k : p->n, t ? p->n : p->k, p->lda, size) &&
                    matrix_fits(p->C, p->n, p->n, p->ldc, size));
}

int cublasSsyrk_v2_64(void *handle, int fill, int t, int64_t n, int64_t k, const float *alpha,
                      const float *A, int64_t lda, const float *beta, float *C, int64_t ldc)
{
    return syrk(handle, fill,
                &(struct multiply){true, t, t, n, n, k, (double)*alpha, (double)*beta, A, A, C, lda,
                                   lda, ldc});
}

int cublasDsyrk_v2_64(void *handle, int fill, int t, int64_t n, int64_t k, const double *alpha,
                      const double *A, int64_t lda, const double *beta, double *C, int64_t ldc)
{
    return syrk(handle, fill,
                &(struct multiply){false, t, t, n, n, k, *alpha, *beta, A, A, C, lda, lda, ldc});
}

/* ---- triangular systems ---- */

/* B <- alpha op(A)^-1 B or alpha B op(A)^-1, A lower. */
struct solve {
    bool single;
    int side, t;
    int64_t m, n;
    double alpha;
    const void *A;
    void *B;
    int64_t lda, ldb;
};

static void run_trsm(void *argument)
{
    const struct solve *p = argument;
    const enum CBLAS_SIDE side = p->side == SIDE_LEFT ? CblasLeft : CblasRight;
    const enum CBLAS_TRANSPOSE t = transposed(p->t);
    const int m = (int)p->m, n = (int)p->n;
    if (p->single) {
        cblas_strsm(CblasColMajor, side, CblasLower, t, CblasNonUnit, m, n, (float)p->alpha, p->A,
                    (int)p->lda, p->B, (int)p->ldb);
    } else {
        cblas_dtrsm(CblasColMajor, side, CblasLower, t, CblasNonUnit, m, n, p->alpha, p->A,
                    (int)p->lda, p->B, (int)p->ldb);
    }
}

static int trsm(const void *handle, int fill, int diag, const struct solve *p)
{
    const size_t size = p->single ? sizeof(float) : sizeof(double);
    const int64_t order = p->side == SIDE_LEFT ? p->m : p->n;
    return push(handle, run_trsm, p, sizeof *p,
                fill == FILL_LOWER && diag == DIAG_NON_UNIT &&
                    matrix_fits(p->A, order, order, p->lda, size) &&
                    matrix_fits(p->B, p->m, p->n, p->ldb, size));
}

int cublasStrsm_v2_64(void *handle, int side, int fill, int t, int diag, int64_t m, int64_t n,
                      const float *alpha, const float *A, int64_t lda, float *B, int64_t ldb)
{
    return trsm(handle, fill, diag,
                &(struct solve){true, side, t, m, n, (double)*alpha, A, B, lda, ldb});
}

int cublasDtrsm_v2_64(void *handle, int side, int fill, int t, int diag, int64_t m, int64_t n,
                      const double *alpha, const double *A, int64_t lda, double *B, int64_t ldb)
{
    return trsm(handle, fill, diag, &(struct solve){false, side, t, m, n, *alpha, A, B, lda, ldb});
}

/* ---- factorizations ---- */

#define HOST_WORK 64 /* bytes of host memory that each asks for */

struct factor {
    bool single;
    int64_t n, lda;
    void *A, *W, *work;
    size_t work_bytes;
    int *info;
};

/* The workspace's bytes: what the library needs besides the matrix. */
static size_t work_bytes(int64_t n, int type)
{
    return (size_t)(2 * n + 32) * (type == TYPE_R_32F ? sizeof(float) : sizeof(double));
}

static int factor_size(int64_t n, int type, int compute_type, int64_t lda, const void *A,
                       size_t *ret_device, size_t *ret_host)
{
    const size_t size = type == TYPE_R_32F ? sizeof(float) : sizeof(double);
    if (type != compute_type || !matrix_fits(A, n, n, lda, size)) {
        return SOLVER_INVALID_VALUE;
    }
    *ret_device = work_bytes(n, type);
    *ret_host = HOST_WORK;
    return 0;
}

static int push_factor(void *handle, const struct factor *f, void (*run)(void *), size_t host_size,
                       void *host_work)
{
    const int device = sim_current_device();
    const size_t size = f->single ? sizeof(float) : sizeof(double);
    const bool valid = matrix_fits(f->A, f->n, f->n, f->lda, size) &&
                       f->work_bytes >= work_bytes(f->n, f->single ? TYPE_R_32F : TYPE_R_64F) &&
                       sim_memory_holds(device, f->work, f->work_bytes) &&
                       sim_memory_holds(device, f->info, sizeof *f->info) &&
                       host_size >= HOST_WORK &&
                       (f->W == NULL || sim_memory_holds(device, f->W, (size_t)f->n * size));
    if (valid) {
        memset(host_work, 0xFF, host_size);
    }
    return push(handle, run, f, sizeof *f, valid) == 0 ? 0 : SOLVER_INVALID_VALUE;
}

static void run_potrf(void *argument)
{
    const struct factor *f = argument;
    const int n = (int)f->n, lda = (int)f->lda;
    int info = 0;
    memset(f->work, 0xFF, f->work_bytes);
    if (f->single) {
        LAPACK_spotrf("L", &n, f->A, &lda, &info);
    } else {
        LAPACK_dpotrf("L", &n, f->A, &lda, &info);
    }
    *f->info = info;
}

int cusolverDnXpotrf_bufferSize(void *handle, void *params, int fill, int64_t n, int type,
                                const void *A, int64_t lda, int compute_type, size_t *ret_device,
                                size_t *ret_host)
{
    (void)handle;
    if (params == NULL || fill != FILL_LOWER) {
        return SOLVER_INVALID_VALUE;
    }
    return factor_size(n, type, compute_type, lda, A, ret_device, ret_host);
}

int cusolverDnXpotrf(void *handle, void *params, int fill, int64_t n, int type, void *A,
                     int64_t lda, int compute_type, void *device_work, size_t device_size,
                     void *host_work, size_t host_size, int *info)
{
    if (params == NULL || fill != FILL_LOWER || type != compute_type) {
        return SOLVER_INVALID_VALUE;
    }
    return push_factor(handle,
                       &(struct factor){.single = type == TYPE_R_32F,
                                        .n = n,
                                        .lda = lda,
                                        .A = A,
                                        .work = device_work,
                                        .work_bytes = device_size,
                                        .info = info},
                       run_potrf, host_size, host_work);
}

static void run_syevd(void *argument)
{
    const struct factor *f = argument;
    const int n = (int)f->n, lda = (int)f->lda;
    const int lwork = 1 + 6 * n + 2 * n * n, liwork = 3 + 5 * n;
    int info = 0;
    void *work = malloc((size_t)lwork * sizeof(double));
    int *iwork = malloc((size_t)liwork * sizeof *iwork);
    if (work == NULL || iwork == NULL) {
        sim_fault("no memory on the host");
    }
    memset(f->work, 0xFF, f->work_bytes);
    if (f->single) {
        LAPACK_ssyevd("V", "L", &n, f->A, &lda, f->W, work, &lwork, iwork, &liwork, &info);
    } else {
        LAPACK_dsyevd("V", "L", &n, f->A, &lda, f->W, work, &lwork, iwork, &liwork, &info);
    }
    free(work);
    free(iwork);
    *f->info = info;
}

int cusolverDnXsyevd_bufferSize(void *handle, void *params, int job, int fill, int64_t n, int type,
                                const void *A, int64_t lda, int values_type, const void *W,
                                int compute_type, size_t *ret_device, size_t *ret_host)
{
    (void)handle;
    (void)W;
    if (params == NULL || fill != FILL_LOWER || job != EIG_VECTORS || values_type != type ||
        sim_has_fault("eigh-size")) {
        return SOLVER_INVALID_VALUE;
    }
    return factor_size(n, type, compute_type, lda, A, ret_device, ret_host);
}

int cusolverDnXsyevd(void *handle, void *params, int job, int fill, int64_t n, int type, void *A,
                     int64_t lda, int values_type, void *W, int compute_type, void *device_work,
                     size_t device_size, void *host_work, size_t host_size, int *info)
{
    if (params == NULL || fill != FILL_LOWER || job != EIG_VECTORS || values_type != type ||
        type != compute_type || W == NULL) {
        return SOLVER_INVALID_VALUE;
    }
    if (sim_has_fault("eigh")) {
        return SOLVER_EXECUTION_FAILED;
    }
    return push_factor(handle,
                       &(struct factor){.single = type == TYPE_R_32F,
                                        .n = n,
                                        .lda = lda,
                                        .A = A,
                                        .W = W,
                                        .work = device_work,
                                        .work_bytes = device_size,
                                        .info = info},
                       run_syevd, host_size, host_work);
}
