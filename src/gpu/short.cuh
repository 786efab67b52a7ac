/*
 * Points of few features as the tensor cores take them (warpgroup.cuh): in parts of float16
 * (tensor.cuh has why), the norms among them, so that one inner product of up to 64 numbers is all
 * that a distance needs.
 *
 * A row has its numbers twice, once as a z row and once as an x row. Up to 20 features, with h and
 * l for the large and small parts of all of a row's features and n for minus |x|^2/2, they are
 *
 *     z row: h, l, h, 1, 1, large n, small n       x row: l, h, h, large n, small n, 1, 1
 *
 * whose inner product is x.z - |x|^2/2 - |z|^2/2 but for what two parts of a number leave out, and
 * small products of parts come first. From 21 features on there is no room for three times as many
 * numbers: blocks of large parts and of small ones stand by themselves and meet in six products
 * instead of four, and a norm is two more features, which are split as any are.
 *
 * Rows lie in tiles of LAUNCH_TILE: of the z rows' blocks of 16 numbers one after the other, first
 * the first 8 numbers of all rows, then the others, in pieces of 16 bytes a row; then the x rows'.
 * The row at place p of 32 is part_row(p): so that 8 pieces that follow each other are 8 rows or
 * columns of a product, and a thread's rows stand as shape.cuh wants them.
 */
#pragma once

#include <stdint.h>

extern "C" {
#include "gpu/launch.h"
}

namespace {

constexpr int SHORT_WHOLE = 20; /* features that have room three times */
constexpr int SHORT_BLOCKS = 4; /* of 16 numbers, at most */
constexpr int NUMBERS = 16;
constexpr int NORM_FEATURES = 4;
constexpr int BLOCK_BYTES = LAUNCH_TILE * NUMBERS * 2;

/* How the blocks of a z row and of an x row meet: product i takes those that the i-th digits (of 4
 * bits, the lowest first) name. */
struct short_plan {
    int blocks, products;
    uint32_t z, x;
};

/* The plans by number, from 0 on. */
constexpr int SHORT_PLANS = 5;
inline constexpr __host__ __device__ short_plan short_plan_at(int number)
{
    return number < SHORT_BLOCKS ? short_plan{number + 1, number + 1, 0x3210, 0x3210}
                                 : short_plan{SHORT_BLOCKS, 6, 0x101302, 0x103120};
}

inline __host__ __device__ bool is_short(int64_t d)
{
    return d <= LAUNCH_SHORT_FEATURES;
}

/* The number of the plan for d features, at most LAUNCH_SHORT_FEATURES. */
inline __host__ __device__ int short_plan_for(int64_t d)
{
    return d > SHORT_WHOLE ? SHORT_BLOCKS : (int)(3 * d + NORM_FEATURES - 1) / NUMBERS;
}

/* Of a tile, both ways. */
inline __host__ __device__ int64_t short_tile_bytes(int blocks)
{
    return (int64_t)2 * blocks * BLOCK_BYTES;
}

/* The blocks of the tile that begins with this panel, as z rows or as x rows. */
inline __device__ const unsigned char *short_blocks(const struct launch_view &v, int64_t panel,
                                                    int blocks, bool of_x)
{
    return (const unsigned char *)v.parts +
           panel / (LAUNCH_TILE / LAUNCH_PANEL) * short_tile_bytes(blocks) +
           (of_x ? blocks * BLOCK_BYTES : 0);
}

/* Where in its panel the row at place p is. */
inline __device__ int part_row(int p)
{
    return p / 8 + p % 8 / 2 * 4 + p % 2 * 16;
}

} // namespace
