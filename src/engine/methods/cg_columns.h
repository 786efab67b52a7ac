/*
 * The scalars of conjugate gradients, one of each for every target: columns run side by side and
 * share each product, and a column that has converged is frozen. What solver_pcg.c (full problems)
 * and normal_cg.c (restricted ones) have in common; B, R, Z, P and V are theirs, size x t:
 *
 *     omega = z'r    eta = omega / p'v    gamma = omega_new / omega
 */
#pragma once

#include <stdbool.h>

#include "engine/backend.h"

struct cg_columns {
    struct backend *be;
    int64_t t;
    bool *frozen;     /* [t] */
    bool *broken;     /* [t]: of non-positive curvature, since directions were last made */
    double *arrays;   /* the owner of those below, each [t] */
    double *norm;     /* |rhs_j| */
    double *relative; /* |R_j| / norm */
    double *best;     /* smallest true relative residual so far */
    double *omega;    /* 0: the column starts anew from steepest descent */
    double *eta, *gamma;
    double *dots, *one, *work; /* scratch */
};

/* Zeroed. After a failure: cg_columns_deinit. */
int cg_columns_init(struct cg_columns *c, struct backend *be, int64_t t, struct err *err);
void cg_columns_deinit(struct cg_columns *c); /* accepts a zeroed one */

bool cg_columns_frozen(const struct cg_columns *c);                  /* all */
bool cg_columns_below(const struct cg_columns *c, double tolerance); /* all that are not frozen */
double cg_columns_largest(const struct cg_columns *c);               /* relative residual */

/* -ERR_DIVERGED, with its sentence. */
int cg_columns_diverged(struct err *err);

/* Z = P^-1 R is there: omega = z'r, P = Z + gamma P. REASON_BREAKDOWN where z'r <= 0 in a column,
 * which is then broken; the others have what they need. */
int cg_columns_directions(struct cg_columns *c, const struct mat *Z, const struct mat *R,
                          const struct mat *P, struct err *err);

/* V = M P is there: eta, 0 for columns that are frozen or broken. REASON_BREAKDOWN where p'v <= 0,
 * likewise. */
int cg_columns_lengths(struct cg_columns *c, const struct mat *P, const struct mat *V,
                       struct err *err);

/* B += eta Q, R -= eta V: Q is P, in the variables of B. */
int cg_columns_move(struct cg_columns *c, const struct mat *Q, const struct mat *V,
                    const struct mat *B, const struct mat *R, struct err *err);
/* relative = |R| / norm. */
int cg_columns_measure(struct cg_columns *c, const struct mat *R, struct err *err);
/* Both, where the variables are those of B. */
int cg_columns_update(struct cg_columns *c, const struct mat *P, const struct mat *V,
                      const struct mat *B, const struct mat *R, struct err *err);
