/*
 * Phi K from stored rows of K: a block takes some of Phi's rows and, a thread each, some columns. A
 * thread adds up one number of S at a time, from rows of K that neighbouring threads read
 * neighbouring numbers of; the numbers go through shared memory, since S has its rows side by side.
 */
extern "C" {
#include "gpu/launch.h"
}

#include "gpu/start.cuh"

namespace {

constexpr int COLS = 128, ROWS = 32;

template <class T>
__device__ double sum_of_row(const struct launch_signs &s, int64_t r, const T *column)
{
    const int32_t end = s.begin[r + 1];
    double sum = 0.0;
#pragma unroll 4
    for (int32_t e = s.begin[r]; e < end; e++) {
        const int32_t entry = s.entries[e];
        const double value = (double)column[(entry >> 1) * s.transposed.ld];
        sum += (entry & 1) != 0 ? -value : value;
    }
    return sum;
}

/* Block (x, y): the x-th ROWS rows of S, the y-th COLS columns. */
template <class T, class S>
__global__ __launch_bounds__(COLS) void sums_of_signs(struct launch_signs s)
{
    auto &sums = shared<double[COLS][ROWS + 1]>();
    const int64_t row = (int64_t)blockIdx.x * ROWS, col = (int64_t)blockIdx.y * COLS;
    const int rows = (int)min((int64_t)ROWS, s.S.rows - row);
    const int cols = (int)min((int64_t)COLS, s.S.cols - col);
    const int j = (int)threadIdx.x;
    for (int r = 0; j < cols && r < rows; r++) {
        sums[j][r] = s.scale * sum_of_row(s, row + r, (const T *)s.transposed.data + col + j);
    }
    __syncthreads();
    for (int c = j / ROWS; c < cols; c += COLS / ROWS) {
        if (j % ROWS < rows) {
            S *const to = (S *)s.S.data + row + j % ROWS + (col + c) * s.S.ld;
            const double before = s.b != 0.0 ? (double)*to : 0.0;
            *to = (S)fma(s.b, before, sums[c][j % ROWS]);
        }
    }
}

template <class T> int start_signs(const struct launch_signs &s, void *stream)
{
    const dim3 grid((unsigned)((s.S.rows + ROWS - 1) / ROWS),
                    (unsigned)((s.S.cols + COLS - 1) / COLS));
    return s.S.dtype == DTYPE_F64 ? start(sums_of_signs<T, double>, grid, COLS, 0, stream, s)
                                  : start(sums_of_signs<T, float>, grid, COLS, 0, stream, s);
}

} // namespace

extern "C" int launch_signs(void *stream, const struct launch_signs *signs)
{
    return signs->transposed.dtype == DTYPE_F64 ? start_signs<double>(*signs, stream)
                                                : start_signs<float>(*signs, stream);
}
