/* Points in two parts of float16, laid as group.cuh and short.cuh want them. */
#include "gpu/group.cuh"

namespace {

constexpr int PARTS_THREADS = 256, STEPS_TOGETHER = PARTS_THREADS / (2 * PANEL);
constexpr int64_t GRID_MAX = 1 << 16;

/* Feature k of a row: its own, those that the norm is (group.cuh), or 0. */
__device__ float feature(const float *row, int64_t d, int64_t k, bool of_x)
{
    const int64_t extra = k - norms_at(d);
    if (k < d) {
        return row[k * PANEL];
    }
    if (extra < 0 || extra >= NORM_FEATURES) {
        return 0;
    }
    const bool norm = (extra >= NORM_FEATURES / 2) == of_x;
    if (!norm) {
        return 1;
    }
    const float all = -row[d * PANEL];
    float first, second, rest;
    float16_values(float16_pair(all, 0), first, rest);
    float16_values(float16_pair(all - first, 0), second, rest);
    return extra % 2 == 0 ? first + second : all - first - second;
}

/* Features k0 .. k0+7 of a row: a piece of large parts and one of small ones. */
__device__ void split_features(const float *row, int64_t k0, int64_t d, bool of_x, uint4 &high,
                               uint4 &low)
{
    uint32_t h[4], l[4];
    for (int i = 0; i < 4; i++) {
        const float x = feature(row, d, k0 + 2 * i, of_x);
        const float y = feature(row, d, k0 + 2 * i + 1, of_x);
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
            for (int step = first; step <= steps; step += STEPS_TOGETHER) {
                uint4 *const to = (uint4 *)p.to + (panel * (steps + 1) + step) * (STEP_BYTES / 16) +
                                  half * PANEL + place;
                const int of = min(step, steps - 1);
                split_features(row, of * STEP + half * (STEP / 2), p.d, step == steps, to[0],
                               to[2 * PANEL]);
            }
        }
    }
}

/* ---- short points ---- */

/* The large part of a number, in float16, or the small one. */
__device__ float part_of(float x, bool small)
{
    float large, rest;
    float16_values(float16_pair(x, 0), large, rest);
    return small ? x - large : large;
}

/* The k-th number of a row of few features, all of whose numbers stand in one order. */
__device__ float whole_number(const float *row, int d, int k, bool of_x)
{
    const int extra = k - 3 * d;
    if (extra >= NORM_FEATURES) {
        return 0;
    }
    if (extra >= 0) {
        const bool norm = (extra < NORM_FEATURES / 2) == of_x;
        return norm ? part_of(-row[d * PANEL], extra % 2 != 0) : 1;
    }
    const bool small = of_x ? k < d : k / d == 1;
    return part_of(row[k % d * PANEL], small);
}

/* The same where blocks have large or small parts of 16 features. */
__device__ float split_number(const float *row, int d, int k, bool of_x)
{
    const int all = steps_of(d) * NUMBERS;
    return part_of(feature(row, d, k % all, of_x), k >= all);
}

/* A thread has a row, at its place in the tile. */
__global__ void make_short_parts(struct parts p)
{
    if constexpr (HAS_GROUPS) {
        const int d = (int)p.d, blocks = short_plan_at(short_plan_for(d)).blocks;
        const int place = threadIdx.x % LAUNCH_TILE, way = threadIdx.x / LAUNCH_TILE;
        const int64_t panel = (int64_t)blockIdx.x * (LAUNCH_TILE / PANEL) + place / PANEL;
        const float *const row =
            (const float *)p.panels + panel * p.ld * PANEL + part_row(place % PANEL);
        const int rows = way == 0 ? SHORT_UNIT : LAUNCH_TILE; /* that lie together */
        uint4 *const to = (uint4 *)p.to + blockIdx.x * (short_tile_bytes(blocks) / 16) +
                          way * blocks * (BLOCK_BYTES / 16) + place / rows * 2 * blocks * rows +
                          place % rows;
        for (int piece = 0; piece < 2 * blocks; piece++) {
            uint32_t pairs[4];
            for (int i = 0; i < 4; i++) {
                const int k = piece * (NUMBERS / 2) + 2 * i;
                pairs[i] = d > SHORT_WHOLE ? float16_pair(split_number(row, d, k, way != 0),
                                                          split_number(row, d, k + 1, way != 0))
                                           : float16_pair(whole_number(row, d, k, way != 0),
                                                          whole_number(row, d, k + 1, way != 0));
            }
            to[piece * rows] = {pairs[0], pairs[1], pairs[2], pairs[3]};
        }
    }
}

} // namespace

extern "C" {

int launch_parts(void *stream, const struct parts *parts)
{
    if (is_short(parts->d)) {
        static_assert(PARTS_THREADS == 2 * LAUNCH_TILE, "a thread for a row, as z and as x");
        const unsigned tiles = (unsigned)(parts->rows / LAUNCH_TILE);
        return start(make_short_parts, tiles, PARTS_THREADS, 0, stream, *parts);
    }
    const int64_t panels = parts->rows / PANEL;
    const unsigned grid = (unsigned)(panels < GRID_MAX ? panels : GRID_MAX);
    return start(make_parts, grid, PARTS_THREADS, 0, stream, *parts);
}

int64_t launch_parts_bytes(int64_t d)
{
    return is_short(d)
               ? short_tile_bytes(short_plan_at(short_plan_for(d)).blocks) / (LAUNCH_TILE / PANEL)
               : (int64_t)(steps_of(d) + 1) * STEP_BYTES;
}
}
