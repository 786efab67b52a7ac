#include "cpu/blas_core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backend.h"

#define CHOICE "OPENBLAS_CORETYPE"

const char *cpu__blas_better_core(const char *core, bool avx2, bool avx512)
{
    static const char *const without_avx2[] = {"Prescott", "Core2",       "Penryn",    "Dunnington",
                                               "Nehalem",  "Sandybridge", "Atom",      "Barcelona",
                                               "Bobcat",   "Bulldozer",   "Piledriver"};
    for (size_t i = 0; avx2 && i < sizeof without_avx2 / sizeof without_avx2[0]; i++) {
        if (strcmp(core, without_avx2[i]) == 0) {
            return avx512 ? "SKYLAKEX" : "HASWELL";
        }
    }
    return NULL;
}

static const char *better_core_here(void)
{
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    return cpu__blas_better_core(backend_cpu_blas_core(), avx2, avx512);
#else
    return NULL;
#endif
}

void backend_cpu_settle(char **argv)
{
    const char *core = getenv(CHOICE) == NULL ? better_core_here() : NULL;
    if (core != NULL && setenv(CHOICE, core, 1) == 0) {
        execv("/proc/self/exe", argv);
        unsetenv(CHOICE); /* it cannot: as it is, then */
    }
}
