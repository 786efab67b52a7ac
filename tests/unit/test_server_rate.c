#include "server/rate.h"

#include "support/assert.h"

static void test_nothing_ended_yet(void **state)
{
    (void)state;
    const struct rate r = {.at = 0.0};
    assert_true(rate_per_s(&r, 100.0) == 0.0);
    assert_int_equal(rate_retry_after_s(&r, 100.0, 1.0), RATE_RETRY_UNKNOWN_S);
}

/* A steady stream is measured as what it is, early and late. */
static void test_steady_rate(void **state)
{
    (void)state;
    static const double rates[] = {0.1, 1.0, 50.0};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct rate r = {.at = 0.0};
        double t = 1000.0;
        for (; t < 1000.0 + 600.0; t += 1.0 / rates[i]) {
            rate_add(&r, t, 1.0);
        }
        const double measured = rate_per_s(&r, t);
        assert_true(measured > 0.8 * rates[i] && measured < 1.25 * rates[i]);
    }
}

static void test_retry_is_bounded(void **state)
{
    (void)state;
    struct rate r = {.at = 0.0};
    rate_add(&r, 10.0, 1000.0);
    assert_int_equal(rate_retry_after_s(&r, 10.5, 1.0), 1);
    assert_int_equal(rate_retry_after_s(&r, 11.0, 1e9), RATE_RETRY_MAX_S);
    assert_int_equal(rate_retry_after_s(&r, 1e9, 1.0), RATE_RETRY_MAX_S);
}

/* One every ten seconds: a place is free in about ten. */
static void test_retry_follows_the_rate(void **state)
{
    (void)state;
    struct rate r = {.at = 0.0};
    for (double t = 0.5; t < 300.0; t += 10.0) {
        rate_add(&r, t, 1.0);
    }
    const int seconds = rate_retry_after_s(&r, 300.0, 1.0);
    assert_true(seconds >= 8 && seconds <= 13);
    assert_true(rate_retry_after_s(&r, 300.0, 5.0) >= 4 * seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_ended_yet),
        cmocka_unit_test(test_steady_rate),
        cmocka_unit_test(test_retry_is_bounded),
        cmocka_unit_test(test_retry_follows_the_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
