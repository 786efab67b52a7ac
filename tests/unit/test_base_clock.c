#include "base/clock.h"

#include <string.h>

#include "support/assert.h"

static void check_stamp(int64_t ms, const char *expected)
{
    char stamp[CLOCK_STAMP_SIZE];
    clock_stamp(ms, stamp);
    assert_string_equal(stamp, expected);
}

static void test_stamps(void **state)
{
    (void)state;
    check_stamp(0, "1970-01-01T00:00:00.000Z");
    check_stamp(1, "1970-01-01T00:00:00.001Z");
    check_stamp(INT64_C(1769903999123), "2026-01-31T23:59:59.123Z");
    check_stamp(INT64_C(1709164800000), "2024-02-29T00:00:00.000Z");
    check_stamp(INT64_C(253402300799999), "9999-12-31T23:59:59.999Z");
    check_stamp(-1, "1969-12-31T23:59:59.999Z");
    check_stamp(-1000, "1969-12-31T23:59:59.000Z");
    check_stamp(-1001, "1969-12-31T23:59:58.999Z");
}

/* Nonsense in, but never a byte beyond the array. */
static void test_extreme_stamps(void **state)
{
    (void)state;
    static const int64_t extremes[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX - 999};
    for (size_t i = 0; i < 4; i++) {
        char stamp[CLOCK_STAMP_SIZE + 1];
        stamp[CLOCK_STAMP_SIZE] = '#';
        clock_stamp(extremes[i], stamp);
        assert_int_equal(stamp[CLOCK_STAMP_SIZE], '#');
        assert_true(strnlen(stamp, CLOCK_STAMP_SIZE) < CLOCK_STAMP_SIZE);
    }
}

static void test_clocks_run(void **state)
{
    (void)state;
    double last = clock_monotonic_s();
    for (int i = 0; i < 1000; i++) {
        const double now = clock_monotonic_s();
        assert_true(now >= last);
        last = now;
    }
    assert_true(clock_wall_ms() > INT64_C(1700000000000)); /* after 2023 */
}

static void test_processor_time_counts_work(void **state)
{
    (void)state;
    const double before = clock_processor_s();
    volatile double sum = 0;
    for (int i = 0; i < 1000000; i++) {
        sum += 1.0 / (i + 1);
    }
    const double after = clock_processor_s();
    assert_true(after > before);
    assert_true(after - before < 60);
}

TEST_MAIN(cmocka_unit_test(test_processor_time_counts_work), cmocka_unit_test(test_stamps),
          cmocka_unit_test(test_extreme_stamps), cmocka_unit_test(test_clocks_run))
