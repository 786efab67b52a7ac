/* Inside kernel machine conjugate gradients (solver_kmcg.c): what its files share. */
#pragma once

#include "engine/methods/gaussian_process/conjugate_span.h"

struct solver {
    struct problem p;
    double tolerance, amplitude;
    bool bound;    /* the evidence pays for what the directions do not show */
    int64_t width; /* w: t targets and the probes */
    struct conjugate_span span;
    struct mat Y;       /* n x w: the targets, then the probes */
    struct mat G, L;    /* room x room float64: Z'Z, and the factor of Z'Z + ridge I */
    struct mat c, b, a; /* room x w float64: Z'Y, L^-1 c, L^-T b */
    struct mat row, v;  /* of the problem's type: w x room, scratch; room x w: a */
    struct mat R;       /* n x w: Y - (K + ridge I) S a */
    double *numbers;    /* [5 w]: |Y_j|^2, |Y_j - K S a_j|^2, three of scratch */
    double *least;      /* [w]: columns of R that are not longer have converged */
    double residual;    /* relative, the largest of the targets' */
    double probed;      /* likewise of the probes' */
    int64_t iteration;
    int ended;
    struct solver *rest;   /* pcg, once the directions are at an end; another struct, never looked
                              into */
    struct mat own;        /* n x t: S a, which it begins with */
    struct precond *known; /* what it is preconditioned by */
    bool begun;            /* it has taken up S a */
    bool better;           /* and has a smaller residual than that, or has converged */
    bool exact;            /* and has */
    bool full;             /* `directions` ended it, not K */
    bool alone;            /* nobody wants more than the directions (kmcg_directions.h) */
};

/* ---- solver_kmcg.c ---- */

/* a = L^-T b. */
int kmcg_solve_back(struct solver *s, struct err *err);
/* R = Y - Z a - ridge S a, the first two terms of which are the misfit, and its size. */
int kmcg_take_residual(struct solver *s, struct err *err);
/* A = S a. */
int kmcg_own_mean(const struct solver *s, const struct mat *A, struct err *err);

/* ---- kmcg_known.c ---- */

/* From here on conjugate gradients. */
int kmcg_go_on(struct solver *s, struct err *err);
int kmcg_step_on(struct solver *s, struct step_report *ret, struct err *err);
void kmcg_end_rest(struct solver *s); /* where there is one */

/* ---- kmcg_state.c: as solver_ops ---- */

int kmcg_save(const struct solver *s, struct state *to, struct err *err);
int kmcg_load(struct solver *s, const struct state *from, struct err *err);
