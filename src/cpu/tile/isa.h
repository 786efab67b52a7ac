/* The instruction sets the tile loops were compiled for; which exist is the build's choice. */
#pragma once

#include "cpu/tile/tile.h"

extern const struct tile_isa tile_isa_avx512, tile_isa_avx512_intel, tile_isa_avx2,
    tile_isa_portable;

/* Whether this processor adds while it multiplies: additions have pipes of their own, besides those
 * of multiply-adds. */
bool tile_adds_beside(void);

/* Where products are computed a thread takes numbers below the smallest normal one for 0: values of
 * rows that are far apart, and their products with weights, which would take a processor a hundred
 * times as long.
 *
 *     cleanup_flush unsigned before = tile_flush_denormals();
 *
 * holds until the end of the block. */
unsigned tile_flush_denormals(void); /* returns what was in force before */
void tile_restore_denormals(const unsigned *before);
#define cleanup_flush __attribute__((cleanup(tile_restore_denormals), unused))
