/*
 * What preconditioners of restricted problems are made of: factors of m x m matrices in float64,
 * whatever the precision of the solve, since the matrices are singular to working precision as soon
 * as two centers are close. -ERR_NOT_POSITIVE_DEFINITE names the kernel.
 */
#pragma once

#include "engine/solver.h"

/* *ret <- L with L L' = K_mm + jitter I, 0 above the diagonal. jitter is m eps max k(x,x), a
 * hundred times more after each failure, with eps = problem_rounding: a residual's errors lie in
 * the null space of K_mm as well, where L^-T L^-1 multiplies them by 1 / jitter. */
#define CORE_TRIES 4
int core_factor(const struct problem *p, struct mat *ret, struct err *err);
/* The same of the matrix of some centers, index[0 .. count-1]; m is their count. */
int core_factor_some(const struct problem *p, const int64_t *index, int64_t count, struct mat *ret,
                     struct err *err);

/* L of core_variables, where the jitter is a part of the problem that is solved: ridge jitter |A|^2
 * joins the objective. It is what rounding makes of the objective anyhow, if that is more than eps
 * max k(x,x) of the vectors: errors of e max k(x,x) in the n rows of K_nm, e a quarter of
 * problem_rounding, add n (e max k(x,x))^2 |A|^2. Less would leave directions of K_mm in which K_nm
 * holds errors alone. At most it is m e max k(x,x), and where there is no factor with it that of
 * core_factor, by the eps of the vectors, and so on (adr/0064). */
int core_factor_variables(const struct problem *p, struct mat *ret, struct err *err);

/* In place: the lower triangle of S, a sum of squares with positive trace, becomes L with L L' = S
 * + jitter I; `jitter` relative to the trace. -ERR_NOT_POSITIVE_DEFINITE where that was not enough:
 * S is lost. */
int core_factor_sum(struct backend *be, const struct mat *S, double jitter, struct err *err);

/* In place: A <- L A, of two lower triangles, L with 0 above its diagonal; above that of A is 0
 * afterwards, whatever was there. m^3 / 6 multiplications. What is solved with P = L A A' L' takes
 * two solves with this product in place of four. */
int core_multiply_factors(struct backend *be, const struct mat *L, const struct mat *A,
                          struct err *err);

/* H <- H + a K_mm, K_mm with float64 kernel values; some columns at a time. */
int core_add(const struct problem *p, double a, const struct mat *H, struct err *err);

/* Z <- L^-T L^-1 R by way of W (float64, of R's shape). */
int core_solve(struct backend *be, const struct mat *L, const struct mat *W, const struct mat *R,
               const struct mat *Z, struct err *err);

/* The variables U = L' B, in which the norm of K_mm is that of vectors. L NULL: those of B. */
struct core_variables {
    const struct mat *L; /* float64, 0 above the diagonal */
    const struct mat *W; /* scratch, float64, m x t */
};
#define CORE_MULTIPLY_ROWS 256 /* the most that a block of core_multiply needs */

/* X <- L^-1 X. */
int core_whiten(struct backend *be, const struct core_variables *v, const struct mat *X,
                struct err *err);
/* Y <- L^-T X. */
int core_unwhiten(struct backend *be, const struct core_variables *v, const struct mat *X,
                  const struct mat *Y, struct err *err);
/* W <- L X by way of `block` (float64, min(m, CORE_MULTIPLY_ROWS) x t). m^2 / 2 multiplications. */
int core_multiply(struct backend *be, const struct core_variables *v, const struct mat *block,
                  const struct mat *X, struct err *err);
