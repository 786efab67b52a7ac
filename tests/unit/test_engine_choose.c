#include "choose_fixture.h"
#include "engine/choose/choose_parts.h"

/* Kernel values of a choice of the kernel alone, on LARGE rows. */
enum { FIRST = RULE_KERNELS * 1000 * 5000, SECOND = RULE_KERNELS * 1875 * LARGE };

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

static double kinked(const double *x)
{
    return fabs(x[0] + x[1] + x[2]);
}

static double as_loud(struct rng *rng)
{
    return rng_normal(rng);
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
        assert_true(choose(N, smooth, no_noise, data).ridge <= least / 30);
        assert_true(choose(N, smooth, loud, data).ridge > 100 * least);
        data.points_dtype = DTYPE_F32; /* whose rounding is more */
        assert_near(choose(N, smooth, no_noise, data).ridge, least, 1e-12);
    }
}

static void test_bandwidth_follows_variation(void **state)
{
    (void)state;
    struct choose_data data = all_open(1);
    data.any_kernel = false;
    data.kernel = KERNEL_GAUSSIAN;
    assert_true(choose(N, plane, no_noise, data).medians >= 4);
    assert_true(choose(N, rough, no_noise, data).medians <= 1);
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

static void test_one_row_takes_the_first(void **state)
{
    (void)state;
    const struct choice c = choose(1, rough, loud, all_open(0));
    assert_int_equal(c.kernel, KERNEL_GAUSSIAN);
    assert_near(c.medians, 1, 0);
    assert_near(c.ridge, 0, 0);
}

/* Each row left out: noise wants a large ridge, a plane a wide gaussian. */
static void test_few_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct choice c = choose(19, plane, no_noise, all_open(seed));
        assert_int_equal(c.kernel, KERNEL_GAUSSIAN);
        assert_true(c.medians >= 4 && c.ridge < 19 * 1e-6);
        c = choose(90, plane, loud, all_open(seed));
        assert_true(c.ridge >= 90 * 1e-4);
        assert_int_equal(choose(CHOOSE_HELD_OUT - 1, rough, no_noise, all_open(seed)).kernel,
                         KERNEL_LAPLACIAN_L1);
    }
    for (int64_t n = 2; n < CHOOSE_HELD_OUT; n += 7) {
        const struct choice c = choose(n, smooth, audible, all_open(7));
        assert_true(c.ridge > 0 && isfinite(c.ridge) && c.fits > 0);
        assert_near(fmod(log2(c.medians), 2), 0, 0); /* no finer steps */
    }
}

/* The kernel alone is open: a fit of each, and three again. */
static struct choose_data open_kernel(uint64_t seed, int64_t n)
{
    struct choose_data data = all_open(seed);
    data.any_bandwidth = data.any_regularization = false;
    data.regularization = 1e-3;
    data.n = n;
    return data;
}

/* Each kernel with each bandwidth, and what lies beyond the best: one bandwidth, or, where that is
 * better, two. Plans have one of them (test_plan_plan.c, test_fits_of_a_choice). In the end there
 * are one or two finer steps, and what they are compared with. */
static void test_a_bandwidth_beyond(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct choose_data data = open_kernel(seed, 0);
        data.any_bandwidth = true;
        int fits = choose(N, rough, audible, data).fits;
        assert_true(fits > RULE_KERNELS * RULE_BANDWIDTHS + RULE_BEYOND);
        assert_true(fits <= RULE_KERNELS * RULE_BANDWIDTHS + RULE_BEYOND + 2 + RULE_FINER);
        data.any_kernel = false;
        data.kernel = KERNEL_LAPLACIAN;
        fits = choose(N, rough, audible, data).fits;
        assert_true(fits > RULE_BANDWIDTHS + RULE_BEYOND);
        assert_true(fits <= RULE_BANDWIDTHS + RULE_BEYOND + 1 + RULE_FINER);
    }
}

/* Of targets with noise the best ridge may lie between two that are thirty times apart: half of the
 * way is tried too, and taken where it is better than either. */
static void test_finer_ridges(void **state)
{
    (void)state;
    enum { ROWS = 250, FITTED = 200 }; /* each is held out once, and no other judges */
    int between = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct choose_data data = all_open(seed);
        data.any_kernel = data.any_bandwidth = false;
        data.kernel = KERNEL_GAUSSIAN;
        const struct choice open = choose(ROWS, smooth, audible, data);
        const double steps = log(open.ridge / (1e-6 * FITTED)) / log(30);
        if (fabs(steps - floor(steps) - 0.5) > 0.1) {
            continue;
        }
        between++;
        data.any_regularization = false;
        for (int way = -1; way <= 1; way += 2) {
            data.regularization = open.regularization * pow(5.477, way);
            const struct choice beside = choose(ROWS, smooth, audible, data);
            assert_true(open.errors[KERNEL_GAUSSIAN] < beside.errors[KERNEL_GAUSSIAN]);
        }
    }
    assert_true(between > 0);
}

/* Of a gaussian of bandwidth 1 on rows of one feature: f(x[skip]) of a model of the others, by
 * elimination. */
static double predicted(const double *x, const double *y, int n, double ridge, int skip)
{
    double G[20][21];
    int from[20], m = 0;
    for (int i = 0; i < n; i++) {
        from[m] = i;
        m += i != skip;
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < m; j++) {
            const double e = x[from[i]] - x[from[j]];
            G[i][j] = exp(-e * e / 2) + (i == j ? ridge : 0);
        }
        G[i][m] = y[from[i]];
    }
    for (int k = 0; k < m; k++) {
        for (int i = 0; i < m; i++) {
            const double by = i == k ? 0 : G[i][k] / G[k][k];
            for (int j = 0; j <= m; j++) {
                G[i][j] -= by * G[k][j];
            }
        }
    }
    double sum = 0;
    for (int i = 0; i < m; i++) {
        const double e = x[from[i]] - x[skip];
        sum += exp(-e * e / 2) * G[i][m] / G[i][i];
    }
    return sum;
}

/* Where fewer rows are held out than are fitted, these judge finer steps too, each left out. */
static void test_fitted_rows_judge(void **state)
{
    (void)state;
    enum { ROWS = 20, FITTED = 15 };
    double x[ROWS], Y[ROWS];
    struct rng rng = rng_new(1, RNG_TEST);
    for (int i = 0; i < ROWS; i++) {
        x[i] = rng_normal(&rng);
        Y[i] = sin(2 * x[i]) + 0.1 * rng_normal(&rng);
    }
    struct backend *be = fixture_backend();
    const struct rows X = {.dtype = DTYPE_F64, .n = ROWS, .d = 1, .data = x};
    struct choose_data data = all_open(0);
    data.be = be, data.X = &X, data.Y = Y, data.t = 1;
    struct sample s = {.data = &data, .fit = FITTED, .held = ROWS - FITTED, .folds = 1};
    const struct kernel k = {.id = KERNEL_GAUSSIAN, .d = 1, .bandwidth = 1.0, .gamma = 1.0};
    double held, fitted, sum = 0;
    assert_int_equal(choose__draw(&s, NULL), 0);
    assert_true(choose__all_judge(&s));
    assert_int_equal(choose__try_ridge(&s, &k, false, 0.05, &held, &fitted, NULL), 0);
    for (int i = 0; i < FITTED; i++) {
        sum += pow(s.Y[i] - predicted(s.points, s.Y, FITTED, 0.05, i), 2);
    }
    assert_near(fitted, sum, 1e-9);
    s.held = FITTED;
    assert_false(choose__all_judge(&s));
    choose__sample_deinit(&s);
    assert_int_equal(be->bytes, 0);
    backend_close(be);
}

/* Likewise of bandwidths, which are tried four times apart. */
static void test_finer_bandwidths(void **state)
{
    (void)state;
    int between = 0;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct choose_data data = all_open(seed);
        data.any_kernel = false;
        data.kernel = KERNEL_GAUSSIAN;
        const struct choice open = choose(N, kinked, audible, data);
        if (open.medians != 2 && open.medians != 0.5) {
            continue;
        }
        between++;
        data.any_bandwidth = false;
        const struct choice median = choose(N, kinked, audible, data);
        assert_near(median.medians, 1, 0);
        assert_true(open.errors[KERNEL_GAUSSIAN] < median.errors[KERNEL_GAUSSIAN]);
    }
    assert_true(between > 0);
}

/* What the events say of it. */
static void test_errors_of_the_kernels(void **state)
{
    (void)state;
    const enum kernel_id tried[RULE_KERNELS] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN,
                                                KERNEL_LAPLACIAN_L1, KERNEL_MATERN52};
    struct choice c = choose(N, rough, no_noise, all_open(0));
    for (int i = 0; i < RULE_KERNELS; i++) {
        assert_true(c.errors[tried[i]] >= c.errors[c.kernel] && c.errors[tried[i]] < 1);
    }
    assert_true(c.errors[c.kernel] > 0 && c.errors[KERNEL_MATERN12] == 0);
    assert_true(c.fitted == N - N / 3 && c.held == N / 3);
    c = choose(250, nothing, loud, all_open(0));
    assert_true(c.errors[c.kernel] > 0.9 && c.errors[c.kernel] < 1.1 && c.held == 0);
    c = choose(20, plane, no_noise, all_open(0));
    assert_true(c.errors[c.kernel] > 0 && c.errors[c.kernel] < 0.1 && c.held == 0);
}

/* What was chosen is kept for later attempts at the same job. */
static void test_a_choice_is_kept(void **state)
{
    (void)state;
    double bandwidths[D] = {0.5, 1e7, 3};
    const struct choice kept = {.kernel = KERNEL_MATERN32,
                                .medians = 4,
                                .bandwidths = bandwidths,
                                .plain = true,
                                .ridge = 2,
                                .regularization = 0.25,
                                .centers = 17,
                                .hurry = HURRY_ITERATE};
    struct choice c = {.medians = 0};
    struct state *s = state_new();
    assert_int_equal(choice_load(s, D, "job", &c, NULL), 0);
    assert_int_equal(choice_save(&kept, D, "job", s, NULL), 0);
    assert_int_equal(choice_load(s, D, "another", &c, NULL), 0);
    assert_int_equal(choice_load(s, D + 1, "job", &c, NULL), 0);
    assert_int_equal(choice_load(s, D, "job", &c, NULL), 1);
    assert_int_equal(c.kernel, KERNEL_MATERN32);
    assert_memory_equal(c.bandwidths, bandwidths, sizeof(bandwidths));
    assert_true(c.plain && c.medians == 4 && c.ridge == 2 && c.regularization == 0.25 &&
                c.centers == 17);
    choice_deinit(&c);
    state_free(s);
    bandwidths[1] = -1;
    s = state_new();
    assert_int_equal(choice_save(&kept, D, "job", s, NULL), 0);
    assert_int_equal(choice_load(s, D, "job", &c, NULL), 0);
    state_free(s);
}

/* Of a kink between smooth pieces what lies between the gaussian and the exponentials is best. */
static void test_between_smooth_and_rough(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        assert_int_equal(choose(N, kinked, no_noise, all_open(seed)).kernel, KERNEL_MATERN52);
    }
}

/* A thousand rows do not tell what nearly twice as many do. */
static void test_more_rows_choose_again(void **state)
{
    (void)state;
    struct choice few, many;
    int64_t entries;
    struct choose_data data = open_kernel(0, 0);
    assert_int_equal(choose_at(LARGE, kinked, as_loud, data, &few, &entries), 0);
    assert_int_equal(entries, FIRST);
    assert_int_equal(few.kernel, KERNEL_GAUSSIAN);
    assert_near(few.ridge, 1e-3 * 1000, 1e-12);
    data.n = LARGE;
    assert_int_equal(choose_at(LARGE, kinked, as_loud, data, &many, &entries), 0);
    assert_int_equal(entries, FIRST + SECOND);
    assert_int_equal(many.kernel, KERNEL_MATERN52);
    assert_near(many.ridge, 1e-3 * 1875, 1e-12);
}

/* Nor those in a hurry. */
static void test_small_sets_choose_once(void **state)
{
    (void)state;
    struct choice c;
    int64_t entries;
    struct choose_data data = open_kernel(0, 9999);
    assert_int_equal(choose_at(9999, plane, no_noise, data, &c, &entries), 0);
    assert_int_equal(entries, FIRST);
    data = open_kernel(0, LARGE);
    data.time_budget_s = 1;
    assert_int_equal(choose_at(LARGE, plane, no_noise, data, &c, &entries), 0);
    const int64_t fit = rule_choice_first(LARGE, 1);
    assert_true(fit > 500 && fit < 1000);
    const int64_t held = rule_choice_held(LARGE, fit, D + 1, RULE_HELD_FIRST);
    assert_int_equal(entries, RULE_KERNELS * fit * (fit + held));
}

/* Each row of a few hundred is held out once. */
static void test_few_rows_are_held_out_in_turn(void **state)
{
    (void)state;
    enum { ROWS = 250, FITTED = 200, ALL = RULE_CHOICE_FOLDS * RULE_KERNELS };
    struct choice c;
    int64_t entries;
    const struct choose_data data = open_kernel(0, 0);
    assert_int_equal(choose_at(ROWS, plane, no_noise, data, &c, &entries), 0);
    assert_int_equal(c.fits, ALL);
    assert_int_equal(entries, ALL * FITTED * ROWS);
    assert_near(c.ridge, 1e-3 * FITTED, 1e-12);
}

/* Three pairs, and the best of each kernel, are tried again, on the rows that there are, each with
 * two regularizations at least: the best one before and one beside it. */
static void test_the_best_pairs_are_tried_again(void **state)
{
    (void)state;
    enum { ROWS = 300, FITTED = 200, AGAIN = 100 };
    struct choice few, c;
    int64_t first, entries;
    struct choose_data data = all_open(0);
    data.n = 9999;
    assert_int_equal(choose_at(ROWS, rough, audible, data, &few, &first), 0);
    assert_int_equal(first, few.fits * FITTED * ROWS);
    assert_true(few.fits >= 7 * 2 && few.fits <= 9 * 5);
    data.n = LARGE;
    assert_int_equal(choose_at(ROWS, rough, audible, data, &c, &entries), 0);
    assert_int_equal(entries - first, (c.fits - few.fits) * AGAIN * ROWS);
    assert_true(c.fits - few.fits >= RULE_KERNELS * 2 && c.fits - few.fits <= 6 * 6);
}

/* Ends the choice after so many fits. */
static int stop_later(void *context, struct err *err)
{
    int *left = context;
    return (*left)-- > 0 ? 0 : err_set(err, ERR_CANCELLED, "enough");
}

static bool late_later(void *context)
{
    int *left = context;
    return (*left)-- <= 0;
}

/* Where there is no more time the best of what was tried is taken; half a second stage is none. */
static void test_ends_in_time(void **state)
{
    (void)state;
    enum { ROWS = 120 };
    struct choice whole, c;
    int64_t entries;
    struct choose_data data = all_open(0);
    assert_int_equal(choose_at(ROWS, additive, no_noise, data, &whole, &entries), 0);
    assert_false(whole.late);
    data.n = LARGE;
    data.late = late_later;
    for (int fits = 0; fits < whole.fits + 2; fits += fits < whole.fits - 10 ? 9 : 1) {
        int left = fits;
        data.stop_context = &left;
        assert_int_equal(choose_at(ROWS, additive, no_noise, data, &c, &entries), 0);
        assert_true(c.late);
        assert_int_equal(c.fits, fits);
        assert_true(c.medians > 0 && c.ridge > 0 && c.regularization > 0);
        if (fits < 2 * RULE_CHOICE_FOLDS) { /* two regularizations of the first pair */
            assert_int_equal(c.kernel, KERNEL_GAUSSIAN);
        }
    }
    assert_int_equal(c.kernel, whole.kernel);
    assert_near(c.ridge, whole.ridge, 0);
}

static void test_stops_between_fits(void **state)
{
    (void)state;
    enum { ROWS = 300, FITTED = 200, AGAIN = 100 };
    struct choice c;
    int64_t entries;
    struct choose_data data = all_open(0);
    assert_int_equal(choose_at(ROWS, rough, no_noise, data, &c, &entries), 0);
    const int first = c.fits;
    data.n = LARGE;
    for (int fits = 0; fits <= first + 2; fits += first / 2 + 1) {
        const int again = fits > first ? fits - first : 0;
        int left = fits;
        data.stop = stop_later;
        data.stop_context = &left;
        assert_int_equal(choose_at(ROWS, rough, no_noise, data, &c, &entries), -ERR_CANCELLED);
        assert_int_equal(entries, (fits - again) * FITTED * ROWS + again * AGAIN * ROWS);
    }
}

TEST_MAIN(cmocka_unit_test(test_kernel_follows_smoothness),
          cmocka_unit_test(test_ridge_follows_noise),
          cmocka_unit_test(test_bandwidth_follows_variation),
          cmocka_unit_test(test_what_is_given_stays), cmocka_unit_test(test_targets_of_all_sizes),
          cmocka_unit_test(test_one_row_takes_the_first), cmocka_unit_test(test_few_rows),
          cmocka_unit_test(test_a_bandwidth_beyond), cmocka_unit_test(test_finer_ridges),
          cmocka_unit_test(test_finer_bandwidths), cmocka_unit_test(test_fitted_rows_judge),
          cmocka_unit_test(test_few_rows_are_held_out_in_turn),
          cmocka_unit_test(test_between_smooth_and_rough),
          cmocka_unit_test(test_errors_of_the_kernels), cmocka_unit_test(test_a_choice_is_kept),
          cmocka_unit_test(test_ends_in_time), cmocka_unit_test(test_more_rows_choose_again),
          cmocka_unit_test(test_small_sets_choose_once),
          cmocka_unit_test(test_the_best_pairs_are_tried_again),
          cmocka_unit_test(test_stops_between_fits))
