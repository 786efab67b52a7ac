/*
 * Sums over a panel of stored kernel values, along its rows and along its columns. A thread has the
 * same values of a tile as when they were computed; nothing goes through shared memory but the
 * threads' sums at the end.
 */
#include "gpu/elements.cuh"
#include "gpu/product.cuh"

namespace {

constexpr int RESIDUAL_THREADS = 256;

static_assert(XT == LAUNCH_TILE_X, "launch.h says how many rows a tile has");

template <class T> __device__ const T *tile_at(const struct launch_panel &p, int64_t x, int64_t z)
{
    return (const T *)p.values + (x * p.across + z) * TILE_VALUES<T>;
}

/* Block (x, y): the x-th tile of rows against the y-th chunk, summed as by sums_of_chunk. */
template <class T, class W, int COLS>
__global__ __launch_bounds__(THREADS, 2) void rows_of_panel(struct launch_panel p)
{
    auto &memory = shared<double[XT][ACROSS + 1]>();
    const int64_t first = blockIdx.y * p.chunk, end = min(first + p.chunk, p.members);
    W sums[X][COLS] = {};
    for (int64_t z = first / ZT<T>; z * ZT<T> < end; z++) {
        T K[X][Z<T>];
        load_tile(tile_at<T>(p, blockIdx.x, z), K);
        const W *const weights = (const W *)p.q_weights + z * ZT<T> * p.cols;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            if (c < p.cols) {
                W w[Z<T>];
                take<T, ACROSS>(weights + c * ZT<T>, across(), w);
#pragma unroll
                for (int i = 0; i < X; i++) {
#pragma unroll
                    for (int j = 0; j < Z<T>; j++) {
                        sums[i][c] = fma((W)K[i][j], w[j], sums[i][c]);
                    }
                }
            }
        }
    }
    const int64_t row = (int64_t)blockIdx.x * XT + threadIdx.x;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < p.cols) {
            const double total = total_of_row<T>(c, sums, memory);
            if (threadIdx.x < XT && row < p.rows) {
                p.row_sums[((int64_t)blockIdx.y * p.cols + c) * p.rows + row] = total;
            }
        }
    }
}

/* A thread a row of the panel's tiles; block (., c) does column c. */
template <class W>
__global__ void residual(struct launch_panel p, const double *weights, struct mat T, struct mat U)
{
    const int64_t row = (int64_t)blockIdx.x * RESIDUAL_THREADS + threadIdx.x;
    const int c = (int)blockIdx.y;
    if (row >= (p.rows + XT - 1) / XT * XT) {
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
    ((W *)p.p_weights)[(row / XT * p.cols + c) * XT + row % XT] = (W)value;
}

/* sums[c][j] += sum_i K[i][j] u[c][i] over the thread's rows. */
template <class T, class W, int COLS>
__device__ void add_to_columns(const T (&K)[X][Z<T>], const W *weights, int cols,
                               W (&sums)[COLS][Z<T>])
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < cols) {
            W u[X];
            take<T, DOWN>(weights + c * XT, down(), u);
#pragma unroll
            for (int i = 0; i < X; i++) {
#pragma unroll
                for (int j = 0; j < Z<T>; j++) {
                    sums[c][j] = fma((W)K[i][j], u[i], sums[c][j]);
                }
            }
        }
    }
}

/* Block (x, y): the x-th tile of columns against the y-th segment of rows. A thread sums its own
 * rows, in the weights' type and in their order; the DOWN threads' sums are added in float64. */
template <class T, class W, int COLS>
__global__ __launch_bounds__(THREADS, 2) void columns_of_panel(struct launch_panel p, bool first)
{
    auto &memory = shared<W[DOWN][ZT<T>]>();
    const int64_t begin = blockIdx.y * p.segment, end = min(begin + p.segment, p.rows);
    const int64_t member = (int64_t)blockIdx.x * ZT<T> + threadIdx.x;
    W sums[COLS][Z<T>] = {};
    for (int64_t x = begin / XT; x * XT < end; x++) {
        T K[X][Z<T>];
        load_tile(tile_at<T>(p, x, blockIdx.x), K);
        add_to_columns<T>(K, (const W *)p.p_weights + x * XT * p.cols, p.cols, sums);
    }
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (c < p.cols) {
            __syncthreads(); /* what the memory held is used up */
#pragma unroll
            for (int j = 0; j < Z<T>; j++) {
                memory[down()][z_row<T>(j)] = sums[c][j];
            }
            __syncthreads();
            if (threadIdx.x < ZT<T> && member < p.members) {
                double *const to =
                    p.column_sums + ((int64_t)blockIdx.y * p.cols + c) * p.members + member;
                double total = first ? 0.0 : *to;
                for (int r = 0; r < DOWN; r++) {
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

template <class T, class W> int start_rows(const struct launch_panel &p, void *stream)
{
    const dim3 grid((unsigned)tiles_of(p.rows, XT), (unsigned)tiles_of(p.members, p.chunk));
    if (p.cols == 1) {
        return start(rows_of_panel<T, W, 1>, grid, THREADS, 0, stream, p);
    }
    return start(rows_of_panel<T, W, COLUMNS<T, W>>, grid, THREADS, 0, stream, p);
}

template <class T, class W>
int start_columns(const struct launch_panel &p, bool first, void *stream)
{
    const dim3 grid((unsigned)tiles_of(p.members, ZT<T>), (unsigned)tiles_of(p.rows, p.segment));
    if (p.cols == 1) {
        return start(columns_of_panel<T, W, 1>, grid, THREADS, 0, stream, p, first);
    }
    return start(columns_of_panel<T, W, COLUMNS<T, W>>, grid, THREADS, 0, stream, p, first);
}

} // namespace

extern "C" {

int launch_panel_rows(void *stream, const struct launch_panel *panel)
{
    if (panel->dtype == DTYPE_F64) {
        return start_rows<double, double>(*panel, stream);
    }
    return panel->type == DTYPE_F64 ? start_rows<float, double>(*panel, stream)
                                    : start_rows<float, float>(*panel, stream);
}

int launch_residual(void *stream, const struct launch_panel *panel, const double *weights,
                    const struct mat *T, const struct mat *U)
{
    const int64_t rows = tiles_of(panel->rows, XT) * XT;
    const dim3 grid((unsigned)tiles_of(rows, RESIDUAL_THREADS), (unsigned)panel->cols);
    return panel->type == DTYPE_F64
               ? start(residual<double>, grid, RESIDUAL_THREADS, 0, stream, *panel, weights, *T, *U)
               : start(residual<float>, grid, RESIDUAL_THREADS, 0, stream, *panel, weights, *T, *U);
}

int launch_panel_columns(void *stream, const struct launch_panel *panel, bool first)
{
    if (panel->dtype == DTYPE_F64) {
        return start_columns<double, double>(*panel, first, stream);
    }
    return panel->type == DTYPE_F64 ? start_columns<float, double>(*panel, first, stream)
                                    : start_columns<float, float>(*panel, first, stream);
}
}
