/* Instruction sets elsewhere: what the compiler makes of the portable loops (NEON on aarch64). */
#include "cpu/tile/isa.h"

const struct tile_isa *tile_isa_list(int i)
{
    return i == 0 ? &tile_isa_portable : NULL;
}

bool tile_adds_beside(void)
{
    return false; /* not known, and not asked for: no loops are paired */
}

/* Arm's cores take no longer for them. */
unsigned tile_flush_denormals(void)
{
    return 0;
}

void tile_restore_denormals(const unsigned *before)
{
    (void)before;
}
