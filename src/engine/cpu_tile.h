/*
 * The innermost loops of the CPU's kernel oracle. A tile is a panel of `lanes` rows x_i against a
 * run of up to TILE_RUN rows z_j. Three passes, all within the first-level cache:
 *
 *   1. distances  D(j,i) = |x_i - z_j|_2^2, |x_i - z_j|_1 or x_i . z_j      register-blocked
 *   2. function   K(j,i) = f(D(j,i))                                       branch-free
 *   3. apply      sums(c,i) += sum_j K(j,i) w(c,j)                         for kmv only
 *
 * Distances are sums of explicit differences in the order of the features, so nothing cancels,
 * k(x,z) and k(z,x) have the same bits, and k(x,x) is exactly 1. Points come scaled: pass 2 needs
 * no bandwidth and its exponential is a bare power of two (tile_scale). What happens in one lane
 * does not depend on the other lanes or on the width of the panel.
 *
 * Layouts (T is float or double): panel T[d][lanes]; z T[d] each; K T[TILE_RUN][lanes]; weights
 * [cols][TILE_RUN]; sums double[cols][lanes]. Panel and K are 64-byte aligned.
 *
 * cpu_tile.c is compiled once for each instruction set, from one text.
 */
#pragma once

#include "engine/kernel.h"

#define TILE_RUN 64   /* also the length of a float32 sum before it is added in float64 */
#define TILE_COLS 64  /* right-hand sides that share one evaluation of the kernel */
#define TILE_LANES 64 /* most lanes of any panel */
#define TILE_STEP 4   /* z rows handled together; divides TILE_RUN */

/* A kernel on scaled points. */
struct tile_kernel {
    enum kernel_id id;
    double gamma, coef0; /* dot-product kernels */
    int degree;
};

struct tile_loops {
    int wide, narrow; /* the two panel widths, in lanes */

    /* Passes 1 and 2. `count` z rows; z has pointers up to the next multiple of TILE_STEP, the
     * spare ones to any valid row, and K is written as far. */
    void (*values)(const struct tile_kernel *k, int lanes, const void *panel, const void *const *z,
                   int64_t d, int count, void *K);
    /* Pass 3 with weights of type T, or float64. */
    void (*apply)(int lanes, const void *K, int count, const void *weights, int cols, double *sums);
    void (*apply_f64)(int lanes, const void *K, int count, const double *weights, int cols,
                      double *sums);
};

struct tile_isa {
    const char *name; /* "avx512", "avx2", "portable" */
    struct tile_loops f32, f64;
};

/* What this processor can run, best first; NULL after the last. */
const struct tile_isa *tile_isa_list(int i);

/* What to multiply a point's coordinates with, besides dividing them by the bandwidth. */
double tile_scale(enum kernel_id id);
