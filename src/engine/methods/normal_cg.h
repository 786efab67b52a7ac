/*
 * Preconditioned conjugate gradients for a restricted problem (normal.h),
 *
 *     H B = K_nm' Y,    H = K_nm' K_nm + ridge K_mm,
 *
 * with P ~ H given as a precond_ops of the caller's: what the solvers `cg`, `direct`, `falkon`,
 * `falkon_bless` and `krill` share. They differ in P alone.
 *
 * Falkon's iteration in its own variables (Rudi, Carratino, Rosasco, arXiv:1705.10958, Algorithm 1)
 * is this one with P = T' A' A T: the iterates are the same, without a product with T and A for
 * every residual.
 *
 * A step is a piece of a pass over the rows (normal.h). An iteration is one pass: n m kernel
 * values, each evaluated once, and m^2 of the centers. One pass more gives the right-hand side, one
 * the residual of coefficients to begin with, and one the true residual, every `residual_every`
 * iterations and before a column may count as converged. Rules for columns, breakdown, restarts and
 * stagnation are those of solver_pcg.c; besides, the coefficients handed out are, of each column,
 * those with the smallest true residual: where H is singular to working precision, later ones may
 * be far worse, and the recurrence does not know. Memory: 6 m t numbers, a tile of rows, and P.
 */
#pragma once

#include "engine/precond.h"

struct normal_method {
    const struct precond_ops *precond;
    /* (optional) B <- coefficients to begin with, once built; unused where the problem has some. */
    int (*start)(struct precond *m, const struct mat *B, struct err *err);
    int64_t residual_every;
};

int normal_cg_setup(const struct problem *p, const struct solver_options *o,
                    const struct normal_method *method, struct solver **ret, struct err *err);
int normal_cg_step(struct solver *s, struct step_report *ret, struct err *err);
int normal_cg_coef(struct solver *s, const struct mat *A, struct err *err);
int normal_cg_save(const struct solver *s, struct state *to, struct err *err);
int normal_cg_load(struct solver *s, const struct state *from, struct err *err);
void normal_cg_teardown(struct solver *s);
