/* The instruction sets the tile loops were compiled for; which exist is the build's choice. */
#pragma once

#include "cpu/cpu_tile.h"

extern const struct tile_isa tile_isa_avx512, tile_isa_avx2, tile_isa_portable;
