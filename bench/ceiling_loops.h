/*
 * Small loops that run one kind of work as fast as the processor can, for one instruction set.
 * ceiling_loops.c is compiled once for each, as the engine's tiles are, with the same flags.
 *
 *   fma   acc <- acc x + y           the multiply-add pipes
 *   add   acc <- acc + x             the pipes of additions and maxima
 *   pair  acc <- acc + (x - z)^2     one addition and one multiply-add: do they share pipes
 *   root  out <- sqrt(in)            the divider
 *   beside                           one root and CEILING_BESIDE multiply-adds: what a root takes
 *                                    from their pipes, where these alone would keep them busy
 *   steps out <- sqrt(in)            by an estimate and Newton's steps, where there is an estimate
 *   exp2  out <- 2^in                in up to four ways, the fastest of which counts
 *
 * Operands lie in registers or in the first-level cache; the chains are independent and many enough
 * to hide latencies. Where multiply-adds are two instructions (portable), so they are here.
 */
#pragma once

#include <stdint.h>

#define CEILING_BESIDE 48 /* longer than any divider takes */
#define CEILING_EXP2 4

struct ceiling_loop {
    /* `sink` takes a result, so that the work cannot be left out: 64 aligned bytes. */
    void (*run)(int64_t rounds, void *sink);
    int64_t lanes; /* operations of one round */
};

struct ceiling_type {
    struct ceiling_loop fma, add, pair, root, beside;
    struct ceiling_loop steps;              /* if it has a `run` */
    struct ceiling_loop exp2[CEILING_EXP2]; /* those with a `run` */
};

struct ceiling_isa {
    const char *name; /* as the engine calls it */
    struct ceiling_type f32, f64;
};
