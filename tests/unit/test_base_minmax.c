#include "base/minmax.h"

#include "support/assert.h"

static void test_of_two(void **state)
{
    (void)state;
    assert_int_equal(min_i64(2, 3), 2);
    assert_int_equal(min_i64(3, 2), 2);
    assert_int_equal(max_i64(2, 3), 3);
    assert_int_equal(max_i64(3, 2), 3);
    assert_int_equal(min_i64(-1, -1), -1);
    assert_true(min_i64(INT64_MIN, INT64_MAX) == INT64_MIN);
    assert_true(max_i64(INT64_MIN, INT64_MAX) == INT64_MAX);
}

TEST_MAIN(cmocka_unit_test(test_of_two))
