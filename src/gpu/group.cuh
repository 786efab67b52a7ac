/*
 * A tile of distances by a group of four warps (warpgroup.cuh), for products of float32 points by
 * inner products of two parts of float16 (tensor.cuh has what is computed, and why): 128 x rows
 * against 64 z rows. x rows are the rows of a product, z rows its columns; a thread holds 4 x 16
 * values, the two rows of two products and their 16 columns.
 *
 * Points come in parts already (launch_parts), 2 KiB for 16 features of a panel: first the large
 * parts, then the small ones, of each first the first 8 features, then the others, in pieces of 16
 * bytes a row. The row at place p of a panel is part_row(p): so that 8 pieces that follow each
 * other are 8 columns of a product, or the rows that 8 lanes bring to one, and a thread's rows
 * stand as shape.cuh wants them. x rows stay in shared memory while z rows come and go, where there
 * is room for all their features; each z row is read by all four warps.
 *
 * Rows too far out for inner products (launch_kernel.inner) take differences, straight from their
 * panels: all of a tile whose z rows are, and else those x rows alone that are. What a product has
 * for these is not looked at, be it a number or not.
 */
#pragma once

#include <type_traits>

#include "gpu/tile.cuh"
#include "gpu/warpgroup.cuh"

namespace {

/* What group_tile is made of. */
constexpr int STEP = 16, STEP_BYTES = PANEL * STEP * 4; /* features of a step, and of a panel */
constexpr int X_PANELS = 4, Z_PANELS = 2;
constexpr int KEPT_STEPS = 12; /* of x rows, in shared memory: 8 KiB each */

inline __host__ __device__ int steps_of(int64_t d)
{
    return (int)((d + STEP - 1) / STEP);
}

/* Where in its panel the row at place p is, and the place of a row. */
inline __device__ int part_row(int p)
{
    return p / 8 + p % 8 / 2 * 4 + p % 2 * 16;
}

struct group_threads {
    static __device__ int across()
    {
        return threadIdx.x % 4;
    }
    static __device__ int down()
    {
        return threadIdx.x / 32 * 8 + part_row(threadIdx.x % 32 / 4) / 4;
    }
};

struct alignas(16) group_memory {
    unsigned char z[2][Z_PANELS * STEP_BYTES];
    alignas(16) float x_norms[X_PANELS * PANEL], z_norms[2][Z_PANELS * PANEL];
};

/* Where a block is; as tile_place. */
struct group_place {
    int64_t x, z; /* the tile's first panels */
    float reach;
    bool fresh;             /* the x rows are new: their parts are not there yet */
    unsigned char *x_parts; /* of all steps, or in two stages */
    int slot = 0, tile = 0;
};

struct group_tile : shape<float, 4, 32, 4, 16, group_threads> {
    using T = float;
    using memory = group_memory;
    using place = group_place;
    static size_t bytes_behind(int64_t d)
    {
        const int steps = steps_of(d);
        return (size_t)(steps <= KEPT_STEPS ? steps : 2) * X_PANELS * STEP_BYTES;
    }
    static __device__ place begin(const struct launch_tiles &t, int64_t x, int64_t z, float reach,
                                  void *behind)
    {
        return {t.P.panel + x / PANEL, t.Q.panel + z / PANEL, reach, true, (unsigned char *)behind};
    }
    static __device__ place begin_row(const struct launch_tiles &t, const place &at, int64_t x,
                                      int64_t z, float reach)
    {
        place next = begin(t, x, z, reach, at.x_parts);
        next.slot = at.slot;
        next.tile = at.tile;
        return next;
    }
    static __device__ place behind(const struct launch_tiles &t, const place &at)
    {
        place next = at;
        next.z += Z_PANELS;
        next.tile++;
        next.fresh = at.fresh && !(at.reach <= t.kernel.inner);
        return next;
    }
};

template <launch_form FORM, class T>
using tile_of = std::conditional_t<FORM == FORM_L2_GROUP, group_tile, lanes_tile<T>>;

/* False where the code is for devices that never run this form: it does nothing there. */
template <launch_form FORM> constexpr bool RUNS = FORM != FORM_L2_GROUP || HAS_GROUPS;

/* ---- staging ---- */

inline __device__ const unsigned char *parts_of(const struct launch_view &v, int64_t panel,
                                                int steps, int step)
{
    return (const unsigned char *)v.parts + (panel * steps + step) * STEP_BYTES + threadIdx.x * 16;
}

inline __device__ unsigned char *x_stage(const group_place &at, int steps, int step, int slot)
{
    return at.x_parts + (steps <= KEPT_STEPS ? step : slot) * (X_PANELS * STEP_BYTES);
}

/* Begins to copy a step's parts. The columns of both panels of z rows are to lie side by side. */
inline __device__ void fetch_step(const struct launch_tiles &t, const group_place &at, int step,
                                  group_memory &s)
{
    const int steps = steps_of(t.d), slot = at.slot;
    const unsigned char *const z = parts_of(t.Q, at.z, steps, step);
    unsigned char *const z_to = s.z[slot] + threadIdx.x / 32 * (Z_PANELS * STEP_BYTES / 4);
#pragma unroll
    for (int panel = 0; panel < Z_PANELS; panel++) {
        __pipeline_memcpy_async(z_to + (panel * 32 + threadIdx.x % 32) * 16,
                                z + (int64_t)panel * steps * STEP_BYTES, 16);
    }
    if (at.fresh || steps > KEPT_STEPS) {
        const unsigned char *const x = parts_of(t.P, at.x, steps, step);
        unsigned char *const x_to = x_stage(at, steps, step, slot) + threadIdx.x * 16;
#pragma unroll
        for (int panel = 0; panel < X_PANELS; panel++) {
            __pipeline_memcpy_async(x_to + panel * STEP_BYTES,
                                    x + (int64_t)panel * steps * STEP_BYTES, 16);
        }
    }
}

/* Begins to copy |x|^2/2 of `count` panels' rows. */
inline __device__ void fetch_norms(const struct launch_view &v, const struct launch_tiles &t,
                                   int64_t panel, int count, float *to)
{
    const int row = (int)threadIdx.x * 4;
    if (row < count * PANEL) {
        const float *const from =
            (const float *)v.data + ((panel + row / PANEL) * t.ld + t.d) * PANEL + row % PANEL;
        __pipeline_memcpy_async(to + row, from, 16);
    }
}

template <launch_form FORM>
__device__ void fetch_tile(const struct launch_tiles &t, const group_place &at, group_memory &s)
{
    fetch_step(t, at, 0, s);
    fetch_norms(t.Q, t, at.z, Z_PANELS, s.z_norms[at.tile & 1]);
    if (at.fresh) {
        fetch_norms(t.P, t, at.x, X_PANELS, s.x_norms);
    }
}

/* ---- distances ---- */

/* D <- the norms of each pair. Returns which of the thread's x rows are too far out. */
inline __device__ unsigned begin(float limit, const group_place &at, const group_memory &s,
                                 tile_values<group_tile> &D)
{
    using S = group_tile;
    float x[S::X], z[S::Z];
    unsigned far = 0;
    take<S::VECTOR, S::DOWN>(s.x_norms, S::down(), x);
    take<S::VECTOR, S::ACROSS>(s.z_norms[at.tile & 1], S::across(), z);
#pragma unroll
    for (int i = 0; i < S::X; i++) {
        far |= x[i] + at.reach <= limit ? 0U : 1U << i;
#pragma unroll
        for (int j = 0; j < S::Z; j++) {
            D[i][j] = x[i] + z[j];
        }
    }
    return far;
}

/* D -= what the thread holds of the m-th product, x rows 2m and 2m + 1. */
inline __device__ void subtract(const float (&c)[32], int m, tile_values<group_tile> &D)
{
#pragma unroll
    for (int n = 0; n < 8; n++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                D[2 * m + h][(n / 4 * 2 + e) * 4 + n % 4] -= c[4 * n + 2 * h + e];
            }
        }
    }
}

/* c <- the m-th product of a step: the small parts first. `x` is the lane's row of matrices. */
inline __device__ void begin_product(const unsigned char *x, uint64_t z, int m, float (&c)[32])
{
    constexpr int SMALL = Z_PANELS * STEP_BYTES / 2;
    uint32_t high[4], low[4];
    read_matrices(x + m * 256, high);
    read_matrices(x + m * 256 + STEP_BYTES / 2, low);
    group_fence();
    group_product<false>(c, low, z);
    group_product<true>(c, high, z + (SMALL >> 4));
    group_product<true>(c, high, z);
    group_commit();
}

inline __device__ void add_products(const unsigned char *x, const unsigned char *z,
                                    tile_values<group_tile> &D)
{
    const int lane = threadIdx.x % 32;
    const uint64_t matrix = describe_matrix(z, 128, Z_PANELS * STEP_BYTES / 4);
    float c[2][32];
    x += threadIdx.x / 32 * STEP_BYTES + lane / 16 * (STEP_BYTES / 4) + lane % 16 * 16;
    begin_product(x, matrix, 0, c[0]);
    begin_product(x, matrix, 1, c[1]);
    group_wait<1>(c[0]);
    subtract(c[0], 0, D);
    group_wait<0>(c[1]);
    subtract(c[1], 1, D);
}

/* D[FIRST .. FIRST + ROWS - 1] <- half the sum of squares of differences, from the panels. */
template <int FIRST, int ROWS>
__device__ void take_differences(const struct launch_tiles &t, const group_place &at,
                                 tile_values<group_tile> &D)
{
    using S = group_tile;
    const int x_row = S::x_row(FIRST), z_row = S::z_row(0);
    const float *x = (const float *)t.P.data + (at.x + x_row / PANEL) * t.ld * PANEL;
    const float *z = (const float *)t.Q.data + at.z * t.ld * PANEL + z_row;
    float sums[ROWS][S::Z] = {};
    x += x_row % PANEL;
#pragma unroll 2
    for (int k = 0; k < (int)t.d; k++, x += PANEL, z += PANEL) {
        float b[S::Z];
        take<S::VECTOR, S::ACROSS>(z, 0, *(float(*)[8])b);
        take<S::VECTOR, S::ACROSS>(z + t.ld * PANEL, 0, *(float(*)[8])(b + 8));
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const float a = x[i];
#pragma unroll
            for (int j = 0; j < S::Z; j++) {
                sums[i][j] = fma(a - b[j], a - b[j], sums[i][j]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < S::Z; j++) {
            D[FIRST + i][j] = 0.5F * sums[i][j];
        }
    }
}

inline __device__ void replace_far(const struct launch_tiles &t, const group_place &at,
                                   unsigned far, tile_values<group_tile> &D)
{
    if (far == 15U) {
        take_differences<0, 4>(t, at, D);
        return;
    }
    if ((far & 1U) != 0) {
        take_differences<0, 1>(t, at, D);
    }
    if ((far & 2U) != 0) {
        take_differences<1, 1>(t, at, D);
    }
    if ((far & 4U) != 0) {
        take_differences<2, 1>(t, at, D);
    }
    if ((far & 8U) != 0) {
        take_differences<3, 1>(t, at, D);
    }
}

/* As that of tile.cuh. */
template <launch_form FORM, class F>
__device__ void distances(const struct launch_tiles &t, group_place &at, group_memory &s,
                          const F &fetch_next, tile_values<group_tile> &D)
{
    const bool near = at.reach <= t.kernel.inner;
    const int all = steps_of(t.d), steps = near ? all : 1;
    unsigned far = 15;
    for (int step = 0; step < steps; step++) {
        __pipeline_wait_prior(0);
        shared_fence();
        __syncthreads(); /* this step is there, and the other stage is read */
        const int slot = at.slot;
        at.slot ^= 1;
        if (step + 1 < steps) {
            fetch_step(t, at, step + 1, s);
        } else {
            fetch_next();
        }
        __pipeline_commit();
        if (near && step == 0) {
            far = begin(t.kernel.inner, at, s, D);
        }
        if (near) {
            add_products(x_stage(at, all, step, slot), s.z[slot], D);
        }
    }
    at.fresh = at.fresh && !near;
    if (far != 0) {
        replace_far(t, at, far, D);
    }
}

} // namespace
