#include "engine/choose/bandwidth.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"

static double median(const double *X, int64_t n, int64_t d, bool l1, bool *ret_degenerate)
{
    const struct rows rows = {.dtype = DTYPE_F64, .n = n, .d = d, .data = X};
    double ret = NAN;
    assert_int_equal(bandwidth_median(&rows, l1, 0, &ret, ret_degenerate, NULL), 0);
    return ret;
}

static void test_small(void **state)
{
    (void)state;
    bool degenerate;
    const double X[] = {0, 0, /**/ 3, 4, /**/ 3, 0}; /* l2: 5, 3, 4; l1: 7, 3, 4 */
    assert_close(median(X, 3, 2, false, &degenerate), 4.0, 1e-15);
    assert_false(degenerate);
    assert_close(median(X, 3, 2, true, &degenerate), 4.0, 1e-15);
    assert_close(median(X, 2, 2, false, &degenerate), 5.0, 1e-15);
    assert_close(median(X, 2, 2, true, &degenerate), 7.0, 1e-15);
}

/* Squares of the differences would be infinite, or 0. */
static void test_far_and_near(void **state)
{
    (void)state;
    bool degenerate;
    const double far[] = {0, 0, /**/ 3e200, 4e200}, near[] = {0, 0, /**/ 3e-200, 4e-200};
    assert_close(median(far, 2, 2, false, &degenerate) / 5e200, 1.0, 1e-15);
    assert_close(median(near, 2, 2, false, &degenerate) / 5e-200, 1.0, 1e-15);
    assert_false(degenerate);
}

static void test_beyond_numbers(void **state)
{
    (void)state;
    const double X[] = {1.5e308, -1.5e308};
    const struct rows rows = {.dtype = DTYPE_F64, .n = 2, .d = 1, .data = X};
    double ret = 0;
    bool degenerate;
    for (int l1 = 0; l1 < 2; l1++) {
        struct err err = {0};
        assert_int_equal(bandwidth_median(&rows, l1 == 1, 0, &ret, &degenerate, &err),
                         -ERR_INVALID);
        assert_string_equal(err.pointer, "#/kernel/bandwidth");
    }
}

/* Six equal rows and one other: 15 distances are 0 and 6 are 2. */
static void test_mostly_duplicates(void **state)
{
    (void)state;
    bool degenerate;
    const double X[] = {1, 1, 1, 3, 1, 1, 1};
    assert_close(median(X, 7, 1, false, &degenerate), 2.0, 1e-15);
    assert_false(degenerate);
}

static void test_nothing_to_measure(void **state)
{
    (void)state;
    bool degenerate = false;
    const double X[] = {2, 2, 2, 2};
    assert_close(median(X, 4, 1, false, &degenerate), 1.0, 0);
    assert_true(degenerate);
    degenerate = false;
    assert_close(median(X, 1, 1, true, &degenerate), 1.0, 0);
    assert_true(degenerate);
}

/* A sample of 1,000 of 20,000 rows; |x - z| of two standard normal numbers has the median
 * sqrt(2) * 0.6745. */
static void test_sample(void **state)
{
    (void)state;
    enum { N = 20000 };
    struct rng rng = rng_new(1, RNG_TEST);
    double *X = mem_array(N, sizeof(double));
    for (int i = 0; i < N; i++) {
        X[i] = rng_normal(&rng);
    }
    bool degenerate;
    const double first = median(X, N, 1, false, &degenerate);
    assert_close(first, sqrt(2.0) * 0.67448975, 0.05);
    assert_same_bits(median(X, N, 1, false, &degenerate), first);
    mem_free(X);
}

TEST_MAIN(cmocka_unit_test(test_small), cmocka_unit_test(test_far_and_near),
          cmocka_unit_test(test_beyond_numbers), cmocka_unit_test(test_mostly_duplicates),
          cmocka_unit_test(test_nothing_to_measure), cmocka_unit_test(test_sample))
