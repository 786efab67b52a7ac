/*
 * What this machine can do at most, measured by small loops (ceiling_loops.h) on as many threads as
 * the measurement that is held to it. Each figure is the best of several short runs, the threads
 * running at the same time: interruptions by others make a run slower, never faster.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "wire/dtype.h"

/* Lanes a second, all threads together. */
struct ceiling_rates {
    double fma;    /* multiply-adds: by the loop `fma` or in pairs */
    double alone;  /* by the loop `fma` */
    double add;    /* additions, or maxima */
    double pair;   /* an addition and a multiply-add: fma where they have pipes of their own */
    double root;   /* square roots by the processor's instruction */
    double beside; /* the same with CEILING_BESIDE multiply-adds each */
    double steps;  /* square roots by an estimate and Newton's steps; 0: there is no estimate */
    double exp2;   /* powers 2^x */
};

struct ceiling {
    struct ceiling_rates f32, f64;
    double read_bytes; /* a second, from memory */
};

/* `isa` as the engine names it; -ERR_UNSUPPORTED when this program has no loops for it. Takes about
 * half a second and 64 MiB a thread. */
int ceiling_measure(const char *isa, int threads, struct ceiling *ret, struct err *err);

/* Multiply-adds (`alone`) that the threads really have for `seconds`: their mean and not their
 * best, so that what others take from the processor, and its clock, count. Lanes a second. */
int ceiling_mean_fma(const char *isa, enum dtype dtype, int threads, double seconds, double *ret,
                     struct err *err);
