/*
 * The restricted problem: m centers Z and n rows X, and coefficients B (m x t) that minimise
 *
 *     |Y - K_nm B|^2 + ridge sum_j b_j' K_mm b_j,
 *
 * that is, of the normal equations  (K_nm' K_nm + ridge K_mm) B = K_nm' Y.  A pass over the rows is
 * cut in pieces of about NORMAL_PIECE kernel values, so that a solver's step stays short.
 */
#pragma once

#include "engine/rowset.h"
#include "engine/solver.h"

#define NORMAL_PIECE 5e8

/* Where a pass over the rows is. Zeroed: at its beginning. */
struct normal_pass {
    int64_t tile;
};

/* G <- K_nm' W (K_nm V - Y), W of the problem's row_weights, without Y where `targets` is false:
 * one piece of it. 1: G is complete, and the pass at its beginning again. 0: call again with the
 * same V and G. */
int normal_gradient(const struct restricted *r, struct backend *be, struct normal_pass *pass,
                    const struct mat *V, bool targets, const struct mat *G, struct err *err);

/* G <- [K_nm' (K_nm A - Y), -K_nm' Y] for V = [A, 0], a piece of it likewise; V and G are m x 2t.
 * Memory: the targets of a tile, twice. */
int normal_gradient_and_sums(const struct restricted *r, struct backend *be,
                             struct normal_pass *pass, const struct mat *V, const struct mat *G,
                             struct err *err);

/* G <- G + a K_mm V, with float64 kernel values: K_mm must not have negative eigenvalues where V is
 * large. */
int normal_add_core(const struct restricted *r, struct backend *be, double a, const struct mat *V,
                    const struct mat *G, struct err *err);
