/*
 * Products from kept kernel values. A block of threads walks through the tiles of a slot in the
 * order in which sums_of_both (both.cuh) computes them, and adds the same numbers in the same
 * order.
 *
 * Memory is the limit, so a thread has a whole tile's values on their way while it works on the one
 * before: as soon as it has used a row of its values it loads the next tile's in their place. Each
 * thread reads what it needs itself, in pieces of 16 bytes that are consecutive over its warp, and
 * no barrier waits for memory: those of several right-hand sides' tiles are for column sums.
 */
#include "gpu/keep.cuh"

namespace {

template <class S, class W, int COLS> struct kept_memory {
    alignas(16) W x_weights[COLS][BOTH_ROWS], z_weights[COLS][BOTH_ROWS];
    column_sums<S, W, COLS> columns;
    shares<S, W, COLS> part;
};

/* Blocks that a multiprocessor is to hold: their values on the way, 32 KiB each where they are
 * exact, must outweigh what passes while one comes. */
template <class W, int COLS>
constexpr int KEPT_RESIDENT = COLS == 1 && sizeof(W) == sizeof(float) ? 3 : 2;

/* Weights of `count` members from `first` on, which begins a tile, and 0 for missing columns. */
template <class S, class W, int COLS>
__device__ void load_weights(const struct launch_both &p, int64_t first, int count,
                             W (&to)[COLS][BOTH_ROWS])
{
    const W *const from = (const W *)p.weights + first * p.cols;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const W *const member = from + i / S::ZT * S::ZT * p.cols + i % S::ZT;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            to[c][i] = c < p.cols ? member[c * S::ZT] : (W)0;
        }
    }
}

template <class S, class W, int COLS>
__device__ void begin_kept(const struct launch_both &p, const kept_pair &pair,
                           kept_memory<S, W, COLS> &s)
{
    load_weights<S>(p, pair.I * p.rows, pair.x_tiles * S::XT, s.x_weights);
    load_weights<S>(p, pair.J * p.rows, pair.z_tiles * S::ZT, s.z_weights);
    clear_columns<S, W, COLS>(s.columns);
    __syncthreads();
}

/* The shares of a tile in the sums of its rows, and of its columns over the thread's rows. `next`
 * are the pieces that come in the place of those that are used, NULL: none. */
template <class S, class K, class W, int COLS>
__device__ void use_tile(uint4 (&pieces)[PIECES<S, K>], const uint4 *next, const W *x_weights,
                         const W *z_weights, W (&sums)[S::X][COLS], W (&columns)[COLS][S::Z])
{
    constexpr int V = S::VECTOR;
    W w[COLS][S::Z], u[COLS][V];
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        take<S::VECTOR, S::ACROSS>(z_weights + c * BOTH_ROWS, S::across(), w[c]);
    }
#pragma unroll
    for (int i = 0; i < S::X; i++) {
        typename S::T values[S::Z];
        unpack_row<S, K>(pieces, i, values);
#pragma unroll
        for (int q = i * S::Z / PIECE<K>; q < (i + 1) * S::Z / PIECE<K>; q++) {
            if (next != nullptr) {
                pieces[q] = __ldcs(next + q * THREADS);
            }
        }
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            if (i % V == 0) {
                take<S::VECTOR, S::DOWN>(x_weights + c * BOTH_ROWS + i / V * (S::DOWN * V),
                                         S::down(), u[c]);
            }
#pragma unroll
            for (int j = 0; j < S::Z; j++) {
                sums[i][c] = fma((W)values[j], w[c][j], sums[i][c]);
                columns[c][j] = fma((W)values[j], u[c][i % V], columns[c][j]);
            }
        }
    }
}

template <class S, class W, int COLS>
__device__ void add_all_shares(int cols, const W (&columns)[COLS][S::Z], int z, int &turn,
                               kept_memory<S, W, COLS> &s)
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < cols) {
            add_shares<S>(columns[c], s.part.columns[turn++ & 1], s.columns.of[c] + z * S::ZT);
        }
    }
}

/* Block x: slot first + x. */
template <class S, class K, class W, int COLS>
__global__ __launch_bounds__(THREADS,
                             KEPT_RESIDENT<W, COLS>) void sums_of_kept(struct launch_both p,
                                                                       int64_t first)
{
    auto &s = *dynamic_shared<kept_memory<S, W, COLS>>();
    const int64_t slot = first + blockIdx.x;
    const kept_pair pair = pair_of_slot<S>(p, slot);
    const step_shares<W> to = shares_of<W>(p, pair.step - p.first_step);
    const int64_t x_first = pair.I * p.rows, z_first = pair.J * p.rows;
    const uint4 *from = pieces_of_slot<K>(p, slot);
    uint4 pieces[PIECES<S, K>];
#pragma unroll
    for (int q = 0; q < PIECES<S, K>; q++) {
        pieces[q] = __ldcs(from + q * THREADS);
    }
    begin_kept(p, pair, s);
    int turn = 0, left = pair.x_tiles * pair.z_tiles;
    for (int x = 0; x < pair.x_tiles; x++) {
        W sums[S::X][COLS] = {};
        for (int z = 0; z < pair.z_tiles; z++) {
            W columns[COLS][S::Z] = {};
            from += PIECES<S, K> * THREADS;
            if constexpr (COLS == 1) {
                s.columns.load(z, columns[0]);
            }
            use_tile<S, K>(pieces, --left > 0 ? from : nullptr, s.x_weights[0] + x * S::XT,
                           s.z_weights[0] + z * S::ZT, sums, columns);
            if constexpr (COLS == 1) {
                s.columns.store(z, columns[0]);
            } else if (pair.step != 0) {
                add_all_shares<S>(p.cols, columns, z, turn, s);
            }
        }
        write_rows<S>(to, p.cols, x_first + x * S::XT, sums, s.part.rows);
    }
    if (pair.step != 0) {
        write_columns<S, W, COLS>(to, p.cols, z_first, (int)p.rows, s.columns);
    }
}

template <class S, class K, class W> int start_kept(const struct launch_both &p, void *stream)
{
    const int64_t first = slots_before(p.kept, p.first_step * p.blocks);
    const int64_t count = slots_before(p.kept, (p.first_step + p.steps) * p.blocks) - first;
    constexpr int COLS = BOTH_COLUMNS<typename S::T, W>;
    if (count == 0) {
        return 0;
    }
    return p.cols == 1 ? start_with(sums_of_kept<S, K, W, 1>, dim3((unsigned)count),
                                    sizeof(kept_memory<S, W, 1>), stream, p, first)
                       : start_with(sums_of_kept<S, K, W, COLS>, dim3((unsigned)count),
                                    sizeof(kept_memory<S, W, COLS>), stream, p, first);
}

template <class S, class W> int start_kept_as(const struct launch_both &p, void *stream)
{
    return p.kept.half ? start_kept<S, half_value, W>(p, stream)
                       : start_kept<S, typename S::T, W>(p, stream);
}

} // namespace

extern "C" {

int launch_both_kept(void *stream, const struct launch_both *both)
{
    if (both->tiles.dtype == DTYPE_F64) {
        return start_kept_as<lanes_tile<double>, double>(*both, stream);
    }
    if (both->tiles.kernel.group) {
        return both->type == DTYPE_F64 ? start_kept_as<group_tile, double>(*both, stream)
                                       : start_kept_as<group_tile, float>(*both, stream);
    }
    return both->type == DTYPE_F64 ? start_kept_as<lanes_tile<float>, double>(*both, stream)
                                   : start_kept_as<lanes_tile<float>, float>(*both, stream);
}
}
