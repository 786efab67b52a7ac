/* The model of a GPU's limit against figures worked out by hand. */
#include "bench/limit_device.h"

#include "limit_cases.h"
#include "support/assert.h"

/* One multiprocessor of a device of compute capability 9.0 at 1 GHz: what it does in a cycle, in
 * 10^9 a second. */
static const struct device_ceiling hopper = {
    .fma32 = 128e9,
    .fma64 = 64e9,
    .ex2 = 16e9,
    .tensor16 = 2048e9,
    .tensor64 = 128e9,
    .copy_bytes = 15e9,
};

/* In 10^9 entries a second. */
static void assert_limit(struct limit_case c, const struct device_ceiling *ceiling,
                         const char *bound_by, double entries)
{
    const struct device_limit limit = limit_of_device(&c, ceiling);
    assert_string_equal(limit.bound_by, bound_by);
    assert_close(limit.entries_per_s / 1e9, entries, 1e-9);
}

static struct device_ceiling without_tensor(void)
{
    struct device_ceiling lanes = hopper;
    lanes.tensor16 = lanes.tensor64 = 0.0;
    return lanes;
}

/* d + 3 instructions, (d + 4) / 2; one power, or half of one. */
static void test_by_lanes(void **state)
{
    (void)state;
    const struct device_ceiling lanes = without_tensor();
    for (int64_t d = 9; d <= 435; d += 71) {
        const double n = (double)d;
        assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F32, d, 1, false), &lanes, "lanes", 128 / (n + 3));
        assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F32, d, 1, true), &lanes, "lanes", 256 / (n + 4));
        assert_limit(make(KERNEL_LAPLACIAN_L1, DTYPE_F32, d, 1, false), &hopper, "lanes",
                     128 / (2 * n + 3));
        assert_limit(make(KERNEL_LAPLACIAN_L1, DTYPE_F32, d, 1, true), &hopper, "lanes",
                     256 / (2 * n + 4));
        assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F64, d, 1, false), &lanes, "lanes", 64 / (n + 13));
        assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F64, d, 1, true), &lanes, "lanes", 128 / (n + 14));
    }
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F32, 3, 1, false), &lanes, "mufu", 16);
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F32, 3, 1, true), &lanes, "mufu", 32);
}

/* Three products of 16 features each, and then powers bind up to 32 features. */
static void test_by_tensor_cores(void **state)
{
    (void)state;
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F32, 18, 1, false), &hopper, "mufu", 16);
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F32, 28, 1, true), &hopper, "mufu", 32);
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F32, 90, 1, false), &hopper, "tensor", 2048.0 / 288);
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F32, 90, 1, true), &hopper, "tensor", 4096.0 / 288);
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F64, 90, 1, false), &hopper, "tensor", 128.0 / 92);
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F64, 18, 1, false), &hopper, "lanes", 64.0 / 13);
    assert_limit(make(KERNEL_GAUSSIAN, DTYPE_F64, 18, 1, true), &hopper, "lanes", 128.0 / 14);
}

static void test_functions(void **state)
{
    (void)state;
    const struct device_ceiling lanes = without_tensor();
    assert_limit(make(KERNEL_MATERN12, DTYPE_F32, 18, 1, false), &hopper, "mufu", 8);
    assert_limit(make(KERNEL_MATERN32, DTYPE_F32, 18, 1, false), &lanes, "lanes", 128.0 / 24);
    assert_limit(make(KERNEL_MATERN52, DTYPE_F32, 18, 1, true), &lanes, "lanes", 256.0 / 26);
    assert_limit(make(KERNEL_MATERN52, DTYPE_F64, 18, 1, false), &lanes, "lanes", 64.0 / 41);
    assert_limit(make(KERNEL_LINEAR, DTYPE_F32, 18, 1, false), &lanes, "lanes", 128.0 / 20);
    assert_limit(make(KERNEL_LINEAR, DTYPE_F32, 18, 1, false), &hopper, "tensor", 2048.0 / 96);
    assert_limit(make(KERNEL_POLYNOMIAL, DTYPE_F32, 18, 1, false), &lanes, "lanes", 128.0 / 22);
    assert_limit(make(KERNEL_SIGMOID, DTYPE_F32, 18, 1, false), &lanes, "lanes", 128.0 / 24);
    assert_limit(make(KERNEL_SIGMOID, DTYPE_F32, 18, 1, false), &hopper, "mufu", 8);
}

/* The evaluation is shared by the right-hand sides, and by both uses; the weights are not. */
static void test_right_hand_sides(void **state)
{
    (void)state;
    const struct device_ceiling lanes = without_tensor();
    struct limit_case c = make(KERNEL_GAUSSIAN, DTYPE_F32, 18, 1, false);
    c.rhs = 10;
    assert_limit(c, &lanes, "lanes", 128.0 / 30);
    c.symmetric = true;
    assert_limit(c, &lanes, "lanes", 256.0 / 40);
}

/* Weights in float64 have lanes of their own, and their instructions start in turn with others. */
static void test_mixed_precision(void **state)
{
    (void)state;
    struct device_ceiling lanes = without_tensor();
    struct limit_case c = make(KERNEL_GAUSSIAN, DTYPE_F32, 18, 1, false);
    c.vectors = DTYPE_F64;
    assert_limit(c, &lanes, "lanes", 128.0 / 21);
    c.rhs = 40;
    assert_limit(c, &lanes, "lanes", 64.0 / 40);
    c.rhs = 1;
    lanes.fma64 = 2e9;
    assert_limit(c, &lanes, "lanes", 2);
}

/* One row against many: reading the points takes longer than computing. Kept values: their bytes.
 */
static void test_memory(void **state)
{
    (void)state;
    struct limit_case c = make(KERNEL_GAUSSIAN, DTYPE_F32, 435, 1, false);
    c.n = 1;
    const double bytes = 4.0 * (435.0 * 20001.0 + 20001.0);
    assert_limit(c, &hopper, "memory", 20000.0 / (bytes / 15e9) / 1e9);
    struct limit_case kept = make(KERNEL_GAUSSIAN, DTYPE_F32, 435, 1, true);
    kept.cached_bytes = 800000000;
    assert_limit(kept, &hopper, "memory", 4e8 / ((800e6 + 4.0 * 40000.0) / 15e9) / 1e9);
    kept.rhs = 64;
    assert_limit(kept, &hopper, "lanes", 2);
}

TEST_MAIN(cmocka_unit_test(test_by_lanes), cmocka_unit_test(test_by_tensor_cores),
          cmocka_unit_test(test_functions), cmocka_unit_test(test_right_hand_sides),
          cmocka_unit_test(test_mixed_precision), cmocka_unit_test(test_memory))
