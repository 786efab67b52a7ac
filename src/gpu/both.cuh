/*
 * Products of points with themselves: each tile between two blocks of rows, I and J, is computed
 * once and used for both (launch_both of launch.h). A block of threads walks through the tiles of
 * one pair, the z rows J innermost. Row sums stay in registers while it does, as in product.cuh.
 * Column sums of a tile are added over the DOWN threads in their order, and to those of the x tiles
 * before, in shared memory. So each pair leaves one share for each of its rows, which
 * launch_add_both adds in the order of the steps.
 */
#pragma once

#include "gpu/product.cuh"

namespace {

/* Right-hand sides a block takes at most, and rows of a block: as many as shared memory has room
 * for with the most right-hand sides. How rows are cut must not depend on how many there are, or
 * values could not be kept for all of them. */
template <class T, class W> constexpr int BOTH_COLUMNS = sizeof(T) == sizeof(W) ? 4 : 1;
template <class T> constexpr int BOTH_ROWS = 2048 / (int)sizeof(T);

/* One column's shares of the column sums, of each of the DOWN threads, TURNS times: one is added up
 * while the next is written. Row sums take its place when a row of tiles is done. */
template <class T, class W, int TURNS> union alignas(16) shares {
    W columns[TURNS][DOWN][ZT<T>];
    double rows[XT][ACROSS + 1];
};

template <class T, class W, int COLS> struct both_memory {
    tile_memory<T> tile;
    alignas(16) W weights[2][COLS][ZT<T>], x_weights[COLS][XT];
    shares<T, W, (COLS > 1 ? 2 : 1)> part;
    W columns[COLS][BOTH_ROWS<T>];
};

/* ret[j] <- sum_i K[i][j] u[i] over the thread's rows. */
template <class T, class W>
__device__ void column_shares(const T (&K)[X][Z<T>], const W *weights, W (&ret)[Z<T>])
{
    W u[X];
    take<T, DOWN>(weights, down(), u);
#pragma unroll
    for (int j = 0; j < Z<T>; j++) {
        ret[j] = 0;
    }
#pragma unroll
    for (int i = 0; i < X; i++) {
#pragma unroll
        for (int j = 0; j < Z<T>; j++) {
            ret[j] = fma((W)K[i][j], u[i], ret[j]);
        }
    }
}

/* Adds the threads' shares of a tile's column sums to those at `sums`, of which each thread has
 * one. `memory` is not read any more when all threads have passed the barrier of the next call. */
template <class T, class W>
__device__ void add_shares(const W (&own)[Z<T>], W (&memory)[DOWN][ZT<T>], W *sums)
{
    constexpr int V = VECTOR<T>;
    W *const mine = memory[down()];
#pragma unroll
    for (int j = 0; j < Z<T>; j++) {
        mine[j / V * (ACROSS * V) + across() * V + j % V] = own[j];
    }
    __syncthreads();
    if (threadIdx.x < ZT<T>) {
        W sum = 0;
#pragma unroll
        for (int r = 0; r < DOWN; r++) {
            sum += memory[r][threadIdx.x];
        }
        sums[threadIdx.x] += sum;
    }
}

/* Adds the tile's column sums to those from `column` on. */
template <class T, class W, int COLS>
__device__ void add_columns(const T (&K)[X][Z<T>], int cols, int column, both_memory<T, W, COLS> &s)
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < cols) {
            W own[Z<T>];
            column_shares<T>(K, s.x_weights[c], own);
            add_shares<T>(own, s.part.columns[c & 1], s.columns[c] + column);
        }
    }
}

/* Of a tile of ZT<T> members, those x0 .. x0+XT-1 (which lie in one). */
template <class T, class W, int COLS>
__device__ void fetch_x_weights(const struct launch_both &p, int64_t x0, W (&to)[COLS][XT])
{
    constexpr int EACH = 16 / sizeof(W), PIECES = XT / EACH;
    const W *from = (const W *)p.weights + x0 / ZT<T> * ZT<T> * p.cols + x0 % ZT<T>;
    for (int e = threadIdx.x; e < p.cols * PIECES; e += THREADS) {
        const int c = e / PIECES, i = e % PIECES * EACH;
        __pipeline_memcpy_async(&to[c][i], from + c * ZT<T> + i, 16);
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
template <class T, class W, int COLS>
__device__ void write_rows(const step_shares<W> &to, int cols, int64_t x0, W (&sums)[X][COLS],
                           double (&part)[XT][ACROSS + 1])
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < cols) {
            const double total = total_of_row<T>(c, sums, part);
            if (threadIdx.x < XT) {
                to.I[c * to.ld + x0 + threadIdx.x] = (W)total;
            }
        }
#pragma unroll
        for (int i = 0; i < X; i++) {
            sums[i][c] = 0;
        }
    }
    __syncthreads();
}

template <class T, class W, int COLS> __device__ void clear_memory(both_memory<T, W, COLS> &s)
{
    for (int e = threadIdx.x; e < COLS * BOTH_ROWS<T>; e += THREADS) {
        (&s.columns[0][0])[e] = 0;
    }
    for (int e = threadIdx.x; e < 2 * COLS * ZT<T>; e += THREADS) {
        (&s.weights[0][0][0])[e] = 0;
    }
    for (int e = threadIdx.x; e < COLS * XT; e += THREADS) {
        (&s.x_weights[0][0])[e] = 0;
    }
    __syncthreads();
}

/* Block (x, y): block I = x of rows in step first_step + y. Diagonal blocks are computed as any
 * product is. */
template <launch_form FORM, class T, class W, int COLS>
__global__ __launch_bounds__(THREADS,
                             RESIDENT<FORM, T, W, COLS>) void sums_of_both(struct launch_both p)
{
    auto &s = *dynamic_shared<both_memory<T, W, COLS>>();
    const struct launch_tiles &t = p.tiles;
    const int64_t I = blockIdx.x, step = p.first_step + blockIdx.y, J = (I + step) % p.blocks;
    if ((2 * step == p.blocks && I >= step) || is_kept(p.kept, step * p.blocks + I)) {
        return; /* J met I, or sums_of_kept has both */
    }
    const int64_t n = t.P.count, x_first = I * p.rows, z_first = J * p.rows;
    const int x_rows = (int)min(p.rows, n - x_first), z_rows = (int)min(p.rows, n - z_first);
    const int x_tiles = (x_rows + XT - 1) / XT, z_tiles = (z_rows + ZT<T> - 1) / ZT<T>;
    const int64_t across_tile = ZT<T> / PANEL * t.ld * PANEL;
    const T *const z_source = source<ZT<T>, T>(t.Q, t.ld, z_first);
    const float *const reach = p.reach + z_first / ZT<T>;
    const W *const weights = (const W *)p.weights + z_first * p.cols;
    place<T> at = {source<XT, T>(t.P, t.ld, x_first), z_source, reach[0], true};
    const step_shares<W> to = shares_of<W>(p, blockIdx.y);
    W sums[X][COLS] = {};
    clear_memory(s);
    fetch_x_weights<T>(p, x_first, s.x_weights);
    fetch_tile<FORM>(t, at, s.tile);
    fetch_weights<T>(weights, p.cols, s.weights[0]);
    __pipeline_commit();
    for (int x = 0, z = 0; x < x_tiles; at.tile++) {
        T K[X][Z<T>];
        float next_reach = 0;
        const auto fetch_next = [&] {
            if (z + 1 < z_tiles) {
                place<T> next = at;
                next.z += across_tile;
                next.tile++;
                next.fresh = false;
                next_reach = reach[z + 1];
                fetch_tile<FORM>(t, next, s.tile);
                fetch_weights<T>(weights + (z + 1) * ZT<T> * p.cols, p.cols,
                                 s.weights[next.tile & 1]);
            }
        };
        distances<FORM>(t, at, s.tile, fetch_next, K);
        apply_function<FORM>(t.kernel, K);
        mask<FORM>(x_rows - x * XT, z_rows - z * ZT<T>, K);
        add_rows<T>(K, s.weights[at.tile & 1], sums);
        if (step != 0) {
            add_columns<T>(K, p.cols, z * ZT<T>, s);
        }
        at.z += across_tile;
        at.reach = next_reach;
        if (++z == z_tiles) {
            write_rows<T>(to, p.cols, x_first + x * XT, sums, s.part.rows);
            z = 0;
            if (++x < x_tiles) {
                at.x += XT / PANEL * t.ld * PANEL;
                at.z = z_source;
                at.reach = reach[0];
                at.fresh = true;
                fetch_x_weights<T>(p, x_first + x * XT, s.x_weights);
                at.tile++;
                fetch_tile<FORM>(t, at, s.tile);
                fetch_weights<T>(weights, p.cols, s.weights[at.tile & 1]);
                at.tile--;
                __pipeline_commit();
            }
        }
    }
    for (int e = threadIdx.x; step != 0 && e < p.cols * p.rows; e += THREADS) {
        const int c = e / (int)p.rows, j = e % (int)p.rows;
        to.J[c * to.ld + z_first + j] = s.columns[c][j];
    }
}

/* Their memory is more than a kernel may have without asking. */
template <launch_form FORM, class T, class W, int COLS>
int start_both_with(const struct launch_both &p, void *stream)
{
    constexpr size_t bytes = sizeof(both_memory<T, W, COLS>);
    const auto kernel = sums_of_both<FORM, T, W, COLS>;
    const int status =
        (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    const dim3 grid((unsigned)p.blocks, (unsigned)p.steps);
    return status != 0 ? status : start(kernel, grid, THREADS, bytes, stream, p);
}

template <launch_form FORM, class T, class W>
int start_both_of(const struct launch_both &p, void *stream)
{
    return p.cols == 1 ? start_both_with<FORM, T, W, 1>(p, stream)
                       : start_both_with<FORM, T, W, BOTH_COLUMNS<T, W>>(p, stream);
}

template <launch_form FORM> int start_both(const struct launch_both &p, void *stream)
{
    if constexpr (PLAIN<FORM> == FORM) {
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
