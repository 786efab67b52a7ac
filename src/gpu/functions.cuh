/*
 * Kernel functions of distances and inner products of packed points (launch.h).
 */
#pragma once

#include <string.h>

extern "C" {
#include "engine/exp2.h"
#include "gpu/launch.h"
}

namespace {

constexpr double LN2 = 0.69314718055994530942;

/* Beyond it the power of two is 0; the polynomials of the Matern kernels must not be infinite. */
inline __device__ float largest_root(float)
{
    return 160.0F;
}

inline __device__ double largest_root(double)
{
    return 1100.0;
}

/* 2^x to 2 units in the last place by one instruction, 1 for 0 and 0 below 2^-126; and a root of 1,
 * which takes two. */
inline __device__ float power_of_two(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2(x);
#endif
}

template <class To, class From> __device__ To same_bits(const From &from)
{
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

/* 2^(j/16): a line of the cache, from which a warp takes any of them at once. */
alignas(128) static __device__ const double SIXTEENTHS[16] = {EXP2_SIXTEENTHS_F64};

/* 2^x for x <= 1 to 3e-16 of it, 0 below 2^-1022: 2^n 2^(j/16) 2^f with |f| <= 1/32, by ten
 * operations in float64. Adding `magic` rounds to sixteenths and leaves 16 n + j in the low bits.
 */
inline __device__ double power_of_two(double x)
{
    constexpr double magic = 0x1.8p48, c[] = {EXP2_SMALL_F64};
    const double shifted = x + magic, f = x - (shifted - magic);
    const unsigned long long bits = same_bits<unsigned long long>(shifted);
    const unsigned long long sixteenth = same_bits<unsigned long long>(SIXTEENTHS[bits & 15]);
    const double part = same_bits<double>(sixteenth + ((bits & ~15ULL) << 48));
    double sum = fma(f, c[5], c[4]);
#pragma unroll
    for (int k = 3; k >= 0; k--) {
        sum = fma(sum, f, c[k]);
    }
    return x < -1022 ? 0 : fma(sum, f * part, part);
}

inline __device__ float root(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return sqrt(x);
#endif
}

inline __device__ double root(double x)
{
    return sqrt(x);
}

template <class T> struct exp_of {
    __device__ T operator()(T D) const
    {
        return power_of_two(-D);
    }
};

template <class T> struct root_exp_of {
    __device__ T operator()(T D) const
    {
        return power_of_two(-root(D));
    }
};

/* u = sqrt(3) r / ln 2: (1 + u ln 2) 2^-u. */
template <class T> struct matern32_of {
    __device__ T operator()(T D) const
    {
        const T u = fmin(root(fmax(D, (T)0)), largest_root(D));
        return fma((T)LN2, u, (T)1) * power_of_two(-u);
    }
};

/* u = sqrt(5) r / ln 2, v = u ln 2: (1 + v + v^2/3) 2^-u. */
template <class T> struct matern52_of {
    __device__ T operator()(T D) const
    {
        const T u = fmin(root(fmax(D, (T)0)), largest_root(D));
        const T v = (T)LN2 * u;
        return fma(v, fma(v, (T)(1.0 / 3.0), (T)1), (T)1) * power_of_two(-u);
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

template <int ROWS, int COLS, class T, class F>
__device__ void replace_each(const F &f, T (&D)[ROWS][COLS])
{
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            D[i][j] = f(D[i][j]);
        }
    }
}

/* What a form computes, whatever it uses. */
template <launch_form FORM>
constexpr launch_form PLAIN = FORM == FORM_L2_TENSOR || FORM == FORM_L2_GROUP ? FORM_L2
                              : FORM == FORM_DOT_TENSOR                       ? FORM_DOT
                                                                              : FORM;

/* Distances become kernel values. */
template <launch_form FORM, int ROWS, int COLS, class T>
__device__ void apply_function(const struct launch_kernel &k, T (&D)[ROWS][COLS])
{
    const T gamma = (T)k.gamma, coef0 = (T)k.coef0;
    if constexpr (PLAIN<FORM> == FORM_L1) {
        replace_each(exp_of<T>(), D);
    } else if constexpr (PLAIN<FORM> == FORM_DOT) {
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

} // namespace
