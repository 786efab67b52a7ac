/*
 * Directions from anywhere made the best of, for a restricted problem H B = K_nm' Y with H =
 * K_nm' K_nm + ridge K_mm (normal.h): the energy
 *
 *     J(B) = sum_j b_j' H b_j / 2 - b_j' (K_nm' Y)_j
 *
 * is minimised over what a stochastic method proposes, and the last CONJUGATE_KEPT directions
 * besides, without a pass over the rows of its own. The gradient G = H B - K_nm' Y at two places
 * gives the product of H with their difference,
 *
 *     H (B1 - B0) = G(B1) - G(B0),
 *
 * and with it the exact length of the step and conjugacy to the directions before (flexible
 * conjugate gradients: Notay, "Flexible conjugate gradients", SIAM J. Sci. Comput. 22, 2000). The
 * energy never grows, whatever is proposed. Every target by itself.
 *
 * The gradient is kept by recurrence, and its error with it: a step of the length a multiplies the
 * error by |1 - a|, which a few long steps make large. A caller computes the gradient afresh when
 * conjugate_doubt says so. Memory: 2 CONJUGATE_KEPT m t numbers.
 */
#pragma once

#include "engine/backend.h"
#include "engine/state.h"

enum { CONJUGATE_KEPT = 5 };

struct conjugate;

/* Of m x t matrices. */
int conjugate_new(struct backend *be, enum dtype dtype, int64_t m, int64_t t,
                  struct conjugate **ret, struct err *err);
struct conjugate *conjugate_free(struct conjugate *c); /* NULL is fine */
void conjugate_forget(struct conjugate *c);

/* G was computed afresh; rounding[t] is the size of the errors of that, here and below. */
void conjugate_refresh(struct conjugate *c, const double *rounding);

/* B and its gradient G go to the minimum along D, of which HD = G(B + D) - G; both are
 * overwritten. Columns whose direction has no positive curvature stay where they are.
 * -ERR_DIVERGED for infinity or NaN in D or HD. */
int conjugate_step(struct conjugate *c, const struct mat *D, const struct mat *HD,
                   const double *rounding, const struct mat *B, const struct mat *G,
                   struct err *err);

/* [t], estimated size of the errors in G. */
const double *conjugate_doubt(const struct conjugate *c);

int conjugate_save(const struct conjugate *c, struct state *to, struct err *err);
int conjugate_load(struct conjugate *c, const struct state *from, struct err *err);
