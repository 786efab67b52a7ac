/*
 * Preconditioners P ~ H = K_bb + ridge I of one block b of training rows, for the block methods
 * (block_descent.h). A block is met once and its preconditioner thrown away, so building it must
 * cost little beside the block's product with all n rows.
 *
 * Paper: Rathore, Frangella, Udell, "Have ASkotch: Fast methods for large-scale,
 * memory-constrained kernel ridge regression", arXiv:2407.10070, version 1, Algorithms 2 (Nystrom)
 * and 3 (get_L).
 *
 *   nystrom    P = F F' + rho I, F F' ~ K_bb from the sketch K_bb Omega with r columns,
 *              rho = ridge + the r-th eigenvalue of F F' ("damped") or ridge ("regularization").
 *   cholesky   P = H by its Cholesky factor: exact, and the step is 1.
 *   none       P = I, the ablation.
 *
 * The step is 1 / L, L = lambda_max(P^-1 H), by powering; L is approached from below.
 *
 * F, and everything of size r x r, is float64 in every precision; only K_bb and its products have
 * the vectors' type. Cost: b^2 kernel values and b^3/3 multiplications (cholesky), or
 * b^2 (r + power_iterations) + 3 b r^2 (nystrom). Memory: b^2 numbers, 8 bytes each for cholesky;
 * for nystrom also 28 b r bytes at most. Nothing grows with n.
 *
 * Deviations from the paper:
 *   - K_bb is held, b^2 numbers, for the sketch and the powering, which the paper's oracle
 *     evaluates anew in O(r b) memory: kernel values cost more than what they are kept in.
 *   - P^-1 v = (v - F (rho I + F'F)^-1 F' v) / rho, without the eigenvectors of F F': stable in
 *     float32, and nothing is divided by an eigenvalue that may be 0.
 *   - One test matrix Omega serves all blocks: what matters is that it does not depend on the
 * block.
 *   - The r-th eigenvalue is found by inverse iteration, from above.
 *   - rho is at least the shift nu = eps trace K_bb of the sketch.
 *   - get_L works on P^-1 H with the Rayleigh quotient u'P^-1 u / v'u, u = H v, which needs no
 *     square root of P and rises to L monotonically; it begins at P^-1 times a random vector, and
 *     ends before `power_iterations` where L rose by less than a thousandth (power_change).
 */
#pragma once

#include "engine/solver.h"

enum block_kind { BLOCK_AUTO, BLOCK_NYSTROM, BLOCK_CHOLESKY, BLOCK_NONE };

struct block_precond;

/* `params` is a table of a block method: block_preconditioner, rank, damping, power_iterations.
 * Blocks have at most `most` rows. */
int block_precond_new(const struct problem *p, const struct param_set *params, int64_t most,
                      struct block_precond **ret, struct err *err);
struct block_precond *block_precond_free(struct block_precond *m); /* accepts NULL, half-built */

/* The kind that one would have; auto becomes another. */
enum block_kind block_precond_choose(const struct problem *p, const struct param_set *params,
                                     int64_t most);
enum block_kind block_precond_kind(const struct block_precond *m);
int64_t block_precond_rank(const struct block_precond *m); /* of P - rho I; 0 for none */

/* K_bb for the rows index[0 .. b-1], which differ: for the caller to look at until the build for
 * the same rows, which begins with it instead of evaluating it again. */
int block_precond_fill(struct block_precond *m, const int64_t *index, int64_t b, struct mat *ret,
                       struct err *err);
/* For the rows index[0 .. b-1], which differ. 0, REASON_BREAKDOWN where K_bb is not positive
 * semidefinite beyond rounding, or a negative error. *ret_smoothness is L; NULL: not wanted. */
int block_precond_build(struct block_precond *m, const int64_t *index, int64_t b,
                        double *ret_smoothness, struct err *err);

/* D <- P^-1 D, b x t in float64. */
int block_precond_apply(struct block_precond *m, const struct mat *D, struct err *err);

/* An unbiased estimate of trace P^-1. */
int block_precond_trace(struct block_precond *m, double *ret, struct err *err);
