/*
 * Products with the kernel matrix: a block takes one tile's rows of P against one chunk of Q. A
 * thread sums its own columns over the chunk (at most LAUNCH_CHUNK / SIDE terms) in the weights'
 * type, the block adds its threads' sums in float64, and launch_finish adds the chunks, each in a
 * fixed order. Where a row stands in its tile, or how many tiles there are, changes nothing in
 * this.
 */
#include "gpu/functions.cuh"
#include "gpu/start.cuh"
#include "gpu/tile.cuh"

namespace {

static_assert(LAUNCH_CHUNK % TILE == 0, "a chunk is a whole number of tiles");

/* T is the type of points and kernel values, W of weights and of the sums over a chunk. */
template <class T, class W, int COLS> struct product_memory {
    stage<T> points;
    W weights[COLS][TILE];
    double sums[TILE][SIDE + 1];
};

template <class W, int COLS>
__device__ void load_weights(const struct mat &V, int64_t first, int64_t end, W (*ret)[TILE])
{
    for (int e = threadIdx.x; e < COLS * TILE; e += THREADS) {
        const int c = e / TILE, j = e % TILE;
        W w = 0;
        if (c < V.cols && first + j < end) {
            const int64_t at = first + j + c * V.ld;
            w = V.dtype == DTYPE_F32 ? (W)((const float *)V.data)[at]
                                     : (W)((const double *)V.data)[at];
        }
        ret[c][j] = w;
    }
}

/* sums[i][c] += sum_j K[i][j] w[c][j] over the thread's columns. `count` columns of the tile are
 * real; the others' kernel values may be infinite, so weights of 0 are not enough. */
template <class T, class W, int COLS>
__device__ void add_tile(T (&K)[PER][PER], int count, const W (*weights)[TILE],
                         W (&sums)[PER][COLS])
{
    for (int j = 0; j < PER; j++) {
        const int column = across() + j * SIDE;
        for (int i = 0; i < PER; i++) {
            const W value = column < count ? (W)K[i][j] : (W)0;
            for (int c = 0; c < COLS; c++) {
                sums[i][c] = fma(value, weights[c][column], sums[i][c]);
            }
        }
    }
}

/* partials of one chunk <- the threads' sums, added in the order of the threads. */
template <class W, int COLS>
__device__ void write_partials(const struct launch_sums &p, W (&sums)[PER][COLS],
                               double (*memory)[SIDE + 1])
{
    const int64_t row = (int64_t)blockIdx.x * TILE + threadIdx.x;
    for (int c = 0; c < COLS; c++) {
        for (int i = 0; i < PER; i++) {
            memory[down() + i * SIDE][across()] = (double)sums[i][c];
        }
        __syncthreads();
        if (threadIdx.x < TILE && row < p.rows && c < p.V.cols) {
            double total = 0.0;
            for (int t = 0; t < SIDE; t++) {
                total += memory[threadIdx.x][t];
            }
            p.partials[((int64_t)blockIdx.y * p.V.cols + c) * p.rows + row] = total;
        }
        __syncthreads();
    }
}

/* Block (x, y): the x-th tile of rows against the y-th chunk. */
template <launch_form FORM, class T, class W, int COLS>
__global__ __launch_bounds__(THREADS) void sums_of_chunk(struct launch_sums p)
{
    auto &s = shared<product_memory<T, W, COLS>>();
    const struct launch_view &P = p.tiles.P, &Q = p.tiles.Q;
    const int64_t d = p.tiles.d;
    const int64_t begin = (p.first_chunk + blockIdx.y) * LAUNCH_CHUNK;
    const int64_t end = min(begin + LAUNCH_CHUNK, Q.count);
    W sums[PER][COLS] = {};
    find_rows(P, p.first_row + (int64_t)blockIdx.x * TILE, d, s.points.x_at);
    for (int64_t first = begin; first < end; first += TILE) {
        T K[PER][PER];
        find_rows(Q, first, d, s.points.z_at);
        load_weights<W, COLS>(p.V, first, end, s.weights);
        distances<FORM>(P.data, Q.data, d, s.points, K);
        apply_function<FORM>(p.tiles.kernel, K);
        add_tile<T, W, COLS>(K, (int)min((int64_t)TILE, end - first), s.weights, sums);
        __syncthreads(); /* the weights are used up */
    }
    write_partials<W, COLS>(p, sums, s.sums);
}

__global__ void add_chunks(struct launch_finish f)
{
    const int64_t rows = f.Y.rows, cols = f.Y.cols;
    const int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x, c = blockIdx.y;
    if (row >= rows) {
        return;
    }
    double total = f.first ? 0.0 : f.totals[c * rows + row];
    for (int64_t chunk = 0; chunk < f.chunks; chunk++) {
        total += f.partials[(chunk * cols + c) * rows + row];
    }
    if (!f.last) {
        f.totals[c * rows + row] = total;
        return;
    }
    const int64_t at = row + c * f.Y.ld;
    const bool single = f.Y.dtype == DTYPE_F32;
    float *const y32 = (float *)f.Y.data;
    double *const y64 = (double *)f.Y.data;
    double y = f.a * total;
    if (f.b != 0.0) {
        y = fma(f.b, single ? (double)y32[at] : y64[at], y);
    }
    if (single) {
        y32[at] = (float)y;
    } else {
        y64[at] = y;
    }
}

/* ---- choosing the instance ---- */

template <launch_form FORM, class T, class W>
int start_sums(const struct launch_sums &p, void *stream)
{
    const dim3 grid((unsigned)((p.rows + TILE - 1) / TILE), (unsigned)p.chunks);
    if (p.V.cols == 1) {
        return start(sums_of_chunk<FORM, T, W, 1>, grid, THREADS, 0, stream, p);
    }
    return start(sums_of_chunk<FORM, T, W, LAUNCH_COLS>, grid, THREADS, 0, stream, p);
}

template <launch_form FORM> int start_sums_of_form(const struct launch_sums &p, void *stream)
{
    if (p.tiles.dtype == DTYPE_F64) {
        return start_sums<FORM, double, double>(p, stream);
    }
    if (p.V.dtype == DTYPE_F64) {
        return start_sums<FORM, float, double>(p, stream);
    }
    return start_sums<FORM, float, float>(p, stream);
}

} // namespace

extern "C" {

int launch_sums(void *stream, const struct launch_sums *sums)
{
    switch (sums->tiles.kernel.form) {
    case FORM_L1:
        return start_sums_of_form<FORM_L1>(*sums, stream);
    case FORM_DOT:
        return start_sums_of_form<FORM_DOT>(*sums, stream);
    default:
        return start_sums_of_form<FORM_L2>(*sums, stream);
    }
}

int launch_finish(void *stream, const struct launch_finish *finish)
{
    const dim3 grid((unsigned)((finish->Y.rows + THREADS - 1) / THREADS), (unsigned)finish->Y.cols);
    return start(add_chunks, grid, THREADS, 0, stream, *finish);
}
}
