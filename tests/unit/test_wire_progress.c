#include "wire/progress.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "support/assert.h"

static void test_metrics_round_trip(void **state)
{
    (void)state;
    struct metrics m = metrics_none();
    m.smape = 0.125;
    m.r2 = -3.5;
    m.auc = 0.1 + 0.2;
    struct json *j cleanup_json = json_new_object();
    metrics_to_json(&m, j);
    assert_int_equal(json_size(j), 6);
    assert_int_equal(json_type(json_get(j, "rmse")), JSON_NULL);

    struct metrics back;
    metrics_from_json(j, &back);
    assert_same_bits(back.smape, m.smape);
    assert_same_bits(back.r2, m.r2);
    assert_same_bits(back.auc, m.auc);
    assert_true(isnan(back.rmse) && isnan(back.mae) && isnan(back.accuracy));
}

static void test_metrics_from_anything(void **state)
{
    (void)state;
    const char *text = "{\"smape\":\"1\",\"rmse\":2,\"extra\":[]}";
    struct json *j cleanup_json = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    struct metrics m;
    metrics_from_json(j, &m);
    assert_true(isnan(m.smape));
    assert_same_bits(m.rmse, 2);
    metrics_from_json(NULL, &m);
    assert_true(isnan(m.rmse));
}

static void test_progress(void **state)
{
    (void)state;
    struct progress p = progress_none();
    p.phase = "iterating";
    p.fraction = 0.5;
    p.iteration = 1234567890123;
    p.relative_residual = INFINITY;
    p.metrics.mae = 2;
    struct json *j cleanup_json = progress_to_json(&p);
    static const char *const keys[] = {"fraction",
                                       "phase",
                                       "iteration",
                                       "step_fraction",
                                       "relative_residual",
                                       "smape",
                                       "rmse",
                                       "mae",
                                       "r2",
                                       "accuracy",
                                       "auc",
                                       "eta_s",
                                       "elapsed_s",
                                       "kernel_entries_per_s",
                                       "search",
                                       NULL};
    assert_int_equal(json_only_keys(j, keys, NULL), 0);
    assert_int_equal(json_size(j), 15);
    assert_string_equal(json_string(json_get(j, "phase")), "iterating");
    assert_same_bits(json_number(json_get(j, "iteration")), 1234567890123.0);
    assert_same_bits(json_number(json_get(j, "mae")), 2);
    assert_int_equal(json_type(json_get(j, "relative_residual")), JSON_NULL);
    assert_int_equal(json_type(json_get(j, "eta_s")), JSON_NULL);
    assert_int_equal(json_type(json_get(j, "search")), JSON_NULL);
}

static void check_search(struct search_progress search, const char *expected)
{
    struct progress p = progress_none();
    p.search = search;
    struct json *j cleanup_json = progress_to_json(&p);
    cleanup_mem char *text = json_print(json_get(j, "search"));
    assert_string_equal(text, expected);
}

static void test_search(void **state)
{
    (void)state;
    struct search_progress s = {.pairs = 12, .metric = SEARCH_RMSE, .value = NAN};
    check_search(s, "{\"tried\":0,\"pairs\":12,\"metric\":\"rmse\",\"best\":null}");
    s.tried = 4;
    s.regularization = 0.5;
    s.bandwidth = NAN;
    s.value = 2;
    check_search(s,
                 "{\"tried\":4,\"pairs\":12,\"metric\":\"rmse\",\"best\":{\"regularization\":0.5,"
                 "\"bandwidth\":null,\"value\":2}}");
}

TEST_MAIN(cmocka_unit_test(test_metrics_round_trip), cmocka_unit_test(test_metrics_from_anything),
          cmocka_unit_test(test_progress), cmocka_unit_test(test_search))
