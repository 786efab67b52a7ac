/*
 * Which backends a worker program is linked with. krrd-worker takes providers_cpu.c,
 * krrd-worker-cuda takes providers_cuda.c: a feature is a file, not an #ifdef.
 */
#pragma once

#include "engine/backend.h"

/* The environment variable that tells GPUs to do without an instruction that products would take:
 * "wgmma", or "mma", and then without both. It is for devices that an instruction breaks. */
#define GPU_WITHOUT "KRR_GPU_WITHOUT"
/* Where an error of code ERR_DEVICE points when an instruction broke the device as it was opened;
 * others, as of a device whose memory is full, are no reason to do without one. */
#define GPU_BROKEN "#/device"

/* NULL-terminated, in the order in which "auto" tries them. */
const struct backend_provider *const *gpu_providers(void);
