/*
 * Protocol Buffers, as far as a writer of ONNX needs them: messages built inside out, of few small
 * fields and few large arrays of numbers. The arrays stay where they are (a mapped file) and are
 * converted block by block when the message is written, so that a message takes no memory for them.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/dtype.h"

#define PROTOBUF_ARRAYS_MAX 16
#define PROTOBUF_SIZE_MAX 2147483647 /* of a message, by the readers' own limit */

/* count numbers, written little-endian as `to`; borrowed. */
struct numbers {
    const void *data;
    enum dtype from, to;
    int64_t count;
    const double *divide; /* [period], or NULL: number k is divided by divide[k % period] first */
    int64_t period;
};

struct protobuf {
    struct buf text; /* without the arrays */
    int arrays;
    struct {
        size_t at; /* behind so many bytes of text */
        struct numbers numbers;
    } array[PROTOBUF_ARRAYS_MAX];
};

#define PROTOBUF_INIT                                                                              \
    {                                                                                              \
        .text = BUF_INIT                                                                           \
    }

void protobuf_deinit(struct protobuf *p);
/* Of the whole message, arrays included. */
uint64_t protobuf_size(const struct protobuf *p);

void protobuf_int(struct protobuf *p, int field, int64_t value);
void protobuf_bytes(struct protobuf *p, int field, const void *data, size_t size);
void protobuf_string(struct protobuf *p, int field, const char *text);
/* As bytes, which is also how a packed list of floats looks. Too many arrays in one message are a
 * mistake of the program's and fail it. */
void protobuf_numbers(struct protobuf *p, int field, const struct numbers *numbers);
/* Moves the child into the parent, and deinits it. */
void protobuf_message(struct protobuf *p, int field, struct protobuf *child);

/* Moves the fields of another message behind those of this one, and deinits it. */
void protobuf_append(struct protobuf *p, struct protobuf *other);

/* -ERR_NO_MEMORY where building it had lacked some; -ERR_UNSUPPORTED beyond PROTOBUF_SIZE_MAX. */
int protobuf_write(const struct protobuf *p,
                   int (*sink)(void *context, const void *data, size_t size, struct err *err),
                   void *context, struct err *err);
