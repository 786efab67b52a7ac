/*
 * Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011). A stream is
 * named by (seed, stream); draws are a pure function of (seed, stream, position), so CPU and GPU
 * runs choose the same pivots, blocks and splits, and a checkpoint stores three integers.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* One stream a purpose, so that a new draw in one place does not shift another. */
enum rng_stream {
    RNG_SPLIT = 1,     /* train / test split */
    RNG_BANDWIDTH = 2, /* pairs for the median rule */
    RNG_PRECOND = 3,   /* pivots */
    RNG_SOLVER = 4,    /* blocks, batches */
    RNG_CENTERS = 5,
    RNG_AUTO = 6,    /* subsample of the automatic kernel choice */
    RNG_SEARCH = 7,  /* subsample and folds of a search */
    RNG_CERTIFY = 8, /* rows of a sampled certificate */
    RNG_SKETCH = 9,
    RNG_NEAR = 10,  /* pairs of rows, for how many are near each other */
    RNG_POWER = 11, /* vectors that a solver's vector iterations begin with */
    RNG_TEST = 1000
};

struct rng {
    uint64_t seed;
    uint64_t stream;
    uint64_t position; /* number of 64-bit draws so far */
};

/* One block of the generator: 128 random bits of a 128-bit counter and a 64-bit key. */
void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4]);

struct rng rng_new(uint64_t seed, uint64_t stream);
uint64_t rng_u64(struct rng *r);
double rng_uniform(struct rng *r);           /* in the open interval (0, 1) */
double rng_normal(struct rng *r);            /* standard normal, two draws each (Box-Muller) */
int64_t rng_below(struct rng *r, int64_t n); /* 0 .. n-1 without bias, n >= 1 */
void rng_shuffle(struct rng *r, int64_t *a, int64_t n);
/* k distinct numbers of 0..n-1 in random order (Floyd for small k, partial Fisher-Yates else). */
int rng_choose(struct rng *r, int64_t n, int64_t k, int64_t *ret, struct err *err);
