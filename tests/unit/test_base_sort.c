/* Numbers in ascending order. */
#include "base/sort.h"

#include "support/assert.h"

static void test_sorts(void **state)
{
    (void)state;
    int64_t whole[] = {3, -1, 2, INT64_MAX, INT64_MIN, 2};
    const int64_t wanted[] = {INT64_MIN, -1, 2, 2, 3, INT64_MAX};
    sort_i64(whole, 6);
    assert_memory_equal(whole, wanted, sizeof wanted);
    double real[] = {1e300, -1e300, 0.5, 1e-300};
    const double ordered[] = {-1e300, 1e-300, 0.5, 1e300};
    sort_f64(real, 4);
    assert_memory_equal(real, ordered, sizeof ordered);
}

static void test_finds_the_first_above_as_a_loop_does(void **state)
{
    (void)state;
    const double sums[] = {0, 0, 1, 1, 1, 2.5, 4};
    for (int64_t n = 1; n <= 7; n++) {
        for (double v = -0.5; v <= 4.5; v += 0.25) {
            int64_t wanted = 0;
            while (wanted < n - 1 && sums[wanted] <= v) {
                wanted++;
            }
            assert_int_equal(sort_first_above(sums, n, v), wanted);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorts),
        cmocka_unit_test(test_finds_the_first_above_as_a_loop_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
