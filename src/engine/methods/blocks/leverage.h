/*
 * Approximate ridge leverage scores of all n training points,
 *
 *     l_i = [K (K + ridge I)^-1]_ii,
 *
 * and draws of distinct points in proportion to them.
 *
 * Paper: Rudi, Calandriello, Carratino, Rosasco, "On fast leverage score sampling and optimal
 * learning", arXiv:1810.13258, estimator (3): with m points J drawn uniformly,
 *
 *     l~_i = (k_ii - K_iJ (K_JJ + ridge (m/n) I)^-1 K_Ji) / ridge,   clamped to (0, 1].
 *
 * Chances are half these scores and half uniform, so that no point is ever left out and a draw of
 * up to half of the points takes few tries. Cost: n m kernel values and n m^2 multiplications,
 * m = ceil(sqrt n), in pieces of LEVERAGE_ROWS m^2 at most, so that a caller can look up between
 * them. Memory: 17 n bytes, and m (m + LEVERAGE_ROWS) numbers while it is made.
 */
#pragma once

#include "base/rng.h"
#include "engine/solver.h"

struct leverage {
    int64_t n;
    double *cumulative; /* [n]: running sums of the chances of one draw; the last is 1 */
    double *included;   /* [n]: chance to be among `draws` distinct points */
    int64_t draws;
    bool *taken;                /* [n]: all false between calls */
    struct leverage_work *work; /* NULL once the scores are there */
};

/* Chooses J; the scores come by leverage_build. *p stays until then. */
int leverage_init(struct leverage *l, const struct problem *p, int64_t draws, struct err *err);
void leverage_deinit(struct leverage *l); /* accepts a zeroed one */

/* One piece: first the factor of the core, then the scores of LEVERAGE_ROWS points a call; the last
 * also makes the chances. Not to be called once leverage_ready. */
int leverage_build(struct leverage *l, struct err *err);
bool leverage_ready(const struct leverage *l);
double leverage_fraction(const struct leverage *l); /* of the pieces done; 1: ready */

/* `draws` distinct points, drawn one after the other in proportion to their chances among those
 * left, ascending. */
void leverage_draw(struct leverage *l, struct rng *rng, int64_t *ret);
