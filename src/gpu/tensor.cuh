/*
 * Inner products of a tile by the tensor cores (matrix.cuh), for compute capability 8.0 and later.
 *
 * A number is split in two, the nearest of 11 bits and the nearest of 11 bits to what is left: 23
 * bits of its 24 are kept. An inner product is then three products of matrices; that of the two
 * small parts, 2^-22 of the whole at most, is left out (Markidis et al., NVIDIA tensor core
 * programmability, performance and precision, 2018). What the cores cut off would add up over many
 * features, so they add no more than 16 of them, the small products first, and the rest of the
 * addition is float32's (Ootomo, Yokota, Recovering single precision accuracy from tensor cores,
 * IJHPCA 36, 2022).
 *
 * Parts of float16 take half as long as parts of tf32, and do for numbers whose size is known: the
 * small part of a number x is off by 2^-23 |x| or by 2^-25, whichever is larger, and beyond 65504
 * there is none. Distances take them, whose points are of size 1; for inner products as such the
 * points are of any size, and parts are of tf32, which has the range of float32.
 *
 * z rows are the rows of a product, x rows its columns: a thread's 8 z rows are the two rows of 4
 * products, its 8 x rows the two columns of 4 others. So its register tile is that of all 16, and
 * nobody else need know of them.
 */
#pragma once

#include "gpu/matrix.cuh"

namespace {

/* A row's features that a thread brings to a product, in two parts. */
struct row_parts {
    uint32_t high[2], low[2];
};

struct float16_parts {
    static constexpr int FEATURES = 16;
    static __device__ row_parts split(const float (&x)[4])
    {
        row_parts p;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float first, second;
            p.high[i] = float16_pair(x[2 * i], x[2 * i + 1]);
            float16_values(p.high[i], first, second);
            p.low[i] = float16_pair(x[2 * i] - first, x[2 * i + 1] - second);
        }
        return p;
    }
    static __device__ void add_product(float (&c)[4], const uint32_t (&a)[4],
                                       const uint32_t (&b)[2])
    {
        add_product_float16(c, a, b);
    }
};

/* Whole numbers, which need no splitting. */
struct float64_parts {
    static constexpr int FEATURES = 4;
};

struct tf32_parts {
    static constexpr int FEATURES = 8;
    static __device__ row_parts split(const float (&x)[2])
    {
        row_parts p;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            p.high[i] = ((uint32_t)__float_as_int(x[i]) + 0x1000U) & 0xffffe000U;
            p.low[i] = (uint32_t)__float_as_int(x[i] - __int_as_float((int)p.high[i]));
        }
        return p;
    }
    static __device__ void add_product(float (&c)[4], const uint32_t (&a)[4],
                                       const uint32_t (&b)[2])
    {
        add_product_tf32(c, a, b);
    }
};

constexpr unsigned ALL_TAKEN = 15;

/* ret <- the parts of the thread's features, every fourth, of 4 rows: `from` is their numbers of
 * the first of these features; STRIDE lies between features. Bit r of `taken`: row r is not to be
 * 0. */
template <class PARTS, int STRIDE>
__device__ void split_rows(const float *from, unsigned taken, row_parts (&ret)[4])
{
    constexpr int EACH = PARTS::FEATURES / 4;
    float x[4][EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const float4 four = *(const float4 *)(from + 4 * k * STRIDE);
        x[0][k] = four.x;
        x[1][k] = four.y;
        x[2][k] = four.z;
        x[3][k] = four.w;
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
#pragma unroll
        for (int k = 0; taken != ALL_TAKEN && k < EACH; k++) {
            x[r][k] = (taken >> r & 1) != 0 ? x[r][k] : 0;
        }
        ret[r] = PARTS::split(x[r]);
    }
}

/* c <- the products of two z rows with the thread's x row, and those of the lanes beside it. */
template <class PARTS>
__device__ void multiply(const row_parts &z0, const row_parts &z1, const row_parts &x,
                         float (&c)[4])
{
    const uint32_t high[4] = {z0.high[0], z1.high[0], z0.high[1], z1.high[1]};
    const uint32_t low[4] = {z0.low[0], z1.low[0], z0.low[1], z1.low[1]};
    c[0] = c[1] = c[2] = c[3] = 0;
    PARTS::add_product(c, low, x.high);
    PARTS::add_product(c, high, x.low);
    PARTS::add_product(c, high, x.high);
}

} // namespace
