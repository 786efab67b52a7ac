/*
 * Streams: queues of work that run, in order, when the host waits for them. Numbers that go to the
 * host arrive then; the memory they will arrive in is NaN before. Numbers that come from the host
 * are read when the copy runs, of pageable memory too: CUDA says only that it might read them
 * before.
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
    size_t asked, done; /* pieces of work */
};

static struct CUstream_st *streams;

struct CUevent_st {
    cudaStream_t stream; /* NULL: never recorded */
    size_t asked;        /* of the stream, when it was */
};

/* Pinned memory, in no order. */
struct pinned {
    struct pinned *next;
    char *data;
    size_t bytes;
};

static struct pinned *pinned;

static struct CUstream_st *find(const void *stream)
{
    struct CUstream_st *s = streams;
    while (s != NULL && s != stream) {
        s = s->next;
    }
    return s;
}

/* Its first `most` pieces of work, counted from its beginning. */
static void finish(struct CUstream_st *s, size_t most)
{
    if (s->done >= most || s->first == NULL) {
        return;
    }
    sim_memory_enter(s->device);
    for (struct work *w = s->first; w != NULL && s->done < most; w = s->first) {
        s->first = w->next;
        if (!sim_is_broken(s->device)) {
            w->run(w->argument);
        }
        s->done++;
        free(w);
    }
    s->end = s->first == NULL ? &s->first : s->end;
    sim_memory_leave();
}

void sim_streams_finish(int device)
{
    for (struct CUstream_st *s = streams; s != NULL; s = s->next) {
        if (s->device == device) {
            finish(s, SIZE_MAX);
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
    s->asked++;
    return sim_error(cudaSuccess);
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
    finish(stream, SIZE_MAX);
    *at = stream->next;
    free(stream);
    return sim_error(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    struct CUstream_st *s = find(stream);
    if (s == NULL) {
        return sim_error(cudaErrorInvalidResourceHandle);
    }
    finish(s, SIZE_MAX);
    return sim_error(cudaSuccess);
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
    *ret = calloc(1, sizeof **ret);
    return *ret != NULL && flags <= cudaEventDisableTiming ? cudaSuccess
                                                           : sim_error(cudaErrorInvalidValue);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    const struct CUstream_st *s = find(stream);
    if (s == NULL) {
        return sim_error(cudaErrorInvalidResourceHandle);
    }
    *event = (struct CUevent_st){.stream = stream, .asked = s->asked};
    return sim_error(cudaSuccess);
}

/* Work behind the event is not done: what did not wait for it would be seen. */
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    struct CUstream_st *s = find(event->stream);
    if (s != NULL) {
        finish(s, event->asked);
    }
    return sim_error(cudaSuccess);
}

/* ---- copies ---- */

static bool is_pinned(const void *data, size_t bytes)
{
    const char *at = data;
    const struct pinned *p = pinned;
    while (p != NULL && (at < p->data || at + bytes > p->data + p->bytes)) {
        p = p->next;
    }
    return p != NULL;
}

cudaError_t cudaMallocHost(void **ret, size_t bytes)
{
    struct pinned *p = malloc(sizeof *p);
    void *data = malloc(bytes > 0 ? bytes : 1);
    if (p == NULL || data == NULL) {
        free(p);
        free(data);
        return sim_error(cudaErrorMemoryAllocation);
    }
    memset(data, 0xFF, bytes);
    *p = (struct pinned){.next = pinned, .data = data, .bytes = bytes};
    pinned = p;
    *ret = data;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *data)
{
    struct pinned **at = &pinned;
    while (*at != NULL && (*at)->data != data) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        return sim_error(cudaErrorInvalidValue);
    }
    sim_streams_finish(sim_current_device()); /* as the runtime does */
    struct pinned *p = *at;
    *at = p->next;
    free(p->data);
    free(p);
    return cudaSuccess;
}

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

static void run_copy(void *argument)
{
    const struct copy *copy = argument;
    memmove(copy->to, copy->from, copy->bytes);
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
    const struct copy copy = {.to = to, .from = from, .bytes = bytes};
    if (!ends_fit(to, bytes, kind != cudaMemcpyDeviceToHost) ||
        !ends_fit(from, bytes, kind != cudaMemcpyHostToDevice)) {
        return sim_error(cudaErrorInvalidValue);
    }
    if (kind == cudaMemcpyDeviceToHost && !is_pinned(to, bytes)) {
        memset(to, 0xFF, bytes); /* a copy from pinned memory may still have to read it */
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
