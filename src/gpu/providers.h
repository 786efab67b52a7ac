/*
 * Which backends a worker program is linked with. krrd-worker takes providers_cpu.c,
 * krrd-worker-cuda takes providers_cuda.c: a feature is a file, not an #ifdef.
 */
#pragma once

#include "engine/backend.h"

/* NULL-terminated, in the order in which "auto" tries them. */
const struct backend_provider *const *gpu_providers(void);
