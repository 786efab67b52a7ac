/*
 * Products with the kernel matrix: a block takes one tile's rows of P against one chunk of Q. A
 * thread sums its own columns over the chunk, which are those that stand where it stands in their
 * tiles, in the weights' type and in their order; the block adds its ACROSS threads' sums in
 * float64, and launch_finish adds the chunks, each in a fixed order. Where a row stands in its
 * tile, or how many tiles there are, changes nothing in this.
 */
#pragma once

#include "gpu/tile.cuh"

namespace {

/* T is the type of points and kernel values, W of weights and of the sums over a chunk. */
template <class T, class W, int COLS> struct product_memory {
    tile_memory<T> tile;
    alignas(16) W weights[2][COLS][ZT<T>]; /* of this tile and the one after */
    double sums[XT][ACROSS + 1];
};

/* Right-hand sides a block takes at most: as many as registers hold the sums of. */
template <class T, class W>
constexpr int COLUMNS = sizeof(W) == sizeof(float)    ? 8
                        : sizeof(T) == sizeof(double) ? 4
                                                      : 2;
/* Blocks that a multiprocessor is to hold. */
template <launch_form FORM, class T, class W, int COLS>
constexpr int RESIDENT = (FORM == FORM_L2 || FORM == FORM_L1) && COLS == 1 && sizeof(T) == sizeof(W)
                             ? 3
                             : 2;

/* Begins to copy `cols` columns of a tile's weights. */
template <class T, class W, int COLS>
__device__ void fetch_weights(const W *from, int cols, W (&to)[COLS][ZT<T>])
{
    constexpr int EACH = 16 / sizeof(W), TOGETHER = THREADS * EACH;
    const int at = (int)threadIdx.x * EACH;
#pragma unroll
    for (int e = 0; e < COLS * ZT<T>; e += TOGETHER) {
        if (at + e < cols * ZT<T>) {
            __pipeline_memcpy_async(&to[0][0] + at + e, from + at + e, 16);
        }
    }
}

/* sums[i][c] += sum_j K[i][j] w[c][j] over the thread's columns. */
template <class T, class W, int COLS>
__device__ void add_rows(const T (&K)[X][Z<T>], const W (*weights)[ZT<T>], W (&sums)[X][COLS])
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        W w[Z<T>];
        take<T, ACROSS>(weights[c], across(), w);
#pragma unroll
        for (int i = 0; i < X; i++) {
#pragma unroll
            for (int j = 0; j < Z<T>; j++) {
                sums[i][c] = fma((W)K[i][j], w[j], sums[i][c]);
            }
        }
    }
}

/* Rows and columns that are not there must add nothing, even where values may be infinite, or no
 * numbers: weights of 0 are not enough. */
template <launch_form FORM, class T>
__device__ void mask(int64_t rows, int64_t cols, T (&K)[X][Z<T>])
{
    if ((PLAIN<FORM> == FORM_DOT || USES_TENSOR<FORM, T>)&&(rows < XT || cols < ZT<T>)) {
#pragma unroll
        for (int i = 0; i < X; i++) {
#pragma unroll
            for (int j = 0; j < Z<T>; j++) {
                K[i][j] = x_row<T>(i) < rows && z_row<T>(j) < cols ? K[i][j] : (T)0;
            }
        }
    }
}

/* totals[r] of the tile's rows, in thread r, of the threads' sums in the order of the threads. */
template <class T, class W, int COLS>
__device__ double total_of_row(int c, const W (&sums)[X][COLS], double (*memory)[ACROSS + 1])
{
    __syncthreads(); /* what the memory held is used up */
#pragma unroll
    for (int i = 0; i < X; i++) {
        memory[x_row<T>(i)][across()] = (double)sums[i][c];
    }
    __syncthreads();
    double total = 0.0;
    for (int a = 0; threadIdx.x < XT && a < ACROSS; a++) {
        total += memory[threadIdx.x][a];
    }
    return total;
}

/* ---- stored tiles ---- */

template <class T> constexpr int TILE_VALUES = XT *ZT<T>;

/* A thread's values lie in pieces of 16 bytes, of which all threads' first ones come first. */
template <class T> __device__ void store_tile(const T (&K)[X][Z<T>], T *tile)
{
    constexpr int V = VECTOR<T>, PIECES = Z<T> / V;
    struct alignas(16) sixteen {
        T k[V];
    };
#pragma unroll
    for (int e = 0; e < X * PIECES; e++) {
        sixteen piece;
#pragma unroll
        for (int k = 0; k < V; k++) {
            piece.k[k] = K[e / PIECES][e % PIECES * V + k];
        }
        ((sixteen *)tile)[e * THREADS + threadIdx.x] = piece;
    }
}

template <class T> __device__ void load_tile(const T *tile, T (&K)[X][Z<T>])
{
    constexpr int V = VECTOR<T>, PIECES = Z<T> / V;
    struct alignas(16) sixteen {
        T k[V];
    };
#pragma unroll
    for (int e = 0; e < X * PIECES; e++) {
        const sixteen piece = ((const sixteen *)tile)[e * THREADS + threadIdx.x];
#pragma unroll
        for (int k = 0; k < V; k++) {
            K[e / PIECES][e % PIECES * V + k] = piece.k[k];
        }
    }
}

/* Block (x, y): the x-th tile of rows against the y-th chunk. STORES: values are kept, too. */
template <launch_form FORM, class T, class W, int COLS, bool STORES>
__global__ __launch_bounds__(THREADS,
                             RESIDENT<FORM, T, W, COLS>) void sums_of_chunk(struct launch_sums p)
{
    auto &s = shared<product_memory<T, W, COLS>>();
    const struct launch_tiles &t = p.tiles;
    const int64_t x0 = (int64_t)blockIdx.x * XT, first = blockIdx.y * p.chunk;
    const int members = (int)min(p.chunk, t.Q.count - first), end = (members - 1) / ZT<T>;
    const int64_t across_tile = ZT<T> / PANEL * t.ld * PANEL;
    const float *reach = p.reach + first / ZT<T>;
    const W *weights = (const W *)p.weights + first * p.cols;
    place<T> at = {source<XT, T>(t.P, t.ld, x0), source<ZT<T>, T>(t.Q, t.ld, first), reach[0],
                   true};
    W sums[X][COLS] = {};
    if (p.cols < COLS) {
        for (int e = threadIdx.x; e < 2 * COLS * ZT<T>; e += THREADS) {
            (&s.weights[0][0][0])[e] = 0;
        }
        __syncthreads();
    }
    fetch_tile<FORM>(t, at, s.tile);
    fetch_weights<T>(weights, p.cols, s.weights[0]);
    __pipeline_commit();
    for (; at.tile <= end; at.tile++) {
        T K[X][Z<T>];
        float next_reach = 0;
        const auto fetch_next = [&] {
            if (at.tile < end) {
                place<T> next = at;
                next.z += across_tile;
                next.tile++;
                next.fresh = false;
                weights += ZT<T> * p.cols;
                next_reach = reach[next.tile];
                fetch_tile<FORM>(t, next, s.tile);
                fetch_weights<T>(weights, p.cols, s.weights[next.tile & 1]);
            }
        };
        distances<FORM>(t, at, s.tile, fetch_next, K);
        apply_function<FORM>(t.kernel, K);
        mask<FORM>(STORES ? t.P.count - x0 : XT, members - at.tile * ZT<T>, K);
        if constexpr (STORES) {
            const unsigned chunk_tiles = (unsigned)p.chunk / ZT<T>;
            const unsigned tile =
                blockIdx.x * (unsigned)p.across + blockIdx.y * chunk_tiles + (unsigned)at.tile;
            store_tile(K, (T *)p.values + (int64_t)tile * TILE_VALUES<T>);
        }
        add_rows<T>(K, s.weights[at.tile & 1], sums);
        at.z += across_tile;
        at.reach = next_reach;
    }
    const int64_t row = x0 + threadIdx.x;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < p.cols) {
            const double total = total_of_row<T>(c, sums, s.sums);
            if (threadIdx.x < XT && row < t.P.count) {
                p.partials[((int64_t)blockIdx.y * p.cols + c) * t.P.count + row] = total;
            }
        }
    }
}

template <launch_form FORM, class T, class W, int COLS>
int start_sums_of(const struct launch_sums &p, void *stream)
{
    const dim3 grid((unsigned)((p.tiles.P.count + XT - 1) / XT),
                    (unsigned)((p.tiles.Q.count + p.chunk - 1) / p.chunk));
    return p.values != NULL
               ? start(sums_of_chunk<FORM, T, W, COLS, true>, grid, THREADS, 0, stream, p)
               : start(sums_of_chunk<FORM, T, W, COLS, false>, grid, THREADS, 0, stream, p);
}

template <launch_form FORM, class T, class W>
int start_sums_by(const struct launch_sums &p, void *stream)
{
    return p.cols == 1 ? start_sums_of<FORM, T, W, 1>(p, stream)
                       : start_sums_of<FORM, T, W, COLUMNS<T, W>>(p, stream);
}

template <launch_form FORM> int start_sums(const struct launch_sums &p, void *stream)
{
    if constexpr (PLAIN<FORM> == FORM) {
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
