/*
 * Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011. Ten rounds of two 32 x 32 -> 64 bit products over a 128-bit counter under a
 * 64-bit key.
 *
 * Counter words: block (low, high), stream (low, high). Key: seed (low, high). A block gives two
 * draws, of words 0, 1 and of words 2, 3 (low word first).
 */
#include "base/rng.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

__extension__ typedef unsigned __int128 u128;

enum { PHILOX_ROUNDS = 10 };
static const uint32_t multipliers[2] = {0xD2511F53, 0xCD9E8D57};
static const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85}; /* golden ratio, sqrt(3) - 1 */

void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)multipliers[0] * c[0];
        const uint64_t p1 = (uint64_t)multipliers[1] * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k[0];
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k[1];
        c[3] = (uint32_t)p0;
        k[0] += weyl[0];
        k[1] += weyl[1];
    }
    for (int i = 0; i < 4; i++) {
        ret[i] = c[i];
    }
}

struct rng rng_new(uint64_t seed, uint64_t stream)
{
    return (struct rng){.seed = seed, .stream = stream, .position = 0};
}

uint64_t rng_u64(struct rng *r)
{
    const uint64_t block = r->position / 2;
    const size_t half = 2 * (r->position % 2);
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)r->stream,
                                 (uint32_t)(r->stream >> 32)};
    const uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};
    uint32_t words[4];
    rng_philox(counter, key, words);
    r->position++;
    return words[half] | (uint64_t)words[half + 1] << 32;
}

double rng_uniform(struct rng *r)
{
    /* The centres of 2^52 equal cells. With 2^53 the last centre would round to 1. */
    return ((double)(rng_u64(r) >> 12) + 0.5) * 0x1p-52;
}

double rng_normal(struct rng *r)
{
    const double two_pi = 6.28318530717958647693;
    const double radius = sqrt(-2.0 * log(rng_uniform(r)));
    return radius * cos(two_pi * rng_uniform(r));
}

/* D. Lemire, "Fast random integer generation in an interval", TOMACS 2019: the high word of
 * draw * n, the few draws thrown away that would favour some results. */
int64_t rng_below(struct rng *r, int64_t n)
{
    if (n < 1) {
        return 0;
    }
    const uint64_t range = (uint64_t)n;
    const uint64_t rejected = -range % range; /* 2^64 mod n */
    u128 product;
    do {
        product = (u128)rng_u64(r) * range;
    } while ((uint64_t)product < rejected);
    return (int64_t)(product >> 64);
}

static void swap(int64_t *a, int64_t i, int64_t j)
{
    const int64_t kept = a[i];
    a[i] = a[j];
    a[j] = kept;
}

void rng_shuffle(struct rng *r, int64_t *a, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        swap(a, i, rng_below(r, i + 1));
    }
}

/* The first k places of a shuffle of 0..n-1. */
static int choose_by_shuffle(struct rng *r, int64_t n, int64_t k, int64_t *ret, struct err *err)
{
    cleanup_mem int64_t *all = mem_array((size_t)n, sizeof(*all));
    if (all == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < n; i++) {
        all[i] = i;
    }
    for (int64_t i = 0; i < k; i++) {
        swap(all, i, i + rng_below(r, n - i));
        ret[i] = all[i];
    }
    return 0;
}

/* Adds v >= 0 to a hash table of 2^bits slots, of which the empty ones are -1; false where v is
 * in it already. Never more than half full. */
static bool add_to_set(int64_t *slots, int bits, int64_t v)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t at = (uint64_t)v * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits);
    while (slots[at] >= 0) {
        if (slots[at] == v) {
            return false;
        }
        at = (at + 1) & mask;
    }
    slots[at] = v;
    return true;
}

/* R. Floyd (Bentley, "Programming pearls", CACM 1987): memory O(k). Its order is not random, so a
 * shuffle follows. */
static int choose_by_floyd(struct rng *r, int64_t n, int64_t k, int64_t *ret, struct err *err)
{
    int bits = 1;
    while ((INT64_C(1) << bits) < 2 * k) {
        bits++;
    }
    const size_t size = (size_t)1 << bits;
    cleanup_mem int64_t *slots = mem_array(size, sizeof(*slots));
    if (slots == NULL) {
        return err_no_memory(err);
    }
    for (size_t i = 0; i < size; i++) {
        slots[i] = -1;
    }
    for (int64_t i = 0; i < k; i++) {
        const int64_t last = n - k + i;
        const int64_t v = rng_below(r, last + 1);
        const bool fresh = add_to_set(slots, bits, v);
        if (!fresh) {
            add_to_set(slots, bits, last);
        }
        ret[i] = fresh ? v : last;
    }
    rng_shuffle(r, ret, k);
    return 0;
}

int rng_choose(struct rng *r, int64_t n, int64_t k, int64_t *ret, struct err *err)
{
    if (k < 0 || k > n) {
        return err_set(err, ERR_INVALID, "Cannot choose %lld of %lld things.", (long long)k,
                       (long long)n);
    }
    return k < n / 8 ? choose_by_floyd(r, n, k, ret, err) : choose_by_shuffle(r, n, k, ret, err);
}
