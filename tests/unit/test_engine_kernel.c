/* kernel_eval against formulas written out by hand, and the names. */
#include <math.h>

#include "engine/kernel.h"
#include "support/assert.h"
#include "wire/catalog.h"

static const double x[3] = {1.0, -2.0, 0.5}, z[3] = {0.0, 1.0, 2.5};
/* |x-z|_2^2 = 1 + 9 + 4 = 14, |x-z|_1 = 6, x.z = -0.75 */

static double eval(enum kernel_id id, double bandwidth)
{
    const struct kernel k = {
        .id = id, .d = 3, .bandwidth = bandwidth, .gamma = 0.5, .coef0 = 2.0, .degree = 3};
    return kernel_eval(&k, x, z);
}

static void test_values(void **state)
{
    (void)state;
    const double r = sqrt(14.0) / 2.0;
    assert_close(eval(KERNEL_GAUSSIAN, 2.0), exp(-14.0 / 8.0), 1e-15);
    assert_close(eval(KERNEL_LAPLACIAN, 2.0), exp(-r), 1e-15);
    assert_close(eval(KERNEL_MATERN12, 2.0), exp(-r), 1e-15);
    assert_close(eval(KERNEL_LAPLACIAN_L1, 2.0), exp(-3.0), 1e-15);
    assert_close(eval(KERNEL_MATERN32, 2.0), (1 + sqrt(3) * r) * exp(-sqrt(3) * r), 1e-15);
    assert_close(eval(KERNEL_MATERN52, 2.0), (1 + sqrt(5) * r + 5 * r * r / 3) * exp(-sqrt(5) * r),
                 1e-15);
    assert_close(eval(KERNEL_LINEAR, 0.0), 1.625, 1e-15);
    assert_close(eval(KERNEL_POLYNOMIAL, 0.0), 1.625 * 1.625 * 1.625, 1e-15);
    assert_close(eval(KERNEL_SIGMOID, 0.0), tanh(1.625), 1e-15);
}

static void test_one_bandwidth_a_feature(void **state)
{
    (void)state;
    const double bandwidths[3] = {0.5, 3.0, 4.0};
    const struct kernel k = {.id = KERNEL_LAPLACIAN_L1, .d = 3, .bandwidths = bandwidths};
    assert_close(kernel_eval(&k, x, z), exp(-(2.0 + 1.0 + 0.5)), 1e-15);
}

static void test_far_points_give_zero(void **state)
{
    (void)state;
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        if (!kernel_uses_distance((enum kernel_id)id)) {
            continue;
        }
        assert_same_bits(eval((enum kernel_id)id, 1e-300), 0.0);
    }
}

/* The engine's list and the catalog the daemon validates with are the same list. */
static void test_names_are_the_catalogs(void **state)
{
    (void)state;
    int count = 0;
    for (const struct method_def *def = catalog_list(CATALOG_KERNELS); def->name != NULL; def++) {
        enum kernel_id id = KERNEL_COUNT_;
        assert_int_equal(kernel_id_parse(def->name, &id, NULL), 0);
        assert_string_equal(kernel_name(id), def->name);
        assert_int_equal(kernel_uses_distance(id), def->has_bandwidth);
        count++;
    }
    assert_int_equal(count, KERNEL_COUNT_);

    struct err err = {0};
    enum kernel_id id = KERNEL_COUNT_;
    assert_int_equal(kernel_id_parse("cubic", &id, &err), -ERR_INVALID);
    assert_contains(err.detail, "cubic");
    assert_int_equal(id, KERNEL_COUNT_);
}

static void test_params(void **state)
{
    (void)state;
    struct param_set set;
    const struct method_def *def = catalog_find(CATALOG_KERNELS, "polynomial");
    assert_int_equal(param_read(def->params, NULL, NULL, &set, NULL), 0);
    struct kernel k = {.id = KERNEL_POLYNOMIAL, .d = 4};
    kernel_set_params(&k, &set);
    assert_close(k.gamma, 0.25, 0.0); /* auto */
    assert_close(k.coef0, 1.0, 0.0);
    assert_int_equal(k.degree, 3);
}

TEST_MAIN(cmocka_unit_test(test_values), cmocka_unit_test(test_one_bandwidth_a_feature),
          cmocka_unit_test(test_far_points_give_zero),
          cmocka_unit_test(test_names_are_the_catalogs), cmocka_unit_test(test_params))
