/*
 * KISS FFT is a template over the type of a number's parts: here a vector that holds the part of
 * one number of each line.
 *
 * No function of this file may be seen outside of it, those of the standard library's templates
 * included: the linker takes any one of functions of one name, and would take that of the newest
 * processor for a program that runs on an older one. So this is compiled with -fno-weak, by which
 * templates have no names for the linker; tools/check-symbols looks at the result.
 */
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <new>
#include <utility>

#include "cpu/grid/fft.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

namespace {

constexpr int LANES = TILE_VEC_BYTES / sizeof(double);
static_assert(LANES <= FFT_LANES, "room for lines");

#if TILE_VEC_BYTES == 8
using lanes = double;
#else
using vec = double __attribute__((vector_size(TILE_VEC_BYTES)));

struct lanes {
    vec v;

    lanes() = default;
    lanes(double x) : v(vec{} + x)
    {
    }
    lanes(vec x) : v(x)
    {
    }
    lanes &operator+=(const lanes &x)
    {
        v += x.v;
        return *this;
    }
    lanes &operator-=(const lanes &x)
    {
        v -= x.v;
        return *this;
    }
    lanes &operator*=(const lanes &x)
    {
        v *= x.v;
        return *this;
    }
};

inline lanes operator+(const lanes &a, const lanes &b)
{
    return a.v + b.v;
}

inline lanes operator-(const lanes &a, const lanes &b)
{
    return a.v - b.v;
}

inline lanes operator*(const lanes &a, const lanes &b)
{
    return a.v * b.v;
}

inline lanes operator/(const lanes &a, const lanes &b)
{
    return a.v / b.v;
}

inline lanes operator-(const lanes &a)
{
    return -a.v;
}

/* Factors of the transform are the same in all lanes: these are what they are made with. */
inline bool operator>=(const lanes &a, const lanes &b)
{
    return a.v[0] >= b.v[0];
}

inline lanes exp(const lanes &a)
{
    return std::exp(a.v[0]);
}

inline lanes cos(const lanes &a)
{
    return std::cos(a.v[0]);
}

inline lanes sin(const lanes &a)
{
    return std::sin(a.v[0]);
}
#endif

} // namespace

#if TILE_VEC_BYTES > 8
namespace std {
/* KISS FFT asks for it by that name. */
static inline lanes acos(const lanes &a)
{
    return std::acos(a.v[0]);
}
} // namespace std
#endif

#include <kissfft/kissfft.hh>

namespace {

using number = std::complex<lanes>;

struct plan {
    explicit plan(std::size_t length) : length(length), there(length, false)
    {
    }

    std::size_t length;
    kissfft<lanes> there;
};

/* Lines on their way: `real` and `imag` are where the parts of a number begin. */
struct group {
    double *const *line;
    int count;
    std::size_t stride, length;
    int real, imag;
};

double *number_at(const group &g, int i, std::size_t k)
{
    return g.line[i] + 2 * k * g.stride;
}

/* Missing lines are zeros. */
void load_each(const group &g, std::size_t k, double *ret)
{
    for (int i = 0; i < LANES; i++) {
        const double *const at = i < g.count ? number_at(g, i, k) : nullptr;
        ret[g.real + i] = at != nullptr ? at[0] : 0.0;
        ret[g.imag + i] = at != nullptr ? at[1] : 0.0;
    }
}

void store_each(const group &g, std::size_t k, const double *from)
{
    for (int i = 0; i < g.count; i++) {
        double *const at = number_at(g, i, k);
        at[0] = from[g.real + i];
        at[1] = from[g.imag + i];
    }
}

#if TILE_VEC_BYTES == 8
std::size_t load_whole(const group &, double *)
{
    return 0;
}

std::size_t store_whole(const group &, const double *)
{
    return 0;
}
#else
/* ---- all lanes, by whole vectors ---- */

using loose = double __attribute__((vector_size(TILE_VEC_BYTES), may_alias, aligned(8)));
using order = long long __attribute__((vector_size(TILE_VEC_BYTES)));
#define INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

INLINE vec load(const double *at)
{
    return *reinterpret_cast<const loose *>(at);
}

INLINE void store(double *at, vec v)
{
    *reinterpret_cast<loose *>(at) = v;
}

/* Of a number of each line, which are adjacent. */
INLINE void load_beside(const group &g, std::size_t k, double *ret)
{
    const double *const at = number_at(g, 0, k);
    const vec a = load(at), b = load(at + LANES);
    order even{};
    UNROLL for (int i = 0; i < LANES; i++)
    {
        even[i] = 2 * i;
    }
    store(ret + g.real, __builtin_shuffle(a, b, even));
    store(ret + g.imag, __builtin_shuffle(a, b, even + 1));
}

INLINE void store_beside(const group &g, std::size_t k, const double *from)
{
    double *const at = number_at(g, 0, k);
    const vec a = load(from + g.real), b = load(from + g.imag);
    order low{};
    UNROLL for (int i = 0; i < LANES; i++)
    {
        low[i] = i / 2 + i % 2 * LANES;
    }
    store(at, __builtin_shuffle(a, b, low));
    store(at + LANES, __builtin_shuffle(a, b, low + LANES / 2));
}

/* v as a square: in blocks of two by two squares of that width the two off the diagonal change
 * places. */
INLINE void exchange(vec *v, int width)
{
    order upper{}, lower{};
    UNROLL for (int i = 0; i < LANES; i++)
    {
        upper[i] = (i & width) != 0 ? LANES + i - width : i;
        lower[i] = (i & width) != 0 ? LANES + i : i + width;
    }
    UNROLL for (int i = 0; i < LANES; i++)
    {
        if ((i & width) == 0) {
            const vec a = v[i], b = v[i + width];
            v[i] = __builtin_shuffle(a, b, upper);
            v[i + width] = __builtin_shuffle(a, b, lower);
        }
    }
}

INLINE void transpose(vec *v)
{
    UNROLL for (int width = LANES / 2; width > 0; width /= 2)
    {
        exchange(v, width);
    }
}

constexpr int ALONG = LANES / 2; /* numbers of a line in a vector */

/* Of the next ALONG numbers of lines, of stride 1. */
INLINE void load_along(const group &g, std::size_t k, double *ret)
{
    vec v[LANES];
    UNROLL for (int i = 0; i < LANES; i++)
    {
        v[i] = load(number_at(g, i, k));
    }
    transpose(v);
    UNROLL for (int i = 0; i < ALONG; i++)
    {
        store(ret + 2 * LANES * i + g.real, v[2 * i]);
        store(ret + 2 * LANES * i + g.imag, v[2 * i + 1]);
    }
}

INLINE void store_along(const group &g, std::size_t k, const double *from)
{
    vec v[LANES];
    UNROLL for (int i = 0; i < ALONG; i++)
    {
        v[2 * i] = load(from + 2 * LANES * i + g.real);
        v[2 * i + 1] = load(from + 2 * LANES * i + g.imag);
    }
    transpose(v);
    UNROLL for (int i = 0; i < LANES; i++)
    {
        store(number_at(g, i, k), v[i]);
    }
}

bool adjacent(const group &g)
{
    bool ret = g.count == LANES;
    for (int i = 1; ret && i < LANES; i++) {
        ret = g.line[i] == g.line[0] + 2 * i;
    }
    return ret;
}

/* Returns how many numbers of the lines went so. */
std::size_t load_whole(const group &g, double *ret)
{
    std::size_t k = 0;
    if (adjacent(g)) {
        for (; k < g.length; k++) {
            load_beside(g, k, ret + 2 * LANES * k);
        }
    } else if (g.count == LANES && g.stride == 1) {
        for (; k + ALONG <= g.length; k += ALONG) {
            load_along(g, k, ret + 2 * LANES * k);
        }
    }
    return k;
}

std::size_t store_whole(const group &g, const double *from)
{
    std::size_t k = 0;
    if (adjacent(g)) {
        for (; k < g.length; k++) {
            store_beside(g, k, from + 2 * LANES * k);
        }
    } else if (g.count == LANES && g.stride == 1) {
        for (; k + ALONG <= g.length; k += ALONG) {
            store_along(g, k, from + 2 * LANES * k);
        }
    }
    return k;
}
#endif

/* ---- the loops ---- */

struct fft *make(int64_t length)
try {
    return reinterpret_cast<struct fft *>(new plan(static_cast<std::size_t>(length)));
} catch (...) {
    return nullptr;
}

struct fft *free_plan(struct fft *f)
{
    delete reinterpret_cast<plan *>(f);
    return nullptr;
}

group group_of(const plan &p, double *const *line, int count, int64_t stride)
{
    return {line, count, static_cast<std::size_t>(stride), p.length, 0, LANES};
}

/* The transform back is the one there of numbers whose parts have changed places, in and out. */
void exchange_parts(group *g)
{
    std::swap(g->real, g->imag);
}

void load_lines(const group &g, double *ret)
{
    for (std::size_t k = load_whole(g, ret); k < g.length; k++) {
        load_each(g, k, ret + 2 * LANES * k);
    }
}

void store_lines(const group &g, const double *from)
{
    for (std::size_t k = store_whole(g, from); k < g.length; k++) {
        store_each(g, k, from + 2 * LANES * k);
    }
}

void transform(const plan &p, const double *from, double *ret)
{
    if (p.length == 1) { /* KISS FFT would want memory for it */
        std::copy(from, from + 2 * LANES, ret);
        return;
    }
    p.there.transform(reinterpret_cast<const number *>(from), reinterpret_cast<number *>(ret));
}

void lines(const struct fft *f, bool back, double *const *line, int count, int64_t stride,
           double *scratch)
{
    const plan &p = *reinterpret_cast<const plan *>(f);
    double *const result = scratch + 2 * LANES * p.length;
    group g = group_of(p, line, count, stride);
    if (back) {
        exchange_parts(&g);
    }
    load_lines(g, scratch);
    transform(p, scratch, result);
    store_lines(g, result);
}

/* ret <- a number of each line times its factor, with their parts exchanged. */
inline void multiply(const double *number, const double *factor, int count, double *__restrict ret)
{
    for (int i = 0; i < count; i++) {
        ret[i] = number[LANES + i] * factor[i];
        ret[LANES + i] = number[i] * factor[i];
    }
}

void multiply_lines(const group &g, const double *factor, const double *from, double *ret)
{
    for (std::size_t k = 0; k < g.length; k++) {
        const std::size_t at = 2 * LANES * k;
        if (g.count == LANES) {
            multiply(from + at, factor + k * g.stride, LANES, ret + at);
        } else {
            multiply(from + at, factor + k * g.stride, g.count, ret + at);
        }
    }
}

void convolve(const struct fft *f, double *const *line, int count, int64_t stride,
              const double *factor, double *scratch)
{
    const plan &p = *reinterpret_cast<const plan *>(f);
    double *const result = scratch + 2 * LANES * p.length;
    group g = group_of(p, line, count, stride);
    load_lines(g, scratch);
    transform(p, scratch, result);
    multiply_lines(g, factor, result, scratch);
    transform(p, scratch, result);
    exchange_parts(&g);
    store_lines(g, result);
}

} // namespace

extern "C" const struct fft_loops JOIN(fft_loops_, TILE_ISA) = {LANES, make, free_plan, lines,
                                                                convolve};
