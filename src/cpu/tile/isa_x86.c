/* Instruction sets on x86-64. */
#include "cpu/tile/isa.h"

#include <pmmintrin.h>

/* All that meson.build lets the compiler use, and that the system saves its registers. */
const struct tile_isa *tile_isa_list(int i)
{
    const struct tile_isa *list[5] = {NULL};
    const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int n = 0;
    if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        list[n++] = tile_adds_beside() ? &tile_isa_avx512 : &tile_isa_avx512_intel;
        list[n++] = tile_adds_beside() ? &tile_isa_avx512_intel : &tile_isa_avx512;
    }
    if (fma) {
        list[n++] = &tile_isa_avx2;
    }
    list[n++] = &tile_isa_portable;
    return i < n ? list[i] : NULL;
}

bool tile_adds_beside(void)
{
    return __builtin_cpu_is("amd");
}

unsigned tile_flush_denormals(void)
{
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
    return before;
}

void tile_restore_denormals(const unsigned *before)
{
    _mm_setcsr(*before);
}
