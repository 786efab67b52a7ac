/*
 * Which processor's kernels OpenBLAS runs (backend_cpu_settle). It knows processors by their model
 * numbers, and takes one that came after it for the oldest of all: OpenBLAS 0.3.21 runs an Emerald
 * Rapids by SSE3. It reads OPENBLAS_CORETYPE when it is loaded, hence before main().
 */
#pragma once

#include <stdbool.h>

/* The core to ask for instead of `core` on a processor with AVX2 and FMA, or AVX-512 as well; NULL:
 * OpenBLAS knows better. */
const char *cpu__blas_better_core(const char *core, bool avx2, bool avx512);
