/*
 * What gaussian processes of finite rank (posterior.h) on centers Z take from the rows, by one
 * pass: with S (m x p), S'K_mm S = I, R = K_nm S, Q = R R' the kernel matrix that S shows, and L_i
 * = k(x_i, x_i) - Q_ii what it does not show of row i, by the parameter `approximation`
 *
 *   dtc    f(X) has covariance Q (subset of regressors; deterministic training conditional)
 *   fitc   the same, and each row has the noise ridge + L_i: rows weigh w_i = ridge / (ridge + L_i)
 *   vfe    dtc with Titsias's bound as its evidence, which pays trace(L) / (2 ridge)
 *
 * and in all of them the mean is k(x, Z) S a,    a = (R'WR + ridge I)^-1 R'W Y.
 *
 * S = L^-T, K_mm = L L', makes them those of the centers (solver_inducing.c); search directions
 * among the centers are a part of these (solver_kmcg_restricted.c).
 *
 * Papers: Quinonero-Candela, Rasmussen, "A unifying view of sparse approximate gaussian process
 * regression", JMLR 6 (2005); Titsias, "Variational learning of inducing variables in sparse
 * gaussian processes", AISTATS 2009.
 *
 * Everything is in float64. Cost: n p^2 / 2 multiplications and p^3 / 3, beside those that R takes.
 * Memory: 2 p^2 float64 numbers, 8 bytes a row for weights, INDUCING_BLOCK_BYTES for rows.
 */
#pragma once

#include "engine/posterior.h"
#include "engine/rowset.h"
#include "engine/solver.h"
#include "engine/state.h"

#define INDUCING_BLOCK_BYTES (INT64_C(32) << 20)
#define INDUCING_BLOCK_ROWS 65536

struct inducing_sums {
    struct problem p;
    double amplitude; /* of the job; NaN: the likeliest */
    bool fitc, vfe;
    int64_t rank;            /* p */
    int64_t tile, row, done; /* the next row of the next tile, and how many are done */
    bool solved;
    struct mat G, A;    /* p x p: R'WR; A A' = G + ridge I once solved */
    struct mat c, a;    /* p x t: R'WY, the solution of A */
    struct mat R, Y, d; /* rows at a time: R, the targets, L_i */
    double *left;       /* of those rows */
    double *weights;    /* [n] with fitc, else NULL */
    double *targets;    /* [t]: Y'W Y */
    double *scratch;    /* [t] */
    double log_weights, trace;
};

/* No rows yet, for R of `rank` >= 1 columns; `params` has `approximation` and `amplitude`. After a
 * failure: inducing_deinit. -ERR_INVALID at "#/regularization" where the ridge is not positive. */
int inducing_init(struct inducing_sums *s, const struct problem *p, const struct param_set *params,
                  int64_t rank, struct err *err);
void inducing_deinit(struct inducing_sums *s); /* accepts a zeroed one */

/* Whose R it is. */
struct inducing_rows {
    /* R (rows x rank, float64) <- K_nm S of these rows. */
    int (*make)(void *context, struct view rows, const struct mat *R, struct err *err);
    void *context;
    double work; /* multiplications a row */
};
/* So many rows more as are about a second's work of one core. */
int inducing_add(struct inducing_sums *s, const struct inducing_rows *rows, struct err *err);
static inline bool inducing_added(const struct inducing_sums *s) /* all rows */
{
    return s->done == s->p.n;
}

/* Of all rows: a. -ERR_NOT_POSITIVE_DEFINITE at "#/regularization": rounding exceeds the noise. */
int inducing_solve(struct inducing_sums *s, struct err *err);
const double *inducing_weights(const struct inducing_sums *s); /* [n]; NULL: ones */
/* Once solved. */
int inducing_posterior(struct inducing_sums *s, const struct mat *S, struct posterior *ret,
                       struct err *err);

/* inducing_state.c: the sums so far, as solver_ops; into what was made for the same problem. */
int inducing_save(const struct inducing_sums *s, struct state *to, struct err *err);
int inducing_load(struct inducing_sums *s, const struct state *from, struct err *err);
/* -ERR_CORRUPT: a checkpoint's places are out of range. */
int inducing_bad_place(struct err *err);
