/*
 * A random order of the rows 0 .. n-1 that takes no memory: place i of it is a pure function of the
 * seed, the tag and i. The first k places are k rows drawn uniformly without replacement, and they
 * are among the first k' > k: nested samples of any size, of any n.
 *
 * A Feistel network over the smallest even number of bits that holds n, with Philox as its round
 * function (M. Luby, C. Rackoff, SIAM J. Comput. 17, 1988); what falls outside 0 .. n-1 goes
 * through it again, less than four times on average for n > 16.
 */
#pragma once

#include <stdint.h>

/* What orders are for. Every use has numbers of its own, by which its orders differ from those of
 * the others of a job, which has one seed (row_order.c). */
enum row_order_use {
    ORDER_DRAW,             /* uniform centers */
    ORDER_SAMPLE,           /* rows that a selection of centers looks at */
    ORDER_NESTED,           /* its nested subsets */
    ORDER_LEVEL,            /* candidates: one order a level of lambda */
    ORDER_KMEANS_PASS,      /* one a pass over the rows */
    ORDER_FIT_SAMPLE,       /* rows that choose what a job leaves open */
    ORDER_HESSIAN,          /* rows of a preconditioner's sketch */
    ORDER_RACE,             /* and of the race for its damping */
    ORDER_STOCHASTIC_EPOCH, /* batches: one an epoch */
    ORDER_EIGENPRO_SPAN,    /* rows of the preconditioner */
    ORDER_EIGENPRO_CENTERS, /* and of its centers */
    ORDER_EIGENPRO_EPOCH,   /* batches: one an epoch */
    ORDER_COUNT_
};

struct row_order_range {
    uint32_t first, count; /* of counters of the generator; 0 is none of them (base/rng.h) */
};
struct row_order_range row_order_range(enum row_order_use use);

struct row_order {
    uint64_t seed;
    uint32_t tag; /* of the range of its use */
    int64_t n;
    int half; /* bits of each half */
};

/* n >= 1, number >= 0: which of the orders of this use; of more than there are, from the first on
 * again. */
struct row_order row_order_new(uint64_t seed, enum row_order_use use, int64_t number, int64_t n);
int64_t row_order_at(const struct row_order *o, int64_t i); /* 0 <= i < n */
