/*
 * The most kernel entries a second that a GPU could produce and use, from its measured ceilings
 * (device_ceiling.h); what an entry is, limit.h says. A GPU's units run beside each other, so the
 * one with the longest work binds:
 *
 *   lanes    an instruction of float32 takes a lane for 1 / fma32, one of float64 for 1 / fma64,
 *            and a scheduler as long as one of float32; so do those that MUFU answers
 *   mufu     powers and roots in float32, 1 / ex2 each
 *   tensor   multiply-adds of the tensor cores, where distances come from them
 *   memory   all points and vectors, or kept values, once, at the rate of a copy
 *
 * The better of two ways counts: distances by lanes, or by tensor cores where the device has any,
 * but not for laplacian_l1. Instructions of one evaluation, for t right-hand sides:
 *
 *   distance   d       l2 and inner products; the dot form
 *              2 d     laplacian_l1: a difference and an addition
 *              0       by tensor cores, whose multiply-adds are 3 x 16 ceil(d / 16) in float32, of
 *                      float16 parts, and 4 ceil(d / 4) in float64
 *   sum        1       the norms' sum, coef0, or 0 (free where norms are features)
 *   power      1       and one of MUFU (none for dot-product kernels but 1 for sigmoid)
 *              11      in float64: ten multiply-adds and a comparison
 *   root       1       and one of MUFU: matern12, matern32, matern52, laplacian
 *              7       in float64: an estimate and two Newton steps
 *   function           0, 2 matern32, 3 matern52; polynomial: repeated squaring; sigmoid: 2 and a
 *                      reciprocal, 1 and one of MUFU, or 5 in float64
 *   weights    t, 2 t  plain and symmetric, the latter for two entries; float64 in mixed precision
 *
 * So with one right-hand side gaussian takes d + 3 lanes, (d + 4) / 2 symmetric, and by tensor
 * cores 3 and 4 / 2; laplacian_l1 2 d + 3 and (2 d + 4) / 2; in float64 it is 10 more of an
 * evaluation.
 *
 * Loads, moves, conversions, and the additions that keep sums of the tensor cores short, are taken
 * as free, and so is what tf32 parts of inner products take longer than float16 parts: this is an
 * upper bound. It is one of the best of short runs: a device that draws all the power it may
 * has a lower clock in a long product.
 */
#pragma once

#include "bench/device_ceiling.h"
#include "bench/limit.h"

struct device_limit {
    double entries_per_s;
    const char *bound_by; /* "lanes", "mufu", "tensor" or "memory"; static */
};

struct device_limit limit_of_device(const struct limit_case *c,
                                    const struct device_ceiling *ceiling);
