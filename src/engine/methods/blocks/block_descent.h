/*
 * What the block methods for (K + ridge I) A = Y share: the points they move, the gradient of one
 * block, the step, the residual, and when to stop. solver_skotch.c and solver_askotch2.c choose
 * blocks, preconditioners and constants.
 *
 * f(A_j) = A_j'(K + ridge I) A_j / 2 - Y_j'A_j is minimised for t columns side by side. With E the
 * point where gradients are taken (the papers' w or y), V the point that carries the momentum (z or
 * v), and b a block of rows, a step is
 *
 *     G = K(b,:) E + ridge E(b,:) - Y(b,:)      D = P^-1 G (the caller's)
 *     W = E - eta I_b D                                         the iterate
 *     V = beta V + (1 - beta) E - kick I_b D
 *     E = alpha V + (1 - alpha) W
 *
 * W is never stored: W = (E - alpha V) / (1 - alpha). Without momentum E = W, and there is no V.
 * The ridge acts on E, where the gradient is taken.
 *
 * Residual. |G|^2, weighted by the block's chance, estimates |Y - (K + ridge I) E|^2 without bias
 * and for nothing; its running mean is the relative residual that steps report. The true one of W
 * costs a product with K. It is computed when the estimate of every column has reached the
 * tolerance, but at most once a pass (as many steps as blocks hold n rows), and every
 * `residual_every` passes. Only it decides about convergence; a column that has converged stays as
 * it is.
 *
 * Restart. Where the sum of G'(V - E) over as many steps as make a pass (each block's as it is, not
 * weighted by its chance) is positive, momentum points uphill, and a column's V and E go back to W
 * (O'Donoghue and Candes, arXiv:1204.3982, with block gradients); likewise where f has risen
 * between two true residuals, which give f for nothing. Unless `restarts` is false. A pass of few
 * blocks is too short, for the sum's sign is chance: BLOCK_DESCENT_UPHILL_STEPS are taken then. Of
 * a single block, where nothing is drawn, each step counts alone.
 *
 * Rising momentum. No strong convexity is assumed, beta = 1, and the step of age k has
 * alpha / (1 + k alpha / 2) for alpha and (1 + k alpha / 2) kick for kick: with alpha = 1 / S at
 * first that is 2 / (k + 2 S), as of APPROX (Fercoq and Richtarik, arXiv:1312.5799). A column's age
 * is 0 at first, grows by one a step and is halved by a restart, so that it swings about what the
 * problem bears, and a restart by chance costs little (docs/adr/0066).
 *
 * Best. W with the smallest true residual so far is kept for each column. It is handed out in place
 * of the present one where that is known to be worse: after a check, or where its estimate, which
 * errs, is twice as large.
 *
 * Climbs. A caller's 1 / eta may be too small: powering finds it from below. Where infinity or NaN
 * turns up, where a true residual is beyond 1e8 times both its column's best so far and |Y_j|, or
 * beyond 100 times that with f above that of zeros, the columns go back to their best, and steps
 * are half as long from then on, BLOCK_DESCENT_HALVINGS times at most. An estimate beyond 100 times
 * that has the true residual computed.
 *
 * Stops: CONVERGED by the true residual. STAGNATED: BLOCK_DESCENT_STALE_CHECKS true residuals in a
 * row, none of them below 0.9 of its column's best so far, all within 3 times the rounding error of
 * the product, eps |k| sqrt(n) |W_j|, where the best of every column is below |Y_j|. -ERR_DIVERGED
 * where it is not, because the noise of coefficients that grow grows with them. After the last
 * halving: the same two.
 *
 * K_bb is needed for P as well. Where it pays (`splits`) it is evaluated once, for both: G is then
 * the product of K with the n - b other rows, whose part of E is gathered for it, and K_bb E_b.
 *
 * Cost of a step beside the block's product with K: 4 n t numbers read and 2 n t written with
 * momentum, none without; n t numbers gathered where it splits. Memory: 5 n t numbers and 40 b t
 * bytes at most, and 8 n bytes where it splits.
 */
#pragma once

#include "engine/solver.h"

enum {
    BLOCK_DESCENT_STALE_CHECKS = 3,
    BLOCK_DESCENT_HALVINGS = 12,
    BLOCK_DESCENT_UPHILL_STEPS = 10
};

struct block_descent {
    struct problem p;
    double tolerance;
    bool accelerated;
    bool restarts;        /* of the momentum; true unless the caller says otherwise after init */
    double alpha;         /* the caller's constant, the first where it rises; 0 without momentum */
    bool rising;          /* false unless the caller says otherwise after init */
    int64_t pass;         /* steps that touch n rows */
    int64_t check_every;  /* steps */
    int64_t window;       /* steps the running mean looks back */
    int64_t uphill_every; /* steps of a sum of slopes */
    bool splits;          /* the caller is to hand K_bb to the gradient */

    int64_t iteration;
    int64_t since_check;   /* steps since the last true residual */
    int64_t since_restart; /* steps of the present sums of slopes */
    int64_t averaged;      /* steps in the running mean, up to window */
    int stale_checks;
    int64_t halvings;   /* of the step */
    bool checked;       /* there has been a true residual */
    bool spoilt;        /* the block's gradient is not finite */
    bool *frozen;       /* [t] */
    int64_t *ages;      /* [t]: of the momentum, in the next step */
    double kernel_size; /* mean of k(x, x) */
    double eps;         /* of the vectors */

    double *arrays;              /* the owner of those below, each [t] */
    double *norm;                /* |Y_j| */
    double *relative;            /* what steps report */
    double *mean;                /* running mean of weighted |G_j|^2 */
    double *bias;                /* true residual / estimate at the last check */
    double *best;                /* smallest true relative residual */
    double *value;               /* f at the last check, +infinity before */
    double *slope;               /* sum of G_j'(V_j - E_j), not weighted */
    double *dots, *more, *a, *b; /* work */

    int64_t *order; /* [n]: the rows outside the block, then those of the block; where it splits */
    struct mat E, V, W, R; /* n x t; V only with momentum */
    struct mat best_W;     /* n x t: of the residuals `best`; the start before any */
    struct mat G;          /* most x t of the vectors' type */
    struct mat D, Q;       /* most x t float64 */
};

/* kick: of the first step, where momentum rises. */
struct block_step {
    double eta, kick, beta;
};

/* `most` rows of a block at most, n / `pass` on average. residual_every in passes. */
int block_descent_init(struct block_descent *d, const struct problem *p, double tolerance,
                       int64_t most, int64_t pass, int64_t residual_every, bool accelerated,
                       struct err *err);
void block_descent_deinit(struct block_descent *d); /* accepts zeroed, half-built */

/* The block's gradient, b x t in float64; valid until the next call. `chance` is that of each of
 * the rows to be in this block, ascending: one for all (row_chances NULL), or each its own, [b].
 * K_bb: the block's kernel values in the vectors' type or float64, or NULL, if it does not split.
 */
int block_descent_gradient(struct block_descent *d, const int64_t *index, int64_t b, double chance,
                           const double *row_chances, const struct mat *K_bb, struct mat *ret,
                           struct err *err);
/* One step with D, of the gradient's shape; then restarts and true residuals as they fall due.
 * 0, a reason to stop, or a negative error. */
int block_descent_step(struct block_descent *d, const int64_t *index, const struct mat *D,
                       struct block_step step, struct err *err);

bool block_descent_done(const struct block_descent *d);       /* every column is frozen */
double block_descent_residual(const struct block_descent *d); /* largest relative; NaN: unknown */
/* What a user should know of the steps, or NULL. */
const char *block_descent_note(const struct block_descent *d);
/* The iterate, or the best one. */
int block_descent_coef(struct block_descent *d, const struct mat *A, struct err *err);

/* ---- block_descent_momentum.c ---- */

/* d->a and d->b: coefficients for the columns still moving; the others keep what they have. */
void block_descent__set_coefficients(struct block_descent *d, const bool *still, double a,
                                     double b);
/* The step alone. */
int block_descent__move(struct block_descent *d, const int64_t *index, const struct mat *D,
                        struct block_step step, struct err *err);
/* M <- the iterate. */
int block_descent__get_iterate(struct block_descent *d, const struct mat *M, struct err *err);
/* E = V = W for the columns not `still`. */
int block_descent__restart(struct block_descent *d, const bool *still, struct err *err);
/* Restarts the columns whose momentum went uphill since the last time, or, `risen` given, whose f
 * has risen. */
int block_descent__restart_where(struct block_descent *d, const bool *risen, struct err *err);

/* ---- block_descent_check.c ---- */

bool block_descent__check_due(const struct block_descent *d);
/* The true residual, what is kept and what has converged. 0 or a reason to stop. */
int block_descent__check(struct block_descent *d, struct err *err);
/* E = V = best_W for the columns that have not converged, and half the step, or the end. */
int block_descent__step_back(struct block_descent *d, struct err *err);

/* ---- block_descent_state.c ---- */

int block_descent_save(const struct block_descent *d, struct state *to, struct err *err);
/* Numbers that no run can have saved are -ERR_CORRUPT. */
int block_descent_load(struct block_descent *d, const struct state *from, struct err *err);
