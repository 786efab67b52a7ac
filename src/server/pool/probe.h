/* What GPUs the CUDA worker program sees: it is run once, with --devices, and waited for. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Bit N of *ret: cuda:N can be used. None is an error that tells why:
 * -ERR_NOT_FOUND: there is no such program; -ERR_UNSUPPORTED: it finds no GPU; -ERR_DEVICE: it told
 * nothing, or not in time. */
int probe_cuda(const char *program, uint64_t *ret, struct err *err);
