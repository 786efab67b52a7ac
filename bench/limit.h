/*
 * The most kernel entries a second that this machine could produce and use, from its measured
 * ceilings. An entry is one k(x_i, z_j), generated, multiplied with the weights of its t right-hand
 * sides, added, and thrown away. A symmetric product (P is Q) uses one evaluation for two entries.
 *
 * One evaluation takes powers 2^e at the rate at which a loop of nothing else makes them (the
 * ceiling `exp2`; none for dot-product kernels but 1 for sigmoid), and multiply-adds, in lanes:
 *
 *   distance   d       l2 and inner products; the dot form
 *              d pairs laplacian_l1: |x-z|_1 = sum 2 max(x,z) - x - z needs a maximum as well
 *   function   0       gaussian, laplacian_l1, linear: factors are folded into the data
 *              root    laplacian, matern12; root + 2 matern32; root + 3 matern52
 *              -       polynomial: multiplications of repeated squaring
 *              3       sigmoid (5): the reciprocal by an estimate and one (two) Newton steps
 *   weights    t       plain: one a right-hand side
 *              2 t     symmetric: one for each of the two uses
 *
 *   root: the better of an estimate with Newton's steps (the ceiling `steps`, or where there is no
 *   instruction for the estimate 4 (7) multiply-adds) and of the processor's own instruction, for
 *   which the divider, beside everything else, needs its time and takes some of the multiply-adds'
 *   (2 of them on a Zen 4; the ceiling `beside`).
 *
 * Subtractions, loads and conversions are taken as free, so this is an upper bound for loops that
 * multiply once a feature; those that make one product of two (cpu/tile/tile.h) may be above it.
 * With one right-hand side, gaussian, in seconds:
 *
 *   plain      (d + 1) / fma + 1 / exp2
 *   symmetric  ((d + 2) / fma + 1 / exp2) / 2
 *
 * In mixed precision kernel values are float32, weights and sums float64. Whatever is computed, all
 * points and vectors are read once; the limit is the lower of the two. Kept kernel values cost no
 * arithmetic but that of the weights, and their bytes are read instead of the points.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bench/ceiling.h"
#include "engine/kernel.h"

struct limit_case {
    enum kernel_id kernel;
    int degree;                 /* of the polynomial kernel */
    enum dtype values, vectors; /* of the kernel values; of the weights and sums */
    int64_t n, m, d, rhs;
    bool symmetric;
    int64_t cached_bytes; /* of all kernel values, kept in memory; 0: they are computed */
};

double limit_entries_per_s(const struct limit_case *c, const struct ceiling *ceiling);

/* The same if 2^e took the multiply-adds of one polynomial alone, 5 in float32 and 10 in float64,
 * and its rounding and its exponent's bits nothing. */
double limit_of_fma(const struct limit_case *c, const struct ceiling *ceiling);

/* ---- the parts that limit_device.c shares ---- */

bool limit_has_power(enum kernel_id id);
bool limit_has_root(enum kernel_id id);
/* Multiply-adds behind the distance, roots and powers apart. */
int limit_function_ops(const struct limit_case *c);
/* Of all points, or kept values, of the weights and of the result. */
double limit_bytes(const struct limit_case *c);
