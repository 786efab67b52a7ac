/*
 * Products of points with themselves: each tile between two blocks of rows, I and J, is computed
 * once and used for both (launch_both of launch.h). A block of threads walks through the tiles of
 * one pair, the z rows J innermost. Row sums stay in registers while it does, as in product.cuh. So
 * each pair leaves one share for each of its rows, which launch_add_both adds in the order of the
 * steps.
 *
 * Columns have a thread's sums over its rows of all x tiles, at its own places in shared memory,
 * where nobody waits for anybody, and the DOWN threads' are added in their order at the end. With
 * several right-hand sides there is no room for these: then a tile's are added at once.
 */
#pragma once

#include "gpu/product.cuh"

namespace {

/* Right-hand sides a block takes at most. Its rows are as many as the 64 KiB of a Turing have room
 * for, with column sums of float64: how rows are cut must not depend on right-hand sides, where
 * values can be kept for all of them. */
template <class T, class W> constexpr int BOTH_COLUMNS = sizeof(T) == sizeof(W) ? 4 : 1;
constexpr int BOTH_ROWS = LAUNCH_BOTH_ROWS;

/* Blocks that a multiprocessor is to hold. */
template <launch_form FORM, class T, class W, int COLS>
constexpr int BOTH_RESIDENT = FORM == FORM_L2_GROUP ? 2 : RESIDENT<FORM, T, W, COLS>;

/* One column's shares of a tile's column sums, of each of the S::DOWN threads, twice: one is added
 * up while the next is written. Row sums take its place when a row of tiles is done; where a thread
 * keeps its column sums itself there is nothing else. */
template <class S, class W, int COLS> union alignas(16) shares {
    W columns[2][S::DOWN][S::ZT];
    double rows[S::XT][S::ACROSS + 1];
};

template <class S, class W> union alignas(16) shares<S, W, 1> {
    double rows[S::XT][S::ACROSS + 1];
};

/* Sums of columns: of all threads together, by column. */
template <class S, class W, int COLS> struct column_sums {
    W of[COLS][BOTH_ROWS];
};

/* Of one right-hand side, of each thread by itself: the pieces of 16 bytes of all threads lie
 * together. */
template <class S, class W> struct column_sums<S, W, 1> {
    static constexpr int EACH = 16 / sizeof(W), PIECES = S::Z / EACH;
    struct alignas(16) sixteen {
        W w[EACH];
    };
    sixteen of[BOTH_ROWS / S::ZT][PIECES][THREADS];

    __device__ void load(int tile, W (&ret)[S::Z]) const
    {
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const sixteen part = of[tile][p][threadIdx.x];
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                ret[p * EACH + k] = part.w[k];
            }
        }
    }
    __device__ void store(int tile, const W (&sums)[S::Z])
    {
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            sixteen part;
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                part.w[k] = sums[p * EACH + k];
            }
            of[tile][p][threadIdx.x] = part;
        }
    }
    /* Of a column of the tile, when all threads have passed a barrier. */
    __device__ W total(int tile, int column) const
    {
        constexpr int V = S::VECTOR;
        const int across = column / V % S::ACROSS;
        const int j = column / (S::ACROSS * V) * V + column % V;
        W sum = 0;
#pragma unroll 8
        for (int down = 0; down < S::DOWN; down++) {
            sum += of[tile][j / EACH][S::thread(across, down)].w[j % EACH];
        }
        return sum;
    }
};

template <class S, class W, int COLS> struct both_memory {
    typename S::memory tile;
    alignas(16) W weights[2][COLS][S::ZT], x_weights[COLS][S::XT];
    shares<S, W, COLS> part;
    column_sums<S, W, COLS> columns;
};

/* What a block may have on a Turing. */
template <class T, class W, int COLS>
constexpr bool FITS = sizeof(both_memory<lanes_tile<T>, W, COLS>) <= 64 << 10;
static_assert(FITS<float, float, 1> && FITS<float, double, 1> && FITS<double, double, 1> &&
                  FITS<float, float, BOTH_COLUMNS<float, float>> &&
                  FITS<double, double, BOTH_COLUMNS<double, double>>,
              "lanes are what every device has");

/* sums[j] += sum_i K[i][j] u[i] over the thread's rows. */
template <class S, class W>
__device__ void add_own_rows(const tile_values<S> &K, const W *weights, W (&sums)[S::Z])
{
    W u[S::X];
    take<S::VECTOR, S::DOWN>(weights, S::down(), u);
#pragma unroll
    for (int i = 0; i < S::X; i++) {
#pragma unroll
        for (int j = 0; j < S::Z; j++) {
            sums[j] = fma((W)K[i][j], u[i], sums[j]);
        }
    }
}

/* Adds the threads' shares of a tile's column sums to those at `sums`, of which each thread has
 * one. `memory` is not read any more when all threads have passed the barrier of the next call. */
template <class S, class W>
__device__ void add_shares(const W (&own)[S::Z], W (&memory)[S::DOWN][S::ZT], W *sums)
{
    constexpr int V = S::VECTOR;
    W *const mine = memory[S::down()];
#pragma unroll
    for (int j = 0; j < S::Z; j++) {
        mine[j / V * (S::ACROSS * V) + S::across() * V + j % V] = own[j];
    }
    __syncthreads();
    if (threadIdx.x < S::ZT) {
        W sum = 0;
#pragma unroll
        for (int r = 0; r < S::DOWN; r++) {
            sum += memory[r][threadIdx.x];
        }
        sums[threadIdx.x] += sum;
    }
}

/* Adds the column sums of the z-th tile of z rows. */
template <class S, class W, int COLS>
__device__ void add_columns(const tile_values<S> &K, int cols, int z, both_memory<S, W, COLS> &s)
{
    if constexpr (COLS == 1) {
        W own[S::Z];
        s.columns.load(z, own);
        add_own_rows<S>(K, s.x_weights[0], own);
        s.columns.store(z, own);
    } else {
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            if (c < cols) {
                W own[S::Z] = {};
                add_own_rows<S>(K, s.x_weights[c], own);
                add_shares<S>(own, s.part.columns[c & 1], s.columns.of[c] + z * S::ZT);
            }
        }
    }
}

/* Of members x0 .. x0+XT-1, which begin a tile or lie in one. */
template <class S, class W, int COLS>
__device__ void fetch_x_weights(const struct launch_both &p, int64_t x0, W (&to)[COLS][S::XT])
{
    constexpr int EACH = 16 / sizeof(W), PIECES = S::XT / EACH;
    for (int e = threadIdx.x; e < p.cols * PIECES; e += THREADS) {
        const int c = e / PIECES, i = e % PIECES * EACH;
        const int64_t tile = (x0 + i) / S::ZT, member = (x0 + i) % S::ZT;
        const W *const from = (const W *)p.weights + (tile * p.cols + c) * S::ZT + member;
        __pipeline_memcpy_async(&to[c][i], from, 16);
    }
}

/* How many of the pairs before this one are kept (launch_kept). */
inline __host__ __device__ int64_t slots_before(const struct launch_kept &k, int64_t pair)
{
    const int64_t before = pair - k.first_pair;
    return (before < 0 ? 0 : before < k.pairs ? before : k.pairs) * k.slots / k.pairs;
}

inline __device__ bool is_kept(const struct launch_kept &k, int64_t pair)
{
    return k.slots > 0 && slots_before(k, pair + 1) > slots_before(k, pair);
}

/* What launch_both leaves of a step: one share of each side's rows. */
template <class W> struct step_shares {
    W *I, *J; /* [cols][ld] */
    int64_t ld;
};

template <class W> __device__ step_shares<W> shares_of(const struct launch_both &p, int64_t step)
{
    const int64_t ld = p.blocks * p.rows;
    W *first = (W *)p.partials + step * 2 * p.cols * ld;
    return {first, first + p.cols * ld, ld};
}

/* The thread's sums of a row of tiles become shares of the rows from x0 on. */
template <class S, class W, int COLS>
__device__ void write_rows(const step_shares<W> &to, int cols, int64_t x0, W (&sums)[S::X][COLS],
                           double (&part)[S::XT][S::ACROSS + 1])
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < cols) {
            const double total = total_of_row<S>(c, sums, part);
            if (threadIdx.x < S::XT) {
                to.I[c * to.ld + x0 + threadIdx.x] = (W)total;
            }
        }
#pragma unroll
        for (int i = 0; i < S::X; i++) {
            sums[i][c] = 0;
        }
    }
    __syncthreads();
}

template <class S, class W, int COLS>
__device__ void clear_columns(column_sums<S, W, COLS> &columns)
{
    constexpr int COUNT = sizeof columns / sizeof(W);
    for (int e = threadIdx.x; e < COUNT; e += THREADS) {
        ((W *)&columns)[e] = 0;
    }
}

template <class S, class W, int COLS> __device__ void clear_memory(both_memory<S, W, COLS> &s)
{
    clear_columns<S, W, COLS>(s.columns);
    for (int e = threadIdx.x; e < 2 * COLS * S::ZT; e += THREADS) {
        (&s.weights[0][0][0])[e] = 0;
    }
    for (int e = threadIdx.x; e < COLS * S::XT; e += THREADS) {
        (&s.x_weights[0][0])[e] = 0;
    }
    __syncthreads();
}

/* The column sums become shares of the rows from z0 on; all threads have passed a barrier since
 * they were added to. */
template <class S, class W, int COLS>
__device__ void write_columns(const step_shares<W> &to, int cols, int64_t z0, int rows,
                              const column_sums<S, W, COLS> &columns)
{
    for (int e = threadIdx.x; e < cols * rows; e += THREADS) {
        const int c = e / rows, j = e % rows;
        W sum;
        if constexpr (COLS == 1) {
            sum = columns.total(j / S::ZT, j % S::ZT);
        } else {
            sum = columns.of[c][j];
        }
        to.J[c * to.ld + z0 + j] = sum;
    }
}

/* Block (x, y) of near_blocks(): block I = x of rows in step first_step + y. Diagonal blocks are
 * computed as any product is. */
template <launch_form FORM, class T, class W, int COLS>
__global__
__launch_bounds__(THREADS, BOTH_RESIDENT<FORM, T, W, COLS>) void sums_of_both(struct launch_both p)
{
    if constexpr (!RUNS<FORM>) {
        return;
    }
    using S = tile_of<FORM, T>;
    auto &s = *dynamic_shared<both_memory<S, W, COLS>>();
    const struct launch_tiles &t = p.tiles;
    const block_at at_block = near_blocks(p.blocks, p.steps);
    const int64_t I = at_block.x, step = p.first_step + at_block.y, J = (I + step) % p.blocks;
    if ((2 * step == p.blocks && I >= step) || is_kept(p.kept, step * p.blocks + I)) {
        return; /* J met I, or sums_of_kept has both */
    }
    const int64_t n = t.P.count, x_first = I * p.rows, z_first = J * p.rows;
    const int x_rows = (int)min(p.rows, n - x_first), z_rows = (int)min(p.rows, n - z_first);
    const int x_tiles = (x_rows + S::XT - 1) / S::XT, z_tiles = (z_rows + S::ZT - 1) / S::ZT;
    const float *const reach = p.reach + z_first / S::ZT;
    const W *const weights = (const W *)p.weights + z_first * p.cols;
    typename S::place at = S::begin(t, x_first, z_first, reach[0], &s + 1);
    const step_shares<W> to = shares_of<W>(p, at_block.y);
    W sums[S::X][COLS] = {};
    clear_memory(s);
    fetch_x_weights<S>(p, x_first, s.x_weights);
    fetch_tile<FORM>(t, at, s.tile);
    fetch_weights<S>(weights, p.cols, s.weights[0]);
    __pipeline_commit();
    for (int x = 0, z = 0; x < x_tiles; at.tile++) {
        tile_values<S> K;
        typename S::place next = S::behind(t, at);
        const auto fetch_next = [&] {
            if (z + 1 < z_tiles) {
                next.slot = at.slot;
                next.reach = reach[z + 1];
                fetch_tile<FORM>(t, next, s.tile);
                fetch_weights<S>(weights + (z + 1) * S::ZT * p.cols, p.cols,
                                 s.weights[next.tile & 1]);
            }
        };
        distances<FORM>(t, at, s.tile, fetch_next, K);
        take_values<FORM, S>(t.kernel, x_rows - x * S::XT, z_rows - z * S::ZT, K);
        add_rows<S>(K, s.weights[at.tile & 1], sums);
        if (step != 0) {
            add_columns<S>(K, p.cols, z, s);
        }
        S::go_on(at, next);
        if (++z == z_tiles) {
            write_rows<S>(to, p.cols, x_first + x * S::XT, sums, s.part.rows);
            z = 0;
            if (++x < x_tiles) {
                at = S::begin_row(t, at, x_first + x * S::XT, z_first, reach[0]);
                fetch_x_weights<S>(p, x_first + x * S::XT, s.x_weights);
                at.tile++;
                fetch_tile<FORM>(t, at, s.tile);
                fetch_weights<S>(weights, p.cols, s.weights[at.tile & 1]);
                at.tile--;
                __pipeline_commit();
            }
        }
    }
    if (step != 0) {
        write_columns<S, W, COLS>(to, p.cols, z_first, (int)p.rows, s.columns);
    }
}

template <launch_form FORM, class T, class W, int COLS>
int start_both_with(const struct launch_both &p, void *stream)
{
    using S = tile_of<FORM, T>;
    const size_t bytes = sizeof(both_memory<S, W, COLS>) + S::bytes_behind(p.tiles.d);
    const dim3 grid((unsigned)p.blocks, (unsigned)p.steps);
    return start_with(sums_of_both<FORM, T, W, COLS>, grid, bytes, stream, p);
}

template <launch_form FORM, class T, class W>
int start_both_of(const struct launch_both &p, void *stream)
{
    return p.cols == 1 ? start_both_with<FORM, T, W, 1>(p, stream)
                       : start_both_with<FORM, T, W, BOTH_COLUMNS<T, W>>(p, stream);
}

template <launch_form FORM> int start_both(const struct launch_both &p, void *stream)
{
    if constexpr (FORM != FORM_L2_GROUP) {
        if (p.tiles.dtype == DTYPE_F64) {
            return start_both_of<FORM, double, double>(p, stream);
        }
    }
    if (p.type == DTYPE_F64) {
        return start_both_of<FORM, float, double>(p, stream);
    }
    return start_both_of<FORM, float, float>(p, stream);
}

} // namespace
