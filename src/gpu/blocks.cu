/*
 * Blocks of kernel values that are kept, and diagonals.
 */
#include "gpu/functions.cuh"
#include "gpu/start.cuh"
#include "gpu/tile.cuh"

namespace {

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
