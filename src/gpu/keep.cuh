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

/* Values of type K in a piece of 16 bytes, and a thread's pieces of a tile. */
template <class K> constexpr int PIECE = 16 / sizeof(K);
template <class S, class K> constexpr int PIECES = S::X *S::Z / PIECE<K>;

template <class K> struct piece {
    K values[PIECE<K>];
};

/* Two blocks of rows, of which the values are kept in a slot. */
struct kept_pair {
    int64_t I, J, step;
    int x_rows, z_rows, x_tiles, z_tiles;
};

/* The pair of a slot is the last one that so many slots are before. */
template <class S> __device__ kept_pair pair_of_slot(const struct launch_both &p, int64_t slot)
{
    const int64_t after = (slot + 1) * p.kept.pairs;
    const int64_t pair = p.kept.first_pair + (after + p.kept.slots - 1) / p.kept.slots - 1;
    const int64_t I = pair % p.blocks, step = pair / p.blocks, J = (I + step) % p.blocks;
    const int64_t n = p.tiles.P.count;
    const int x_rows = (int)min(p.rows, n - I * p.rows), z_rows = (int)min(p.rows, n - J * p.rows);
    return {I, J, step, x_rows, z_rows, (x_rows + S::XT - 1) / S::XT, (z_rows + S::ZT - 1) / S::ZT};
}

/* The thread's first piece of the slot's first tile. The next one is THREADS pieces on, those of
 * the next tile follow. */
template <class K> __device__ uint4 *pieces_of_slot(const struct launch_both &p, int64_t slot)
{
    return (uint4 *)p.kept.values + slot * (p.rows * p.rows / PIECE<K>)+threadIdx.x;
}

/* The thread's x row i of a tile. */
template <class S, class K>
__device__ void unpack_row(const uint4 (&pieces)[PIECES<S, K>], int i, typename S::T (&ret)[S::Z])
{
#pragma unroll
    for (int j = 0; j < S::Z; j++) {
        const int at = i * S::Z + j;
        const K value = same_bits<piece<K>>(pieces[at / PIECE<K>]).values[at % PIECE<K>];
        if constexpr (std::is_same_v<K, half_value>) {
            ret[j] = from_half<typename S::T>(value);
        } else {
            ret[j] = value;
        }
    }
}

template <class S, class K> __device__ void store_pieces(const tile_values<S> &values, uint4 *to)
{
#pragma unroll
    for (int q = 0; q < PIECES<S, K>; q++) {
        piece<K> part;
#pragma unroll
        for (int e = 0; e < PIECE<K>; e++) {
            const int at = q * PIECE<K> + e;
            const typename S::T value = values[at / S::Z][at % S::Z];
            if constexpr (std::is_same_v<K, half_value>) {
                part.values[e] = to_half(value);
            } else {
                part.values[e] = value;
            }
        }
        __stcs(to + q * THREADS, same_bits<uint4>(part));
    }
}

/* ---- computing them ---- */

/* Block (x, y): the y-th row of tiles of slot first + x. */
template <launch_form FORM, class T, class K>
__global__
__launch_bounds__(THREADS, BOTH_RESIDENT<FORM, T, T, 1>) void values_of_slots(struct launch_both p,
                                                                              int64_t first)
{
    if constexpr (!RUNS<FORM>) {
        return;
    }
    using S = tile_of<FORM, T>;
    auto &s = *dynamic_shared<typename S::memory>();
    const struct launch_tiles &t = p.tiles;
    const int64_t slot = first + blockIdx.x, x = blockIdx.y;
    const kept_pair pair = pair_of_slot<S>(p, slot);
    if (x >= pair.x_tiles) {
        return;
    }
    const int64_t x_first = pair.I * p.rows + x * S::XT, z_first = pair.J * p.rows;
    const float *const reach = p.reach + z_first / S::ZT;
    uint4 *to = pieces_of_slot<K>(p, slot) + x * pair.z_tiles * PIECES<S, K> * THREADS;
    typename S::place at = S::begin(t, x_first, z_first, reach[0], &s + 1);
    fetch_tile<FORM>(t, at, s);
    __pipeline_commit();
    for (; at.tile < pair.z_tiles; at.tile++) {
        tile_values<S> values;
        typename S::place next = S::behind(t, at);
        const auto fetch_next = [&] {
            if (next.tile < pair.z_tiles) {
                next.slot = at.slot;
                next.reach = reach[next.tile];
                fetch_tile<FORM>(t, next, s);
            }
        };
        distances<FORM>(t, at, s, fetch_next, values);
        take_values<FORM, S>(t.kernel, pair.x_rows - x * S::XT, pair.z_rows - at.tile * S::ZT,
                             values);
        store_pieces<S, K>(values, to);
        to += PIECES<S, K> * THREADS;
        S::go_on(at, next);
    }
}

template <launch_form FORM, class T, class K>
int start_keep_of(const struct launch_both &p, int64_t first, int64_t count, void *stream)
{
    using S = tile_of<FORM, T>;
    const dim3 grid((unsigned)count, (unsigned)(p.rows / S::XT));
    const size_t bytes = sizeof(typename S::memory) + S::bytes_behind(p.tiles.d);
    return start_with(values_of_slots<FORM, T, K>, grid, bytes, stream, p, first);
}

template <bool HALF, class T> using half_or = std::conditional_t<HALF, half_value, T>;

template <launch_form FORM>
int start_keep(const struct launch_both &p, int64_t first, int64_t count, void *stream)
{
    constexpr bool half = PLAIN<FORM> != FORM_DOT; /* others may leave the range of 16 bits */
    if constexpr (FORM != FORM_L2_GROUP) {
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
