/*
 * Inside the preconditioned conjugate gradients (solver_pcg.c): what their files share.
 */
#pragma once

#include "engine/methods/cg_columns.h"
#include "engine/methods/full/drift.h"
#include "engine/solver.h"

enum { PCG_STALE_CHECKS = 3 };

struct solver {
    struct problem p;
    struct problem best_points; /* what the preconditioner is made from */
    const struct points *X;     /* what products are taken with */
    struct drift drift;         /* in mixed precision */
    double tolerance;
    int64_t residual_every;
    const struct precond_ops *precond;
    struct precond *M;
    bool borrowed; /* M is the caller's */
    bool built;
    double build_fraction;
    bool warm;    /* coefficients to begin with wait for the first step */
    bool resumed; /* from a checkpoint with directions: P is made already */
    bool given;   /* B holds somebody's coefficients although no iteration was done */
    int64_t iteration;
    int64_t since_check; /* iterations since the residual was last looked at or replaced */
    double looked;       /* the largest relative residual then */
    int stale_checks;
    bool wide;            /* products are with the exact points now */
    bool wide_from_start; /* and so was every product that an iteration took */
    bool strict;          /* a certificate was missed: no estimates of the drift any more */
    int ended;            /* a positive reason, or 0 */
    struct cg_columns c;
    double *away; /* [t] estimated drift */
    struct mat B, R, Z, P, V;
    struct mat P32, V32; /* in mixed precision */
};

/* Products are in float32 while there is something better. */
static inline bool pcg_narrow(const struct solver *s)
{
    return s->p.exact != NULL && !s->wide;
}

/* There are coefficients that somebody could take. */
static inline bool pcg_usable(const struct solver *s)
{
    return s->iteration > 0 || s->given || cg_columns_frozen(&s->c);
}

/* ---- pcg_product.c ---- */

/* V = M P, eta = omega / p'v; or BREAKDOWN. */
int pcg_product(struct solver *s, struct err *err);

/* ---- pcg_check.c ---- */

/* B = start, R = Y - M B; B_j = 0, R_j = Y_j where that is no worse. */
int pcg_begin_warm(struct solver *s, struct err *err);
/* After an iteration: looks at the residual when it is time to, replaces it where it has drifted,
 * freezes what has converged. CONVERGED, STAGNATED or 0. */
int pcg_inspect(struct solver *s, struct err *err);
/* As pcg_inspect, where float32 made a matrix that is not positive definite, or overflowed. */
int pcg_recover(struct solver *s, struct err *err);
/* A certificate was missed: from now on what the sample missed is measured on all rows. 0 when
 * there is something to go on with, else a reason. */
int pcg_refuse(struct solver *s, struct err *err);

/* ---- pcg_state.c: as solver_ops ---- */

int pcg_save(const struct solver *s, struct state *to, struct err *err);
int pcg_load(struct solver *s, const struct state *from, struct err *err);
