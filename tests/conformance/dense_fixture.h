/* Sizes, types and tolerances that tests of matrices run with. For test_backend_columns.c and
 * test_backend_dense.c. */
#pragma once

#include "conformance/device.h"

static const int64_t sizes[] = {1, 2, 15, 31, 33, 257};
#define SIZES ((int)(sizeof sizes / sizeof sizes[0]))
static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64};

static inline double tolerance(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 1e-5 : 1e-13;
}
