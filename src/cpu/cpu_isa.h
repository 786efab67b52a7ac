/* The instruction sets the tile loops were compiled for; which exist is the build's choice. */
#pragma once

#include "cpu/cpu_tile.h"

extern const struct tile_isa tile_isa_avx512, tile_isa_avx512_intel, tile_isa_avx2,
    tile_isa_portable;

/* Whether this processor adds while it multiplies: additions have pipes of their own, besides those
 * of multiply-adds. */
bool tile_adds_beside(void);
