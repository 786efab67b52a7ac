/*
 * The CUDA runtime as the backend's C files use it; this file and cuda_copies.c alone see its
 * header.
 */
#include <cuda_runtime.h>

#include "gpu/cuda.h"

#define CAPABILITY_MAJOR 7
#define CAPABILITY_MINOR 5
#define TENSOR_CAPABILITY 80
#define GROUP_CAPABILITY 90 /* no earlier one has wgmma, and no later one */

int cuda__status(int status, const char *doing, struct err *err)
{
    if (status == cudaSuccess) {
        return 0;
    }
    /* The runtime keeps an error until it is asked for, and the next launch would report it. */
    (void)cudaGetLastError();
    return err_set(err, status == cudaErrorMemoryAllocation ? ERR_NO_MEMORY : ERR_DEVICE,
                   "The GPU could not %s: %s.", doing, cudaGetErrorString((cudaError_t)status));
}

void cuda__account(struct backend *be, int64_t bytes)
{
    be->bytes += bytes;
    if (be->bytes > be->peak_bytes) {
        be->peak_bytes = be->bytes;
    }
}

int cuda__begin(struct backend *be, bool fits, const char *what, struct err *err)
{
    if (!fits) {
        return err_set(err, ERR_INTERNAL,
                       "A matrix operation (%s) got shapes or types that do not fit together.",
                       what);
    }
    return cuda__status(cudaSetDevice(cuda_of(be)->ordinal), "be selected", err);
}

/* ---- probe ---- */

/* What to tell a user whose machine shows no device at all. */
static int no_device(int status, struct err *err)
{
    int driver = 0, runtime = 0;
    (void)cudaGetLastError();
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "There is no NVIDIA driver on this machine: libcuda.so.1 was not found.");
    }
    if (status == cudaErrorInsufficientDriver) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "The NVIDIA driver is for CUDA %d.%d, and this program needs %d.%d or later.",
                      driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
    if (status == cudaSuccess || status == cudaErrorNoDevice) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "The NVIDIA driver shows no device to this program.");
    }
    return err_at(err, ERR_UNSUPPORTED, "#/device", "The NVIDIA driver does not start: %s.",
                  cudaGetErrorString((cudaError_t)status));
}

static int check_capability(int ordinal, int *ret_capability, struct err *err)
{
    struct cudaDeviceProp properties;
    const int rc =
        cuda__status(cudaGetDeviceProperties(&properties, ordinal), "name its properties", err);
    if (rc < 0) {
        return rc;
    }
    if (properties.major < CAPABILITY_MAJOR ||
        (properties.major == CAPABILITY_MAJOR && properties.minor < CAPABILITY_MINOR)) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "The device cuda:%d, %s, has compute capability %d.%d; %d.%d is the least "
                      "that is supported.",
                      ordinal, properties.name, properties.major, properties.minor,
                      CAPABILITY_MAJOR, CAPABILITY_MINOR);
    }
    *ret_capability = 10 * properties.major + properties.minor;
    return 0;
}

static int probe(int ordinal, int *ret_capability, struct err *err)
{
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
        return no_device((int)status, err);
    }
    if (ordinal < 0 || ordinal >= count) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "There is no device cuda:%d: this program sees %d, counted from cuda:0.",
                      ordinal, count);
    }
    return check_capability(ordinal, ret_capability, err);
}

int cuda__device_find(uint64_t *ret, struct err *err)
{
    int count = 0, capability = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    uint64_t found = 0;
    if (status != cudaSuccess || count == 0) {
        return no_device((int)status, err);
    }
    for (int i = 0; i < count && i < 64; i++) {
        if (check_capability(i, &capability, err) == 0) {
            found |= UINT64_C(1) << i;
        }
    }
    *ret = found;
    return found != 0 ? 0 : -(int)err->code;
}

int cuda__device_open(struct cuda_backend *cu, int ordinal, struct err *err)
{
    int capability = 0;
    int rc = probe(ordinal, &capability, err);
    if (rc < 0) {
        return rc;
    }
    cu->ordinal = ordinal;
    cu->tensor = capability >= TENSOR_CAPABILITY;
    cu->tensor_f64 = capability == 80 || capability == 90 || capability == 100;
    cu->group = capability == GROUP_CAPABILITY;
    rc = cuda__begin(&cu->base, true, "open", err);
    cudaStream_t stream = NULL;
    if (rc == 0) {
        rc = cuda__status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                          "make a stream", err);
    }
    cu->stream = stream;
    return rc;
}

static void buffer_release(struct cuda_buffer *buffer)
{
    cuda__release(buffer->data);
    *buffer = (struct cuda_buffer){0};
}

void cuda__device_close(struct cuda_backend *cu)
{
    cuda__pinned_release(&cu->pinned);
    buffer_release(&cu->work);
    buffer_release(&cu->stage);
    for (int side = 0; side < 2; side++) {
        buffer_release(&cu->lists[side]);
        buffer_release(&cu->panels[side]);
        buffer_release(&cu->parts[side]);
    }
    if (cu->stream != NULL) {
        (void)cudaStreamDestroy(cu->stream);
        cu->stream = NULL;
    }
}

/* ---- memory ---- */

int cuda__alloc(size_t bytes, void **ret, struct err *err)
{
    void *data = NULL;
    const cudaError_t status = cudaMalloc(&data, bytes > 0 ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
        size_t available = 0, total = 0;
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&available, &total);
        return err_set(err, ERR_NO_MEMORY,
                       "The GPU has %.2f GB of memory free, and %.2f GB more were needed.",
                       (double)available / 1e9, (double)bytes / 1e9);
    }
    const int rc = cuda__status((int)status, "give memory", err);
    if (rc == 0) {
        *ret = data;
    }
    return rc;
}

void cuda__release(void *data)
{
    if (data != NULL) { /* cudaFree(NULL) would start the first device, whichever this one is */
        (void)cudaFree(data);
    }
}

int cuda__reserve(struct cuda_buffer *buffer, size_t bytes, struct err *err)
{
    if (bytes <= buffer->bytes) {
        return 0;
    }
    buffer_release(buffer); /* first: the old and the new one need not fit together */
    const int rc = cuda__alloc(bytes, &buffer->data, err);
    if (rc == 0) {
        buffer->bytes = bytes;
    }
    return rc;
}

void cuda__trim(struct cuda_buffer *buffer)
{
    if (buffer->bytes > CUDA_KEPT_BYTES) {
        buffer_release(buffer);
    }
}

int cuda__zero(struct cuda_backend *cu, void *data, size_t bytes, struct err *err)
{
    return cuda__status(cudaMemsetAsync(data, 0, bytes, cu->stream), "clear memory", err);
}

int cuda__wait(struct cuda_backend *cu, struct err *err)
{
    return cuda__status(cudaStreamSynchronize((cudaStream_t)cu->stream), "finish its work", err);
}

int cuda__ask(struct cuda_backend *cu, int64_t rows, int64_t members, struct err *err)
{
    const struct backend *be = &cu->base;
    if (!backend_asks(be, rows, members)) {
        return 0;
    }
    const int rc = cuda__wait(cu, err);
    return rc < 0 ? rc : be->stop(be->stop_context, err);
}

int cuda__blame_memory(const struct err *said, struct err *err)
{
    size_t available = 0, total = 0;
    if (said->code == ERR_DEVICE &&
        cuda__status(cudaMemGetInfo(&available, &total), "tell its free memory", NULL) == 0 &&
        available < (size_t)CUDA_RESERVE_BYTES) {
        return err_set(err, ERR_NO_MEMORY,
                       "The GPU has %.3f GB of memory free, and cuBLAS, cuSOLVER and what this "
                       "program keeps beside them need up to %.3f GB. (%.200s)",
                       (double)available / 1e9, (double)CUDA_RESERVE_BYTES / 1e9, said->detail);
    }
    return err_at(err, said->code, said->pointer, "%s", said->detail);
}

int64_t cuda__memory_available(struct backend *be)
{
    size_t available = 0, total = 0;
    if (cuda__begin(be, true, "memory", NULL) < 0 ||
        cuda__status(cudaMemGetInfo(&available, &total), "tell its free memory", NULL) < 0) {
        return 0;
    }
    const int64_t room = (int64_t)available - CUDA_RESERVE_BYTES;
    return room > 0 ? room : 0;
}
