/*
 * The top of the eigen-system of a subsample's kernel matrix K_S = K(S,S), s rows: what every
 * EigenPro method makes its preconditioner from. Built in steps, so that it can be cancelled.
 *
 * Up to EIGENPRO_DENSE_ROWS rows, and wherever more than half of all eigenvectors are wanted, K_S
 * is formed in float64 and decomposed (one step; s^2 numbers, three times that inside). Beyond, K_S
 * is never formed: subspace iteration on a Gaussian start Omega of l = count + EIGENPRO_OVERSAMPLE
 * columns (Halko, Martinsson, Tropp, "Finding structure with randomness", SIAM Review 2011,
 * Algorithms 4.4 and 5.3),
 *     Q = orth(K_S Omega);   EIGENPRO_POWERS times: Q = orth(K_S Q);   Q' K_S Q = U Theta U';
 *     V = Q U,
 * in float64 with a fixed seed: (EIGENPRO_POWERS + 2) s^2 l multiplications, 2 s l numbers, a step
 * a product with EIGENPRO_COLUMNS columns. orth is by the eigenvectors of the Gram matrix, twice;
 * directions below its rounding error are dropped, so fewer pairs than asked for may come out.
 *
 * The pairs are Ritz pairs in both cases: V'V = I and V' K_S V = diag(values) hold to rounding,
 * which is what keeps a preconditioner made of them positive definite.
 */
#pragma once

#include "base/rng.h"
#include "engine/backend.h"

enum {
    EIGENPRO_DENSE_ROWS = 2500,
    EIGENPRO_OVERSAMPLE = 10,
    EIGENPRO_POWERS = 2,
    EIGENPRO_COLUMNS = 64
};

struct eigenpro_top;

/* Of the rows index[0 .. s-1] of X, which must outlive the object; 1 <= count <= s. `rng` is the
 * source of Omega. -ERR_NO_MEMORY before anything large is allocated where it cannot fit. */
int eigenpro_top_new(struct backend *be, const struct points *X, const int64_t *index, int64_t s,
                     int64_t count, struct rng rng, struct eigenpro_top **ret, struct err *err);
struct eigenpro_top *eigenpro_top_free(struct eigenpro_top *e); /* NULL is fine */

/* 1: complete. 0: call again. Negative: -ERR_*. *ret_fraction is 0..1. */
int eigenpro_top_step(struct eigenpro_top *e, double *ret_fraction, struct err *err);

/* When complete: how many pairs, their values in descending order, their vectors (s x count,
 * float64, one a column), and the least of all eigenvalues that were seen. Owned by the object. */
int64_t eigenpro_top_count(const struct eigenpro_top *e);
const double *eigenpro_top_values(const struct eigenpro_top *e);
struct mat eigenpro_top_vectors(const struct eigenpro_top *e);
double eigenpro_top_least(const struct eigenpro_top *e);
