#include "engine/methods/precond_rank.h"

#include <math.h>

#include "engine/memory.h"

static const double build_products = 100.0;

/* One kernel value. */
static double entry(const struct problem *p)
{
    return (double)p->d + 10.0;
}

static double product(const struct problem *p)
{
    const double n = (double)p->n;
    return n * n * (entry(p) + 4.0 * (double)p->t) / 2.0;
}

static double build(const struct problem *p, enum rank_source source, double k)
{
    const double n = (double)p->n;
    return source == RANK_COLUMNS ? 2.0 * n * k * k + n * k * entry(p)
                                  : 2.0 * n * n * k + 6.0 * n * k * k + n * n * entry(p);
}

static bool affordable(const struct problem *p, enum rank_source source, int64_t k)
{
    const double once = product(p);
    const double apply = 4.0 * (double)p->n * (double)k * (double)p->t;
    return build(p, source, (double)k) <= build_products * once && apply <= once;
}

static int64_t fit_into_memory(const struct problem *p, enum rank_source source, int64_t k)
{
    const int64_t room = memory_available_on(p->be) / 3, columns = source == RANK_SKETCH ? 2 : 1;
    while (k > 1 && memory_matrix_bytes(p->n, columns * k, p->dtype) > room) {
        k /= 2;
    }
    return k;
}

/* The largest rank up to `most` that is affordable; both costs grow with the rank. */
static int64_t reduce_to_cost(const struct problem *p, enum rank_source source, int64_t most)
{
    int64_t low = 1, high = most + 1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (affordable(p, source, middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t precond_rank_choose(const struct problem *p, enum rank_source source,
                            const struct param_value *rank)
{
    const double wish = rank->is_auto ? ceil(10.0 * sqrt((double)p->n)) : rank->real;
    const int64_t most = wish < (double)p->n ? (int64_t)wish : p->n;
    return rank->is_auto ? fit_into_memory(p, source, reduce_to_cost(p, source, most)) : most;
}
