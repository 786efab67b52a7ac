/*
 * Products of points of few features (short.cuh) with one right-hand side, gaussian, float32, by
 * groups of four warps: what most of the work of many rows is. x rows are columns of the products
 * of matrices and stay, z rows are their rows and pass by, 64 at a time: a thread holds the 2 x 32
 * values of two z rows and 32 x rows. So the sums of its x rows stay in registers over all z rows,
 * the weights of its z rows are one read of 8 bytes, and where values serve both sides the sum of a
 * z row needs but two exchanges between four lanes.
 *
 * A tile of 128 z rows, or 64, comes as one copy of the copy engine, on its way while the one
 * before is worked on; one barrier a tile tells that nobody reads what it will replace.
 *
 * Rows too far out for inner products (launch_kernel.inner) take differences, as in group.cuh: a
 * row x against 64 z rows, whatever the rows beside it.
 */
#pragma once

#include "gpu/both.cuh"

namespace {

constexpr int SHORT_ROWS = LAUNCH_TILE; /* x rows of a block */
constexpr int SHORT_X = 32;             /* x rows of a thread: 4 panels' 2 times 4 */
/* z rows of a copy, and blocks of threads that a multiprocessor is to hold: its memory says so. */
template <int BLOCKS> constexpr int SHORT_TILE = BLOCKS <= 4 ? 2 * SHORT_UNIT : SHORT_UNIT;
template <int BLOCKS, bool BOTH>
constexpr int SHORT_RESIDENT = BLOCKS > 8           ? 2
                               : BLOCKS > 6 || BOTH ? 3
                                                    : 4;

template <int BLOCKS> struct alignas(128) short_memory {
    unsigned char x[BLOCKS * BLOCK_BYTES];
    unsigned char z[2][SHORT_TILE<BLOCKS> / SHORT_UNIT][BLOCKS * BLOCK_BYTES / 2];
    alignas(16) float weights[2][SHORT_TILE<BLOCKS>];
    float shares[THREADS / 32][SHORT_ROWS]; /* the warps' sums of the x rows */
    arrival x_there, z_there[2];
};

/* Sums of the z rows of a pair of blocks. */
template <int BLOCKS> struct short_both_memory {
    short_memory<BLOCKS> tile;
    float columns[LAUNCH_SHORT_ROWS];
};

/* What a block of threads works on: x rows from `x` on against z rows from `z` on, of which there
 * are so many. */
struct short_walk {
    const struct launch_tiles &t;
    int64_t x, z;
    int x_rows, z_rows, z_tiles;
    int left;  /* tiles of z rows that are not on their way yet, of all the x rows */
    int count; /* of tiles so far */
    const float *weights, *reach;
};

/* ---- where a thread is ---- */

/* Its x rows j .. j+3 in the block's, j a multiple of 4, and its first z row of two in 64. */
inline __device__ int short_x_row(int j)
{
    return j / 8 * PANEL + j / 4 % 2 * 16 + threadIdx.x % 4 * 4;
}

inline __device__ int short_z_row()
{
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    return warp / 2 * PANEL + part_row(warp % 2 * 16 + g);
}

/* Which value of a product is of x row j and z row h. */
inline __device__ constexpr int short_value(int j, int h)
{
    return (j / 8 * 4 + j % 4) * 4 + 2 * h + j / 4 % 2;
}

/* ---- staging ---- */

inline __device__ void begin_short(arrival &x_there, arrival (&z_there)[2])
{
    if (threadIdx.x == 0) {
        arrival_begin(x_there);
        arrival_begin(z_there[0]);
        arrival_begin(z_there[1]);
        arrivals_fence();
    }
    __syncthreads();
}

/* By one thread: the next tile of z rows, from the first one again behind the last. */
template <int BLOCKS> __device__ void fetch_short(short_walk &w, int tile, short_memory<BLOCKS> &s)
{
    const int slot = tile & 1, row = tile % w.z_tiles * SHORT_TILE<BLOCKS>;
    const int64_t panel = w.t.Q.panel + (w.z + row) / PANEL;
    arrival_expect(s.z_there[slot], sizeof s.z[0] + sizeof s.weights[0]);
    copy_to_shared(s.z[slot], short_z_blocks(w.t.Q, panel, BLOCKS), sizeof s.z[0], s.z_there[slot]);
    copy_to_shared(s.weights[slot], w.weights + row, sizeof s.weights[0], s.z_there[slot]);
    w.left--;
}

/* By one thread: the `turn`-th tile of x rows; all threads have read the one before. */
template <int BLOCKS>
__device__ void fetch_short_x(const short_walk &w, int turn, short_memory<BLOCKS> &s)
{
    const int64_t panel = w.t.P.panel + (w.x + turn * SHORT_ROWS) / PANEL;
    arrival_expect(s.x_there, sizeof s.x);
    copy_to_shared(s.x, short_x_blocks(w.t.P, panel, BLOCKS), sizeof s.x, s.x_there);
}

/* ---- distances ---- */

/* c <- the distances of 64 z rows, which begin at `z`, from the x rows. */
template <int PLAN>
__device__ void short_distances(const unsigned char *x, const unsigned char *z, float (&c)[64])
{
    constexpr short_plan plan = short_plan_at(PLAN);
    const uint64_t of_z = describe_matrix(z, 128, BLOCK_BYTES / 4);
    const uint64_t of_x = describe_matrix(x, 128, BLOCK_BYTES / 2);
    group_fence();
#pragma unroll
    for (int i = 0; i < plan.products(); i++) {
        const uint64_t a = of_z + plan.z(i) * (BLOCK_BYTES / 2 >> 4);
        const uint64_t b = of_x + plan.x(i) * (BLOCK_BYTES >> 4);
        if (i == 0) {
            subtract_group_product<false>(c, a, b);
        } else {
            subtract_group_product<true>(c, a, b);
        }
    }
    group_commit();
    group_wait<0>(c);
}

/* What there is of 4 features' numbers, or norms, of x rows from `row` on. */
inline __device__ float4 short_x_numbers(const struct launch_tiles &t, int64_t row, int64_t k)
{
    const float *const panel =
        (const float *)t.P.data + (t.P.panel + row / PANEL) * t.ld * PANEL + row % PANEL;
    return *(const float4 *)(panel + k * PANEL);
}

/* The most of the norms of the thread's x rows. */
inline __device__ float short_most(const struct launch_tiles &t, int64_t x)
{
    float most = 0;
#pragma unroll
    for (int j = 0; j < SHORT_X; j += 4) {
        const float4 n = short_x_numbers(t, x + short_x_row(j), t.d);
        most = fmax(most, fmax(fmax(n.x, n.y), fmax(n.z, n.w)));
    }
    return most;
}

/* 64 z rows against the x rows: what tells which distances are to be taken another way. */
struct short_unit {
    const float *x, *z; /* the thread's first x row, and z row, in their panels */
    int64_t ld;
    int d, x_rows, z_rows; /* rows from the block's, and the unit's, first on */
    float limit;           /* for norms of x rows */
};

inline __device__ short_unit short_unit_of(const short_walk &w, int turn, int row, float reach)
{
    const struct launch_tiles &t = w.t;
    const int64_t x = t.P.panel + (w.x + turn * SHORT_ROWS) / PANEL;
    const int64_t z = t.Q.panel + (w.z + row + short_z_row()) / PANEL;
    return {(const float *)t.P.data + x * t.ld * PANEL + short_x_row(0),
            (const float *)t.Q.data + z * t.ld * PANEL + short_z_row() % PANEL,
            t.ld,
            (int)t.d,
            w.x_rows - turn * SHORT_ROWS,
            w.z_rows - row,
            t.kernel.inner - reach};
}

/* Distances of x row j from both z rows, by differences. */
inline __device__ void take_short_differences(const short_unit &u, const float *x, int j, float *D)
{
    float sums[2] = {0, 0};
    const float *z = u.z;
    for (int k = 0; k < u.d; k++, x += PANEL, z += PANEL) {
        sums[0] = fma(*x - z[0], *x - z[0], sums[0]);
        sums[1] = fma(*x - z[1], *x - z[1], sums[1]);
    }
    D[short_value(j, 0)] = 0.5F * sums[0];
    D[short_value(j, 1)] = 0.5F * sums[1];
}

/* Distances of x rows that are too far out become those by differences, and rows that are not there
 * infinitely far. By a call, so that nothing of this takes registers of those who need none of it.
 */
APART __device__ void repair_short(short_unit u, float *D)
{
    for (int j = 0; j < SHORT_X; j++) {
        const int row = short_x_row(j / 4 * 4) + j % 4;
        const float *const x =
            u.x + row / PANEL * u.ld * PANEL + row % PANEL - short_x_row(0) % PANEL;
        if (!(x[(int64_t)u.d * PANEL] <= u.limit)) {
            take_short_differences(u, x, j, D);
        }
        for (int h = 0; h < 2; h++) {
            if (row >= u.x_rows || short_z_row() + h >= u.z_rows) {
                D[short_value(j, h)] = INFINITY;
            }
        }
    }
}

/* ---- sums ---- */

/* Values of distances times the z rows' weights, to the sums of x rows; BOTH: and times the x rows'
 * to the sums of z rows. */
template <bool BOTH>
__device__ void add_short(const float (&c)[64], const float (&w)[2], const float *u,
                          float (&x_sums)[SHORT_X], float (&z_sums)[2])
{
#pragma unroll
    for (int j = 0; j < SHORT_X; j++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float value = power_of_two(-c[short_value(j, h)]);
            x_sums[j] = fma(value, w[h], x_sums[j]);
            if constexpr (BOTH) {
                z_sums[h] = fma(value, u[j], z_sums[h]);
            }
        }
    }
}

/* Adds the z rows' sums of four lanes: one row by each of the first two. */
inline __device__ void add_short_columns(const float (&z_sums)[2], float *columns)
{
    const bool second = (threadIdx.x & 1) != 0;
    const float give = second ? z_sums[0] : z_sums[1];
    float sum = (second ? z_sums[1] : z_sums[0]) + __shfl_xor_sync(0xffffffffU, give, 1);
    sum += __shfl_xor_sync(0xffffffffU, sum, 2);
    if (threadIdx.x % 4 < 2) {
        columns[short_z_row() + threadIdx.x % 2] += sum;
    }
}

/* Of COUNT sums this lane and the one BIT apart keep half each, and add them. */
template <int COUNT, int BIT> __device__ void halve_sums(float (&sums)[SHORT_X])
{
    const bool upper = (threadIdx.x & BIT) != 0;
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++) {
        const float give = upper ? sums[i] : sums[i + COUNT / 2];
        const float keep = upper ? sums[i + COUNT / 2] : sums[i];
        sums[i] = keep + __shfl_xor_sync(0xffffffffU, give, BIT);
    }
}

/* Of the x row of this thread's number, all threads' sums. When it returns all threads are done
 * with the x rows. */
inline __device__ float total_of_short(float (&sums)[SHORT_X], float (&shares)[4][SHORT_ROWS])
{
    halve_sums<32, 16>(sums);
    halve_sums<16, 8>(sums);
    halve_sums<8, 4>(sums);
    const int j = ((threadIdx.x & 16) + (threadIdx.x & 8) + (threadIdx.x & 4));
    float *const mine = shares[threadIdx.x / 32] + short_x_row(j);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        mine[i] = sums[i];
    }
    __syncthreads();
    float total = 0;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; warp++) {
        total += shares[warp][threadIdx.x];
    }
    return total;
}

/* ---- the walk ---- */

inline __device__ void copy_short(const float (&from)[64], float (&to)[64])
{
#pragma unroll
    for (int i = 0; i < 64; i++) {
        to[i] = from[i];
    }
}

/* One tile of z rows against the `turn`-th x rows. */
template <int PLAN, bool BOTH, class M>
__device__ void use_short_tile(const short_walk &w, int turn, int tile, float most, M &s,
                               const float *u, float *columns, float (&x_sums)[SHORT_X])
{
    constexpr int TILE = SHORT_TILE<short_plan_at(PLAN).blocks>;
    const int slot = w.count & 1, x_rows = w.x_rows - turn * SHORT_ROWS;
#pragma unroll
    for (int unit = 0; unit < TILE / SHORT_UNIT; unit++) {
        const int row = tile * TILE + unit * SHORT_UNIT;
        if (row >= w.z_rows) {
            break;
        }
        float c[64], z_sums[2] = {0, 0};
        const float2 pair = *(const float2 *)(s.weights[slot] + unit * SHORT_UNIT + short_z_row());
        const float weights[2] = {pair.x, pair.y}, reach = w.reach[row / SHORT_UNIT];
        short_distances<PLAN>(s.x, s.z[slot][unit], c);
        if (!(most <= w.t.kernel.inner - reach) || x_rows < SHORT_ROWS ||
            w.z_rows - row < SHORT_UNIT) {
            float D[64];
            copy_short(c, D);
            repair_short(short_unit_of(w, turn, row, reach), D);
            copy_short(D, c);
        }
        __syncwarp(); /* the next products take all lanes at once */
        add_short<BOTH>(c, weights, u, x_sums, z_sums);
        if constexpr (BOTH) {
            add_short_columns(z_sums, columns + row);
        }
    }
}

/* x_sums <- the sums of the `turn`-th x rows over all z rows. */
template <int PLAN, bool BOTH, int BLOCKS>
__device__ void sum_short(short_walk &w, int turn, short_memory<BLOCKS> &s, const float *u,
                          float *columns, float (&x_sums)[SHORT_X])
{
    const float most = short_most(w.t, w.x + turn * SHORT_ROWS);
#pragma unroll
    for (int j = 0; j < SHORT_X; j++) {
        x_sums[j] = 0;
    }
    arrival_wait(s.x_there, turn & 1);
#pragma unroll 1
    for (int tile = 0; tile < w.z_tiles; tile++, w.count++) {
        __syncthreads(); /* the other slot is read */
        if (threadIdx.x == 0 && w.left > 0) {
            fetch_short(w, w.count + 1, s);
        }
        arrival_wait(s.z_there[w.count & 1], w.count / 2 & 1);
        use_short_tile<PLAN, BOTH>(w, turn, tile, most, s, u, columns, x_sums);
    }
}

template <int BLOCKS>
__device__ void begin_walk(short_walk &w, int x_tiles, short_memory<BLOCKS> &s)
{
    w.z_tiles = (w.z_rows + SHORT_TILE<BLOCKS> - 1) / SHORT_TILE<BLOCKS>;
    w.left = w.z_tiles * x_tiles;
    w.count = 0;
    begin_short(s.x_there, s.z_there);
    if (threadIdx.x == 0) {
        fetch_short_x(w, 0, s);
        fetch_short(w, 0, s);
    }
}

/* As sums_of_chunk (product.cuh). */
template <int PLAN>
__global__ __launch_bounds__(
    THREADS,
    SHORT_RESIDENT<short_plan_at(PLAN).blocks, false>) void sums_of_short(struct launch_sums p)
{
    if constexpr (!HAS_GROUPS) {
        return;
    }
    constexpr int BLOCKS = short_plan_at(PLAN).blocks;
    auto &s = *dynamic_shared<short_memory<BLOCKS>>();
    const int64_t x0 = (int64_t)blockIdx.x * SHORT_ROWS, first = blockIdx.y * p.chunk;
    const int members = (int)min(p.chunk, p.tiles.Q.count - first);
    short_walk w = {p.tiles, x0, first, SHORT_ROWS, members};
    float sums[SHORT_X];
    w.weights = (const float *)p.weights + first;
    w.reach = p.reach + first / SHORT_UNIT;
    begin_walk(w, 1, s);
    sum_short<PLAN, false>(w, 0, s, nullptr, nullptr, sums);
    const float total = total_of_short(sums, s.shares);
    const int64_t row = x0 + threadIdx.x;
    if (row < p.tiles.P.count) {
        p.partials[blockIdx.y * p.tiles.P.count + row] = (double)total;
    }
}

/* As sums_of_both (both.cuh), with as many as LAUNCH_SHORT_ROWS rows in a block. */
template <int PLAN>
__global__ __launch_bounds__(
    THREADS,
    SHORT_RESIDENT<short_plan_at(PLAN).blocks, true>) void both_of_short(struct launch_both p)
{
    if constexpr (!HAS_GROUPS) {
        return;
    }
    constexpr int BLOCKS = short_plan_at(PLAN).blocks;
    auto &s = *dynamic_shared<short_both_memory<BLOCKS>>();
    const block_at at = near_blocks(p.blocks, p.steps);
    const int64_t I = at.x, step = p.first_step + at.y, J = (I + step) % p.blocks;
    if (2 * step == p.blocks && I >= step) {
        return; /* J met I */
    }
    const int64_t n = p.tiles.P.count, x0 = I * p.rows, z0 = J * p.rows;
    short_walk w = {p.tiles, x0, z0, (int)min(p.rows, n - x0), (int)min(p.rows, n - z0)};
    const int x_tiles = (w.x_rows + SHORT_ROWS - 1) / SHORT_ROWS;
    const step_shares<float> to = shares_of<float>(p, at.y);
    w.weights = (const float *)p.weights + z0;
    w.reach = p.reach + z0 / SHORT_UNIT;
    for (int e = threadIdx.x; e < p.rows; e += THREADS) {
        s.columns[e] = 0;
    }
    begin_walk(w, x_tiles, s.tile);
    for (int x = 0; x < x_tiles; x++) {
        float sums[SHORT_X], u[SHORT_X];
        take<4, 4>((const float *)p.weights + x0 + x * SHORT_ROWS, threadIdx.x % 4, u);
        sum_short<PLAN, true>(w, x, s.tile, u, s.columns, sums);
        const float total = total_of_short(sums, s.tile.shares);
        if (threadIdx.x == 0 && x + 1 < x_tiles) {
            fetch_short_x(w, x + 1, s.tile);
        }
        to.I[x0 + x * SHORT_ROWS + threadIdx.x] = total;
        __syncthreads(); /* the shares are read */
    }
    for (int e = threadIdx.x; step != 0 && e < p.rows; e += THREADS) {
        to.J[z0 + e] = s.columns[e];
    }
}

/* ---- starting ---- */

inline bool takes_short(const struct launch_tiles &t, int cols, enum dtype type)
{
    return t.kernel.group && t.kernel.function == FUNCTION_EXP && is_short(t.d) && cols == 1 &&
           type == DTYPE_F32;
}

template <int PLAN = 0> int start_short_sums(const struct launch_sums &p, void *stream)
{
    if constexpr (PLAN + 1 < SHORT_PLANS) {
        if (short_plan_for(p.tiles.d) > PLAN) {
            return start_short_sums<PLAN + 1>(p, stream);
        }
    }
    const dim3 grid((unsigned)((p.tiles.P.count + SHORT_ROWS - 1) / SHORT_ROWS),
                    (unsigned)((p.tiles.Q.count + p.chunk - 1) / p.chunk));
    return start_with(sums_of_short<PLAN>, grid, sizeof(short_memory<short_plan_at(PLAN).blocks>),
                      stream, p);
}

template <int PLAN = 0> int start_short_both(const struct launch_both &p, void *stream)
{
    if constexpr (PLAN + 1 < SHORT_PLANS) {
        if (short_plan_for(p.tiles.d) > PLAN) {
            return start_short_both<PLAN + 1>(p, stream);
        }
    }
    const dim3 grid((unsigned)p.blocks, (unsigned)p.steps);
    return start_with(both_of_short<PLAN>, grid,
                      sizeof(short_both_memory<short_plan_at(PLAN).blocks>), stream, p);
}

} // namespace
