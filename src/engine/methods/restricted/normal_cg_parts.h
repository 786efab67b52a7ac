/*
 * Inside the conjugate gradients for restricted problems (normal_cg.h): what their files share.
 */
#pragma once

#include "engine/methods/cg_columns.h"
#include "engine/methods/restricted/normal_cg.h"
#include "engine/normal.h"

enum { NORMAL_CG_STALE_CHECKS = 3, NORMAL_CG_MATRICES = 7 };

/* What the pass under way sums up in V. */
enum stage {
    STAGE_RIGHT_HAND_SIDE, /* -K_nm' Y */
    STAGE_START,           /* minus the residual of coefficients to begin with, and in R -K_nm' Y */
    STAGE_PRODUCT,         /* K_nm' K_nm Q, or H P */
    STAGE_RESIDUAL,        /* the true residual */
    STAGES
};

struct solver {
    struct problem p;
    double tolerance;
    bool deepened; /* `tolerance` is no longer the job's */
    struct normal_method method;
    struct precond *M;
    bool built;
    double build_fraction;
    enum stage stage;
    struct normal_pass pass;
    bool given; /* B holds coefficients although no iteration was done */
    int64_t iteration, since_check;
    int stale_checks;
    int ended; /* a positive reason, or 0 */
    struct core_variables v;
    struct cg_columns c;
    double *doubt; /* [t]: what the last check found the recurrence to be off by, relative */
    double *falls; /* [t]: breakdowns without progress in between */
    struct mat B;
    struct mat R, P;           /* in the variables of the iteration */
    struct mat Z;              /* P^-1 R, and then Q = L^-T P */
    struct mat V;              /* sums of the pass, and then the product */
    struct mat best_B, best_R; /* columns with the true residual c.best; 0 where that is 1 */
    struct mat coefs, sums;    /* [B, best_B] and [V, R], which own the memory of the four */
    struct mat block;          /* scratch of core_multiply */
};

/* Whether the iteration is in the variables U = L' B. */
static inline bool normal_cg_whitened(const struct solver *s)
{
    return s->v.L != NULL;
}

/* ---- normal_cg.c ---- */

/* Z = P^-1 R and what follows from it: the stage is STAGE_PRODUCT, or STAGE_RESIDUAL where no
 * column has a direction. */
int normal_cg_directions(struct solver *s, struct err *err);

/* ---- normal_cg_check.c ---- */

/* X <- -V (all columns). */
int normal_cg_take_negative(struct solver *s, const struct mat *X, struct err *err);
/* V is minus the true residual: what has converged is frozen; what has drifted from it, or broke
 * down, begins anew. CONVERGED, STAGNATED, BREAKDOWN, or 0 with the next directions. */
int normal_cg_check(struct solver *s, struct err *err);
