/*
 * What CUDA gives kernels, for kernels compiled as C++: their qualifiers, types and functions.
 * Arithmetic is the host's. sim_together (sim.h) is what further functions of a warp are made of.
 */
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

#include "cudasim/sim.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

/* ---- types ---- */

struct dim3 : sim_size {
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : sim_size{x_, y_, z_}
    {
    }
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y)
{
    return {x, y};
}

inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

inline double2 make_double2(double x, double y)
{
    return {x, y};
}

#define threadIdx sim_place.thread
#define blockIdx sim_place.block
#define blockDim sim_place.block_size
#define gridDim sim_place.grid_size
constexpr int warpSize = SIM_WARP;

/* ---- arithmetic ---- */

template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b)
{
    return b < a ? b : a;
}

template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b)
{
    return a < b ? b : a;
}

inline float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}

inline float __fadd_rn(float x, float y)
{
    return x + y;
}

inline float __fmul_rn(float x, float y)
{
    return x * y;
}

inline double __fma_rn(double x, double y, double z)
{
    return fma(x, y, z);
}

template <class To, class From> To sim_same_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

inline int __float_as_int(float x)
{
    return sim_same_bits<int>(x);
}

inline float __int_as_float(int x)
{
    return sim_same_bits<float>(x);
}

template <class T> T __ldg(const T *from)
{
    return *from;
}

/* As any load and store: they say only how long caches should hold it. */
template <class T> T __ldcs(const T *from)
{
    return *from;
}

template <class T> void __stcs(T *to, T value)
{
    *to = value;
}

/* Atomic functions are the simulator's own, which nobody watches. */
inline long long atomicMin(long long *at, long long value)
{
    return sim_atomic_min(at, value);
}

/* ---- waiting for others ---- */

inline void __syncthreads()
{
    sim_barrier();
}

inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    sim_together(mask, "__syncwarp", nullptr, [](void **, unsigned) { sim_warp_barrier(); });
}

/* What a lane brings to an exchange of values, and takes from it. */
template <class T> struct sim_exchange {
    T given, taken;
    int source; /* lane */
};

template <class T> T sim_take(unsigned mask, const char *name, T value, int source)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "no value of a register");
    sim_exchange<T> mine = {value, value, source};
    /* Not watched: it looks at what is on other threads' stacks. */
    sim_together(
        mask, name, &mine, [](void **lanes, unsigned) __attribute__((no_sanitize("thread"))) {
            for (int lane = 0; lane < SIM_WARP; lane++) {
                auto *to = (sim_exchange<T> *)lanes[lane];
                if (to == nullptr) {
                    continue;
                }
                if (lanes[to->source] == nullptr) {
                    sim_fault("a shuffle takes lane %d's value, which is not in the mask",
                              to->source);
                }
                to->taken = ((sim_exchange<T> *)lanes[to->source])->given;
            }
        });
    return mine.taken;
}

inline int sim_lane()
{
    const unsigned before = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    return (int)(before % SIM_WARP);
}

/* Sources outside of the lane's part of `width` lanes give the lane its own value. */
template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = SIM_WARP)
{
    const int begin = sim_lane() / width * width;
    return sim_take(mask, "__shfl_sync", value, begin + (source & (width - 1)));
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = SIM_WARP)
{
    const int lane = sim_lane(), begin = lane / width * width;
    const int source = lane ^ bits;
    return sim_take(mask, "__shfl_xor_sync", value, source < begin + width ? source : lane);
}

template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = SIM_WARP)
{
    const int lane = sim_lane(), begin = lane / width * width;
    const int source = lane + (int)by;
    return sim_take(mask, "__shfl_down_sync", value, source < begin + width ? source : lane);
}

template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = SIM_WARP)
{
    const int lane = sim_lane(), begin = lane / width * width;
    const int source = lane - (int)by;
    return sim_take(mask, "__shfl_up_sync", value, source >= begin ? source : lane);
}

/* ---- the runtime's functions that name kernels ---- */

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

template <class... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute, int value)
{
    return (cudaError_t)sim_allow_dynamic((const void *)kernel, (size_t)value);
}
