/*
 * Seeds for k-means, by the law of k-means++ (D. Arthur, S. Vassilvitskii, SODA 2007): each is a
 * row of a sample, drawn in proportion to D^2, its squared distance to the nearest seed so far.
 *
 * They are drawn in rounds, with exactly that law: b candidates in proportion to D^2 at the round's
 * start, each of which becomes a seed with probability D^2 now / D^2 then, for the seeds that the
 * round has chosen before it. A round costs one block of distances to its seeds, at the speed of a
 * matrix product. (The same trick makes randomly pivoted Cholesky fast: arXiv:2410.03969.)
 *
 * Cost: N m d multiplications for m seeds out of N rows. Memory: the sample, and 24 N bytes.
 */
#pragma once

#include "base/rng.h"
#include "engine/methods/centers/nearest.h"

enum { SEED_BLOCK = 256 };

struct kmeans_seed {
    struct nearest *nearest;
    struct rng rng;
    int64_t n;                       /* rows of the sample */
    struct points *P;                /* the sample */
    double *norms, *distance, *sums; /* [n] */
    int64_t *chosen;                 /* [wanted]: positions in the sample */
    int64_t wanted, count;
    double *start, *some_norms; /* [SEED_BLOCK] */
    int64_t *candidates;        /* [SEED_BLOCK] */
    double *between;            /* [SEED_BLOCK^2]: inner products of the candidates */
    int64_t fresh;              /* seeds whose distances are not in `distance` yet: the last ones */
    int64_t updated;            /* rows of the sample that have seen these */
};

/* X [n, d] of the type that `nearest` works in; it may go afterwards. */
int kmeans_seed_init(struct kmeans_seed *s, struct nearest *nearest, const void *X, int64_t n,
                     int64_t wanted, uint64_t seed, struct err *err);
void kmeans_seed_deinit(struct kmeans_seed *s); /* accepts a zeroed one */

/* 1: all chosen, or no row is apart from the seeds. 0: call again. */
int kmeans_seed_step(struct kmeans_seed *s, struct err *err);
