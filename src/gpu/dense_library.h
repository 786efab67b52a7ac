/*
 * cuBLAS and cuSOLVER, found at run time: a program with this backend builds without them, starts
 * without them, and can say that they are missing. Only the functions used are declared here, as
 * CUDA 12 and 13 document them, with enumerations as int (their C type has int's size).
 *
 * All matrices are column-major in device memory; scalars are on the host. Every call returns the
 * library's status, which dense_library_blas and dense_library_solver turn into an error.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* cublasOperation_t, cublasSideMode_t, cublasFillMode_t, cublasDiagType_t,
 * cusolverEigMode_t, cudaDataType. */
enum { OP_N = 0, OP_T = 1 };
enum { SIDE_LEFT = 0, SIDE_RIGHT = 1 };
enum { FILL_LOWER = 0 };
enum { DIAG_NON_UNIT = 0 };
enum { EIG_VECTORS = 1 };
enum { TYPE_R_32F = 0, TYPE_R_64F = 1 };

struct dense_library {
    void *cublas_file, *cusolver_file; /* from dlopen */
    void *blas, *solver, *params;      /* cublasHandle_t, cusolverDnHandle_t, cusolverDnParams_t */

    int (*blas_create)(void **handle);
    int (*blas_destroy)(void *handle);
    int (*blas_set_stream)(void *handle, void *stream);
    const char *(*blas_status_string)(int status);
    int (*sgemm)(void *handle, int ta, int tb, int64_t m, int64_t n, int64_t k, const float *alpha,
                 const float *A, int64_t lda, const float *B, int64_t ldb, const float *beta,
                 float *C, int64_t ldc);
    int (*dgemm)(void *handle, int ta, int tb, int64_t m, int64_t n, int64_t k, const double *alpha,
                 const double *A, int64_t lda, const double *B, int64_t ldb, const double *beta,
                 double *C, int64_t ldc);
    int (*ssyrk)(void *handle, int fill, int t, int64_t n, int64_t k, const float *alpha,
                 const float *A, int64_t lda, const float *beta, float *C, int64_t ldc);
    int (*dsyrk)(void *handle, int fill, int t, int64_t n, int64_t k, const double *alpha,
                 const double *A, int64_t lda, const double *beta, double *C, int64_t ldc);
    int (*strsm)(void *handle, int side, int fill, int t, int diag, int64_t m, int64_t n,
                 const float *alpha, const float *A, int64_t lda, float *B, int64_t ldb);
    int (*dtrsm)(void *handle, int side, int fill, int t, int diag, int64_t m, int64_t n,
                 const double *alpha, const double *A, int64_t lda, double *B, int64_t ldb);

    int (*solver_create)(void **handle);
    int (*solver_destroy)(void *handle);
    int (*solver_set_stream)(void *handle, void *stream);
    int (*params_create)(void **params);
    int (*params_destroy)(void *params);
    int (*potrf_size)(void *handle, void *params, int fill, int64_t n, int type, const void *A,
                      int64_t lda, int compute_type, size_t *ret_device, size_t *ret_host);
    int (*potrf)(void *handle, void *params, int fill, int64_t n, int type, void *A, int64_t lda,
                 int compute_type, void *device_work, size_t device_size, void *host_work,
                 size_t host_size, int *info);
    int (*syevd_size)(void *handle, void *params, int job, int fill, int64_t n, int type,
                      const void *A, int64_t lda, int values_type, const void *W, int compute_type,
                      size_t *ret_device, size_t *ret_host);
    int (*syevd)(void *handle, void *params, int job, int fill, int64_t n, int type, void *A,
                 int64_t lda, int values_type, void *W, int compute_type, void *device_work,
                 size_t device_size, void *host_work, size_t host_size, int *info);
};

/* Loads both libraries and makes their handles on the stream. -ERR_UNSUPPORTED at "#/device" names
 * the library that is missing. -ERR_DEVICE may be for want of memory: handles have some of the
 * device's, and a library that does not get it may say instead that it is not initialised or that
 * an operation of its own failed. On failure *lib may be half-built: close it. */
int dense_library_open(struct dense_library *lib, void *stream, struct err *err);
/* Whether both libraries can be loaded, with the same error; no device is used. */
int dense_library_find(struct err *err);
void dense_library_close(struct dense_library *lib);

/* 0 for success, else -ERR_NO_MEMORY or -ERR_DEVICE. */
int dense_library_blas(const struct dense_library *lib, int status, struct err *err);
int dense_library_solver(int status, struct err *err);
