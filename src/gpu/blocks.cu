/*
 * Blocks of kernel values that are kept, and diagonals. Values are by differences always, or by
 * inner products without tensor cores, so that k(x,x) is exactly 1 and a block of points with
 * themselves symmetric to the last bit.
 */
#include "gpu/tile.cuh"

namespace {

constexpr int DIAGONAL_THREADS = 256;

template <class S, class T> __device__ void store(S *to, int64_t rows, const T (&values)[Z<T>])
{
#pragma unroll
    for (int j = 0; j < Z<T>; j++) {
        if (z_row<T>(j) < rows) {
            to[z_row<T>(j)] = (S)values[j];
        }
    }
}

/* Rows of Q run down the tile and rows of P across, so that neighbouring threads write
 * neighbouring rows of K. */
template <launch_form FORM, class T>
__global__ __launch_bounds__(THREADS, 3) void block_of_values(struct launch_tiles t, struct mat K)
{
    auto &s = shared<tile_memory<T>>();
    const int64_t across_tiles = (t.Q.count + ZT<T> - 1) / ZT<T>;
    const int64_t tiles = across_tiles * ((t.P.count + XT - 1) / XT);
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        T values[X][Z<T>];
        const int64_t x0 = tile / across_tiles * XT, z0 = tile % across_tiles * ZT<T>;
        tile_place<T> at = {source<XT, T>(t.P, t.ld, x0), source<ZT<T>, T>(t.Q, t.ld, z0), INFINITY,
                            false};
        __syncthreads(); /* the stages are read */
        fetch_step<FORM>(t, at, 0, s.stages[0]);
        __pipeline_commit();
        distances<FORM>(
            t, at, s, [] {}, values);
        apply_function<FORM>(t.kernel, values);
#pragma unroll
        for (int i = 0; i < X; i++) {
            const int64_t col = x0 + x_row<T>(i), first = z0 + col * K.ld;
            if (col < t.P.count && K.dtype == DTYPE_F32) {
                store((float *)K.data + first, t.Q.count - z0, values[i]);
            } else if (col < t.P.count) {
                store((double *)K.data + first, t.Q.count - z0, values[i]);
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
    const int64_t i = (int64_t)blockIdx.x * DIAGONAL_THREADS + threadIdx.x;
    if (i >= t.P.count) {
        return;
    }
    double value = 1.0;
    if (t.kernel.form == FORM_DOT) {
        const int64_t at = (t.P.panel + i / PANEL) * t.ld * PANEL + i % PANEL;
        double sum = 0.0;
        for (int64_t k = 0; k < t.d; k++) {
            const double x = t.dtype == DTYPE_F32 ? ((const float *)t.P.data)[at + k * PANEL]
                                                  : ((const double *)t.P.data)[at + k * PANEL];
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

/* t.P is the matrix' columns, t.Q its rows. */
template <launch_form FORM>
int start_block(const struct launch_tiles &t, const struct mat &K, void *stream)
{
    const int64_t across = t.dtype == DTYPE_F64 ? ZT<double> : ZT<float>;
    const int64_t tiles = ((t.P.count + XT - 1) / XT) * ((t.Q.count + across - 1) / across);
    const unsigned grid = (unsigned)min(tiles, (int64_t)1 << 30);
    if (t.dtype == DTYPE_F64) {
        return start(block_of_values<FORM, double>, grid, THREADS, 0, stream, t, K);
    }
    return start(block_of_values<FORM, float>, grid, THREADS, 0, stream, t, K);
}

} // namespace

extern "C" {

int launch_block(void *stream, const struct launch_tiles *tiles, const struct mat *K)
{
    struct launch_tiles turned = *tiles;
    turned.P = tiles->Q;
    turned.Q = tiles->P;
    switch (tiles->kernel.form) {
    case FORM_L1:
        return start_block<FORM_L1>(turned, *K, stream);
    case FORM_DOT:
        return start_block<FORM_DOT>(turned, *K, stream);
    default:
        return start_block<FORM_L2>(turned, *K, stream);
    }
}

int launch_diagonal(void *stream, const struct launch_tiles *tiles, const struct mat *d)
{
    const unsigned grid = (unsigned)((tiles->P.count + DIAGONAL_THREADS - 1) / DIAGONAL_THREADS);
    return start(diagonal, grid, DIAGONAL_THREADS, 0, stream, *tiles, *d);
}
}
