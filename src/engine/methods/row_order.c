#include "engine/methods/row_order.h"

#include "base/rng.h"

/* Fewer bits than 2 * HALF_MIN would make some orders likelier than others. */
enum { ROUNDS = 6, HALF_MIN = 3 };

/* What a number is for is never changed: the rows that a job draws would be others. */
static const struct row_order_range ranges[ORDER_COUNT_] = {
    [ORDER_DRAW] = {1, 1},
    [ORDER_SAMPLE] = {2, 1},
    [ORDER_NESTED] = {3, 1},
    [ORDER_LEVEL] = {4, 996},
    [ORDER_FIT_SAMPLE] = {1000, 1},
    [ORDER_HESSIAN] = {2000, 1},
    [ORDER_RACE] = {2001, 1},
    [ORDER_KMEANS_PASS] = {1 << 12, (1 << 19) - (1 << 12)},
    [ORDER_EIGENPRO_SPAN] = {1 << 19, 1},
    [ORDER_EIGENPRO_CENTERS] = {(1 << 19) + 1, 1},
    [ORDER_EIGENPRO_EPOCH] = {1 << 20, (1 << 30) - (1 << 20)},
    [ORDER_STOCHASTIC_EPOCH] = {1 << 30, 1 << 30},
};

struct row_order_range row_order_range(enum row_order_use use)
{
    return ranges[use];
}

struct row_order row_order_new(uint64_t seed, enum row_order_use use, int64_t number, int64_t n)
{
    const uint32_t tag = ranges[use].first + (uint32_t)(number % (int64_t)ranges[use].count);
    struct row_order o = {.seed = seed, .tag = tag, .n = n, .half = HALF_MIN};
    while (o.half < 31 && (INT64_C(1) << (2 * o.half)) < n) {
        o.half++;
    }
    return o;
}

static uint32_t round_function(const struct row_order *o, uint32_t value, uint32_t round)
{
    const uint32_t counter[4] = {value, round, RNG_CENTERS, o->tag};
    const uint32_t key[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)};
    uint32_t words[4];
    rng_philox(counter, key, words);
    return words[0] & ((UINT32_C(1) << o->half) - 1);
}

static int64_t permute(const struct row_order *o, int64_t i)
{
    uint32_t left = (uint32_t)(i >> o->half);
    uint32_t right = (uint32_t)i & ((UINT32_C(1) << o->half) - 1);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t next = left ^ round_function(o, right, round);
        left = right;
        right = next;
    }
    return ((int64_t)left << o->half) | (int64_t)right;
}

int64_t row_order_at(const struct row_order *o, int64_t i)
{
    do {
        i = permute(o, i);
    } while (i >= o->n);
    return i;
}
