#include "gpu/dense_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BLAS_ALLOC_FAILED 3
#define SOLVER_ALLOC_FAILED 2
#define WHY_SIZE 256

struct symbol {
    const char *name;
    size_t offset; /* of the pointer in struct dense_library */
};

static const char *const cublas_files[] = {
    "libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13", "libcublas.so.12",
    "/usr/local/cuda/lib64/libcublas.so.12", NULL};
static const char *const cusolver_files[] = {
    "libcusolver.so.12", "/usr/local/cuda/lib64/libcusolver.so.12", "libcusolver.so.11",
    "/usr/local/cuda/lib64/libcusolver.so.11", NULL};

#define SYMBOL(member, symbol)                                                                     \
    {                                                                                              \
        symbol, offsetof(struct dense_library, member)                                             \
    }

static const struct symbol cublas_symbols[] = {
    SYMBOL(blas_create, "cublasCreate_v2"),
    SYMBOL(blas_destroy, "cublasDestroy_v2"),
    SYMBOL(blas_set_stream, "cublasSetStream_v2"),
    SYMBOL(blas_status_string, "cublasGetStatusString"),
    SYMBOL(sgemm, "cublasSgemm_v2_64"),
    SYMBOL(dgemm, "cublasDgemm_v2_64"),
    SYMBOL(ssyrk, "cublasSsyrk_v2_64"),
    SYMBOL(dsyrk, "cublasDsyrk_v2_64"),
    SYMBOL(strsm, "cublasStrsm_v2_64"),
    SYMBOL(dtrsm, "cublasDtrsm_v2_64"),
    {NULL, 0},
};

static const struct symbol cusolver_symbols[] = {
    SYMBOL(solver_create, "cusolverDnCreate"),
    SYMBOL(solver_destroy, "cusolverDnDestroy"),
    SYMBOL(solver_set_stream, "cusolverDnSetStream"),
    SYMBOL(params_create, "cusolverDnCreateParams"),
    SYMBOL(params_destroy, "cusolverDnDestroyParams"),
    SYMBOL(potrf_size, "cusolverDnXpotrf_bufferSize"),
    SYMBOL(potrf, "cusolverDnXpotrf"),
    SYMBOL(syevd_size, "cusolverDnXsyevd_bufferSize"),
    SYMBOL(syevd, "cusolverDnXsyevd"),
    {NULL, 0},
};

/* Whether the loader says of a file that it is not there, not that something else is missing. */
static bool is_absent(const char *file, const char *said)
{
    const size_t length = strlen(file);
    return strncmp(said, file, length) == 0 && said[length] == ':';
}

/* The first of the files that the loader finds stays loaded until the process ends: loading takes
 * longer than most jobs, and the libraries keep state of their own. Where none can be loaded, `why`
 * is what the loader says of the first one that is there, or of the first. */
static void *load(const char *const *files, char why[WHY_SIZE])
{
    bool absent = true;
    why[0] = '\0';
    for (; *files != NULL; files++) {
        void *file = dlopen(*files, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (file != NULL) {
            return file;
        }
        const char *said = dlerror();
        if (said != NULL && (why[0] == '\0' || (absent && !is_absent(*files, said)))) {
            absent = is_absent(*files, said);
            snprintf(why, WHY_SIZE, "%s", said);
        }
    }
    return NULL;
}

static int load_and_resolve(struct dense_library *lib, const char *library,
                            const char *const *files, const struct symbol *symbols, void **ret,
                            struct err *err)
{
    char why[WHY_SIZE];
    void *const file = *ret = load(files, why);
    if (file == NULL) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "The library %s, which dense algebra on a GPU needs, is not installed or not "
                      "on the loader's path (%s).",
                      library, why);
    }
    for (; symbols->name != NULL; symbols++) {
        void *address = dlsym(file, symbols->name);
        if (address == NULL) {
            return err_at(err, ERR_UNSUPPORTED, "#/device",
                          "The installed %s is too old: it has no function %s.", library,
                          symbols->name);
        }
        memcpy((char *)lib + symbols->offset, &address, sizeof address);
    }
    return 0;
}

static int make_handles(struct dense_library *lib, void *stream, struct err *err)
{
    int rc = dense_library_blas(lib, lib->blas_create(&lib->blas), err);
    if (rc < 0 ||
        (rc = dense_library_blas(lib, lib->blas_set_stream(lib->blas, stream), err)) < 0 ||
        (rc = dense_library_solver(lib->solver_create(&lib->solver), err)) < 0 ||
        (rc = dense_library_solver(lib->solver_set_stream(lib->solver, stream), err)) < 0) {
        return rc;
    }
    return dense_library_solver(lib->params_create(&lib->params), err);
}

static int load_both(struct dense_library *lib, struct err *err)
{
    /* cuSOLVER needs cuBLAS itself, and takes the one that is already loaded. */
    const int rc =
        load_and_resolve(lib, "cuBLAS", cublas_files, cublas_symbols, &lib->cublas_file, err);
    return rc < 0 ? rc
                  : load_and_resolve(lib, "cuSOLVER", cusolver_files, cusolver_symbols,
                                     &lib->cusolver_file, err);
}

int dense_library_open(struct dense_library *lib, void *stream, struct err *err)
{
    const int rc = load_both(lib, err);
    return rc < 0 ? rc : make_handles(lib, stream, err);
}

int dense_library_find(struct err *err)
{
    struct dense_library lib = {0};
    const int rc = load_both(&lib, err);
    dense_library_close(&lib);
    return rc;
}

void dense_library_close(struct dense_library *lib)
{
    if (lib->params != NULL) {
        (void)lib->params_destroy(lib->params);
    }
    if (lib->solver != NULL) {
        (void)lib->solver_destroy(lib->solver);
    }
    if (lib->blas != NULL) {
        (void)lib->blas_destroy(lib->blas);
    }
    if (lib->cusolver_file != NULL) {
        dlclose(lib->cusolver_file);
    }
    if (lib->cublas_file != NULL) {
        dlclose(lib->cublas_file);
    }
    *lib = (struct dense_library){0};
}

int dense_library_blas(const struct dense_library *lib, int status, struct err *err)
{
    if (status == 0) {
        return 0;
    }
    return err_set(err, status == BLAS_ALLOC_FAILED ? ERR_NO_MEMORY : ERR_DEVICE,
                   "cuBLAS failed on the GPU: %s.", lib->blas_status_string(status));
}

int dense_library_solver(int status, struct err *err)
{
    if (status == 0) {
        return 0;
    }
    return err_set(err, status == SOLVER_ALLOC_FAILED ? ERR_NO_MEMORY : ERR_DEVICE,
                   "cuSOLVER failed on the GPU with status %d.", status);
}
