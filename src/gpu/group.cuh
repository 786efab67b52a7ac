/*
 * A tile of distances by a group of four warps (warpgroup.cuh), for products of float32 points by
 * inner products of two parts of float16 (tensor.cuh has what is computed, and why): 128 x rows
 * against 64 z rows. x rows are the rows of a product, z rows its columns; a thread holds 4 x 16
 * values, the two rows of two products and their 16 columns.
 *
 * The norms are features too. Behind a row's own come four more, in the same step: 1, 1 and minus
 * |x|^2/2 in two numbers as an x row, and these before the ones as a z row. So the inner product is
 * x.z - |x|^2/2 - |z|^2/2, and what the tensor cores subtract it from, 0, becomes the distance.
 * Stages of 32 features are added by float32.
 *
 * Up to LAUNCH_SHORT_FEATURES features points are laid out as short.cuh has it. Those of more come
 * in parts as well (launch_parts), 2 KiB for 16 features of a panel: first the large parts, then
 * the small ones, of each first the first 8 features, then the others, in pieces of 16 bytes a row.
 * All steps are as z rows have them; the last one stands once more behind them as x rows do. The
 * row at place p of a panel is part_row(p): so that 8 pieces that follow each other are 8 columns
 * of a product, or 8 rows, and a thread's rows stand as shape.cuh wants them. x rows stay in shared
 * memory while z rows come and go, where there is room for all their features.
 *
 * Rows too far out for inner products (launch_kernel.inner) take differences, straight from their
 * panels: all of a tile whose z rows are, and else those x rows alone that are. What a product has
 * for these is not looked at, be it a number or not.
 */
#pragma once

#include <type_traits>

#include "gpu/short.cuh"
#include "gpu/tile.cuh"
#include "gpu/warpgroup.cuh"

namespace {

/* What group_tile is made of. */
constexpr int STEP = 16, STEP_BYTES = PANEL * STEP * 4; /* features of a step, and of a panel */
constexpr int X_PANELS = 4, Z_PANELS = 2;
constexpr int X_STEP = X_PANELS * STEP_BYTES, Z_STEP = Z_PANELS * STEP_BYTES;
constexpr int STAGE = 2;       /* steps of a stage, which the tensor cores add up */
constexpr int KEPT_STEPS = 11; /* of x rows, in shared memory: 8 KiB each */
/* From the first 8 numbers of a short block to the others, of x rows and of z rows. */
constexpr int SHORT_X_HALF = BLOCK_BYTES / 2, SHORT_Z_HALF = SHORT_X_HALF / 2;

struct group_threads {
    static __device__ int across()
    {
        return threadIdx.x % 4;
    }
    static __device__ int down()
    {
        return threadIdx.x / 32 * 8 + part_row(threadIdx.x % 32 / 4) / 4;
    }
    static __device__ int thread(int across, int down)
    {
        return down / 8 * 32 + (down % 4 * 2 + down % 8 / 4) * 4 + across;
    }
};

struct alignas(128) group_memory {
    unsigned char z[2][STAGE * Z_STEP];
    alignas(16) float x_norms[X_PANELS * PANEL];
};

/* Where a block is; as tile_place. */
struct group_place {
    int64_t x, z;    /* the tile's first panels */
    int steps;       /* 1 where all numbers of a row stand in one order */
    short_plan plan; /* no blocks: they are not */
    float reach;
    bool fresh;             /* the x rows are new: their parts are not there yet */
    unsigned char *x_parts; /* of all steps, or in two stages */
    int slot = 0, tile = 0;
    float most = 0; /* of the norms of this thread's x rows */
};

/* What this thread copies first of a panel's parts. */
inline __device__ const unsigned char *parts_of(const struct launch_view &v, int64_t panel,
                                                int steps)
{
    return (const unsigned char *)v.parts + panel * (steps + 1) * STEP_BYTES + threadIdx.x * 16;
}

inline __host__ __device__ short_plan group_plan(int64_t d)
{
    return is_short(d) ? short_plan_at(short_plan_for(d)) : short_plan{0, 0};
}

struct group_tile : shape<float, 4, 32, 4, 16, group_threads> {
    using T = float;
    using memory = group_memory;
    using place = group_place;
    static size_t bytes_behind(int64_t d)
    {
        const int steps = steps_of(d);
        return is_short(d) ? (size_t)group_plan(d).blocks * BLOCK_BYTES
                           : (size_t)(steps <= KEPT_STEPS ? steps : 2 * STAGE) * X_STEP;
    }
    static __device__ place begin(const struct launch_tiles &t, int64_t x, int64_t z, float reach,
                                  void *behind)
    {
        return {t.P.panel + x / PANEL,
                t.Q.panel + z / PANEL,
                t.d <= SHORT_WHOLE ? 1 : steps_of(t.d),
                group_plan(t.d),
                reach,
                true,
                (unsigned char *)behind};
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
    static __device__ void go_on(place &at, const place &next)
    {
        at.z = next.z;
        at.reach = next.reach;
    }
};

template <launch_form FORM> constexpr bool IS_GROUP = FORM == FORM_L2_GROUP;

template <launch_form FORM, class T>
using tile_of = std::conditional_t<IS_GROUP<FORM>, group_tile, lanes_tile<T>>;

/* False where the code is for devices that never run this form: it does nothing there. */
template <launch_form FORM> constexpr bool RUNS = !IS_GROUP<FORM> || HAS_GROUPS;

/* ---- staging ---- */

/* x rows of a step: of each quarter of its parts the first 16 rows of all panels, then the others,
 * as the rows of a product. */
inline __device__ unsigned char *x_stage(const group_place &at, int step, int slot)
{
    return at.x_parts + (at.steps <= KEPT_STEPS ? step : slot * STAGE + step % STAGE) * X_STEP;
}

inline __device__ void fetch_x(const struct launch_tiles &t, const group_place &at, int step)
{
    const int quarter = threadIdx.x / 32, place = threadIdx.x % 32;
    const unsigned char *const from =
        parts_of(t.P, at.x, at.steps) + (step + (step + 1 == at.steps)) * STEP_BYTES;
    unsigned char *const to = x_stage(at, step, at.slot) + quarter * (X_STEP / 4) +
                              place / 16 * (X_STEP / 8) + place % 16 * 16;
#pragma unroll
    for (int panel = 0; panel < X_PANELS; panel++) {
        __pipeline_memcpy_async(to + panel * 256,
                                from + (int64_t)panel * (at.steps + 1) * STEP_BYTES, 16);
    }
}

/* Of z rows, of each quarter both panels' rows, as the columns of a product. */
inline __device__ void fetch_z(const struct launch_tiles &t, const group_place &at, int step,
                               unsigned char *stage)
{
    const unsigned char *const from = parts_of(t.Q, at.z, at.steps) + step * STEP_BYTES;
    unsigned char *const to =
        stage + step % STAGE * Z_STEP + threadIdx.x / 32 * (Z_STEP / 4) + threadIdx.x % 32 * 16;
#pragma unroll
    for (int panel = 0; panel < Z_PANELS; panel++) {
        __pipeline_memcpy_async(to + panel * 512, from + panel * (at.steps + 1) * STEP_BYTES, 16);
    }
}

/* Of short points the i-th block of a stage, of 4 at most: all of them, or the large parts of its
 * steps and then the small ones. -1: there is none. */
inline __device__ int short_block(const short_plan &plan, int step, int i)
{
    if (plan.steps == 0) {
        return i < plan.blocks ? i : -1;
    }
    return step + i % STAGE < plan.steps ? step + i % STAGE + i / STAGE * plan.steps : -1;
}

/* A stage of short points: of x rows as above, of each half of a block first the first 16 rows of
 * all panels; of z rows as they lie. */
inline __device__ void fetch_short_rows(const struct launch_tiles &t, const group_place &at,
                                        int step, group_memory &s)
{
    const int place = threadIdx.x % 32, panel = threadIdx.x / 32, blocks = at.plan.blocks;
    const unsigned char *const z = short_z_blocks(t.Q, at.z, blocks) + threadIdx.x * 16;
    const unsigned char *const x = short_x_blocks(t.P, at.x, blocks) + threadIdx.x * 16;
    unsigned char *const z_to = s.z[at.slot] + threadIdx.x * 16;
    unsigned char *const x_to = at.x_parts + (place / 16 * 64 + panel * 16 + place % 16) * 16;
#pragma unroll 1
    for (int i = 0; i < 2 * STAGE; i++) {
        const int block = short_block(at.plan, step, i);
        if (block < 0) {
            continue;
        }
        __pipeline_memcpy_async(z_to + i * (2 * SHORT_Z_HALF), z + block * (2 * SHORT_Z_HALF), 16);
        for (int half = 2 * block; at.fresh && half < 2 * block + 2; half++) {
            __pipeline_memcpy_async(x_to + half * SHORT_X_HALF, x + half * SHORT_X_HALF, 16);
        }
    }
}

/* Begins to copy the stage that begins with `step`. */
inline __device__ void fetch_stage(const struct launch_tiles &t, const group_place &at, int step,
                                   group_memory &s)
{
    const int count = min(STAGE, at.steps - step);
    if (at.plan.blocks > 0) {
        fetch_short_rows(t, at, step, s);
        return;
    }
    fetch_z(t, at, step, s.z[at.slot]);
    if (count > 1) {
        fetch_z(t, at, step + 1, s.z[at.slot]);
    }
    if (at.fresh || at.steps > KEPT_STEPS) {
#pragma unroll 1
        for (int i = 0; i < count; i++) {
            fetch_x(t, at, step + i);
        }
    }
}

/* Begins to copy |x|^2/2 of the x rows. */
inline __device__ void fetch_norms(const struct launch_tiles &t, int64_t panel, float *to)
{
    const int row = (int)threadIdx.x;
    if (row < X_PANELS * PANEL / 4) {
        const float *const from =
            (const float *)t.P.data + ((panel + row / 8) * t.ld + t.d) * PANEL + row % 8 * 4;
        __pipeline_memcpy_async(to + row * 4, from, 16);
    }
}

template <launch_form FORM>
__device__ void fetch_tile(const struct launch_tiles &t, const group_place &at, group_memory &s)
{
    fetch_stage(t, at, 0, s);
    if (at.fresh) {
        fetch_norms(t, at.x, s.x_norms);
    }
}

/* ---- distances ---- */

inline __device__ void take_norms(const group_memory &s, float (&x)[group_tile::X])
{
    take<group_tile::VECTOR, group_tile::DOWN>(s.x_norms, group_tile::down(), x);
}

/* Which of the thread's x rows are too far out. */
inline __device__ unsigned far_rows(float limit, const group_place &at, const group_memory &s)
{
    float x[group_tile::X];
    unsigned far = 0;
    if (at.most + at.reach <= limit) {
        return 0;
    }
    take_norms(s, x);
#pragma unroll
    for (int i = 0; i < group_tile::X; i++) {
        far |= x[i] + at.reach <= limit ? 0U : 1U << i;
    }
    return far;
}

/* D <- what the thread holds of the m-th product, x rows 2m and 2m + 1; or D += that. */
template <bool ADDS>
__device__ void take_product(const float (&c)[32], int m, tile_values<group_tile> &D)
{
#pragma unroll
    for (int n = 0; n < 8; n++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &d = D[2 * m + h][(n / 4 * 2 + e) * 4 + n % 4];
                d = ADDS ? d + c[4 * n + 2 * h + e] : c[4 * n + 2 * h + e];
            }
        }
    }
}

/* c <- minus the m-th product of a stage of STEPS: all small parts first. */
template <int STEPS>
__device__ void begin_product(const unsigned char *x_rows, const unsigned char *z_rows, int m,
                              float (&c)[32])
{
    constexpr int X_SMALL = X_STEP / 2, Z_SMALL = Z_STEP / 2;
    const uint64_t x = describe_matrix(x_rows + m * (X_STEP / 8), 128, X_STEP / 4);
    const uint64_t z = describe_matrix(z_rows, 128, Z_STEP / 4);
    subtract_group_product<false>(c, x + (X_SMALL >> 4), z);
    subtract_group_product<true>(c, x, z + (Z_SMALL >> 4));
    if constexpr (STEPS > 1) {
        subtract_group_product<true>(c, x + ((X_STEP + X_SMALL) >> 4), z + (Z_STEP >> 4));
        subtract_group_product<true>(c, x + (X_STEP >> 4), z + ((Z_STEP + Z_SMALL) >> 4));
        subtract_group_product<true>(c, x + (X_STEP >> 4), z + (Z_STEP >> 4));
    }
    subtract_group_product<true>(c, x, z);
    group_commit();
}

/* The same of short points. */
inline __device__ void begin_short_product(const unsigned char *x_rows, const unsigned char *z_rows,
                                           int m, const short_plan &all, int step, float (&c)[32])
{
    const uint64_t x = describe_matrix(x_rows + m * 1024, 128, SHORT_X_HALF);
    const uint64_t z = describe_matrix(z_rows, 128, SHORT_Z_HALF);
    /* Of the stage: its blocks of z rows are in order, those of x rows among all. */
    const short_plan stage =
        all.steps == 0 ? all : short_plan{2 * STAGE, min(STAGE, all.steps - step)};
#pragma unroll 1
    for (int i = 0; i < stage.products(); i++) {
        const int of_z = stage.z(i), of_x = stage.x(i);
        const int z_at = stage.steps == 1 && of_z == 1 ? STAGE : of_z;
        const int x_at = stage.steps == 0     ? of_x
                         : of_x < stage.steps ? step + of_x
                                              : all.steps + step + of_x - stage.steps;
        const uint64_t a = x + x_at * (2 * SHORT_X_HALF >> 4);
        const uint64_t b = z + z_at * (2 * SHORT_Z_HALF >> 4);
        if (i == 0) {
            subtract_group_product<false>(c, a, b);
        } else {
            subtract_group_product<true>(c, a, b);
        }
    }
    group_commit();
}

/* STEPS: of the stage that begins with `step`; 0 where points are short. */
template <bool ADDS, int STEPS>
__device__ void add_steps(const unsigned char *x, const unsigned char *z, const short_plan &plan,
                          int step, tile_values<group_tile> &D)
{
    float c[2][32];
    group_fence();
    if constexpr (STEPS == 0) {
        begin_short_product(x, z, 0, plan, step, c[0]);
        begin_short_product(x, z, 1, plan, step, c[1]);
    } else {
        begin_product<STEPS>(x, z, 0, c[0]);
        begin_product<STEPS>(x, z, 1, c[1]);
    }
    group_wait<1>(c[0]);
    take_product<ADDS>(c[0], 0, D);
    group_wait<0>(c[1]);
    take_product<ADDS>(c[1], 1, D);
}

/* D <- or += the products of the stage that begins with `step`, whose z rows are in this slot. */
template <bool ADDS>
__device__ void add_stage(const group_place &at, const group_memory &s, int step, int slot,
                          tile_values<group_tile> &D)
{
    static_assert(STAGE == 2, "a stage has one step or two");
    if (at.plan.blocks > 0) {
        add_steps<ADDS, 0>(at.x_parts, s.z[slot], at.plan, step, D);
    } else if (at.steps - step > 1) {
        add_steps<ADDS, 2>(x_stage(at, step, slot), s.z[slot], at.plan, step, D);
    } else {
        add_steps<ADDS, 1>(x_stage(at, step, slot), s.z[slot], at.plan, step, D);
    }
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

/* Waits for a stage. Returns its slot; the other one is free. */
inline __device__ int take_stage(group_place &at)
{
    __pipeline_wait_prior(0);
    shared_fence();
    __syncthreads(); /* this stage is there, and the other one is read */
    const int slot = at.slot;
    at.slot ^= 1;
    return slot;
}

/* Begins to copy what comes after a stage: the tile's stage from step `after` on, or what
 * fetch_next() asks for. */
template <launch_form FORM, class F>
__device__ void fetch_behind(const struct launch_tiles &t, const group_place &at, group_memory &s,
                             int after, int steps, const F &fetch_next)
{
    if (after < steps) {
        fetch_stage(t, at, after, s);
    } else {
        fetch_next();
    }
    __pipeline_commit();
}

/* The stages behind the first. */
template <launch_form FORM, class F>
__device__ void add_stages(const struct launch_tiles &t, group_place &at, group_memory &s,
                           const F &fetch_next, tile_values<group_tile> &D)
{
    const int steps = at.steps;
#pragma unroll 1
    for (int step = STAGE; step < steps; step += STAGE) {
        const int slot = take_stage(at);
        fetch_behind<FORM>(t, at, s, step + STAGE, steps, fetch_next);
        add_stage<true>(at, s, step, slot, D);
    }
}

inline __device__ void begin_rows(const group_memory &s, group_place &at)
{
    float x[group_tile::X];
    take_norms(s, x);
    at.most = fmax(fmax(x[0], x[1]), fmax(x[2], x[3]));
}

/* As that of tile.cuh. */
template <launch_form FORM, class F>
__device__ void distances(const struct launch_tiles &t, group_place &at, group_memory &s,
                          const F &fetch_next, tile_values<group_tile> &D)
{
    const bool near = at.reach <= t.kernel.inner;
    const int steps = at.steps, slot = take_stage(at);
    unsigned far = 15;
    fetch_behind<FORM>(t, at, s, STAGE, near ? steps : 1, fetch_next);
    if (near) {
        if (at.fresh) {
            begin_rows(s, at);
        }
        far = far_rows(t.kernel.inner, at, s);
        add_stage<false>(at, s, 0, slot, D);
        add_stages<FORM>(t, at, s, fetch_next, D);
    }
    at.fresh = at.fresh && !near;
    if (far != 0) {
        replace_far(t, at, far, D);
    }
}

} // namespace
