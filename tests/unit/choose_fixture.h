/* What is left open, chosen for made rows: for the tests of choose.h and of what it learns. */
#pragma once

#include "engine/choose/choose.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine_fixture.h"
#include "plan/rules.h"

enum { N = 600, D = 3, LARGE = 15000 };

static inline double no_noise(struct rng *rng)
{
    (void)rng;
    return 0;
}

/* What a job leaves open, chosen for n normal rows with the targets f(row) + noise: the code of it,
 * and the kernel values that the fits took. */
static inline int choose_at(int64_t n, double (*f)(const double *), double (*noise)(struct rng *),
                            struct choose_data data, struct choice *ret, int64_t *ret_entries)
{
    struct rng rng = rng_new(data.seed, RNG_TEST);
    cleanup_mem double *X = mem_array((size_t)(n * D), sizeof(double));
    cleanup_mem double *Y = mem_array((size_t)n, sizeof(double));
    assert_true(X != NULL && Y != NULL);
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < D; k++) {
            X[i * D + k] = rng_normal(&rng);
        }
        Y[i] = f(X + i * D) + noise(&rng);
    }
    struct backend *be = fixture_backend();
    const struct rows rows = {.dtype = DTYPE_F64, .n = n, .d = D, .data = X};
    data.be = be;
    data.X = &rows;
    data.Y = Y;
    data.t = 1;
    const int r = choose_kernel(&data, ret, NULL);
    assert_int_equal(be->bytes, 0);
    *ret_entries = be->kernel_entries;
    backend_close(be);
    return r;
}

static inline struct choice choose(int64_t n, double (*f)(const double *),
                                   double (*noise)(struct rng *), struct choose_data data)
{
    struct choice choice;
    int64_t entries;
    assert_int_equal(choose_at(n, f, noise, data, &choice, &entries), 0);
    return choice;
}

static inline struct choose_data all_open(uint64_t seed)
{
    return (struct choose_data){.seed = seed,
                                .any_kernel = true,
                                .points_dtype = DTYPE_F64,
                                .any_bandwidth = true,
                                .any_regularization = true,
                                .regularization = 1e-6,
                                .time_budget_s = INFINITY};
}

static inline double smooth(const double *x)
{
    return sin(x[0]) * cos(x[1]) + x[2];
}

static inline double nothing(const double *x)
{
    (void)x;
    return 0;
}

static inline double audible(struct rng *rng)
{
    return 0.3 * rng_normal(rng);
}

static inline double loud(struct rng *rng)
{
    return 3 * rng_normal(rng);
}
