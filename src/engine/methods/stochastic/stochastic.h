/*
 * What the stochastic methods for restricted problems share (solver_sketchysaga.c,
 * solver_sketchykatyusha.c): mini-batches, the preconditioner P with its damping, the smoothness
 * constant of a batch, and products with one. The problem is
 *
 *     f(B) = |K_nm B - Y|^2 / 2 + ridge/2 tr B' K_mm B,    H = K_nm' K_nm + ridge K_mm,
 *
 * and a batch of b rows stands for all n by the factor n/b.
 *
 * Papers: Frangella, Rathore, Zhao, Udell, "PROMISE: Preconditioned stochastic optimization methods
 * by incorporating scalable curvature estimates", arXiv:2309.02014; Rathore, Frangella, Udell,
 * "Have ASkotch: Fast methods for large-scale, memory-constrained kernel ridge regression",
 * arXiv:2407.10070, version 1, Algorithm 5 and appendix B.5.
 *
 * By rule:
 *   batch    as many rows as centers, at least 256, but 8 batches an epoch: the smoothness of a
 *            batch is about (1 + sqrt(d / b))^2 with d <= m degrees of freedom, and a step costs
 *            m^2 besides its b m kernel values. Of up to 512 rows all: P is made from all rows
 *            then, so that L is 1 but for rounding, while batches of a few rows are so rough that
 *            the damping they need leaves next to no progress.
 *   rank     m up to 8,192 centers (hessian_sketch.h), above that 500 (plan/rules.h).
 *   sample   8 r rows for the preconditioner, of more than 1024 centers fewer, down to 4 r; at
 * least sqrt n. With the paper's sqrt n alone P misses most of the spectrum of a few hundred
 *            centers; with 2 r, the smoothness was ten times that with 8 r.
 *   step     1 / (2 L), or `learning_rate_scaling` / L, L = lambda_max(P^-1 H_b), the largest over
 *            RACE_BATCHES batches by powering, from below.
 *   damping  rho, a multiple of the smallest sensible one (hessian_sketch.h), or as given itself.
 *            That one is taken where L <= RACE_CALM: more damping could at best make steps that
 *            much longer. Otherwise a race: on a sample of RACE_BATCHES batches, RACE_EPOCHS epochs
 *            of SketchySAGA from zero with each of 1, 10, 100, .. in turn; the smallest f, with the
 *            sample standing for all rows, wins. It ends with a candidate that is calm, or whose
 *            rho is not below the mean of P's spectrum, or that is worse than the one before; but
 *            not by the last while L is above RACE_ROUGH: steps that short make no difference that
 *            a race could tell. Rows of the race are drawn apart from those of P, which would
 *            flatter it.
 *
 * Cost of the building: that of P, and of each candidate (RACE_EPOCHS + 1 + power_iterations)
 * RACE_BATCHES batches and m^3 / 3; there are up to four of them unless the ridge is far below the
 * spectrum, RACE_CANDIDATES at most. Memory beside P's: 9 m t numbers, 2 b t, and
 * while it builds a sample of RACE_BATCHES batches.
 */
#pragma once

#include "engine/methods/stochastic/hessian_sketch.h"
#include "engine/methods/stochastic/row_batches.h"
#include "engine/rowset.h"

struct stochastic {
    struct problem p;
    struct row_batches batches;
    struct hessian_sketch P;
    double damping; /* a multiple of P.least; 0: by a race */
    double rho;     /* the damping itself; 0: by the one above */
    double scaling; /* of the step 1 / L of SketchySAGA, in the race too */
    int64_t power_iterations;
    double L;         /* the smoothness with the damping that was taken */
    const char *note; /* NULL, or `text` */
    char text[320];
    struct mat G, E;           /* m x t: what a solver computes a step from */
    struct mat D, T;           /* most x t: of a batch */
    struct mat x, u, v;        /* m x 1, of powering */
    double *one, *work, *dots; /* [t] each, of one allocation with */
    double *norm;              /* [t]: |K_nm' Y_j|, once a solver knows */

    /* Of the building. */
    int stage;
    bool built, smooth; /* L was found */
    int candidate, best;
    int64_t next;
    double best_L, best_score, score, last_score;
    struct row_tile sample;
    struct mat W, mean, first_mean, table;
};

/* `params` has batch_size, rank, hessian_rows, damping, rho, power_iterations. The struct is
 * zeroed; after a failure: deinit. */
int stochastic_init(struct stochastic *s, const struct problem *p, const struct param_set *params,
                    struct err *err);
void stochastic_deinit(struct stochastic *s);

/* One piece of the building. 1: P and L are there. 0: call again. Between the first call and the
 * last nobody else reads the problem's rows. */
int stochastic_build(struct stochastic *s, double *ret_fraction, struct err *err);

/* Before the first build: the damping and the smoothness that an earlier run settled on. */
void stochastic_recall(struct stochastic *s, double damping, double L);

/* D <- K W - Y - T for the rows P, E <- K' D; T may be NULL. D and T are P.count x t. */
int stochastic_delta(struct stochastic *s, struct view P, const struct mat *Y, const struct mat *W,
                     const struct mat *T, const struct mat *D, const struct mat *E,
                     struct err *err);

/* M <- a X + b M, the same for all columns. */
int stochastic_add(struct stochastic *s, double a, const struct mat *X, double b,
                   const struct mat *M, struct err *err);

/* The state of SAGA: the coefficients, a residual a row as it was when last seen, and
 * mean = weight K' table over all rows of the table. */
struct saga_point {
    const struct mat *W, *mean;
    double weight; /* n / rows of the table */
};

/* A step with the rows P, whose entries of the table are T; D tells what has become of them: T + D
 * is new. dots[j] is |mean + ridge K_mm W|^2 of column j, before the step. */
int stochastic_saga_step(struct stochastic *s, const struct saga_point *at, struct view P,
                         const struct mat *Y, const struct mat *T, const struct mat *D, double eta,
                         struct err *err);
