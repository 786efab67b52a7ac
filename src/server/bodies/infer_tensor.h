/* The tensor X of an inference request while it is being read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/jsonread.h"
#include "server/bodies/rows.h"

struct infer_tensor {
    struct rows rows;
    const char *text; /* [len] that the tensor stands in; borrowed */
    size_t len;
    size_t data_at; /* where the numbers of its data begin */
    int64_t shape[2];
    int dims;
    bool named, shaped, typed, has_data; /* which members were there */
    bool nested;                         /* the data are an array of rows */
    bool single;                         /* FP32 */
    int64_t left_over;                   /* numbers behind the last whole row */
    int64_t binary;                      /* binary_data_size, or -1 */
};

/* The members of the object whose '{' was read. */
int infer_tensor_read(struct infer_tensor *t, struct jsonread *r, struct err *err);
/* Checks what was read, and takes binary data from the `len` bytes at `data`, which they must
 * fill. */
int infer_tensor_finish(struct infer_tensor *t, const char *data, size_t len, struct err *err);
/* The whole body is X, as FP64. */
int infer_tensor_raw(struct infer_tensor *t, const char *data, size_t len, struct err *err);
