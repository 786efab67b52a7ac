#include "engine/choose.h"

#include <math.h>

#include "base/rng.h"
#include "engine_fixture.h"

enum { N = 600, D = 3 };

static double no_noise(struct rng *rng)
{
    (void)rng;
    return 0;
}

/* What a job leaves open, chosen for n normal rows with the targets f(row) + noise. */
static struct choice choose(int64_t n, double (*f)(const double *), double (*noise)(struct rng *),
                            struct choose_data data)
{
    struct rng rng = rng_new(data.seed, RNG_TEST);
    double X[N * D], Y[N];
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
    data.points_dtype = DTYPE_F64;
    struct choice choice;
    assert_int_equal(choose_kernel(&data, &choice, NULL), 0);
    assert_int_equal(be->bytes, 0);
    backend_close(be);
    return choice;
}

static struct choose_data all_open(uint64_t seed)
{
    return (struct choose_data){.seed = seed,
                                .any_kernel = true,
                                .any_bandwidth = true,
                                .any_regularization = true,
                                .regularization = 1e-6};
}

static double smooth(const double *x)
{
    return sin(x[0]) * cos(x[1]) + x[2];
}

static double plane(const double *x)
{
    return x[0] - 0.5 * x[1];
}

/* A step and a kink: what an analytic kernel fits badly. */
static double rough(const double *x)
{
    return fabs(sin(3 * x[0])) + (x[1] > 0.3 ? 1.0 : 0.0);
}

/* Of each feature by itself. */
static double additive(const double *x)
{
    double sum = 0;
    for (int k = 0; k < D; k++) {
        sum += sin((k + 1) * x[k]);
    }
    return sum;
}

static double loud(struct rng *rng)
{
    return 3 * rng_normal(rng);
}

static void test_kernel_follows_smoothness(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct choose_data data = all_open(seed);
        assert_int_equal(choose(N, smooth, no_noise, data).kernel, KERNEL_GAUSSIAN);
        assert_int_equal(choose(N, rough, no_noise, data).kernel, KERNEL_LAPLACIAN_L1);
        assert_int_equal(choose(N, additive, no_noise, data).kernel, KERNEL_LAPLACIAN_L1);
    }
}

static double rough_and_tiny(const double *x)
{
    return ldexp(rough(x), -560);
}

static double rough_and_huge(const double *x)
{
    return ldexp(rough(x), 520);
}

/* Squares of such errors are 0, or infinite. */
static void test_targets_of_all_sizes(void **state)
{
    (void)state;
    const struct choose_data data = all_open(0);
    const enum kernel_id rough_kernel = choose(N, rough, no_noise, data).kernel;
    assert_int_not_equal(rough_kernel, KERNEL_GAUSSIAN);
    assert_int_equal(choose(N, rough_and_tiny, no_noise, data).kernel, rough_kernel);
    assert_int_equal(choose(N, rough_and_huge, no_noise, data).kernel, rough_kernel);
}

/* Without noise the ridge is the least there is; with noise as large as this it is far above. */
static void test_ridge_follows_noise(void **state)
{
    (void)state;
    const double least = 1e-6 * (N - N / 3);
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct choose_data data = all_open(seed);
        data.any_kernel = data.any_bandwidth = false;
        data.kernel = KERNEL_GAUSSIAN;
        assert_near(choose(N, smooth, no_noise, data).ridge, least, 1e-12);
        assert_true(choose(N, smooth, loud, data).ridge > 100 * least);
    }
}

static void test_bandwidth_follows_variation(void **state)
{
    (void)state;
    struct choose_data data = all_open(1);
    data.any_kernel = false;
    data.kernel = KERNEL_GAUSSIAN;
    assert_near(choose(N, plane, no_noise, data).medians, 4, 0);
    assert_near(choose(N, rough, no_noise, data).medians, 1, 0);
    data.any_bandwidth = false;
    assert_near(choose(N, plane, no_noise, data).medians, 1, 0);
}

/* What is given stays: a kernel, and the one regularization, at least 1e-8. */
static void test_what_is_given_stays(void **state)
{
    (void)state;
    struct choose_data data = all_open(2);
    data.any_kernel = data.any_regularization = false;
    data.kernel = KERNEL_MATERN32;
    data.regularization = 1e-3;
    struct choice c = choose(N, additive, loud, data);
    assert_int_equal(c.kernel, KERNEL_MATERN32);
    assert_near(c.ridge, 1e-3 * (N - N / 3), 1e-12);
    data.regularization = 0;
    c = choose(N, additive, loud, data);
    assert_near(c.ridge, 1e-8 * (N - N / 3), 1e-16);
}

static void test_few_rows_take_the_first(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 20; n += 18) {
        const struct choice c = choose(n, rough, loud, all_open(0));
        assert_int_equal(c.kernel, KERNEL_GAUSSIAN);
        assert_near(c.medians, 1, 0);
        assert_near(c.ridge, 0, 0);
    }
}

TEST_MAIN(cmocka_unit_test(test_kernel_follows_smoothness),
          cmocka_unit_test(test_ridge_follows_noise),
          cmocka_unit_test(test_bandwidth_follows_variation),
          cmocka_unit_test(test_what_is_given_stays), cmocka_unit_test(test_targets_of_all_sizes),
          cmocka_unit_test(test_few_rows_take_the_first))
