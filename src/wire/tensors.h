/*
 * The one file format of data sets and models: safetensors (8-byte little-endian header length, a
 * JSON header {"name":{"dtype","shape","data_offsets"}, "__metadata__":{…strings…}}, then the raw
 * little-endian row-major tensors without holes). Any safetensors reader opens our files.
 *
 * Reading never trusts the file: every offset, shape and overlap is checked against its size, and
 * every size product against overflow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "wire/dtype.h"

#define TENSORS_MAX 16          /* tensors in a file */
#define TENSORS_MAX_DIMS 2
#define TENSORS_MAX_HEADER_BYTES (64u << 20)

struct tensor_info {
    char name[32];
    enum dtype dtype;
    int dims;                        /* 1 or 2 */
    int64_t shape[TENSORS_MAX_DIMS]; /* shape[1] = 1 when dims == 1 */
    size_t bytes;
    const void *data; /* reading: into the caller's memory; writing: unused */
};

struct tensors {
    int count;
    struct tensor_info tensor[TENSORS_MAX];
    struct json *metadata; /* object of strings, owned */
};

/* Reads a complete file image; tensor data point into it, so it must outlive *ret. */
int tensors_open(const void *image, size_t size, struct tensors *ret, struct err *err);
void tensors_deinit(struct tensors *t);
const struct tensor_info *tensors_find(const struct tensors *t, const char *name); /* or NULL */

/*
 * The 8-byte length and JSON header for the given tensors in their order (data offsets follow from
 * dtype and shape), padded with blanks to at least min_size bytes and to a multiple of 64, so that
 * a writer that learns the number of rows last can reserve room first and fill it in at the end.
 */
int tensors_header(const struct tensors *t, size_t min_size, struct buf *ret, struct err *err);
