/* The instruction sets the ceiling loops were compiled for; which exist is the build's choice. */
#pragma once

#include "bench/ceiling_loops.h"

extern const struct ceiling_isa ceiling_isa_avx512, ceiling_isa_avx512_intel, ceiling_isa_avx2,
    ceiling_isa_portable;

/* NULL-terminated list of those in this program. */
const struct ceiling_isa *const *ceiling_isa_list(void);
