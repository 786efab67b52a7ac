/* Points prepared for a kernel: scaled and centered in float64, then rounded once. */
extern "C" {
#include "gpu/launch.h"
}

#include "gpu/start.cuh"

namespace {

constexpr int THREADS = 256;
constexpr int64_t GRID_MAX = 1 << 16;

/* True when the rounded number is finite. */
__device__ bool store(void *to, enum dtype dtype, int64_t k, double value)
{
    if (dtype == DTYPE_F32) {
        const float rounded = (float)value;
        ((float *)to)[k] = rounded;
        return isfinite(rounded);
    }
    ((double *)to)[k] = value;
    return isfinite(value);
}

__global__ void pack_rows(struct pack p)
{
    const int64_t count = p.n * p.d;
    for (int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x; k < count;
         k += (int64_t)gridDim.x * THREADS) {
        const int64_t row = k / p.d, j = k - row * p.d;
        const double from =
            p.from_dtype == DTYPE_F32 ? ((const float *)p.from)[k] : ((const double *)p.from)[k];
        if (!store(p.to, p.to_dtype, k, (from - p.center[j]) * p.scale[j])) {
            atomicMin((long long *)p.bad, (long long)(p.first_row + row));
        }
    }
}

} // namespace

extern "C" {

int launch_pack(void *stream, const struct pack *pack)
{
    const int64_t blocks = (pack->n * pack->d + THREADS - 1) / THREADS;
    const unsigned grid = (unsigned)(blocks < GRID_MAX ? blocks : GRID_MAX);
    return start(pack_rows, grid, THREADS, 0, stream, *pack);
}
}
