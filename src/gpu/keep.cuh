/*
 * Kernel values kept in memory (launch_kept of launch.h), for both.cuh: where they lie, what 16
 * bits of one are, and how they come there. A block of threads computes one row of tiles of a pair,
 * as sums_of_both does, and stores them.
 */
#pragma once

#include <type_traits>

#include "gpu/both.cuh"

namespace {

/* A value in half precision: 5 bits of exponent and 11 of mantissa of the value plus 2^-31. */
using half_value = unsigned short;

template <class T> struct float_bits;
template <> struct float_bits<float> {
    using type = unsigned;
    static constexpr int mantissa = 23, bias = 127;
};
template <> struct float_bits<double> {
    using type = unsigned long long;
    static constexpr int mantissa = 52, bias = 1023;
};

template <class To, class From> __device__ To same_bits(const From &from)
{
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

/* Rounded to nearest, ties to even. */
template <class T> __device__ half_value to_half(T value)
{
    using B = float_bits<T>;
    using bits = typename B::type;
    constexpr int shift = B::mantissa - 11;
    bits b = same_bits<bits>(value + (T)0x1p-31) - ((bits)(B::bias - 31) << B::mantissa);
    b += (b >> shift & 1) + (((bits)1 << (shift - 1)) - 1);
    return (half_value)(b >> shift);
}

template <class T> __device__ T from_half(half_value value)
{
    using B = float_bits<T>;
    using bits = typename B::type;
    const bits b = (bits)value << (B::mantissa - 11);
    return same_bits<T>(b + ((bits)(B::bias - 31) << B::mantissa)) - (T)0x1p-31;
}

/* ---- where they lie ---- */

/* Values of type S in a piece of 16 bytes, and a thread's pieces of a tile of points of type T. */
template <class S> constexpr int PIECE = 16 / sizeof(S);
template <class T, class S> constexpr int PIECES = X *Z<T> / PIECE<S>;

template <class S> struct piece {
    S values[PIECE<S>];
};

/* Two blocks of rows, of which the values are kept in a slot. */
template <class T> struct kept_pair {
    int64_t I, J, step;
    int x_rows, z_rows, x_tiles, z_tiles;
};

/* The pair of a slot is the last one that so many slots are before. */
template <class T> __device__ kept_pair<T> pair_of_slot(const struct launch_both &p, int64_t slot)
{
    const int64_t after = (slot + 1) * p.kept.pairs;
    const int64_t pair = p.kept.first_pair + (after + p.kept.slots - 1) / p.kept.slots - 1;
    const int64_t I = pair % p.blocks, step = pair / p.blocks, J = (I + step) % p.blocks;
    const int64_t n = p.tiles.P.count;
    const int x_rows = (int)min(p.rows, n - I * p.rows), z_rows = (int)min(p.rows, n - J * p.rows);
    return {I, J, step, x_rows, z_rows, (x_rows + XT - 1) / XT, (z_rows + ZT<T> - 1) / ZT<T>};
}

/* The thread's first piece of the slot's first tile. The next one is THREADS pieces on, those of
 * the next tile follow. */
template <class T, class S>
__device__ uint4 *pieces_of_slot(const struct launch_both &p, int64_t slot)
{
    return (uint4 *)p.kept.values + slot * (p.rows * p.rows / PIECE<S>)+threadIdx.x;
}

/* The thread's x row i of a tile. */
template <class T, class S>
__device__ void unpack_row(const uint4 (&pieces)[PIECES<T, S>], int i, T (&ret)[Z<T>])
{
#pragma unroll
    for (int j = 0; j < Z<T>; j++) {
        const int at = i * Z<T> + j;
        const S value = same_bits<piece<S>>(pieces[at / PIECE<S>]).values[at % PIECE<S>];
        if constexpr (sizeof(S) == sizeof(T)) {
            ret[j] = value;
        } else {
            ret[j] = from_half<T>(value);
        }
    }
}

template <class T, class S> __device__ void store_tile(const T (&K)[X][Z<T>], uint4 *to)
{
#pragma unroll
    for (int q = 0; q < PIECES<T, S>; q++) {
        piece<S> part;
#pragma unroll
        for (int e = 0; e < PIECE<S>; e++) {
            const int at = q * PIECE<S> + e;
            const T value = K[at / Z<T>][at % Z<T>];
            if constexpr (sizeof(S) == sizeof(T)) {
                part.values[e] = value;
            } else {
                part.values[e] = to_half(value);
            }
        }
        __stcs(to + q * THREADS, same_bits<uint4>(part));
    }
}

/* ---- computing them ---- */

/* Block (x, y): the y-th row of tiles of slot first + x. */
template <launch_form FORM, class T, class S>
__global__ __launch_bounds__(THREADS,
                             RESIDENT<FORM, T, T, 1>) void values_of_slots(struct launch_both p,
                                                                           int64_t first)
{
    auto &s = shared<tile_memory<T>>();
    const struct launch_tiles &t = p.tiles;
    const int64_t slot = first + blockIdx.x, x = blockIdx.y;
    const kept_pair<T> pair = pair_of_slot<T>(p, slot);
    if (x >= pair.x_tiles) {
        return;
    }
    const int64_t x_first = pair.I * p.rows + x * XT, z_first = pair.J * p.rows;
    const int64_t across_tile = ZT<T> / PANEL * t.ld * PANEL;
    const float *const reach = p.reach + z_first / ZT<T>;
    uint4 *to = pieces_of_slot<T, S>(p, slot) + x * pair.z_tiles * PIECES<T, S> * THREADS;
    place<T> at = {source<XT, T>(t.P, t.ld, x_first), source<ZT<T>, T>(t.Q, t.ld, z_first),
                   reach[0], true};
    fetch_tile<FORM>(t, at, s);
    __pipeline_commit();
    for (; at.tile < pair.z_tiles; at.tile++) {
        T K[X][Z<T>];
        float next_reach = 0;
        const auto fetch_next = [&] {
            if (at.tile + 1 < pair.z_tiles) {
                place<T> next = at;
                next.z += across_tile;
                next.tile++;
                next.fresh = false;
                next_reach = reach[next.tile];
                fetch_tile<FORM>(t, next, s);
            }
        };
        distances<FORM>(t, at, s, fetch_next, K);
        apply_function<FORM>(t.kernel, K);
        mask<FORM>(pair.x_rows - x * XT, pair.z_rows - at.tile * ZT<T>, K);
        store_tile<T, S>(K, to);
        to += PIECES<T, S> * THREADS;
        at.z += across_tile;
        at.reach = next_reach;
    }
}

template <launch_form FORM, class T, class S>
int start_keep_of(const struct launch_both &p, int64_t first, int64_t count, void *stream)
{
    const dim3 grid((unsigned)count, (unsigned)(p.rows / XT));
    return start(values_of_slots<FORM, T, S>, grid, THREADS, 0, stream, p, first);
}

template <bool HALF, class T> using half_or = std::conditional_t<HALF, half_value, T>;

template <launch_form FORM>
int start_keep(const struct launch_both &p, int64_t first, int64_t count, void *stream)
{
    constexpr bool half = PLAIN<FORM> != FORM_DOT; /* others may leave the range of 16 bits */
    if constexpr (PLAIN<FORM> == FORM) {
        if (half && p.tiles.dtype == DTYPE_F64 && p.kept.half) {
            return start_keep_of<FORM, double, half_or<half, double>>(p, first, count, stream);
        }
        if (p.tiles.dtype == DTYPE_F64) {
            return start_keep_of<FORM, double, double>(p, first, count, stream);
        }
    }
    return half && p.kept.half
               ? start_keep_of<FORM, float, half_or<half, float>>(p, first, count, stream)
               : start_keep_of<FORM, float, float>(p, first, count, stream);
}

} // namespace
