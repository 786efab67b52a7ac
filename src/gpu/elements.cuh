/* Elements of a matrix of either type, in float64. */
#pragma once

extern "C" {
#include "gpu/launch.h"
}

namespace {

inline __device__ double element(const struct mat &m, int64_t i, int64_t j)
{
    const int64_t k = i + j * m.ld;
    return m.dtype == DTYPE_F32 ? (double)((const float *)m.data)[k] : ((const double *)m.data)[k];
}

inline __device__ void set_element(const struct mat &m, int64_t i, int64_t j, double value)
{
    const int64_t k = i + j * m.ld;
    if (m.dtype == DTYPE_F32) {
        ((float *)m.data)[k] = (float)value;
    } else {
        ((double *)m.data)[k] = value;
    }
}

} // namespace
