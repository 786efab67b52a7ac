/* Bandwidths one a feature: learned, or those of features as they are. */
#include "choose_fixture.h"

/* Of one feature alone, and narrow: rows in three dimensions are too far from each other. */
static double wiggly(const double *x)
{
    return sin(5 * x[0]);
}

static void test_bandwidths_are_learned(void **state)
{
    (void)state;
    struct choose_data data = all_open(3);
    data.learns = true;
    struct choice c = choose(N, wiggly, no_noise, data);
    assert_non_null(c.bandwidths);
    assert_true(c.bandwidths[1] > 10 * c.bandwidths[0] && c.bandwidths[2] > 10 * c.bandwidths[0]);
    choice_deinit(&c);
    data.any_kernel = data.any_regularization = false;
    data.kernel = KERNEL_MATERN52;
    data.regularization = 1e-4;
    c = choose(N, wiggly, no_noise, data);
    assert_int_equal(c.kernel, KERNEL_MATERN52);
    assert_non_null(c.bandwidths);
    assert_near(c.ridge, 1e-4 * (N - N / 3), 1e-12);
    choice_deinit(&c);
}

/* In folds where rows are few, and at last of all rows: those are the same whatever the folds. */
static void test_bandwidths_are_learned_of_few_rows(void **state)
{
    (void)state;
    enum { FEW = 120 };
    double X[FEW * D], Y[FEW];
    struct rng rng = rng_new(3, RNG_TEST);
    for (int i = 0; i < FEW; i++) {
        for (int k = 0; k < D; k++) {
            X[i * D + k] = rng_normal(&rng);
        }
        Y[i] = wiggly(X + i * D) + 0.3 * audible(&rng);
    }
    const struct rows rows = {.dtype = DTYPE_F64, .n = FEW, .d = D, .data = X};
    struct choice c[2];
    for (uint64_t seed = 0; seed < 2; seed++) {
        struct choose_data data = all_open(seed);
        data.be = fixture_backend();
        data.X = &rows;
        data.Y = Y;
        data.t = 1;
        data.learns = true;
        data.any_kernel = data.any_regularization = false;
        data.kernel = KERNEL_LAPLACIAN;
        data.regularization = 1e-3;
        assert_int_equal(choose_kernel(&data, &c[seed], NULL), 0);
        backend_close(data.be);
        assert_non_null(c[seed].bandwidths);
        assert_true(c[seed].bandwidths[1] > 4 * c[seed].bandwidths[0]);
        assert_true(c[seed].bandwidths[2] > 4 * c[seed].bandwidths[0]);
    }
    assert_close(c[0].bandwidths[0], c[1].bandwidths[0], 1e-6);
    choice_deinit(&c[0]);
    choice_deinit(&c[1]);
}

/* Along the sum of four features of eight it turns so fast that a wide bandwidth sees noise. */
static void test_learning_begins_narrow_too(void **state)
{
    (void)state;
    enum { FEATURES = 8, FAST = 4 };
    struct choose_data data = all_open(0);
    struct rng rng = rng_new(data.seed, RNG_TEST);
    double *X = mem_array(N * FEATURES, sizeof(double)), *Y = mem_array(N, sizeof(double));
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int k = 0; k < FEATURES; k++) {
            X[i * FEATURES + k] = sqrt(12) * (rng_uniform(&rng) - 0.5);
            sum += k < FAST ? X[i * FEATURES + k] : 0;
        }
        Y[i] = cos(sqrt(3) * sum) + X[i * FEATURES + FAST];
    }
    const struct rows rows = {.dtype = DTYPE_F64, .n = N, .d = FEATURES, .data = X};
    data.be = fixture_backend();
    data.X = &rows;
    data.Y = Y;
    data.t = 1;
    data.learns = true;
    data.any_kernel = false;
    data.kernel = KERNEL_GAUSSIAN;
    struct choice c;
    assert_int_equal(choose_kernel(&data, &c, NULL), 0);
    assert_non_null(c.bandwidths);
    for (int k = 0; k < FEATURES; k++) {
        assert_true(k < FAST ? c.bandwidths[k] < 2 : c.bandwidths[k] > 2);
    }
    choice_deinit(&c);
    backend_close(data.be);
    mem_free(X);
    mem_free(Y);
}

/* A class that none of the rows has: its target is the same number in all of them, and not 0. */
static void test_rare_targets_teach_nothing(void **state)
{
    (void)state;
    struct choose_data data = all_open(3);
    data.learns = true;
    data.any_kernel = false;
    data.kernel = KERNEL_LAPLACIAN;
    struct choice alone = choose(N, wiggly, no_noise, data);
    assert_non_null(alone.bandwidths);
    struct rng rng = rng_new(data.seed, RNG_TEST);
    double *X = mem_array(N * D, sizeof(double)), *Y = mem_array((size_t)N * 5, sizeof(double));
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < D; k++) {
            X[i * D + k] = rng_normal(&rng);
        }
        Y[i] = wiggly(X + i * D);
        for (int j = 1; j < 5; j++) {
            Y[j * N + i] = -0.001;
        }
    }
    const struct rows rows = {.dtype = DTYPE_F64, .n = N, .d = D, .data = X};
    data.be = fixture_backend();
    data.X = &rows;
    data.Y = Y;
    data.t = 5;
    struct choice c;
    assert_int_equal(choose_kernel(&data, &c, NULL), 0);
    assert_non_null(c.bandwidths);
    for (int k = 0; k < D; k++) {
        assert_close(c.bandwidths[k], alone.bandwidths[k], 1e-6);
    }
    choice_deinit(&alone);
    choice_deinit(&c);
    backend_close(data.be);
    mem_free(X);
    mem_free(Y);
}

/* Nothing is learned of noise, of few rows, and where bandwidths are given or searched for. */
static void test_bandwidths_stay_one(void **state)
{
    (void)state;
    struct choose_data data = all_open(3);
    assert_null(choose(N, wiggly, no_noise, data).bandwidths);
    data.learns = true;
    assert_null(choose(N, wiggly, loud, data).bandwidths);
    assert_null(choose(CHOOSE_HELD_OUT - 1, wiggly, no_noise, data).bandwidths);
    data.seed = 0;
    assert_null(choose(150, wiggly, loud, data).bandwidths);
}

/* Of the first feature alone: what the others are does not matter. */
static double first_only(const double *x)
{
    return sin(4 * x[0]);
}

/* Features whose spread says how much they matter are taken as they are, with one bandwidth for
 * all, unless it says nothing, or hardly anything is gained. */
static void test_features_as_they_are(void **state)
{
    (void)state;
    const double told[D] = {20, 0.5, 0.1}, misleading[D] = {0.1, 0.5, 20}, alike[D] = {3, 2, 4};
    struct choose_data data = all_open(0);
    data.scales = told;
    struct choice c = choose(N, first_only, no_noise, data);
    assert_true(c.plain);
    assert_non_null(c.bandwidths);
    for (int j = 1; j < D; j++) {
        assert_close(c.bandwidths[j] * told[j], c.bandwidths[0] * told[0], 1e-12);
    }
    choice_deinit(&c);
    data.scales = misleading;
    c = choose(N, first_only, no_noise, data);
    assert_true(!c.plain && c.bandwidths == NULL);
    data.scales = alike;
    c = choose(N, first_only, no_noise, data);
    assert_true(!c.plain && c.bandwidths == NULL);
    const double beyond[D] = {1e200, 1e-200, 1e-300}, tiny[D] = {1e30, 1e-20, 1e-30};
    data.scales = beyond; /* no median */
    assert_true(!choose(N, first_only, no_noise, data).plain);
    data.scales = tiny; /* no bandwidths */
    assert_true(!choose(N, first_only, no_noise, data).plain);
    data.scales = told;
    c = choose(200, first_only, no_noise, data); /* in folds */
    assert_true(c.plain);
    choice_deinit(&c);
    assert_true(!choose(N, smooth, no_noise, data).plain);
    assert_true(!choose(CHOOSE_HELD_OUT - 1, first_only, no_noise, data).plain);
    data.any_bandwidth = false;
    data.bandwidth = 2;
    assert_true(!choose(N, first_only, no_noise, data).plain);
}

/* On the larger sample their bandwidth is that sample's, and learning goes on from it. */
static void test_features_as_they_are_of_many_rows(void **state)
{
    (void)state;
    const double told[D] = {20, 0.5, 0.1};
    struct choose_data data = all_open(0);
    data.scales = told;
    data.n = LARGE;
    data.any_kernel = false;
    data.kernel = KERNEL_MATERN52;
    struct choice c = choose(LARGE, first_only, audible, data);
    assert_true(c.plain && c.bandwidths != NULL && c.fitted == 1875);
    choice_deinit(&c);
    data.learns = true;
    c = choose(N, wiggly, no_noise, data);
    assert_true(c.bandwidths != NULL && c.bandwidths[2] > 10 * c.bandwidths[0]);
    choice_deinit(&c);
}

TEST_MAIN(cmocka_unit_test(test_bandwidths_are_learned),
          cmocka_unit_test(test_bandwidths_are_learned_of_few_rows),
          cmocka_unit_test(test_learning_begins_narrow_too),
          cmocka_unit_test(test_bandwidths_stay_one),
          cmocka_unit_test(test_rare_targets_teach_nothing),
          cmocka_unit_test(test_features_as_they_are),
          cmocka_unit_test(test_features_as_they_are_of_many_rows))
