/*
 * Which backends a worker program is linked with. krrd-worker takes providers_cpu.c,
 * krrd-worker-cuda takes providers_cuda.c: a feature is a file, not an #ifdef.
 */
#pragma once

#include "engine/backend.h"

/* The environment variable that tells GPUs to do without an instruction that products would take:
 * "wgmma", or "mma", and then without both. It is for devices that an instruction breaks. */
#define GPU_WITHOUT "KRR_GPU_WITHOUT"

/* NULL-terminated, in the order in which "auto" tries them. */
const struct backend_provider *const *gpu_providers(void);
