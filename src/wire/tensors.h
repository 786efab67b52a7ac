/*
 * The one file format of data sets and models: safetensors (8-byte little-endian header length, a
 * JSON header {"name":{"dtype","shape","data_offsets"}, "__metadata__":{…strings…}}, then the raw
 * little-endian row-major tensors without holes). Any safetensors reader opens our files.
 *
 * Reading never trusts the file: every offset, shape and overlap is checked against its size, and
 * every size product against overflow. A file that contradicts itself or its size is -ERR_CORRUPT;
 * what safetensors allows and this reader does not (other element types, more tensors or
 * dimensions, long names) is -ERR_UNSUPPORTED.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "wire/dtype.h"

#define TENSORS_MAX 32 /* tensors in a file */
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
    struct json *metadata; /* object of strings, owned; NULL when the file has none */
};

/* Reads a complete file image, aligned to 8 bytes at least; tensor data point into it, so it must
 * outlive *ret. Every tensor is aligned to its element size. */
int tensors_open(const void *image, size_t size, struct tensors *ret, struct err *err);
void tensors_deinit(struct tensors *t);
const struct tensor_info *tensors_find(const struct tensors *t, const char *name); /* or NULL */
/* The value of one metadata key, or NULL. */
const char *tensors_metadata(const struct tensors *t, const char *key);

/*
 * The 8-byte length and JSON header for the given tensors in their order (data offsets follow from
 * dtype and shape), padded with blanks to at least min_size bytes and to a multiple of 64, so that
 * a writer that learns the number of rows last can reserve room first and fill it in at the end.
 * Names are distinct and not empty. An order that leaves a float64 tensor unaligned is refused with
 * -ERR_INVALID: put float64 tensors first.
 */
int tensors_header(const struct tensors *t, size_t min_size, struct buf *ret, struct err *err);
