/*
 * Sums over a panel of stored kernel values, along its rows and along its columns. A thread has the
 * same values of a tile as when they were computed; nothing goes through shared memory but the
 * threads' sums at the end.
 */
#include "gpu/elements.cuh"
#include "gpu/product.cuh"

namespace {

constexpr int RESIDUAL_THREADS = 256;

template <class S>
__device__ const typename S::T *tile_at(const struct launch_panel &p, int64_t x, int64_t z)
{
    return (const typename S::T *)p.values + (x * p.across + z) * TILE_VALUES<S>;
}

/* Block (x, y): the x-th tile of rows against the y-th chunk, summed as by sums_of_chunk. */
template <class S, class W, int COLS>
__global__ __launch_bounds__(THREADS, 2) void rows_of_panel(struct launch_panel p)
{
    auto &memory = shared<double[S::XT][S::ACROSS + 1]>();
    const int64_t first = blockIdx.y * p.chunk, end = min(first + p.chunk, p.members);
    W sums[S::X][COLS] = {};
    for (int64_t z = first / S::ZT; z * S::ZT < end; z++) {
        tile_values<S> K;
        load_tile<S>(tile_at<S>(p, blockIdx.x, z), K);
        const W *const weights = (const W *)p.q_weights + z * S::ZT * p.cols;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            if (c < p.cols) {
                W w[S::Z];
                take<S::VECTOR, S::ACROSS>(weights + c * S::ZT, S::across(), w);
#pragma unroll
                for (int i = 0; i < S::X; i++) {
#pragma unroll
                    for (int j = 0; j < S::Z; j++) {
                        sums[i][c] = fma((W)K[i][j], w[j], sums[i][c]);
                    }
                }
            }
        }
    }
    const int64_t row = (int64_t)blockIdx.x * S::XT + threadIdx.x;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < p.cols) {
            const double total = total_of_row<S>(c, sums, memory);
            if (threadIdx.x < S::XT && row < p.rows) {
                p.row_sums[((int64_t)blockIdx.y * p.cols + c) * p.rows + row] = total;
            }
        }
    }
}

/* A thread a row of the panel's tiles; block (., c) does column c. */
template <class S, class W>
__global__ void residual(struct launch_panel p, const double *weights, struct mat T, struct mat U)
{
    const int64_t row = (int64_t)blockIdx.x * RESIDUAL_THREADS + threadIdx.x;
    const int c = (int)blockIdx.y;
    if (row >= (p.rows + S::XT - 1) / S::XT * S::XT) {
        return;
    }
    double value = 0.0;
    if (row < p.rows) {
        for (int64_t chunk = 0; chunk * p.chunk < p.members; chunk++) {
            value += p.row_sums[(chunk * p.cols + c) * p.rows + row];
        }
        value -= T.data != NULL ? element(T, row, c) : 0.0;
        value *= weights != NULL ? weights[row] : 1.0;
        if (U.data != NULL) {
            set_element(U, row, c, value);
        }
    }
    ((W *)p.p_weights)[(row / S::XT * p.cols + c) * S::XT + row % S::XT] = (W)value;
}

/* sums[c][j] += sum_i K[i][j] u[c][i] over the thread's rows. */
template <class S, class W, int COLS>
__device__ void add_to_columns(const tile_values<S> &K, const W *weights, int cols,
                               W (&sums)[COLS][S::Z])
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < cols) {
            W u[S::X];
            take<S::VECTOR, S::DOWN>(weights + c * S::XT, S::down(), u);
#pragma unroll
            for (int i = 0; i < S::X; i++) {
#pragma unroll
                for (int j = 0; j < S::Z; j++) {
                    sums[c][j] = fma((W)K[i][j], u[i], sums[c][j]);
                }
            }
        }
    }
}

/* Block (x, y): the x-th tile of columns against the y-th segment of rows. A thread sums its own
 * rows, in the weights' type and in their order; the S::DOWN threads' sums are added in float64. */
template <class S, class W, int COLS>
__global__ __launch_bounds__(THREADS, 2) void columns_of_panel(struct launch_panel p, bool first)
{
    auto &memory = shared<W[S::DOWN][S::ZT]>();
    const int64_t begin = blockIdx.y * p.segment, end = min(begin + p.segment, p.rows);
    const int64_t member = (int64_t)blockIdx.x * S::ZT + threadIdx.x;
    W sums[COLS][S::Z] = {};
    for (int64_t x = begin / S::XT; x * S::XT < end; x++) {
        tile_values<S> K;
        load_tile<S>(tile_at<S>(p, x, blockIdx.x), K);
        add_to_columns<S>(K, (const W *)p.p_weights + x * S::XT * p.cols, p.cols, sums);
    }
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < p.cols) {
            __syncthreads(); /* what the memory held is used up */
#pragma unroll
            for (int j = 0; j < S::Z; j++) {
                memory[S::down()][S::z_row(j)] = sums[c][j];
            }
            __syncthreads();
            if (threadIdx.x < S::ZT && member < p.members) {
                double *const to =
                    p.column_sums + ((int64_t)blockIdx.y * p.cols + c) * p.members + member;
                double total = first ? 0.0 : *to;
                for (int r = 0; r < S::DOWN; r++) {
                    total += (double)memory[r][threadIdx.x];
                }
                *to = total;
            }
        }
    }
}

int64_t tiles_of(int64_t rows, int64_t tile)
{
    return (rows + tile - 1) / tile;
}

template <class S, class W> int start_rows(const struct launch_panel &p, void *stream)
{
    const dim3 grid((unsigned)tiles_of(p.rows, S::XT), (unsigned)tiles_of(p.members, p.chunk));
    if (p.cols == 1) {
        return start(rows_of_panel<S, W, 1>, grid, THREADS, 0, stream, p);
    }
    return start(rows_of_panel<S, W, COLUMNS<typename S::T, W>>, grid, THREADS, 0, stream, p);
}

template <class S, class W>
int start_columns(const struct launch_panel &p, bool first, void *stream)
{
    const dim3 grid((unsigned)tiles_of(p.members, S::ZT), (unsigned)tiles_of(p.rows, p.segment));
    if (p.cols == 1) {
        return start(columns_of_panel<S, W, 1>, grid, THREADS, 0, stream, p, first);
    }
    return start(columns_of_panel<S, W, COLUMNS<typename S::T, W>>, grid, THREADS, 0, stream, p,
                 first);
}

template <class S, class W>
int start_residual(const struct launch_panel &p, const double *weights, const struct mat &T,
                   const struct mat &U, void *stream)
{
    const int64_t rows = tiles_of(p.rows, S::XT) * S::XT;
    const dim3 grid((unsigned)tiles_of(rows, RESIDUAL_THREADS), (unsigned)p.cols);
    return start(residual<S, W>, grid, RESIDUAL_THREADS, 0, stream, p, weights, T, U);
}

/* f(S, W) with the panel's tile and type of weights. */
template <class F> int by_types(const struct launch_panel &p, const F &f)
{
    const bool wide = p.type == DTYPE_F64;
    if (p.dtype == DTYPE_F64) {
        return f(lanes_tile<double>(), 0.0);
    }
    if (p.group) {
        return wide ? f(group_tile(), 0.0) : f(group_tile(), 0.0F);
    }
    return wide ? f(lanes_tile<float>(), 0.0) : f(lanes_tile<float>(), 0.0F);
}

} // namespace

extern "C" {

int launch_panel_rows(void *stream, const struct launch_panel *panel)
{
    return by_types(*panel, [&](auto S, auto W) {
        return start_rows<decltype(S), decltype(W)>(*panel, stream);
    });
}

int launch_residual(void *stream, const struct launch_panel *panel, const double *weights,
                    const struct mat *T, const struct mat *U)
{
    return by_types(*panel, [&](auto S, auto W) {
        return start_residual<decltype(S), decltype(W)>(*panel, weights, *T, *U, stream);
    });
}

int launch_panel_columns(void *stream, const struct launch_panel *panel, bool first)
{
    return by_types(*panel, [&](auto S, auto W) {
        return start_columns<decltype(S), decltype(W)>(*panel, first, stream);
    });
}
}
