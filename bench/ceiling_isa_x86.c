/* Ceiling loops on x86-64. */
#include "bench/ceiling_isa.h"

#include <stddef.h>

static const struct ceiling_isa *const list[] = {&ceiling_isa_avx512, &ceiling_isa_avx512_intel,
                                                 &ceiling_isa_avx2, &ceiling_isa_portable, NULL};

const struct ceiling_isa *const *ceiling_isa_list(void)
{
    return list;
}
