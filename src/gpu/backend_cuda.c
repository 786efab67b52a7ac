#include "gpu/backend_cuda.h"

#include "base/mem.h"
#include "gpu/cuda.h"

#define THREADS_MAX 1024

static void cuda_close(struct backend *be)
{
    struct cuda_backend *cu = cuda_of(be);
    if (cu->stream != NULL) { /* the libraries give back what is the current device's */
        (void)cuda__begin(be, true, "close", NULL);
    }
    dense_library_close(&cu->dense);
    cuda__device_close(cu);
    mem_free(cu);
}

static const struct backend_ops cuda_ops;

static int open_libraries(struct cuda_backend *cu, struct err *err)
{
    struct err said = {.code = ERR_OK};
    const int rc = dense_library_open(&cu->dense, cu->stream, &said);
    return rc < 0 ? cuda__blame_memory(&said, err) : rc;
}

static int cuda_open(int ordinal, int threads, struct backend **ret, struct err *err)
{
    if (threads < 0 || threads > THREADS_MAX) {
        return err_at(err, ERR_INVALID, "#/threads", "The number of threads is 0 to %d.",
                      THREADS_MAX);
    }
    struct cuda_backend *cu = mem_zalloc(sizeof *cu);
    if (cu == NULL) {
        return err_no_memory(err);
    }
    cu->base.ops = &cuda_ops;
    cu->base.threads = 1; /* the host only starts kernels and copies */
    int rc = cuda__device_open(cu, ordinal, err);
    if (rc == 0) {
        rc = open_libraries(cu, err);
    }
    if (rc == 0) {
        rc = cuda__try_ways(cu, err);
    }
    if (rc < 0) {
        cuda_close(&cu->base);
        return rc;
    }
    cu->base.arithmetic = cu->group ? 2 : cu->tensor ? 1 : 0;
    *ret = &cu->base;
    return 0;
}

/* Devices are of no use without the libraries. */
static int cuda_find(uint64_t *ret, struct err *err)
{
    const int rc = cuda__device_find(ret, err);
    return rc < 0 ? rc : dense_library_find(err);
}

const struct backend_provider backend_cuda_provider = {
    .name = "cuda",
    .open = cuda_open,
    .find = cuda_find,
};

static const struct backend_ops cuda_ops = {
    .name = "cuda",
    .close = cuda_close,
    .mat_new = cuda__mat_new,
    .mat_free = cuda__mat_free,
    .mat_put = cuda__mat_put,
    .mat_get = cuda__mat_get,
    .copy = cuda__copy,
    .col_dots = cuda__col_dots,
    .col_axpby = cuda__col_axpby,
    .gather_rows = cuda__gather_rows,
    .add_rows = cuda__add_rows,
    .deflate_diag = cuda__deflate_diag,
    .add_diag = cuda__add_diag,
    .scale_rows = cuda__scale_rows,
    .clear_upper = cuda__clear_upper,
    .gemm = cuda__gemm,
    .syrk = cuda__syrk,
    .trsm = cuda__trsm,
    .potrf = cuda__potrf,
    .eigh = cuda__eigh,
    .points_new = cuda__points_new,
    .points_free = cuda__points_free,
    .kmv = cuda__kmv,
    .kmv_share = cuda__kmv_share,
    .kblock = cuda__kblock,
    .kdiag = cuda__kdiag,
    .points_cache = cuda__points_cache,
    .points_cache_share = cuda__points_cache_share,
    .kmtkv = cuda__kmtkv,
    .ksketch = cuda__ksketch,
    .memory_available = cuda__memory_available,
};
