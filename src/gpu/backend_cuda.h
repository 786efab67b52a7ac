/*
 * The CUDA backend: engine/backend.h on one NVIDIA GPU of compute capability 7.5 or later. Opening
 * it says which of these is missing: the driver, a device, the device of that number, a device new
 * enough, or the libraries cuBLAS and cuSOLVER, which are loaded when the first backend opens or is
 * looked for.
 */
#pragma once

#include "engine/backend.h"

/* "cuda" and "cuda:N"; N counts the devices the CUDA runtime shows (CUDA_VISIBLE_DEVICES). */
extern const struct backend_provider backend_cuda_provider;
