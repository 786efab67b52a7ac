/* Element types of matrices and tensors. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum dtype { DTYPE_F32, DTYPE_F64 };

size_t dtype_size(enum dtype t);
const char *dtype_name(enum dtype t); /* "float32", "float64" */
int dtype_parse(const char *name, enum dtype *ret, struct err *err);
