/*
 * The centers that a kernel of finite rank can use. Linear and polynomial kernels are inner
 * products of few features: of d and a constant, or of the (d + degree over degree) monomials, r at
 * most. With m > r centers K_mm is singular to the last digit, and whoever divides by it finds
 * rounding errors; all functions that the m centers span are spanned by some r of them already.
 *
 * Those are the pivots of a greedy pivoted Cholesky factorisation of K_mm (precond_pivoted.h) in
 * float64, until what is left of every k(z,z) is below CENTER_RANK_CUT times what it was:
 * 1e-6 of its length, ten times the rounding of float32 kernel values.
 *
 * Cost: m r kernel values and m r^2 / 2 multiplications. Memory: m r float64.
 */
#pragma once

#include "engine/centers.h"

#define CENTER_RANK_CUT 1e-12

/* The most that the rank of a kernel matrix on points of d features can be; INT64_MAX: any. */
int64_t center_rank_bound(const struct kernel *kernel);

/* Leaves in c the centers that are independent, in their order. The path stays, and each center
 * stands for as many rows as before: weights, which are relative to m / n, grow. Nothing happens
 * for kernels without a bound. `stop` is asked between pieces: a negative error ends it. */
int center_rank_reduce(struct backend *be, const struct kernel *kernel, struct centers *c,
                       int (*stop)(void *context, struct err *err), void *stop_context,
                       struct err *err);
