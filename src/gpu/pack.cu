/*
 * Points prepared for a kernel: scaled and centered in float64, rounded once, and laid in panels
 * (launch.h); and panels of some of them.
 */
extern "C" {
#include "gpu/launch.h"
}

#include "gpu/start.cuh"

namespace {

constexpr int PANEL = LAUNCH_PANEL, WARPS = 8, THREADS = PANEL * WARPS;
constexpr int64_t GRID_MAX = 1 << 16;

/* Rows with those that fill the last tile. */
__device__ int64_t padded(int64_t rows)
{
    return (rows + LAUNCH_TILE - 1) / LAUNCH_TILE * LAUNCH_TILE;
}

/* Feature j of row i of a panel. A lane has a row, a warp every WARPS-th feature. */
template <class T> __device__ T feature(const struct pack &p, int64_t row, int64_t j)
{
    const int64_t at = row * p.d + j;
    const double from =
        p.from_dtype == DTYPE_F32 ? ((const float *)p.from)[at] : ((const double *)p.from)[at];
    const T value = (T)((from - p.center[j]) * p.scale[j]);
    if (!isfinite(value)) {
        atomicMin((long long *)p.bad, (long long)(p.first_row + row));
    }
    return value;
}

/* |x|^2/2, of the numbers as they are stored: the sum of the warps' parts in their order. */
template <class T> __device__ void store_norms(double part, T *to)
{
    auto &parts = shared<double[WARPS][PANEL]>();
    const int lane = threadIdx.x % PANEL, warp = threadIdx.x / PANEL;
    parts[warp][lane] = part;
    __syncthreads();
    if (warp == 0) {
        double sum = 0.0;
        for (int w = 0; w < WARPS; w++) {
            sum += parts[w][lane];
        }
        to[lane] = (T)(0.5 * sum);
    }
    __syncthreads();
}

template <class T> __global__ void pack_rows(struct pack p)
{
    const int lane = threadIdx.x % PANEL, warp = threadIdx.x / PANEL;
    for (int64_t panel = blockIdx.x; panel * PANEL < padded(p.n); panel += gridDim.x) {
        T *to = (T *)p.to + panel * p.ld * PANEL;
        const int64_t row = panel * PANEL + lane;
        double norm = 0.0;
        for (int64_t j = warp; j < p.d; j += WARPS) {
            const T value = row < p.n ? feature<T>(p, row, j) : (T)0;
            to[j * PANEL + lane] = value;
            norm = fma((double)value, (double)value, norm);
        }
        if (p.ld > p.d) {
            store_norms(norm, to + p.d * PANEL);
        }
    }
}

template <class T> __global__ void gather_panels_of(struct gather_panels g)
{
    const int lane = threadIdx.x % PANEL, warp = threadIdx.x / PANEL;
    for (int64_t panel = blockIdx.x; panel * PANEL < padded(g.count); panel += gridDim.x) {
        const int64_t i = min(panel * PANEL + lane, g.count - 1);
        const int64_t row = g.index != nullptr ? g.index[i] : g.first + i;
        const T *from = (const T *)g.from + row / PANEL * g.ld * PANEL + row % PANEL;
        T *to = (T *)g.to + panel * g.ld * PANEL + lane;
        for (int64_t j = warp; j < g.ld; j += WARPS) {
            to[j * PANEL] = from[j * PANEL];
        }
    }
}

unsigned grid_of(int64_t rows)
{
    const int64_t tiles = (rows + LAUNCH_TILE - 1) / LAUNCH_TILE;
    const int64_t panels = tiles * (LAUNCH_TILE / PANEL);
    return (unsigned)(panels < GRID_MAX ? panels : GRID_MAX);
}

} // namespace

extern "C" {

int launch_pack(void *stream, const struct pack *pack)
{
    return pack->to_dtype == DTYPE_F64
               ? start(pack_rows<double>, grid_of(pack->n), THREADS, 0, stream, *pack)
               : start(pack_rows<float>, grid_of(pack->n), THREADS, 0, stream, *pack);
}

int launch_gather_panels(void *stream, const struct gather_panels *gather)
{
    return gather->dtype == DTYPE_F64 ? start(gather_panels_of<double>, grid_of(gather->count),
                                              THREADS, 0, stream, *gather)
                                      : start(gather_panels_of<float>, grid_of(gather->count),
                                              THREADS, 0, stream, *gather);
}
}
