/*
 * Column operations on matrices in device memory. All are bound by memory traffic, so element types
 * are told apart at run time, and arithmetic is float64 for both.
 */
#include "gpu/elements.cuh"
#include "gpu/start.cuh"

namespace {

constexpr int THREADS = 256;
constexpr int64_t SPAN = 64 * THREADS; /* rows one block adds up; fixed, so that sums are */
constexpr int64_t GRID_X = 1 << 14, GRID_Y = 1 << 14;

int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows along x, columns along y; kernels stride over what the grid does not reach. */
dim3 grid_of(int64_t rows, int64_t cols)
{
    return dim3((unsigned)least((rows + THREADS - 1) / THREADS, GRID_X),
                (unsigned)least(cols, GRID_Y));
}

__device__ int64_t first_row()
{
    return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

__device__ int64_t row_stride()
{
    return (int64_t)gridDim.x * THREADS;
}

__global__ void convert(struct mat src, struct mat dst)
{
    for (int64_t j = blockIdx.y; j < src.cols; j += gridDim.y) {
        for (int64_t i = first_row(); i < src.rows; i += row_stride()) {
            set_element(dst, i, j, element(src, i, j));
        }
    }
}

struct factors {
    double a[LAUNCH_AXPBY_COLS], b[LAUNCH_AXPBY_COLS];
};

__global__ void axpby(struct factors f, struct mat X, struct mat Y)
{
    const int64_t j = blockIdx.y;
    const double a = f.a[j], b = f.b[j];
    if (a == 0.0 && b == 1.0) {
        return;
    }
    for (int64_t i = first_row(); i < X.rows; i += row_stride()) {
        const double old = b == 0.0 ? 0.0 : b * element(Y, i, j);
        set_element(Y, i, j, fma(a, element(X, i, j), old));
    }
}

/* The sum of every thread's number, in thread 0: a tree, always the same. */
__device__ double block_sum(double value)
{
    auto &sums = shared<double[THREADS]>();
    sums[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    return sums[0];
}

/* partials[j * spans + s] <- the dot product over span s. */
__global__ void dots_of_spans(struct mat A, struct mat B, double *partials)
{
    const int64_t first = blockIdx.x * SPAN;
    const int64_t end = min(first + SPAN, A.rows);
    for (int64_t j = blockIdx.y; j < A.cols; j += gridDim.y) {
        double sum = 0.0;
        for (int64_t i = first + threadIdx.x; i < end; i += THREADS) {
            sum = fma(element(A, i, j), element(B, i, j), sum);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) {
            partials[j * gridDim.x + blockIdx.x] = sum;
        }
        __syncthreads(); /* block_sum's memory is used again */
    }
}

__global__ void add_spans(const double *partials, int64_t spans, int64_t cols, double *sums)
{
    for (int64_t j = blockIdx.x; j < cols; j += gridDim.x) {
        double sum = 0.0;
        for (int64_t s = threadIdx.x; s < spans; s += THREADS) {
            sum += partials[j * spans + s];
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) {
            sums[j] = sum;
        }
        __syncthreads();
    }
}

__global__ void gather(struct mat A, const int64_t *index, struct mat B)
{
    for (int64_t j = blockIdx.y; j < B.cols; j += gridDim.y) {
        for (int64_t i = first_row(); i < B.rows; i += row_stride()) {
            set_element(B, i, j, element(A, index[i], j));
        }
    }
}

__global__ void add_rows(struct factors f, struct mat A, const int64_t *index, struct mat B)
{
    const int64_t j = blockIdx.y;
    for (int64_t i = first_row(); i < A.rows; i += row_stride()) {
        set_element(B, index[i], j, fma(f.a[j], element(A, i, j), element(B, index[i], j)));
    }
}

__global__ void deflate(struct mat F, struct mat d)
{
    for (int64_t i = first_row(); i < F.rows; i += row_stride()) {
        double left = element(d, i, 0);
        for (int64_t j = 0; j < F.cols; j++) {
            const double f = element(F, i, j);
            left = fma(-f, f, left);
        }
        set_element(d, i, 0, fmax(left, 0.0));
    }
}

__global__ void add_diag(double value, struct mat A)
{
    for (int64_t i = first_row(); i < A.rows; i += row_stride()) {
        set_element(A, i, i, element(A, i, i) + value);
    }
}

__global__ void scale_rows(const double *factors, struct mat A)
{
    for (int64_t j = blockIdx.y; j < A.cols; j += gridDim.y) {
        for (int64_t i = first_row(); i < A.rows; i += row_stride()) {
            set_element(A, i, j, factors[i] * element(A, i, j));
        }
    }
}

__global__ void clear_upper(struct mat A)
{
    for (int64_t j = blockIdx.y; j < A.cols; j += gridDim.y) {
        for (int64_t i = first_row(); i < j; i += row_stride()) {
            set_element(A, i, j, 0.0);
        }
    }
}

__global__ void get_diag(struct mat A, double *ret)
{
    for (int64_t i = first_row(); i < A.rows; i += row_stride()) {
        ret[i] = element(A, i, i);
    }
}

__global__ void scale(bool lower, double b, struct mat C)
{
    for (int64_t j = blockIdx.y; j < C.cols; j += gridDim.y) {
        for (int64_t i = first_row(); i < C.rows; i += row_stride()) {
            if (!lower || i >= j) {
                set_element(C, i, j, b == 0.0 ? 0.0 : b * element(C, i, j));
            }
        }
    }
}

int64_t span_count(int64_t rows)
{
    return (rows + SPAN - 1) / SPAN;
}

} // namespace

extern "C" {

int launch_convert(void *stream, const struct mat *src, const struct mat *dst)
{
    return start(convert, grid_of(src->rows, src->cols), THREADS, 0, stream, *src, *dst);
}

int launch_axpby(void *stream, const double *a, const struct mat *X, const double *b,
                 const struct mat *Y)
{
    struct factors f = {};
    for (int64_t j = 0; j < X->cols; j++) {
        f.a[j] = a[j];
        f.b[j] = b[j];
    }
    return start(axpby, grid_of(X->rows, X->cols), THREADS, 0, stream, f, *X, *Y);
}

int64_t launch_dots_work(int64_t rows, int64_t cols)
{
    return span_count(rows) * cols;
}

int launch_dots(void *stream, const struct mat *A, const struct mat *B, double *work, double *sums)
{
    const int64_t spans = span_count(A->rows);
    const dim3 grid((unsigned)spans, (unsigned)least(A->cols, GRID_Y));
    const int status = start(dots_of_spans, grid, THREADS, 0, stream, *A, *B, work);
    if (status != cudaSuccess) {
        return status;
    }
    const unsigned blocks = (unsigned)least(A->cols, GRID_X);
    return start(add_spans, blocks, THREADS, 0, stream, work, spans, A->cols, sums);
}

int launch_gather(void *stream, const struct mat *A, const int64_t *index, const struct mat *B)
{
    return start(gather, grid_of(B->rows, B->cols), THREADS, 0, stream, *A, index, *B);
}

int launch_add_rows(void *stream, const double *a, const struct mat *A, const int64_t *index,
                    const struct mat *B)
{
    struct factors f = {};
    for (int64_t j = 0; j < A->cols; j++) {
        f.a[j] = a[j];
    }
    return start(add_rows, grid_of(A->rows, A->cols), THREADS, 0, stream, f, *A, index, *B);
}

int launch_deflate(void *stream, const struct mat *F, const struct mat *d)
{
    return start(deflate, grid_of(F->rows, 1), THREADS, 0, stream, *F, *d);
}

int launch_add_diag(void *stream, double value, const struct mat *A)
{
    return start(add_diag, grid_of(A->rows, 1), THREADS, 0, stream, value, *A);
}

int launch_scale_rows(void *stream, const double *factors, const struct mat *A)
{
    return start(scale_rows, grid_of(A->rows, A->cols), THREADS, 0, stream, factors, *A);
}

int launch_clear_upper(void *stream, const struct mat *A)
{
    return start(clear_upper, grid_of(A->rows, A->cols), THREADS, 0, stream, *A);
}

int launch_get_diag(void *stream, const struct mat *A, double *ret)
{
    return start(get_diag, grid_of(A->rows, 1), THREADS, 0, stream, *A, ret);
}

int launch_scale(void *stream, bool lower, double b, const struct mat *C)
{
    return start(scale, grid_of(C->rows, C->cols), THREADS, 0, stream, lower, b, *C);
}
}
