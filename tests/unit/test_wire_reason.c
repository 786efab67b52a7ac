#include "wire/reason.h"

#include <string.h>

#include "support/assert.h"

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < REASON_COUNT_; i++) {
        const enum reason r = (enum reason)i;
        assert_int_equal(reason_from_name(reason_name(r)), r);
        const char *sentence = reason_sentence(r);
        assert_int_equal(sentence[strlen(sentence) - 1], '.');
    }
    assert_string_equal(reason_name(REASON_TIME_BUDGET), "time_budget");
    assert_string_equal(reason_name(REASON_INVALID), "invalid_spec");
}

static void test_models(void **state)
{
    (void)state;
    assert_true(reason_gives_model(REASON_CONVERGED));
    assert_true(reason_gives_model(REASON_ITERATION_LIMIT));
    assert_false(reason_gives_model(REASON_DIVERGED));
    assert_false(reason_gives_model(REASON_CANCELLED));
}

static void test_unknown(void **state)
{
    (void)state;
    assert_int_equal(reason_from_name("no such reason"), REASON_NONE);
    assert_int_equal(reason_from_name(NULL), REASON_NONE);
    assert_string_equal(reason_name((enum reason)999), "failed");
    assert_false(reason_gives_model((enum reason) - 1));
}

TEST_MAIN(cmocka_unit_test(test_names), cmocka_unit_test(test_models),
          cmocka_unit_test(test_unknown))
