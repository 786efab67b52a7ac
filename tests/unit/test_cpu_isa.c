/* Denormal numbers count as 0 where products are computed, with every instruction set, and nowhere
 * else. */
#include "cpu/tile/isa.h"

#include <float.h>
#include <math.h>

#include "engine/backend.h"
#include "support/assert.h"

static struct err err;

static bool denormals_are_0(void)
{
    volatile double least = DBL_MIN, denormal = 0x1p-1060;
    return least / 4 == 0.0 && denormal * 0x1p60 == 0.0;
}

static void test_of_a_block(void **state)
{
    (void)state;
#ifdef __x86_64__
    {
        cleanup_flush unsigned before = tile_flush_denormals();
        assert_true(denormals_are_0());
    }
#endif
    assert_false(denormals_are_0());
}

/* K V of two rows: a kernel value of 1 and one of 2^-130, by the numbers 0 and 2^100. */
static double far_product(struct backend *be)
{
    const struct kernel k = {.id = KERNEL_GAUSSIAN, .d = 1, .bandwidth = 1.0};
    const double x[2] = {0.0, sqrt(2.0 * 130.0 * log(2.0))}, v[2] = {0.0, 0x1p100};
    const struct rows X = {.dtype = DTYPE_F64, .n = 2, .d = 1, .data = x};
    struct points *points;
    struct mat V, Y;
    double y[2];
    assert_int_equal(be->ops->points_new(be, &k, DTYPE_F32, &X, &points, &err), 0);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F32, 2, 1, &V, &err), 0);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F32, 2, 1, &Y, &err), 0);
    assert_int_equal(be->ops->mat_put(be, v, 2, &V, &err), 0);
    assert_int_equal(
        be->ops->kmv(be, view_all(points, 2), view_all(points, 2), 1.0, &V, 0.0, &Y, &err), 0);
    assert_int_equal(be->ops->mat_get(be, &Y, y, 2, &err), 0);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    be->ops->points_free(be, points);
    return y[0];
}

static void test_of_products(void **state)
{
    (void)state;
#ifdef __x86_64__
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        struct backend *be;
        assert_int_equal(backend_cpu_open(tile_isa_list(i)->name, 2, &be, &err), 0);
        assert_true(far_product(be) == 0.0);
        assert_false(denormals_are_0());
        be->ops->close(be);
    }
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_a_block),
        cmocka_unit_test(test_of_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
