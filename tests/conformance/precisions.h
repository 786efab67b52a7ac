/* The precisions that tests of the kernel oracle run in: types of the points and of the vectors. */
#pragma once

#include "wire/dtype.h"

enum precision { F32, F64, MIXED, PRECISIONS };

static inline enum dtype points_dtype(enum precision p)
{
    return p == F64 ? DTYPE_F64 : DTYPE_F32;
}

static inline enum dtype vector_dtype(enum precision p)
{
    return p == F32 ? DTYPE_F32 : DTYPE_F64;
}
