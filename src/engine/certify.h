/*
 * The certificate: how well coefficients solve the system, recomputed from the training points in
 * float64 whatever precision and recurrence the solver used.
 */
#pragma once

#include "engine/solver.h"

/*
 * max_j |Y_j - (K + ridge I) A_j| / |Y_j| with K from `kernel` and `host` in float64. Y is the
 * problem's own (rounded to its precision); a column Y_j = 0 counts |(K + ridge I) A_j|, which is 0
 * for A_j = 0. NaN when A holds infinity or NaN. Costs n^2 kernel values, n d + 2 n t float64
 * numbers.
 */
int certify_residual(const struct problem *p, const struct kernel *kernel, const struct rows *host,
                     const struct mat *A, double *ret, struct err *err);
