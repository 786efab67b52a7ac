/* Products whose limits are worked out by hand. */
#pragma once

#include "bench/limit.h"

static inline struct limit_case make(enum kernel_id kernel, enum dtype dtype, int64_t d,
                                     int64_t rhs, bool symmetric)
{
    return (struct limit_case){.kernel = kernel,
                               .degree = 3,
                               .values = dtype,
                               .vectors = dtype,
                               .n = 20000,
                               .m = 20000,
                               .d = d,
                               .rhs = rhs,
                               .symmetric = symmetric};
}
