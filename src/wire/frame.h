/*
 * Frames on the socketpair between the daemon and a worker: a 24-byte little-endian header
 * {magic u32, type u32, request u64, json bytes u32, payload bytes u32}, a JSON object (may be
 * absent: 0 bytes), then raw payload. A decoder never trusts the peer: sizes are limited, an
 * unknown magic or type ends the conversation with ERR_CORRUPT, and memory grows with the bytes
 * that really arrive, not with the sizes that a header claims.
 *
 * daemon -> worker
 *   TRAIN       an order (order.h)
 *   START       {"job"} and the next bytes of the file of the model that the job begins with; all
 * of them before the job's TRAIN CANCEL      {"job"} PAUSE       {"job"}: keep a checkpoint and end
 * with reason "paused" LOAD        {"model","bytes"}: a model's file follows in CHUNK_DATA frames
 *   CHUNK_DATA  {"model"} and its next bytes
 *   UNLOAD      {"model"}
 *   PREDICT     {"model","rows"} and float64 [rows, d] row-major; "variance": true where they are
 *               wanted too; "first_row": of a larger question, from which on
 *   QUIT        end after the present job
 *   PING
 * worker -> daemon
 *   HELLO       {"program","version","device","threads","base_bytes","device_bytes"|null,
 *                "rates"|null} (plan/machine.h)
 *   EVENT       {"job","type","level","message","data"}
 *   MODEL       {"job"} and the next bytes of the model's file
 *   DONE        {"job","reason","result"|null,"error"|null,"model"|null,"bytes","sha256",
 *                "process_bytes","rates"|null} (plan/machine.h)
 *   LOADED      {"model","bytes"}, the memory that it takes, or {"model","error"}
 *   PREDICTION  {"rows","outputs","scores","variances","seconds","bytes"} and float64
 *               [rows, outputs], then [rows, scores], then [rows, variances], or {"error"}; request
 *               echoed
 *   PONG        request echoed
 *   FAULT       {"detail"}: the device broke; the worker ends, without an answer to what it was at
 *   BEAT        the worker lives: between HELLO and its end, at an interval that the daemon names
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define FRAME_HEADER_SIZE 24
#define FRAME_JSON_MAX (16u << 20)
#define FRAME_PAYLOAD_MAX (64u << 20)
#define FRAME_CHUNK (4u << 20) /* size of MODEL and CHUNK payloads */

enum frame_type {
    FRAME_TRAIN = 1,
    FRAME_CANCEL,
    FRAME_PAUSE,
    FRAME_START,
    FRAME_LOAD,
    FRAME_CHUNK_DATA,
    FRAME_UNLOAD,
    FRAME_PREDICT,
    FRAME_QUIT,
    FRAME_PING,
    FRAME_HELLO,
    FRAME_EVENT,
    FRAME_MODEL,
    FRAME_DONE,
    FRAME_LOADED,
    FRAME_PREDICTION,
    FRAME_PONG,
    FRAME_BEAT,
    FRAME_FAULT,
    FRAME_TYPE_COUNT_
};

struct frame {
    enum frame_type type;
    uint64_t request;
    struct json *json; /* owned; NULL when absent */
    void *payload;     /* owned; 8-byte aligned; NULL when absent */
    size_t payload_size;
};
void frame_deinit(struct frame *f);

/* Appends header and JSON text of a frame to *ret; the payload is written after it by the caller.
 * json is an object or NULL. -ERR_TOO_LARGE beyond the limits above. */
int frame_head(enum frame_type type, uint64_t request, const struct json *json, size_t payload_size,
               struct buf *ret, struct err *err);

/*
 * An incremental decoder: feed bytes as they arrive, and after each feed take frames until there is
 * none left. Invariant: once the stream is corrupt, every later call says so.
 */
struct frame_reader;
struct frame_reader *frame_reader_new(void); /* NULL on lack of memory */
struct frame_reader *frame_reader_free(struct frame_reader *r);
/* -ERR_TOO_LARGE when more than the largest frame is waiting to be taken. */
int frame_reader_feed(struct frame_reader *r, const void *data, size_t len, struct err *err);
/* 1: *ret is a frame (caller deinits); 0: more bytes are needed; < 0: the stream is corrupt. */
int frame_reader_next(struct frame_reader *r, struct frame *ret, struct err *err);

/*
 * Blocking conveniences for the worker's side, for sockets and pipes. A peer that is gone is
 * -ERR_IO, never SIGPIPE on a socket; who writes to a pipe ignores that signal. frame_recv takes
 * what *r holds before it reads; it returns 1, 0 at the end of the stream between two frames, or
 * < 0 (-ERR_CORRUPT when the stream ends within a frame).
 */
int frame_send(int fd, enum frame_type type, uint64_t request, const struct json *json,
               const void *payload, size_t payload_size, struct err *err);
int frame_recv(int fd, struct frame_reader *r, struct frame *ret, struct err *err);
