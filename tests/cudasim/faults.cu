#include <cuda_pipeline.h>

extern "C" {
#include "cudasim/faults.h"
}

#include "gpu/matrix.cuh"
#include "gpu/start.cuh"
#include "gpu/warpgroup.cuh"

namespace {

constexpr int THREADS = 256;

template <bool BARRIERS> __global__ void block_sums(const double *x, double *sums)
{
    auto &memory = shared<double[THREADS]>();
    memory[threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x];
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            memory[threadIdx.x] += memory[threadIdx.x + half];
        }
        if (BARRIERS) {
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = memory[0];
    }
}

__global__ void shift_by(const float *x, int64_t n, int64_t shift, float *y)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i + shift];
    }
}

__global__ void move_fours(const float *x, int shift, float *y)
{
    ((float4 *)y)[threadIdx.x] = ((const float4 *)(x + shift))[threadIdx.x];
}

__global__ void copy_async(const float *x, float *y, int wait)
{
    auto &memory = shared<float[2][64]>();
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&memory[0][i], x + i, sizeof(float));
    __pipeline_commit();
    __pipeline_memcpy_async(&memory[1][i], x + i, sizeof(float), sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(wait ? 1 : 2); /* the second may be on its way */
    y[i] = memory[0][i];
    __pipeline_wait_prior(0);
    y[i] += memory[1][i];
}

__global__ void warp_sum(const float *x, unsigned mask, float *ret)
{
    float sum = x[threadIdx.x];
    for (int half = 16; half > 0; half /= 2) {
        sum += __shfl_xor_sync(mask, sum, half);
    }
    ret[0] = __shfl_sync(mask, sum, 0);
}

__global__ void divergent(int limit)
{
    if (threadIdx.x < limit) {
        __syncthreads();
    }
}

__global__ void split_warp()
{
    if (threadIdx.x % 2 == 0) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

__global__ void write_behind()
{
    auto &memory = shared<float[64]>();
    memory[threadIdx.x + 1] = 1.0F;
}

__global__ void read_unwritten(float *ret)
{
    auto &memory = shared<float[64]>();
    ret[0] = memory[7];
}

__global__ void too_much_shared()
{
    shared<char[49 << 10]>()[0] = 1;
}

__global__ void through_dynamic(int64_t bytes, unsigned char *ret)
{
    auto *memory = dynamic_shared<unsigned char>();
    for (int64_t i = threadIdx.x; i < bytes; i += THREADS) {
        memory[i] = (unsigned char)(i % 251);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < bytes; i += THREADS) {
        ret[i] = memory[bytes - 1 - i];
    }
}

__global__ void nothing()
{
}

__global__ void note_order(int *next, int *order)
{
    order[(*next)++] = (int)threadIdx.x;
}

__global__ void share_places(const float *x, int share, float *ret)
{
    if (x[blockIdx.x] > 0.0F && threadIdx.x == 0) {
        ret[blockIdx.x / share] = x[blockIdx.x];
    }
}

__global__ void reverse(const float *x, int wait, float *ret)
{
    auto &memory = shared<float[32]>();
    memory[threadIdx.x] = 0;
    __syncwarp();
    memory[threadIdx.x] = x[threadIdx.x];
    if (wait) {
        __syncwarp();
    }
    const float first = memory[0];
    ret[threadIdx.x] = memory[31 - threadIdx.x] + first;
    if (wait) {
        __syncwarp();
    }
    if (threadIdx.x == 0) {
        memory[0] = first + 1.0F;
    }
}

__global__ void change_of_all(float *x)
{
    x[1 + threadIdx.x] = x[0];
    if (threadIdx.x == 0) {
        x[0] = 0.0F;
    }
}

__global__ void take_neighbour(const float *x, float *y, int barrier)
{
    auto &memory = shared<float[64]>();
    memory[threadIdx.x] = 0;
    __syncthreads();
    __pipeline_memcpy_async(&memory[threadIdx.x], x + threadIdx.x, sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (barrier) {
        __syncthreads();
    }
    y[threadIdx.x] = memory[(threadIdx.x + 1) % 64];
}

__device__ uint32_t pair_of(const float *from, int stride)
{
    return float16_pair(from[0], from[stride]);
}

__global__ void multiply_matrices(const float *A, const float *B, float *C, int tf32, int lanes)
{
    if (threadIdx.x >= lanes) {
        return;
    }
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    uint32_t a[4], b[2];
    float c[4];
    for (int i = 0; i < 4; i++) {
        const float *const row = A + (g + i % 2 * 8) * 16;
        a[i] = tf32 ? (uint32_t)__float_as_int(row[t + i / 2 * 4])
                    : pair_of(row + 2 * t + i / 2 * 8, 1);
    }
    for (int i = 0; i < 2; i++) {
        b[i] = tf32 ? (uint32_t)__float_as_int(B[(t + i * 4) * 8 + g])
                    : pair_of(B + (2 * t + i * 8) * 8 + g, 8);
    }
    for (int i = 0; i < 4; i++) {
        c[i] = C[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    }
    if (tf32) {
        add_product_tf32(c, a, b);
    } else {
        add_product_float16(c, a, b);
    }
    for (int i = 0; i < 4; i++) {
        C[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
    }
}

__global__ void multiply_by_groups(const uint32_t *A, const uint32_t *B, float *C, int fault)
{
    auto &memory = shared<uint32_t[2][512]>();
    uint32_t *const a = memory[0], *const b = memory[1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __pipeline_memcpy_async(a + 4 * threadIdx.x, A + 4 * threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    __pipeline_memcpy_async(b + 4 * threadIdx.x, B + 4 * threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (fault != GROUP_WITHOUT_PROXY_FENCE) {
        shared_fence();
    }
    if (fault != GROUP_WITHOUT_BARRIER) {
        __syncthreads();
    }
    if (fault == GROUP_WITHOUT_A_WARP && warp == 3) {
        return;
    }
    float c[32];
    const uint64_t rows = describe_matrix(a, 128, 1024);
    const uint64_t matrix = describe_matrix(b, 128, fault == GROUP_OUTSIDE ? 2048 + 16384 : 1024);
    if (fault != GROUP_WITHOUT_FENCE) {
        group_fence();
    }
    subtract_group_product<false>(c, rows, matrix);
    if (fault == GROUP_TOUCHED) {
        c[5] = 1;
    }
    subtract_group_product<true>(c, rows, matrix);
    if (fault != GROUP_WITHOUT_COMMIT) {
        group_commit();
    }
    if (fault != GROUP_WITHOUT_WAIT) {
        group_wait<0>(c);
    }
    for (int i = 0; i < 32; i++) {
        const int row = warp * 16 + lane / 4 + i % 4 / 2 * 8;
        C[row * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = -c[i];
    }
}

struct arriving {
    alignas(16) float x[256];
    arrival there;
};

__device__ void expect_copy(arriving &s, const float *x, int fault)
{
    const unsigned bytes = sizeof s.x;
    arrival_expect(s.there, fault == ARRIVAL_TOO_LITTLE ? bytes + 16 : bytes);
    if (fault == ARRIVAL_TWICE) {
        arrival_expect(s.there, bytes);
    }
    copy_to_shared(s.x, fault == ARRIVAL_CROOKED ? x + 1 : x,
                   fault == ARRIVAL_TOO_MUCH ? bytes + 16 : bytes, s.there);
}

__global__ void add_arrivals(const float *x, float *y, int fault)
{
    auto &s = shared<arriving>();
    if (threadIdx.x == 0) {
        arrival_begin(s.there);
        if (fault != ARRIVAL_WITHOUT_FENCE) {
            arrivals_fence();
        }
    }
    __syncthreads();
    float sum = 0;
    for (int turn = 0; turn < 2; turn++) {
        if (threadIdx.x == 0) {
            expect_copy(s, x + 256 * turn, fault);
        }
        if (fault == ARRIVAL_NOT_WAITED_FOR) {
            return;
        }
        arrival_wait(s.there, turn);
        __syncthreads(); /* for who watches */
        sum += s.x[threadIdx.x];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

} // namespace

extern "C" {

int start_arrivals(void *stream, const float *x, float *y, int fault)
{
    return start(add_arrivals, 1, 256, 0, stream, x, y, fault);
}

int start_group_product(void *stream, const unsigned *A, const unsigned *B, float *C, int fault)
{
    return start(multiply_by_groups, 1, 128, 0, stream, A, B, C, fault);
}

int start_matrix_product(void *stream, const float *A, const float *B, float *C, int tf32,
                         int lanes)
{
    return start(multiply_matrices, 1, 32, 0, stream, A, B, C, tf32, lanes);
}

int start_block_sums(void *stream, const double *x, int blocks, double *sums, int barriers)
{
    return start(barriers ? block_sums<true> : block_sums<false>, blocks, THREADS, 0, stream, x,
                 sums);
}

int start_shift(void *stream, const float *x, int64_t n, int64_t shift, float *y)
{
    return start(shift_by, (unsigned)((n + 63) / 64), 64, 0, stream, x, n, shift, y);
}

int start_fours(void *stream, const float *x, int shift, float *y)
{
    return start(move_fours, 1, 4, 0, stream, x, shift, y);
}

int start_async_copy(void *stream, const float *x, float *y, int wait)
{
    return start(copy_async, 1, 64, 0, stream, x, y, wait);
}

int start_warp_sum(void *stream, const float *x, unsigned mask, float *ret)
{
    return start(warp_sum, 1, 32, 0, stream, x, mask, ret);
}

int start_divergent(void *stream, int limit)
{
    return start(divergent, 1, 64, 0, stream, limit);
}

int start_split_warp(void *stream)
{
    return start(split_warp, 1, 32, 0, stream);
}

int start_write_behind(void *stream)
{
    return start(write_behind, 1, 64, 0, stream);
}

int start_read_unwritten(void *stream, float *ret)
{
    return start(read_unwritten, 1, 64, 0, stream, ret);
}

int start_too_much_shared(void *stream)
{
    return start(too_much_shared, 1, 1, 0, stream);
}

int start_dynamic(void *stream, int64_t bytes, int allow, unsigned char *ret)
{
    if (allow) {
        (void)cudaFuncSetAttribute(through_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)bytes);
    }
    return start(through_dynamic, 1, THREADS, (size_t)bytes, stream, bytes, ret);
}

int start_nothing(void *stream, unsigned grid_x, unsigned grid_y, unsigned threads)
{
    return start(nothing, dim3(grid_x, grid_y), threads, 0, stream);
}

int start_order(void *stream, int *next, int *order)
{
    return start(note_order, 1, 64, 0, stream, next, order);
}

int start_share(void *stream, const float *x, int blocks, int share, float *ret)
{
    return start(share_places, blocks, 64, 0, stream, x, share, ret);
}

int start_reverse(void *stream, const float *x, int wait, float *ret)
{
    return start(reverse, 1, 32, 0, stream, x, wait, ret);
}

int start_change_of_all(void *stream, float *x)
{
    return start(change_of_all, 1, 64, 0, stream, x);
}

int start_async_neighbour(void *stream, const float *x, float *y, int barrier)
{
    return start(take_neighbour, 1, 64, 0, stream, x, y, barrier);
}
}
