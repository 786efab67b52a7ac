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

struct row_order {
    uint64_t seed;
    uint32_t tag; /* one a purpose within the seed, at least 1 */
    int64_t n;
    int half; /* bits of each half */
};

/* n >= 1. */
struct row_order row_order_new(uint64_t seed, uint32_t tag, int64_t n);
int64_t row_order_at(const struct row_order *o, int64_t i); /* 0 <= i < n */
