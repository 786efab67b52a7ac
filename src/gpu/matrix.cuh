/*
 * Products of small matrices by the tensor cores, which all 32 lanes of a warp compute together:
 * C += A B with A [16 x k], B [k x 8], and C [16 x 8] in float32. With g = lane / 4 and t = lane %
 * 4 a lane holds of C the rows g and g + 8 and the columns 2t and 2t + 1: c = {(g, 2t), (g, 2t +
 * 1), (g + 8, 2t), (g + 8, 2t + 1)}. Of A it holds rows g and g + 8, of B column g, and of k a
 * fourth by its t: a = {g, g + 8, g, g + 8}, b = {g, g}, the first half of that fourth and then the
 * second. Which numbers of k these are does not matter where all lanes with this t agree on it (PTX
 * ISA, mma.sync; it needs compute capability 8.0).
 *
 * Products are exact. Sums are float32, but in an order of the device's own, and what does not fit
 * is cut off, not rounded (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor
 * cores, PeerJ Computer Science 7, 2021).
 *
 * Nothing but what a host cannot compile is here, so that another file can stand in its place.
 */
#pragma once

#include <stdint.h>

namespace {

/* Two numbers rounded to float16, the first one in the lower half. */
inline __device__ uint32_t float16_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* The two numbers of a pair. */
inline __device__ void float16_values(uint32_t pair, float &low, float &high)
{
    asm("{.reg .f16 l, h;\n"
        " mov.b32 {l, h}, %2;\n"
        " cvt.f32.f16 %0, l;\n"
        " cvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high)
        : "r"(pair));
}

/* k = 16; pairs of float16. */
inline __device__ void add_product_float16(float (&c)[4], const uint32_t (&a)[4],
                                           const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* k = 8; bits of float32, of whose fraction the last 13 are left out. */
inline __device__ void add_product_tf32(float (&c)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* C += A B with A [16 x 4] and B [4 x 8] in float64: a = {(g, t), (g + 8, t)}, b = (t, g). Sums are
 * rounded as multiply-adds round. Before 9.0 the device has no more than 8 rows in a product. */
inline __device__ void add_product_float64(double (&c)[4], const double (&a)[2], double b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(b));
#else
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a[0]), "d"(b));
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[2]), "+d"(c[3])
        : "d"(a[1]), "d"(b));
#endif
}

} // namespace
