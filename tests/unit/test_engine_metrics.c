#include "engine/metrics.h"

#include <math.h>

#include "base/rng.h"
#include "support/assert.h"

static void test_regression(void **state)
{
    (void)state;
    const double y[4] = {1, 2, 3, 0}, p[4] = {2, 2, 1, 0};
    const struct metrics m = metrics_regression(p, y, 4, 1);
    assert_close(m.smape, (1 / 1.5 + 0 + 2 / 2.0 + 0) / 4, 1e-15);
    assert_close(m.mae, 3.0 / 4, 1e-15);
    assert_close(m.rmse, sqrt(5.0 / 4), 1e-15);
    assert_close(m.r2, 1 - 5.0 / 5.0, 1e-15); /* sum (y - 1.5)^2 = 5 */
    assert_true(isnan(m.accuracy) && isnan(m.auc));
}

static void test_several_targets_are_averaged(void **state)
{
    (void)state;
    const double y[4] = {0, 2, 10, 30}, p[4] = {1, 2, 10, 20};
    const struct metrics m = metrics_regression(p, y, 2, 2);
    assert_close(m.mae, 11.0 / 4, 1e-15);
    assert_close(m.rmse, sqrt(101.0 / 4), 1e-15);
    assert_close(m.r2, ((1 - 1.0 / 2) + (1 - 100.0 / 200)) / 2, 1e-15);
}

static void test_smape_is_at_most_two(void **state)
{
    (void)state;
    const double y[3] = {1, -4, 0}, p[3] = {-1, 4, 5};
    assert_close(metrics_regression(p, y, 3, 1).smape, 2.0, 1e-15);
}

static void test_not_defined(void **state)
{
    (void)state;
    const double y[2] = {3, 3}, p[2] = {3, 4};
    assert_true(isnan(metrics_regression(p, y, 2, 1).r2));
    assert_true(isnan(metrics_regression(p, y, 0, 1).rmse));
    const int64_t same[2] = {1, 1};
    double auc = 0;
    assert_int_equal(metrics_auc(p, same, 2, &auc, NULL), 0);
    assert_true(isnan(auc));
    const double broken[2] = {NAN, 1};
    const int64_t both[2] = {0, 1};
    assert_int_equal(metrics_auc(broken, both, 2, &auc, NULL), 0);
    assert_true(isnan(auc));
}

/* Whatever the constant's binary form, and however many rows there are. */
static void test_r2_of_constants_is_not_defined(void **state)
{
    (void)state;
    enum { N = 7 };
    static const double constants[] = {0.1, -1.0 / 3.0, 1e300, 1e-300, 0.0};
    double y[2 * N], p[2 * N];
    for (size_t k = 0; k < sizeof(constants) / sizeof(constants[0]); k++) {
        for (int64_t i = 0; i < 2 * N; i++) {
            y[i] = i < N ? constants[k] : (double)i;
            p[i] = i < N ? 1.5 * constants[k] : (double)i + 1.0;
        }
        for (int64_t n = 1; n <= N; n++) {
            assert_true(isnan(metrics_regression(p, y, n, 1).r2));
        }
        assert_true(isnan(metrics_regression(p, y, N, 2).r2)); /* the mean over both */
        assert_true(isfinite(metrics_regression(p + N, y + N, N, 1).r2));
    }
}

/* Times a power of two, numbers are the same but for their exponents. */
static void check_scaled(const double *y, const double *p, int64_t n, int exponent)
{
    double scaled_y[8], scaled_p[8];
    for (int64_t i = 0; i < n; i++) {
        scaled_y[i] = ldexp(y[i], exponent);
        scaled_p[i] = ldexp(p[i], exponent);
    }
    const struct metrics m = metrics_regression(p, y, n, 1);
    const struct metrics s = metrics_regression(scaled_p, scaled_y, n, 1);
    assert_close(s.rmse, ldexp(m.rmse, exponent), 1e-9); /* the least numbers have few digits */
    assert_close(s.mae, ldexp(m.mae, exponent), 1e-9);
    assert_same_bits(s.smape, m.smape);
    assert_same_bits(s.r2, m.r2);
}

static void test_the_whole_range_of_double(void **state)
{
    (void)state;
    static const double y[4] = {1, 2, 3, 0}, p[4] = {2, 2, 1, 0};
    static const double far_y[4] = {3, -3, 3, -3}, far_p[4] = {-3, -3, 3, -3};
    static const int exponents[] = {-1040, -560, -500, 0, 500, 520, 1021, 1022};
    for (size_t k = 0; k < sizeof(exponents) / sizeof(exponents[0]); k++) {
        check_scaled(y, p, 4, exponents[k]);
        check_scaled(far_y, far_p, 4, exponents[k]);
    }
    assert_close(metrics_regression(far_p, far_y, 4, 1).r2, 0.0, 0);
}

static void test_targets_of_all_sizes(void **state)
{
    (void)state;
    double y[8] = {1, 2, 3, 0, 1, 2, 3, 0}, p[8] = {2, 2, 1, 0, 1, 2, 1, 0};
    const double r2 = metrics_regression(p, y, 4, 2).r2;
    for (int i = 0; i < 8; i++) {
        y[i] = ldexp(y[i], i < 4 ? -560 : 520);
        p[i] = ldexp(p[i], i < 4 ? -560 : 520);
    }
    const struct metrics m = metrics_regression(p, y, 4, 2);
    assert_close(m.r2, r2, 1e-15);
    assert_close(m.rmse, ldexp(sqrt(4.0 / 8), 520), 1e-15);
}

static void test_what_is_no_number(void **state)
{
    (void)state;
    const double y[2] = {1, 2}, nan[2] = {NAN, 2}, infinite[2] = {INFINITY, 2};
    const struct metrics m = metrics_regression(nan, y, 2, 1);
    assert_true(isnan(m.smape) && isnan(m.rmse) && isnan(m.mae) && isnan(m.r2));
    assert_true(!isfinite(metrics_regression(infinite, y, 2, 1).rmse));
}

static void test_accuracy(void **state)
{
    (void)state;
    const double scores[9] = {0.1, 0.5, 0.2, 0.3, 0.5, 0.2, 0.6, 0.1, 0.2}; /* 3 rows, 3 classes */
    const int64_t truth[3] = {2, 0, 1};
    struct metrics m;
    assert_int_equal(metrics_classification(scores, truth, 3, 3, &m, NULL), 0);
    assert_close(m.accuracy, 2.0 / 3, 1e-15); /* ties: the first class */
    assert_true(isnan(m.auc) && isnan(m.rmse));
}

/* Against the definition: pairs of a positive and a negative, ties one half. */
static void test_auc_counts_pairs(void **state)
{
    (void)state;
    enum { N = 200 };
    struct rng rng = rng_new(3, RNG_TEST);
    double scores[2 * N];
    int64_t truth[N];
    for (int i = 0; i < N; i++) {
        truth[i] = rng_below(&rng, 2);
        scores[i] = 0;
        scores[N + i] = (double)(rng_below(&rng, 12) + 2 * truth[i]); /* many ties */
    }
    double pairs = 0, won = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            if (truth[i] == 1 && truth[j] == 0) {
                const double a = scores[N + i], b = scores[N + j];
                pairs++;
                won += a > b ? 1.0 : a == b ? 0.5 : 0.0;
            }
        }
    }
    struct metrics m;
    assert_int_equal(metrics_classification(scores, truth, N, 2, &m, NULL), 0);
    assert_close(m.auc, won / pairs, 1e-13);
    assert_true(m.auc > 0.5 && m.auc < 0.9);
}

TEST_MAIN(cmocka_unit_test(test_regression), cmocka_unit_test(test_several_targets_are_averaged),
          cmocka_unit_test(test_smape_is_at_most_two), cmocka_unit_test(test_not_defined),
          cmocka_unit_test(test_r2_of_constants_is_not_defined),
          cmocka_unit_test(test_the_whole_range_of_double),
          cmocka_unit_test(test_targets_of_all_sizes), cmocka_unit_test(test_what_is_no_number),
          cmocka_unit_test(test_accuracy), cmocka_unit_test(test_auc_counts_pairs))
