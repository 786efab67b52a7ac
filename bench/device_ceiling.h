/*
 * What a GPU can do at most, measured by small kernels as ceiling.h does for a processor: each
 * figure is the best of several runs of some hundredths of a second, which keep every
 * multiprocessor busy with one kind of instruction.
 *
 * Which file answers is the build's choice, as with gpu/providers.h: device_ceiling.cu where nvcc
 * is, or else device_ceiling_none.c.
 */
#pragma once

#include "base/err.h"

/* A second, the whole device. A multiply-add counts one, and each lane of a warp. */
struct device_ceiling {
    double fma32, fma64; /* multiply-adds by lanes */
    double ex2;          /* powers of two in float32, by the units of special functions (MUFU) */
    double tensor16;     /* multiply-adds of float16 with float32 sums by tensor cores; 0: none */
    double tensor64;     /* those of float64; 0: none, or none faster than lanes */
    double copy_bytes;   /* read and written in a copy within the device's memory */
};

/* Of this thread's current device, on its default stream, in about a second and at most 2 GiB of
 * its memory. What `without` names, as the variable GPU_WITHOUT does (gpu/providers.h; NULL:
 * nothing), is not tried. */
typedef int device_ceiling_fn(const char *without, struct device_ceiling *ret, struct err *err);

/* NULL where this program measures no GPU. */
device_ceiling_fn *device_ceiling_measurer(void);
