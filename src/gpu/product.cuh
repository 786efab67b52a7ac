/*
 * Products with the kernel matrix: a block takes one tile's rows of P against one chunk of Q. A
 * thread sums its own columns over the chunk, which are those that stand where it stands in their
 * tiles, in the weights' type and in their order; the block adds its ACROSS threads' sums in
 * float64, and launch_finish adds the chunks, each in a fixed order. Where a row stands in its
 * tile, or how many tiles there are, changes nothing in this.
 */
#pragma once

#include "gpu/group.cuh"

namespace {

/* S is how threads share a tile, S::T the type of points and kernel values, W of weights and of the
 * sums over a chunk. */
template <class S, class W, int COLS> struct product_memory {
    typename S::memory tile;
    alignas(16) W weights[2][COLS][S::ZT]; /* of this tile and the one after */
    double sums[S::XT][S::ACROSS + 1];
};

/* Right-hand sides a block takes at most: as many as registers hold the sums of. */
template <class T, class W>
constexpr int COLUMNS = sizeof(W) == sizeof(float)    ? 8
                        : sizeof(T) == sizeof(double) ? 4
                                                      : 2;
/* Blocks that a multiprocessor is to hold. */
template <launch_form FORM, class T, class W, int COLS>
constexpr int
    RESIDENT = (FORM == FORM_L2 || FORM == FORM_L1 || FORM == FORM_L2_GROUP) && COLS == 1 &&
                       sizeof(T) == sizeof(W)
                   ? 3
                   : 2;

/* Which of `across` x rows' blocks, and of `down` others, a block of threads is to take. Blocks
 * that run at the same time are near each other in number: 16 by as many as there are, so that they
 * share most of what they read while it is in the cache. */
struct block_at {
    int64_t x, y;
};

inline __device__ block_at near_blocks(int64_t across, int64_t down)
{
    constexpr int64_t TOGETHER = 16;
    const int64_t number = (int64_t)blockIdx.y * across + blockIdx.x;
    const int64_t first = number / (TOGETHER * down) * TOGETHER;
    const int64_t width = min(TOGETHER, across - first), rest = number - first * down;
    return {first + rest % width, rest / width};
}

/* Begins to copy `cols` columns of a tile's weights. */
template <class S, class W, int COLS>
__device__ void fetch_weights(const W *from, int cols, W (&to)[COLS][S::ZT])
{
    constexpr int EACH = 16 / sizeof(W), TOGETHER = THREADS * EACH;
    const int at = (int)threadIdx.x * EACH;
#pragma unroll
    for (int e = 0; e < COLS * S::ZT; e += TOGETHER) {
        if (at + e < cols * S::ZT) {
            __pipeline_memcpy_async(&to[0][0] + at + e, from + at + e, 16);
        }
    }
}

/* sums[i][c] += sum_j K[i][j] w[c][j] over the thread's columns. */
template <class S, class W, int COLS>
__device__ void add_rows(const tile_values<S> &K, const W (*weights)[S::ZT], W (&sums)[S::X][COLS])
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        W w[S::Z];
        take<S::VECTOR, S::ACROSS>(weights[c], S::across(), w);
#pragma unroll
        for (int i = 0; i < S::X; i++) {
#pragma unroll
            for (int j = 0; j < S::Z; j++) {
                sums[i][c] = fma((W)K[i][j], w[j], sums[i][c]);
            }
        }
    }
}

/* D <- 0 where there is no row or no column. */
template <class S> __device__ void mask(int64_t rows, int64_t cols, tile_values<S> &D)
{
    if (rows < S::XT || cols < S::ZT) {
#pragma unroll
        for (int i = 0; i < S::X; i++) {
#pragma unroll
            for (int j = 0; j < S::Z; j++) {
                D[i][j] = S::x_row(i) < rows && S::z_row(j) < cols ? D[i][j] : (typename S::T)0;
            }
        }
    }
}

/* Distances or inner products become values. Rows and columns that are not there must add nothing,
 * even where values may be infinite, or no numbers: weights of 0 are not enough. */
template <launch_form FORM, class S>
__device__ void take_values(const struct launch_kernel &k, int64_t rows, int64_t cols,
                            tile_values<S> &K)
{
    apply_function<FORM>(k, K);
    if constexpr (PLAIN<FORM> != FORM_L1) {
        mask<S>(rows, cols, K);
    }
}

/* totals[r] of the tile's rows, in thread r, of the threads' sums in the order of the threads. */
template <class S, class W, int COLS>
__device__ double total_of_row(int c, const W (&sums)[S::X][COLS], double (*memory)[S::ACROSS + 1])
{
    __syncthreads(); /* what the memory held is used up */
#pragma unroll
    for (int i = 0; i < S::X; i++) {
        memory[S::x_row(i)][S::across()] = (double)sums[i][c];
    }
    __syncthreads();
    double total = 0.0;
    for (int a = 0; threadIdx.x < S::XT && a < S::ACROSS; a++) {
        total += memory[threadIdx.x][a];
    }
    return total;
}

/* ---- stored tiles ---- */

template <class S> constexpr int TILE_VALUES = S::XT *S::ZT;

/* A thread's values lie in pieces of 16 bytes, of which all threads' first ones come first. */
template <class S> __device__ void store_tile(const tile_values<S> &K, typename S::T *tile)
{
    constexpr int V = S::VECTOR, PIECES = S::Z / V;
    struct alignas(16) sixteen {
        typename S::T k[V];
    };
#pragma unroll
    for (int e = 0; e < S::X * PIECES; e++) {
        sixteen piece;
#pragma unroll
        for (int k = 0; k < V; k++) {
            piece.k[k] = K[e / PIECES][e % PIECES * V + k];
        }
        ((sixteen *)tile)[e * THREADS + threadIdx.x] = piece;
    }
}

template <class S> __device__ void load_tile(const typename S::T *tile, tile_values<S> &K)
{
    constexpr int V = S::VECTOR, PIECES = S::Z / V;
    struct alignas(16) sixteen {
        typename S::T k[V];
    };
#pragma unroll
    for (int e = 0; e < S::X * PIECES; e++) {
        const sixteen piece = ((const sixteen *)tile)[e * THREADS + threadIdx.x];
#pragma unroll
        for (int k = 0; k < V; k++) {
            K[e / PIECES][e % PIECES * V + k] = piece.k[k];
        }
    }
}

/* Block (x, y) of near_blocks(): the x-th tile of rows against the y-th chunk. STORES: values are
 * kept, too. */
template <launch_form FORM, class T, class W, int COLS, bool STORES>
__global__ __launch_bounds__(THREADS,
                             RESIDENT<FORM, T, W, COLS>) void sums_of_chunk(struct launch_sums p)
{
    if constexpr (!RUNS<FORM>) {
        return;
    }
    using S = tile_of<FORM, T>;
    auto &s = *dynamic_shared<product_memory<S, W, COLS>>();
    const struct launch_tiles &t = p.tiles;
    const block_at at_block = near_blocks(gridDim.x, gridDim.y);
    const int64_t x0 = at_block.x * S::XT, first = at_block.y * p.chunk;
    const int members = (int)min(p.chunk, t.Q.count - first), end = (members - 1) / S::ZT;
    const float *reach = p.reach + first / S::ZT;
    const W *weights = (const W *)p.weights + first * p.cols;
    typename S::place at = S::begin(t, x0, first, reach[0], &s + 1);
    W sums[S::X][COLS] = {};
    if (p.cols < COLS) {
        for (int e = threadIdx.x; e < 2 * COLS * S::ZT; e += THREADS) {
            (&s.weights[0][0][0])[e] = 0;
        }
        __syncthreads();
    }
    fetch_tile<FORM>(t, at, s.tile);
    fetch_weights<S>(weights, p.cols, s.weights[0]);
    __pipeline_commit();
    for (; at.tile <= end; at.tile++) {
        tile_values<S> K;
        typename S::place next = S::behind(t, at);
        const auto fetch_next = [&] {
            if (at.tile < end) {
                next.slot = at.slot;
                next.reach = reach[next.tile];
                weights += S::ZT * p.cols;
                fetch_tile<FORM>(t, next, s.tile);
                fetch_weights<S>(weights, p.cols, s.weights[next.tile & 1]);
            }
        };
        distances<FORM>(t, at, s.tile, fetch_next, K);
        take_values<FORM, S>(t.kernel, STORES ? t.P.count - x0 : S::XT, members - at.tile * S::ZT,
                             K);
        if constexpr (STORES) {
            const unsigned chunk_tiles = (unsigned)p.chunk / S::ZT;
            const unsigned tile = (unsigned)at_block.x * (unsigned)p.across +
                                  (unsigned)at_block.y * chunk_tiles + (unsigned)at.tile;
            store_tile<S>(K, (T *)p.values + (int64_t)tile * TILE_VALUES<S>);
        }
        add_rows<S>(K, s.weights[at.tile & 1], sums);
        S::go_on(at, next);
    }
    const int64_t row = x0 + threadIdx.x;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < p.cols) {
            const double total = total_of_row<S>(c, sums, s.sums);
            if (threadIdx.x < S::XT && row < t.P.count) {
                p.partials[(at_block.y * p.cols + c) * t.P.count + row] = total;
            }
        }
    }
}

template <launch_form FORM, class T, class W, int COLS, bool STORES>
int start_sums_with(const struct launch_sums &p, void *stream)
{
    using S = tile_of<FORM, T>;
    const dim3 grid((unsigned)((p.tiles.P.count + S::XT - 1) / S::XT),
                    (unsigned)((p.tiles.Q.count + p.chunk - 1) / p.chunk));
    const size_t bytes = sizeof(product_memory<S, W, COLS>) + S::bytes_behind(p.tiles.d);
    return start_with(sums_of_chunk<FORM, T, W, COLS, STORES>, grid, bytes, stream, p);
}

template <launch_form FORM, class T, class W, int COLS>
int start_sums_of(const struct launch_sums &p, void *stream)
{
    return p.values != NULL ? start_sums_with<FORM, T, W, COLS, true>(p, stream)
                            : start_sums_with<FORM, T, W, COLS, false>(p, stream);
}

template <launch_form FORM, class T, class W>
int start_sums_by(const struct launch_sums &p, void *stream)
{
    return p.cols == 1 ? start_sums_of<FORM, T, W, 1>(p, stream)
                       : start_sums_of<FORM, T, W, COLUMNS<T, W>>(p, stream);
}

template <launch_form FORM> int start_sums(const struct launch_sums &p, void *stream)
{
    if constexpr (FORM != FORM_L2_GROUP) {
        if (p.tiles.dtype == DTYPE_F64) {
            return start_sums_by<FORM, double, double>(p, stream);
        }
    }
    if (p.type == DTYPE_F64) {
        return start_sums_by<FORM, float, double>(p, stream);
    }
    return start_sums_by<FORM, float, float>(p, stream);
}

} // namespace
