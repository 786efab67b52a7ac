/*
 * The kernel oracle on the GPU. A block of threads computes tiles of TILE x TILE kernel values:
 * SIDE x SIDE threads hold PER x PER distances each in registers, and walk through the features in
 * steps of DEPTH, which the block stages in shared memory. Distances are sums of explicit
 * differences in the order of the features: nothing cancels, k(x,z) and k(z,x) have the same bits,
 * and k(x,x) is exactly 1.
 *
 * For products a block takes one tile's rows of P against one chunk of Q. A thread sums its own
 * columns over the chunk (at most LAUNCH_CHUNK / SIDE terms) in the weights' type, the block adds
 * its threads' sums in float64, and launch_finish adds the chunks, each in a fixed order. Where a
 * row stands in its tile, or how many tiles there are, changes nothing in this.
 *
 * Products and sums that the compiler might or might not fuse are written as fma: all copies of a
 * formula must round alike.
 */
extern "C" {
#include "gpu/launch.h"
}

#include "gpu/start.cuh"

namespace {

constexpr int TILE = 64, SIDE = 16, PER = TILE / SIDE, DEPTH = 16;
constexpr int THREADS = SIDE * SIDE;
constexpr double LN2 = 0.69314718055994530942;
static_assert(LAUNCH_CHUNK % TILE == 0, "a chunk is a whole number of tiles");

/* Thread t holds x rows down(t) + i SIDE against z rows across(t) + j SIDE of the tile. */
__device__ int across()
{
    return threadIdx.x % SIDE;
}

__device__ int down()
{
    return threadIdx.x / SIDE;
}

/* One step's features of both sides of a tile, and where each row's features begin. The spare
 * column keeps threads that store along k on different banks. */
template <class T> struct stage {
    T x[DEPTH][TILE + 1], z[DEPTH][TILE + 1];
    int64_t x_at[TILE], z_at[TILE];
};

/* Rows beyond the view repeat its last member; what they give is dropped. */
__device__ void find_rows(const struct launch_view &view, int64_t first, int64_t d, int64_t *at)
{
    for (int r = threadIdx.x; r < TILE; r += THREADS) {
        const int64_t member = min(first + r, view.count - 1);
        at[r] = (view.index != nullptr ? view.index[member] : view.first + member) * d;
    }
}

template <class T>
__device__ void load_features(const void *data, const int64_t *at, int64_t k0, int count,
                              T (*ret)[TILE + 1])
{
    for (int e = threadIdx.x; e < TILE * DEPTH; e += THREADS) {
        const int row = e / DEPTH, k = e % DEPTH;
        if (k < count) {
            ret[k][row] = ((const T *)data)[at[row] + k0 + k];
        }
    }
}

template <launch_form FORM, class T> __device__ T add_feature(T sum, T x, T z)
{
    if constexpr (FORM == FORM_DOT) {
        return fma(x, z, sum);
    }
    const T diff = x - z;
    return FORM == FORM_L1 ? sum + fabs(diff) : fma(diff, diff, sum);
}

/* D[i][j] <- distance (or inner product) of the thread's x rows i and z rows j. All threads call
 * it, after x_at and z_at were written; it returns when the block no longer reads the stage. */
template <launch_form FORM, class T>
__device__ void distances(const void *x, const void *z, int64_t d, stage<T> &s, T (&D)[PER][PER])
{
    for (int i = 0; i < PER; i++) {
        for (int j = 0; j < PER; j++) {
            D[i][j] = 0;
        }
    }
    __syncthreads();
    for (int64_t k0 = 0; k0 < d; k0 += DEPTH) {
        const int count = (int)min((int64_t)DEPTH, d - k0);
        load_features(x, s.x_at, k0, count, s.x);
        load_features(z, s.z_at, k0, count, s.z);
        __syncthreads();
        for (int k = 0; k < count; k++) {
            T xs[PER], zs[PER];
            for (int i = 0; i < PER; i++) {
                xs[i] = s.x[k][down() + i * SIDE];
                zs[i] = s.z[k][across() + i * SIDE];
            }
            for (int i = 0; i < PER; i++) {
                for (int j = 0; j < PER; j++) {
                    D[i][j] = add_feature<FORM>(D[i][j], xs[i], zs[j]);
                }
            }
        }
        __syncthreads();
    }
}

/* ---- kernel functions, on packed points ---- */

/* Beyond it the power of two is 0; the polynomials of the Matern kernels must not be infinite. */
__device__ float largest_root(float)
{
    return 160.0F;
}

__device__ double largest_root(double)
{
    return 1100.0;
}

template <class T> struct exp_of {
    __device__ T operator()(T D) const
    {
        return exp2(-D);
    }
};

template <class T> struct root_exp_of {
    __device__ T operator()(T D) const
    {
        return exp2(-sqrt(D));
    }
};

/* u = sqrt(3) r / ln 2: (1 + u ln 2) 2^-u. */
template <class T> struct matern32_of {
    __device__ T operator()(T D) const
    {
        const T u = fmin(sqrt(D), largest_root(D));
        return fma((T)LN2, u, (T)1) * exp2(-u);
    }
};

/* u = sqrt(5) r / ln 2, v = u ln 2: (1 + v + v^2/3) 2^-u. */
template <class T> struct matern52_of {
    __device__ T operator()(T D) const
    {
        const T u = fmin(sqrt(D), largest_root(D));
        const T v = (T)LN2 * u;
        return fma(v, fma(v, (T)(1.0 / 3.0), (T)1), (T)1) * exp2(-u);
    }
};

template <class T> struct linear_of {
    T gamma, coef0;
    __device__ T operator()(T D) const
    {
        return fma(gamma, D, coef0);
    }
};

/* By repeated squaring; degree >= 0. */
template <class T> struct polynomial_of {
    T gamma, coef0;
    int degree;
    __device__ T operator()(T D) const
    {
        T base = fma(gamma, D, coef0), power = 1;
        for (int bits = degree; bits > 0; bits >>= 1) {
            if (bits & 1) {
                power *= base;
            }
            base *= base;
        }
        return power;
    }
};

template <class T> struct sigmoid_of {
    T gamma, coef0;
    __device__ T operator()(T D) const
    {
        return tanh(fma(gamma, D, coef0));
    }
};

template <class T, class F> __device__ void replace_each(const F &f, T (&D)[PER][PER])
{
    for (int i = 0; i < PER; i++) {
        for (int j = 0; j < PER; j++) {
            D[i][j] = f(D[i][j]);
        }
    }
}

/* Distances become kernel values. */
template <launch_form FORM, class T>
__device__ void apply_function(const struct launch_kernel &k, T (&D)[PER][PER])
{
    const T gamma = (T)k.gamma, coef0 = (T)k.coef0;
    if constexpr (FORM == FORM_L1) {
        replace_each(exp_of<T>(), D);
    } else if constexpr (FORM == FORM_DOT) {
        switch (k.function) {
        case FUNCTION_POLYNOMIAL:
            replace_each(polynomial_of<T>{gamma, coef0, k.degree}, D);
            break;
        case FUNCTION_SIGMOID:
            replace_each(sigmoid_of<T>{gamma, coef0}, D);
            break;
        default:
            replace_each(linear_of<T>{gamma, coef0}, D);
        }
    } else {
        switch (k.function) {
        case FUNCTION_ROOT_EXP:
            replace_each(root_exp_of<T>(), D);
            break;
        case FUNCTION_MATERN32:
            replace_each(matern32_of<T>(), D);
            break;
        case FUNCTION_MATERN52:
            replace_each(matern52_of<T>(), D);
            break;
        default:
            replace_each(exp_of<T>(), D);
        }
    }
}

/* ---- products ---- */

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

/* ---- blocks and diagonals ---- */

/* Rows of Q run down the tile and rows of P across, so that neighbouring threads write
 * neighbouring rows of K. */
template <launch_form FORM, class T>
__global__ __launch_bounds__(THREADS) void block_of_values(struct launch_tiles t, struct mat K)
{
    auto &s = shared<stage<T>>();
    const int64_t across_tiles = (t.P.count + TILE - 1) / TILE;
    const int64_t tiles = across_tiles * ((t.Q.count + TILE - 1) / TILE);
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t p = tile % across_tiles * TILE, q = tile / across_tiles * TILE;
        T values[PER][PER];
        find_rows(t.Q, q, t.d, s.x_at);
        find_rows(t.P, p, t.d, s.z_at);
        distances<FORM>(t.Q.data, t.P.data, t.d, s, values);
        apply_function<FORM>(t.kernel, values);
        for (int i = 0; i < PER; i++) {
            for (int j = 0; j < PER; j++) {
                const int64_t row = p + across() + j * SIDE, col = q + down() + i * SIDE;
                if (row >= t.P.count || col >= t.Q.count) {
                    continue;
                }
                if (K.dtype == DTYPE_F32) {
                    ((float *)K.data)[row + col * K.ld] = (float)values[i][j];
                } else {
                    ((double *)K.data)[row + col * K.ld] = (double)values[i][j];
                }
            }
        }
    }
}

__device__ double dot_function(const struct launch_kernel &k, double dot)
{
    switch (k.function) {
    case FUNCTION_POLYNOMIAL:
        return polynomial_of<double>{k.gamma, k.coef0, k.degree}(dot);
    case FUNCTION_SIGMOID:
        return sigmoid_of<double>{k.gamma, k.coef0}(dot);
    default:
        return linear_of<double>{k.gamma, k.coef0}(dot);
    }
}

/* Distance kernels are 1 at distance 0; the others take the row's square, in float64. */
__global__ void diagonal(struct launch_tiles t, struct mat d)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= t.P.count) {
        return;
    }
    double value = 1.0;
    if (t.kernel.form == FORM_DOT) {
        const int64_t at = (t.P.index != nullptr ? t.P.index[i] : t.P.first + i) * t.d;
        double sum = 0.0;
        for (int64_t k = at; k < at + t.d; k++) {
            const double x =
                t.dtype == DTYPE_F32 ? ((const float *)t.P.data)[k] : ((const double *)t.P.data)[k];
            sum = fma(x, x, sum);
        }
        value = dot_function(t.kernel, sum);
    }
    if (d.dtype == DTYPE_F32) {
        ((float *)d.data)[i] = (float)value;
    } else {
        ((double *)d.data)[i] = value;
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

template <launch_form FORM>
int start_block(const struct launch_tiles &t, const struct mat &K, void *stream)
{
    const int64_t tiles = ((t.P.count + TILE - 1) / TILE) * ((t.Q.count + TILE - 1) / TILE);
    const unsigned grid = (unsigned)min(tiles, (int64_t)1 << 30);
    if (t.dtype == DTYPE_F64) {
        return start(block_of_values<FORM, double>, grid, THREADS, 0, stream, t, K);
    }
    return start(block_of_values<FORM, float>, grid, THREADS, 0, stream, t, K);
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

int launch_block(void *stream, const struct launch_tiles *tiles, const struct mat *K)
{
    switch (tiles->kernel.form) {
    case FORM_L1:
        return start_block<FORM_L1>(*tiles, *K, stream);
    case FORM_DOT:
        return start_block<FORM_DOT>(*tiles, *K, stream);
    default:
        return start_block<FORM_L2>(*tiles, *K, stream);
    }
}

int launch_diagonal(void *stream, const struct launch_tiles *tiles, const struct mat *d)
{
    const unsigned grid = (unsigned)((tiles->P.count + THREADS - 1) / THREADS);
    return start(diagonal, grid, THREADS, 0, stream, *tiles, *d);
}
}
