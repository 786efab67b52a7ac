/*
 * Copies between the host and the device. A device reads the host's ordinary memory only by way of
 * memory that is pinned, and CUDA does not promise when it is done with the ordinary one ("might be
 * synchronous", API synchronization behavior). So all copies to the device, and long ones to the
 * host, go through pinned pieces of this backend's own: the host fills, or empties, one while the
 * device is at others.
 */
#include <cuda_runtime.h>
#include <string.h>

#include "gpu/cuda.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define LONG_BYTES ((size_t)256 << 10) /* to the host: below, what the driver has is as fast */

static int wait_for(void *event, struct err *err)
{
    return cuda__status(cudaEventSynchronize(event), "finish its work", err);
}

/* A machine without pinned memory to give copies without. */
static bool pinned_ready(struct cuda_backend *cu)
{
    struct cuda_pinned *p = &cu->pinned;
    for (int i = 0; i < CUDA_PINNED && !p->refused; i++) {
        if (p->events[i] == NULL) {
            cudaEvent_t event = NULL;
            p->refused = cudaMallocHost(&p->data[i], PIECE_BYTES) != cudaSuccess ||
                         cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess;
            p->events[i] = event;
        }
    }
    if (p->refused) {
        (void)cudaGetLastError();
    }
    return !p->refused;
}

void cuda__pinned_release(struct cuda_pinned *p)
{
    for (int i = 0; i < CUDA_PINNED; i++) {
        if (p->events[i] != NULL) {
            (void)cudaEventDestroy(p->events[i]);
        }
        if (p->data[i] != NULL) {
            (void)cudaFreeHost(p->data[i]);
        }
    }
    *p = (struct cuda_pinned){.next = 0};
}

static int copy(struct cuda_backend *cu, void *to, const void *from, size_t bytes,
                enum cudaMemcpyKind kind, struct err *err)
{
    return cuda__status(cudaMemcpyAsync(to, from, bytes, kind, cu->stream),
                        kind == cudaMemcpyHostToDevice ? "take numbers from the host"
                                                       : "give numbers to the host",
                        err);
}

/* What the event marks is the stream's work so far: the piece is free when it is done. */
static int mark(struct cuda_backend *cu, int piece, struct err *err)
{
    return cuda__status(cudaEventRecord(cu->pinned.events[piece], cu->stream), "mark its work",
                        err);
}

static size_t piece_at(size_t at, size_t bytes)
{
    return bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
}

/* The next piece in turn. */
static int take_piece(struct cuda_pinned *p)
{
    const int piece = p->next;
    p->next = (piece + 1) % CUDA_PINNED;
    return piece;
}

static int upload_pieces(struct cuda_backend *cu, char *to, const char *from, size_t bytes,
                         struct err *err)
{
    struct cuda_pinned *p = &cu->pinned;
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < bytes; at += PIECE_BYTES) {
        const int piece = take_piece(p);
        const size_t size = piece_at(at, bytes);
        rc = wait_for(p->events[piece], err);
        if (rc == 0) {
            memcpy(p->data[piece], from + at, size);
            rc = copy(cu, to + at, p->data[piece], size, cudaMemcpyHostToDevice, err);
        }
        rc = rc == 0 ? mark(cu, piece, err) : rc;
    }
    return rc;
}

int cuda__upload(struct cuda_backend *cu, void *to, const void *from, size_t bytes, struct err *err)
{
    if (pinned_ready(cu)) {
        return upload_pieces(cu, to, from, bytes, err);
    }
    const int rc = copy(cu, to, from, bytes, cudaMemcpyHostToDevice, err);
    return rc < 0 ? rc : cuda__wait(cu, err);
}

/* The device writes one piece while the host reads the one before. */
static int long_download(struct cuda_backend *cu, char *to, const char *from, size_t bytes,
                         struct err *err)
{
    struct cuda_pinned *p = &cu->pinned;
    int rc = 0, last = 0;
    for (size_t at = 0; rc == 0 && at < bytes + PIECE_BYTES; at += PIECE_BYTES) {
        const int piece = take_piece(p);
        if (at < bytes) {
            rc = copy(cu, p->data[piece], from + at, piece_at(at, bytes), cudaMemcpyDeviceToHost,
                      err);
            rc = rc == 0 ? mark(cu, piece, err) : rc;
        }
        if (rc == 0 && at > 0) {
            const size_t before = at - PIECE_BYTES;
            rc = wait_for(p->events[last], err);
            if (rc == 0) {
                memcpy(to + before, p->data[last], piece_at(before, bytes));
            }
        }
        last = piece;
    }
    return rc;
}

int cuda__download(struct cuda_backend *cu, void *to, const void *from, size_t bytes,
                   struct err *err)
{
    if (bytes >= LONG_BYTES && pinned_ready(cu)) {
        return long_download(cu, to, from, bytes, err);
    }
    const int rc = copy(cu, to, from, bytes, cudaMemcpyDeviceToHost, err);
    return rc < 0 ? rc : cuda__wait(cu, err);
}
