/*
 * Points of few features as the tensor cores take them (warpgroup.cuh): in parts of float16
 * (tensor.cuh has why), the norms among them, so that one inner product, which the tensor cores add
 * up, is all that a distance needs.
 *
 * A row has its numbers twice, once as a z row and once as an x row. Up to 20 features, with h and
 * l for the large and small parts of all of a row's features and n for minus |x|^2/2, they are
 *
 *     z row: h, l, h, 1, 1, large n, small n       x row: l, h, h, large n, small n, 1, 1
 *
 * whose inner product is x.z - |x|^2/2 - |z|^2/2 but for what two parts of a number leave out, and
 * small products of parts come first. From 21 features on blocks of large parts and of small ones
 * stand by themselves, the large ones first, and meet in three products for each 16 features: those
 * with small parts first, all of them, so that little is cut off while sums are large. A norm is
 * two more features then, which are split as any are.
 *
 * Rows lie in tiles of LAUNCH_TILE, in blocks of 16 numbers: of a block the first 8 numbers of rows
 * that follow each other, then the others, in pieces of 16 bytes a row. First there are the z rows,
 * all blocks of 64 rows and then those of the other 64, then the blocks of all x rows. The row at
 * place p of 32 is part_row(p): so that 8 pieces that follow each other are 8 rows or columns of a
 * product, and a thread's rows stand as shape.cuh wants them.
 */
#pragma once

#include <stdint.h>

extern "C" {
#include "gpu/launch.h"
}

namespace {

constexpr int SHORT_WHOLE = 20; /* features that have room three times */
constexpr int NUMBERS = 16;     /* of a block */
constexpr int NORM_FEATURES = 4;
constexpr int BLOCK_BYTES = LAUNCH_TILE * NUMBERS * 2;
constexpr int SHORT_UNIT = 64; /* z rows of a product */

/* The first of the features that norms are, which are in one step of 16. */
inline __host__ __device__ int64_t norms_at(int64_t d)
{
    return d % NUMBERS <= NUMBERS - NORM_FEATURES ? d : (d / NUMBERS + 1) * NUMBERS;
}

inline __host__ __device__ int steps_of(int64_t d)
{
    return (int)(norms_at(d) / NUMBERS) + 1;
}

/* How a row's numbers are laid out: in how many blocks, and the steps of 16 features where parts
 * stand by themselves, 0 where they do not. */
struct short_plan {
    int blocks, steps;
    /* Of the products, and the blocks of a z row and of an x row that meet in the i-th. */
    constexpr __host__ __device__ int products() const
    {
        return steps == 0 ? blocks : 3 * steps;
    }
    constexpr __host__ __device__ int z(int i) const
    {
        return steps == 0 ? i : i >= 2 * steps ? i - 2 * steps : i / 2 + (i % 2 == 0 ? steps : 0);
    }
    constexpr __host__ __device__ int x(int i) const
    {
        return steps == 0 ? i : i >= 2 * steps ? i - 2 * steps : i / 2 + (i % 2 == 0 ? 0 : steps);
    }
};

/* The plans by number, from 0 on: of 1 to 4 blocks, and of 2 to 6 steps. */
constexpr int SHORT_PLANS = 9;
inline constexpr __host__ __device__ short_plan short_plan_at(int number)
{
    return number < 4 ? short_plan{number + 1, 0} : short_plan{2 * (number - 2), number - 2};
}

inline __host__ __device__ bool is_short(int64_t d)
{
    return d <= LAUNCH_SHORT_FEATURES;
}

/* The number of the plan for d features, at most LAUNCH_SHORT_FEATURES. */
inline __host__ __device__ int short_plan_for(int64_t d)
{
    return d > SHORT_WHOLE ? steps_of(d) + 2 : (int)(3 * d + NORM_FEATURES - 1) / NUMBERS;
}

/* Of a tile, both ways. */
inline __host__ __device__ int64_t short_tile_bytes(int blocks)
{
    return (int64_t)2 * blocks * BLOCK_BYTES;
}

/* The blocks of the 64 z rows that begin with this panel, and of the tile of x rows that does. */
inline __device__ const unsigned char *short_z_blocks(const struct launch_view &v, int64_t panel,
                                                      int blocks)
{
    constexpr int TILE_PANELS = LAUNCH_TILE / LAUNCH_PANEL;
    return (const unsigned char *)v.parts + panel / TILE_PANELS * short_tile_bytes(blocks) +
           panel % TILE_PANELS / 2 * blocks * (BLOCK_BYTES / 2);
}

inline __device__ const unsigned char *short_x_blocks(const struct launch_view &v, int64_t panel,
                                                      int blocks)
{
    return short_z_blocks(v, panel, blocks) + blocks * BLOCK_BYTES;
}

/* Where in its panel the row at place p is. */
inline __device__ int part_row(int p)
{
    return p / 8 + p % 8 / 2 * 4 + p % 2 * 16;
}

} // namespace
