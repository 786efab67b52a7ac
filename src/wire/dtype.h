/* Element types of matrices and tensors. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum dtype { DTYPE_F32, DTYPE_F64 };

size_t dtype_size(enum dtype t);
const char *dtype_name(enum dtype t); /* "float32", "float64" */
int dtype_parse(const char *name, enum dtype *ret, struct err *err);

/* Bytes of a rows x cols matrix, or INT64_MAX when the product overflows. */
int64_t dtype_matrix_bytes(int64_t rows, int64_t cols, enum dtype dtype);
