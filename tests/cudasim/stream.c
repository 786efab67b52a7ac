/*
 * Streams: queues of work that run, in order, when the host waits for them. Numbers that go to the
 * host arrive then; the memory they will arrive in is NaN before. Numbers that come from the host's
 * (pageable) memory are read when the copy is asked for, as CUDA promises.
 */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "cudasim/sim.h"

struct work {
    struct work *next;
    void (*run)(void *argument);
    max_align_t argument[];
};

struct CUstream_st {
    struct CUstream_st *next; /* of all streams */
    int device;
    struct work *first, **end;
};

static struct CUstream_st *streams;

static struct CUstream_st *find(const void *stream)
{
    struct CUstream_st *s = streams;
    while (s != NULL && s != stream) {
        s = s->next;
    }
    return s;
}

static void finish(struct CUstream_st *s)
{
    if (s->first == NULL) {
        return;
    }
    sim_memory_enter(s->device);
    for (struct work *w = s->first; w != NULL; w = s->first) {
        s->first = w->next;
        w->run(w->argument);
        free(w);
    }
    s->end = &s->first;
    sim_memory_leave();
}

void sim_streams_finish(int device)
{
    for (struct CUstream_st *s = streams; s != NULL; s = s->next) {
        if (s->device == device) {
            finish(s);
        }
    }
}

int sim_stream_push(void *stream, void (*run)(void *argument), const void *argument, size_t bytes)
{
    struct CUstream_st *s = find(stream);
    if (s == NULL || s->device != sim_current_device()) {
        return sim_error(cudaErrorInvalidResourceHandle);
    }
    struct work *w = malloc(sizeof *w + bytes);
    if (w == NULL) {
        sim_fault("no memory on the host");
    }
    w->next = NULL;
    w->run = run;
    memcpy(w->argument, argument, bytes);
    *s->end = w;
    s->end = &w->next;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned flags)
{
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (flags > cudaStreamNonBlocking || s == NULL) {
        free(s);
        return sim_error(cudaErrorInvalidValue);
    }
    s->device = sim_current_device();
    s->end = &s->first;
    s->next = streams;
    streams = s;
    *ret = s;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    struct CUstream_st **at = &streams;
    while (*at != NULL && *at != stream) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        return sim_error(cudaErrorInvalidResourceHandle);
    }
    finish(stream);
    *at = stream->next;
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    struct CUstream_st *s = find(stream);
    if (s == NULL) {
        return sim_error(cudaErrorInvalidResourceHandle);
    }
    finish(s);
    return cudaSuccess;
}

/* ---- copies ---- */

struct copy {
    void *to;
    const void *from;
    void *held; /* bytes from the host, owned */
    size_t bytes;
};

static void run_copy(void *argument)
{
    struct copy *copy = argument;
    memmove(copy->to, copy->held != NULL ? copy->held : copy->from, copy->bytes);
    free(copy->held);
}

/* What is said to be the host's is not the device's, and what is the device's was given out. */
static bool ends_fit(const void *data, size_t bytes, bool on_device)
{
    return on_device ? sim_memory_holds(sim_current_device(), data, bytes)
                     : !sim_memory_is_device(data);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    struct copy copy = {.to = to, .from = from, .bytes = bytes};
    if (!ends_fit(to, bytes, kind != cudaMemcpyDeviceToHost) ||
        !ends_fit(from, bytes, kind != cudaMemcpyHostToDevice)) {
        return sim_error(cudaErrorInvalidValue);
    }
    if (kind == cudaMemcpyHostToDevice) {
        copy.held = malloc(bytes > 0 ? bytes : 1);
        if (copy.held == NULL) {
            sim_fault("no memory on the host");
        }
        memcpy(copy.held, from, bytes);
    } else if (kind == cudaMemcpyDeviceToHost) {
        memset(to, 0xFF, bytes);
    }
    return sim_stream_push(stream, run_copy, &copy, sizeof copy);
}

struct fill {
    void *data;
    int value;
    size_t bytes;
};

static void run_fill(void *argument)
{
    const struct fill *fill = argument;
    memset(fill->data, fill->value, fill->bytes);
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream)
{
    const struct fill fill = {.data = data, .value = value, .bytes = bytes};
    if (!ends_fit(data, bytes, true)) {
        return sim_error(cudaErrorInvalidValue);
    }
    return sim_stream_push(stream, run_fill, &fill, sizeof fill);
}
