/*
 * Preconditioned conjugate gradients for a restricted problem (normal.h),
 *
 *     H B = K_nm' Y,    H = K_nm' K_nm + ridge K_mm,
 *
 * what the solvers `cg`, `direct`, `falkon`, `falkon_bless` and `krill` share. But for `cg` they
 * have a factor K_mm = L L' (normal_core.h) and iterate in the variables U = L' B,
 *
 *     (L^-1 K_nm' K_nm L^-T + ridge I) U = L^-1 K_nm' Y,    P ~ the matrix on the left,
 *
 * whose smallest eigenvalue is ridge; they differ in P alone. In the variables of B the same
 * iteration has z'r = r' L^-T P^-1 L^-1 r and p'H p, which cancel to nothing and below where K_mm
 * is singular to working precision (adr/0048). Falkon's iteration in its own variables (Rudi,
 * Carratino, Rosasco, arXiv:1705.10958, Algorithm 1) is this one with P = A A': the iterates are
 * the same.
 *
 * B moves along Q = L^-T P beside U, which is never needed itself, and norms of residuals are those
 * in the variables of B: |L r|, by a product with L.
 *
 * A step is a piece of a pass over the rows (normal.h). An iteration is one pass: n m kernel
 * values, each evaluated once; and two solves and a product with L, or m^2 kernel values of the
 * centers where there is none. One pass more gives the right-hand side, and with it the residual of
 * coefficients to begin with; and one the true residual, with K_mm itself: every `residual_every`
 * iterations, after a breakdown, and before a column may count as converged. Rules for columns,
 * restarts and stagnation are those of solver_pcg.c; besides, the coefficients handed out are, of
 * each column, those with the smallest true residual: where H is singular to working precision,
 * later ones may be far worse, and the recurrence does not know. A column that breaks down goes on
 * from these, by steepest descent, and stays with them when it breaks down again without progress;
 * the others go on. Memory: 7 m t numbers, a tile of
 * rows and its targets twice, and P.
 */
#pragma once

#include "engine/methods/normal_core.h"
#include "engine/precond.h"

struct normal_method {
    const struct precond_ops *precond; /* in the variables of the iteration */
    /* (optional) Once built: L of the variables U = L' B, or NULL. NULL: they are those of B. */
    struct core_variables (*variables)(const struct precond *m);
    /* (optional) B <- coefficients to begin with, once built; unused where the problem has some. */
    int (*start)(struct precond *m, const struct mat *B, struct err *err);
    int64_t residual_every;
};

int normal_cg_setup(const struct problem *p, const struct solver_options *o,
                    const struct normal_method *method, struct solver **ret, struct err *err);
int normal_cg_step(struct solver *s, struct step_report *ret, struct err *err);
int normal_cg_coef(struct solver *s, const struct mat *A, struct err *err);
/* A tenth of the residual there is becomes the tolerance. */
int normal_cg_deepen(struct solver *s, struct err *err);
int normal_cg_save(const struct solver *s, struct state *to, struct err *err);
int normal_cg_load(struct solver *s, const struct state *from, struct err *err);
void normal_cg_teardown(struct solver *s);
