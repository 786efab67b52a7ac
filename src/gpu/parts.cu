/* Points in two parts of float16, laid as group.cuh wants them. */
#include "gpu/group.cuh"

namespace {

constexpr int PARTS_THREADS = 256, STEPS_TOGETHER = PARTS_THREADS / (2 * PANEL);
constexpr int64_t GRID_MAX = 1 << 16;

/* Features k0 .. k0+7 of a row, 0 behind the last: a piece of large parts and one of small ones. */
__device__ void split_features(const float *row, int64_t k0, int64_t d, uint4 &high, uint4 &low)
{
    uint32_t h[4], l[4];
    for (int i = 0; i < 4; i++) {
        const int64_t k = k0 + 2 * i;
        const float x = k < d ? row[k * PANEL] : 0, y = k + 1 < d ? row[(k + 1) * PANEL] : 0;
        float first, second;
        h[i] = float16_pair(x, y);
        float16_values(h[i], first, second);
        l[i] = float16_pair(x - first, y - second);
    }
    high = {h[0], h[1], h[2], h[3]};
    low = {l[0], l[1], l[2], l[3]};
}

/* A warp has the rows of a panel, at their places, and half of a step. */
__global__ void make_parts(struct parts p)
{
    if constexpr (HAS_GROUPS) {
        const int place = threadIdx.x % PANEL, half = threadIdx.x / PANEL % 2;
        const int first = (int)threadIdx.x / (2 * PANEL), steps = steps_of(p.d);
        for (int64_t panel = blockIdx.x; panel * PANEL < p.rows; panel += gridDim.x) {
            const float *const row =
                (const float *)p.panels + panel * p.ld * PANEL + part_row(place);
            for (int step = first; step < steps; step += STEPS_TOGETHER) {
                uint4 *const to = (uint4 *)p.to + (panel * steps + step) * (STEP_BYTES / 16) +
                                  half * PANEL + place;
                split_features(row, step * STEP + half * (STEP / 2), p.d, to[0], to[2 * PANEL]);
            }
        }
    }
}

} // namespace

extern "C" {

int launch_parts(void *stream, const struct parts *parts)
{
    const int64_t panels = parts->rows / PANEL;
    const unsigned grid = (unsigned)(panels < GRID_MAX ? panels : GRID_MAX);
    return start(make_parts, grid, PARTS_THREADS, 0, stream, *parts);
}

int64_t launch_parts_bytes(int64_t d)
{
    return (int64_t)steps_of(d) * STEP_BYTES;
}
}
