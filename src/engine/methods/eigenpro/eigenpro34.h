/*
 * EigenPro 3 and EigenPro 4: preconditioned stochastic gradient descent for a restricted problem
 * (normal.h), the function projected onto the span of the m centers after every batch, or after
 * many.
 *
 * Papers: Abedsoltan, Belkin, Pandit, "Toward large kernel models", arXiv:2302.02605 (EigenPro 3);
 * Abedsoltan, Ma, Pandit, Belkin, "Fast training of large kernel models with delayed projections",
 * arXiv:2411.16658 (EigenPro 4).
 *
 * A function f = k(., Z) B has the objective sum_i (f(x_i) - y_i)^2 + ridge |f|^2 in the norm of
 * the kernel. A step on a batch X_b of b rows is
 *
 *     f <- f - (eta / n) P [ (n / b) K(., X_b) g + ridge f ],   g = f(X_b) - Y_b,
 *
 * with P, eta and b of eigenpro_span.h, and leaves the span of the centers by k(., X_b) g. With
 * theta = K_mm^-1 K(Z, X_b) g (center_projection.h) it is back there. EigenPro 3 does so after
 * every batch. EigenPro 4 keeps the batch's rows as temporary centers, whose values later batches
 * have to take into account, for a window of T >= 1 batches with about m rows in all; then, and at
 * the end of an epoch, all that left the span is projected at once. What P adds lies in the span;
 * it is taken along through an inexact projection, since that makes the psi_i smaller too, and what
 * is left of k(., X_b) g would turn around. The moments a = <psi_i, f> are carried along for the
 * ridge; the papers have ridge = 0.
 *
 * Epochs. The rows come in a random order without replacement, another one each epoch, that takes
 * no memory (row_order.h); they are read from the source batch by batch, so that the bits do not
 * depend on what stays in memory. The first `plain_epochs` epochs are as published. Since f is
 * restricted, g does not vanish at the solution, and with steps of a fixed size the noise of the
 * batches stays: the published iteration ends in a ball around the solution. Therefore every later
 * epoch begins with a pass that gives the full gradient G at its start B0 and solves for the change
 * delta = f - k(., Z) B0:
 *
 *     delta <- delta - (eta / 2n) P [ (n / b) K(., X_b) delta(X_b) + ridge delta
 *                                     + k(., Z) K_mm^-1 G ],
 *
 * unbiased, with noise that vanishes with delta (Johnson, Zhang, "Accelerating stochastic gradient
 * descent using predictive variance reduction", NIPS 2013), at no product more than before. What an
 * epoch proposes is taken as a direction (conjugate.h): the energy never grows, and slow directions
 * are found as by conjugate gradients. With ridge = 0 every change lies in the span of the
 * projected k(., x_i), so that the limit is the least-squares solution of least norm.
 *
 * An iteration is an epoch with its pass. Cost: n m kernel values and 2 n m t multiplications twice
 * (prediction and gradient), the same once more for the pass, a projection a window, and for
 * EigenPro 4 n m / 2 kernel values more at temporary centers. Memory: (11 + 2 CONJUGATE_KEPT) m t
 * numbers, a batch of 2 b t, U, the projection's, a window of rows.
 *
 * The relative residual is of the last pass; NaN before the first. Between plain epochs there is
 * one every `residual_every` of them, for the residual alone. The coefficients handed out are those
 * of the last pass as well, during plain epochs those of the last projection. CONVERGED is
 * said of a gradient computed afresh. Guards: an epoch whose residuals exceed in squares eight
 * times those of f = 0 is begun again with half the step, -ERR_DIVERGED after EIGENPRO34_HALVINGS
 * times; a pass that finds the gradient grown tenfold halves the step as well, and keeps the best
 * multiple of the epoch's change. STAGNATED after 20 passes without a smaller residual in any
 * column.
 */
#pragma once

#include "engine/methods/eigenpro/center_projection.h"
#include "engine/methods/eigenpro/conjugate.h"
#include "engine/methods/eigenpro/eigenpro_span.h"
#include "engine/normal.h"
#include "engine/rowset.h"

enum eigenpro34_stage {
    EP_RIGHT_HAND_SIDE, /* pass at 0 */
    EP_START,           /* pass at the coefficients to begin with */
    EP_DRIFT,           /* projection of the gradient, before an epoch */
    EP_BATCHES,
    EP_PROJECTION, /* of what left the span */
    EP_CHECK,      /* pass after an epoch */
    EP_VERIFY,     /* pass before CONVERGED */
    EP_LOOK,       /* pass between two plain epochs, which changes nothing of them */
    EP_STAGES
};

/* What moves, all of it in a saved state. */
struct eigenpro34_counters {
    int64_t stage;
    int64_t epoch;  /* epochs completed */
    int64_t draws;  /* orders of the rows used up, that of this epoch not counted */
    int64_t next;   /* rows of the epoch done */
    int64_t window; /* the first row of the window */
    int64_t tile;   /* of the pass under way */
    int64_t halvings;
    int64_t stale;       /* passes without progress */
    int64_t checked;     /* there was a pass: G is the gradient at B */
    int64_t given;       /* B are somebody's coefficients */
    int64_t ended;       /* a positive reason, or 0 */
    int64_t exact;       /* projection */
    int64_t rank, batch; /* q and b, in a saved state */
};
enum { EIGENPRO34_COUNTERS = 14, EIGENPRO34_REALS = 5, EIGENPRO34_HALVINGS = 40 };
_Static_assert(sizeof(struct eigenpro34_counters) == EIGENPRO34_COUNTERS * sizeof(int64_t),
               "saved as an array");

struct solver {
    struct problem p;
    int64_t m, t;
    double tolerance;
    bool delayed; /* EigenPro 4 */
    int64_t plain_epochs;
    int64_t residual_every;           /* plain epochs */
    int64_t batch_wanted, batch_most; /* 0: auto; of memory */
    double rate_wanted;               /* 0: auto */
    int64_t s, c;                     /* rows and centers of the preconditioner */
    int64_t q_wanted;                 /* negative: auto */
    double alpha;
    struct center_projection_spec projecting;
    bool built;
    bool loaded;     /* from a saved state */
    double fraction; /* of the building */
    struct eigenpro34_counters at;
    struct normal_pass pass;
    struct center_projection *projection;
    struct eigenpro_span *span;
    struct conjugate *outer;
    int64_t *centers; /* [c] those of the preconditioner; NULL: all */
    int64_t batch;
    int64_t window_rows; /* T b; batch for EigenPro 3 */
    bool projecting_now; /* the projection of this stage has begun */
    bool window_read;    /* `tile` holds the window's rows */
    int64_t *rows;       /* [window_rows] */
    struct row_tile tile;
    double *arrays;   /* [EIGENPRO34_REALS + 4, t], the owner of those below; REALS are saved */
    double *sum;      /* |g|^2 of this epoch */
    double *seen;     /* |Y_b|^2 of this epoch */
    double *norm;     /* |K_nm' Y| */
    double *relative; /* residual */
    double *best;     /* the least so far */
    double *total;    /* |Y|^2, of a whole epoch; 0 before there was one. Saved, too */
    double *one, *work, *dots;
    struct mat B, G;   /* where the last pass was, and its gradient; 0 before there was one */
    struct mat D;      /* delta in the span, f in plain epochs */
    struct mat Q;      /* values at Z of what left the span, not yet projected */
    struct mat drift;  /* P of the gradient's function: K_mm^-1 G - U (c U' G) */
    struct mat V, HD;  /* of a pass: where, and its sum; V before the first: f, last projected */
    struct mat h;      /* K(Z, X_b) g */
    struct mat hs, us; /* c x t: at the preconditioner's centers; hs only where they are a part */
    struct mat av;     /* q x 2t, the owner of a and v */
    struct mat a;      /* q x t, the moments of delta */
    struct mat v;      /* q x t, what P added to D since the last projection */
    struct mat u, ug;  /* q x t: <psi, step>, (1 - c) U' G */
    struct mat w;      /* window_rows x t, of the temporary centers */
    struct mat held_av, held_w; /* from a saved state, until q and b are known */
    struct mat g, gf;           /* b x t; gf only where rows are far */
    int64_t *far;               /* [b] places of a batch's far rows */
    double *less;               /* [b] their shares less 1 */
};

/* Whether this epoch is as published. */
static inline bool eigenpro34__plain(const struct solver *s)
{
    return s->at.epoch < s->plain_epochs && !s->at.checked;
}

static inline void eigenpro34__fill(double *a, double value, int64_t t)
{
    for (int64_t j = 0; j < t; j++) {
        a[j] = value;
    }
}

/* X <- 0. */
int eigenpro34__clear(struct solver *s, const struct mat *X, struct err *err);
/* delta <- 0, nothing outside of the span, the first row. */
int eigenpro34__begin_epoch(struct solver *s, struct err *err);

/* A piece of the pass under way, and what follows when it was the last one: a stage, or a positive
 * reason. */
int eigenpro34__advance_pass(struct solver *s, struct err *err);

int eigenpro34__save(const struct solver *s, struct state *to, struct err *err);
int eigenpro34__load(struct solver *s, const struct state *from, struct err *err);

/* The next batch: *ret_grown where its residuals are beyond what is allowed, and no step was made.
 */
int eigenpro34__batch(struct solver *s, bool *ret_grown, struct err *err);

/* H += factor K(Z, Z_c) U u: values at the centers. */
int eigenpro34__add_values(struct solver *s, const struct mat *u, double factor,
                           const struct mat *H, struct err *err);
/* F += factor U u, coefficients of all centers. */
int eigenpro34__add_functions(struct solver *s, double factor, const struct mat *u,
                              const struct mat *F, struct err *err);
/* a <- U' K(Z_c, Z) D. */
int eigenpro34__refresh_moments(struct solver *s, struct err *err);

/* u <- U' h. */
int eigenpro34__moments(struct solver *s, const struct mat *h, const struct mat *u,
                        struct err *err);

/* A window is full, or the epoch at its end. */
static inline bool eigenpro34__window_ends(const struct solver *s)
{
    return s->at.next == s->p.n || s->at.next - s->at.window >= s->window_rows;
}
