#include "engine/methods/centers/center_set.h"

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"

static void test_equal_points_are_one(void **state)
{
    (void)state;
    struct center_set s;
    center_set_init(&s, 2, DTYPE_F64);
    const double a[] = {1.0, 0.0}, b[] = {1.0, -0.0}, c[] = {0.0, 1.0};
    assert_int_equal(center_set_add(&s, a, 9, 2.0, NULL), 1);
    assert_int_equal(center_set_add(&s, b, 3, 0.5, NULL), 0);
    assert_int_equal(center_set_add(&s, c, 4, 1.5, NULL), 1);
    assert_int_equal(s.m, 2);
    assert_close(s.stands[0], 2.5, 0);

    struct centers z = {0};
    assert_int_equal(center_set_take(&s, 4, &z, NULL), 0);
    assert_int_equal(z.m, 2);
    assert_int_equal(z.rows[0], 4);
    assert_int_equal(z.rows[1], 9);
    assert_close(((double *)z.points)[1], 1.0, 0);
    /* Weight n / (m stands): 1 where every center stands for n / m rows. */
    assert_close(z.weights[0], 4.0 / (2 * 1.5), 1e-15);
    assert_close(z.weights[1], 4.0 / (2 * 2.5), 1e-15);
    centers_deinit(&z);
    centers_deinit(&z);
    center_set_deinit(&s);
}

static void test_free_points_keep_their_order(void **state)
{
    (void)state;
    struct center_set s;
    center_set_init(&s, 1, DTYPE_F32);
    for (int i = 0; i < 5; i++) {
        const float x = (float)(5 - i);
        assert_int_equal(center_set_add(&s, &x, -1, 1.0, NULL), 1);
    }
    struct centers z = {0};
    assert_int_equal(center_set_take(&s, 0, &z, NULL), 0);
    assert_null(z.rows);
    assert_null(z.weights);
    for (int i = 0; i < 5; i++) {
        assert_close((double)((float *)z.points)[i], 5.0 - i, 0);
    }
    centers_deinit(&z);
}

/* Points that differ in one bit, in the order of their features, or by a shift have fingerprints of
 * their own. */
static void test_fingerprints_differ(void **state)
{
    (void)state;
    enum { N = 20000, D = 3 };
    struct rng rng = rng_new(1, RNG_TEST);
    struct point_table t = {0};
    int64_t value = 0;
    for (int64_t i = 0; i < N; i++) {
        const float x = (float)(1 + rng_below(&rng, 50)), y = (float)(100 + i);
        const float points[3][D] = {{x, y, 0}, {y, x, 0}, {0, x, y}};
        for (int k = 0; k < 3; k++) {
            const struct fingerprint f = fingerprint_of(points[k], D, DTYPE_F32);
            assert_int_equal(point_table_put(&t, f, value, NULL), value);
            value++;
        }
    }
    assert_int_equal(t.count, value);
    point_table_deinit(&t);
}

static void test_clear(void **state)
{
    (void)state;
    struct center_set s;
    center_set_init(&s, 1, DTYPE_F64);
    center_set_clear(&s);
    const double x = 4;
    assert_int_equal(center_set_add(&s, &x, 0, 1.0, NULL), 1);
    center_set_clear(&s);
    assert_int_equal(s.m, 0);
    assert_int_equal(center_set_add(&s, &x, 0, 1.0, NULL), 1);
    center_set_deinit(&s);
}

TEST_MAIN(cmocka_unit_test(test_equal_points_are_one),
          cmocka_unit_test(test_free_points_keep_their_order),
          cmocka_unit_test(test_fingerprints_differ), cmocka_unit_test(test_clear))
