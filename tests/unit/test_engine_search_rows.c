/* What a search judges by of many rows: samples of them, or models on centers; and what it does as
 * time or memory ends. */
#include "engine/search/search.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "plan/rules.h"
#include "search_fixture.h"

/* Of 320 rows: solved whole by another solver, with the ridge that was found. */
static void check_many_rows(const char *fields, const char *message, double ridge,
                            struct fit_result *ret)
{
    struct dataset *ds = waves(400, 0.3, 4);
    struct model *m = fit_well(fields, ds, message, ret);
    assert_int_equal(m->m, 320);
    assert_string_equal(ret->solver, "cholesky");
    assert_close(ret->ridge, ridge, 1e-12);
    model_free(m);
    fixture_dataset_free(ds);
}

static void test_a_sample_of_many_rows(void **state)
{
    (void)state;
    struct fit_result result;
    check_many_rows("'kernel':'matern52','search':{'regularization':[1e-6,1e-3,1],"
                    "'max_rows':100,'folds':5}",
                    "a sample of 100 of the 320 training rows", 320e-3, &result);
    assert_true(result.search.sampled);
    assert_true(result.search.rows == 100 && result.search.centers == 0);
}

/* All rows, by models on as many centers as take no longer than full models of 200 rows: m = 162 is
 * the last with 4 x 320 m^2 + 9 m^3 <= 9 x 200^3. */
static void test_many_rows_by_centers(void **state)
{
    (void)state;
    struct fit_result result;
    check_many_rows("'kernel':'matern52','search':{'regularization':[1e-8,1e-4,1],"
                    "'max_rows':200}",
                    "The models that it judged had 162 centers", 320e-4, &result);
    assert_true(!result.search.sampled && result.search.rows == 320);
}

/* Judged by models on centers: of all rows, or of a sample; in less time of fewer centers. */
static void test_models_on_centers(void **state)
{
    (void)state;
    struct dataset *ds = waves(8200, 0.3, 4);
    struct fit_result result;
    static const char search[] = "'kernel':'matern52','search':{'regularization':[1e-9,1e-4,1],"
                                 "'bandwidth':[0.3,1.5],'max_rows':%d},'centers':{'count':20}%s";
    char fields[256];
    snprintf(fields, sizeof(fields), search, 200, "");
    struct model *m = fit_well(fields, ds, "it judged had 20 centers", &result);
    assert_int_equal(m->m, 20);
    assert_true(!result.search.sampled && result.search.count == 6);
    assert_true(result.search.rows == 6560 && result.search.centers == 20);
    const struct search_point *best = &result.search.points[result.search.best];
    assert_close(m->kernel.bandwidth, best->bandwidth, 0);
    assert_close(result.ridge, 6560 * best->regularization, 1e-15);
    assert_close(best->metrics.rmse, result.outcome.metrics.rmse, 0.2); /* other centers */
    model_free(m);
    snprintf(fields, sizeof(fields), search, 100, ",'solver':'falkon'");
    model_free(fit_well(fields, ds, "a sample of 5625 of the 6560 training rows", &result));
    assert_true(result.search.sampled && result.search.rows == 5625); /* as below, 9e6 */
    assert_string_equal(result.solver, "falkon");
    snprintf(fields, sizeof(fields), search, 100, ",'stop':{'time_budget_s':1e-4}");
    model_free(fit_well(fields, ds, "it judged had 20 centers", &result));
    assert_int_equal(result.search.rows, 625); /* 1e6 multiplications, 4 for each and 20 x 20 */
    fixture_dataset_free(ds);
}

/* A decomposition cannot be interrupted: rows are as many as fit into the time by a careful guess.
 */
static void test_a_sample_that_fits_the_time(void **state)
{
    (void)state;
    struct dataset *ds = waves(400, 0.3, 4);
    struct fit_result result;
    const int64_t rows = (int64_t)cbrt(RULE_SEARCH_RATE * 2e-3 / 9.0);
    static const char hurried[] = "'kernel':'matern52','search':{'regularization':[1e-3,1]%s},"
                                  "'stop':{'time_budget_s':%g}";
    char fields[256];
    assert_true(rows > RULE_SEARCH_ROWS_MIN && rows < 320);
    snprintf(fields, sizeof(fields), hurried, ",'folds':5", 2e-3);
    model_free(fit_well(fields, ds, "of the 320 training rows", &result));
    assert_true(result.search.sampled);
    assert_int_equal(result.search.rows, rows);
    snprintf(fields, sizeof(fields), hurried, ",'folds':5", 1e-6);
    model_free(fit_well(fields, ds, "a sample of 100 of", &result));
    snprintf(fields, sizeof(fields), hurried, "", 2e-3);
    model_free(fit_well(fields, ds, "had 100 centers", &result));
    assert_int_equal(result.search.rows, 320);
    snprintf(fields, sizeof(fields), hurried, "", 1.0);
    model_free(fit_well(fields, ds, "", &result));
    assert_int_equal(result.search.centers, 0);
    assert_false(result.search.sampled);
    fixture_dataset_free(ds);
}

/* Few centers do not tell regularizations apart that the full model does: the largest of those that
 * are alike is taken, although the least has the best metric. */
static void test_alike_on_centers(void **state)
{
    (void)state;
    struct dataset *ds = waves(400, 1e-3, 8);
    struct fit_result result;
    model_free(fit_well("'kernel':{'name':'gaussian','bandwidth':0.5},'centers':{'count':6},"
                        "'search':{'regularization':[1e-12,1e-7,1e-2],'max_rows':200}",
                        ds, "it judged had", &result));
    const struct search_point *points = result.search.points;
    assert_true(points[0].metrics.rmse < points[1].metrics.rmse);
    assert_true(points[1].metrics.rmse <= (1 + SEARCH_ALIKE) * points[0].metrics.rmse);
    assert_true(points[2].metrics.rmse > (1 + SEARCH_ALIKE) * points[0].metrics.rmse);
    assert_int_equal(result.search.best, 1);
    fixture_dataset_free(ds);
}

/* All rows are centers, and know themselves: the least regularizations leave rounding to judge. */
static void test_rounding_does_not_win(void **state)
{
    (void)state;
    struct dataset *ds = waves(60, 0.1, 8);
    struct fit_result result;
    model_free(fit_well("'test':{'fraction':0},'kernel':{'name':'gaussian','bandwidth':1e-6},"
                        "'centers':{'count':60},'search':{'regularization':[1e-15,1e-13,1e-6]}",
                        ds, "", &result));
    const struct search_point *points = result.search.points;
    assert_int_equal(result.search.best, 2);
    assert_true(isnan(points[0].metrics.rmse) && isnan(points[1].metrics.rmse));
    assert_near(points[2].metrics.r2, 0.0, 1e-6); /* each is missed by all of it */
    fixture_dataset_free(ds);
}

/* Out of time before the first decomposition, and after it. */
static void test_time_budget(void **state)
{
    (void)state;
    struct dataset *ds = waves(60, 0.1, 10);
    const char *fields = "'kernel':'gaussian','search':{'bandwidth':[1,2,3,4,5,6]},"
                         "'regularization':'auto','stop':{'time_budget_s':4}";
    for (double tick = 1; tick < 10; tick += 4) {
        struct story story = {.cancel_at = -1, .tick = tick};
        struct model *m = NULL;
        struct fit_result result;
        struct err err;
        assert_int_equal(fit(fields, ds, &story, &m, &result, &err), 0);
        assert_int_equal(result.outcome.reason, REASON_TIME_BUDGET);
        assert_true(result.search.count < 6 * 23);
        assert_int_equal(result.search.count > 0, tick < 4);
        assert_null(m);
        buf_deinit(&story.messages);
    }
    fixture_dataset_free(ds);
}

/* Bandwidths for more than the budget: half of it is the model's. */
static void test_time_is_left_for_the_model(void **state)
{
    (void)state;
    struct dataset *ds = waves(60, 0.1, 10);
    struct buf fields = {0};
    struct fit_result result;
    buf_printf(&fields, "'kernel':'gaussian','centers':{'count':9},"
                        "'stop':{'time_budget_s':100},'search':{'regularization':[1e-3],"
                        "'bandwidth':[1");
    for (int i = 2; i <= 100; i++) {
        buf_printf(&fields, ",%d", i);
    }
    buf_printf(&fields, "]}");
    struct story story = {.cancel_at = -1, .tick = 1};
    struct model *m = NULL;
    struct err err = {0};
    assert_int_equal(fit(fields.data, ds, &story, &m, &result, &err), 0);
    assert_non_null(m);
    assert_true(result.search.count > 4 && result.search.count < 50);
    assert_contains(story.messages.data, "of 100 pairs: the rest of the time budget");
    model_free(m);
    buf_deinit(&story.messages);
    buf_deinit(&fields);
    fixture_dataset_free(ds);
}

static void test_cancel_anywhere(void **state)
{
    (void)state;
    struct dataset *ds = waves(50, 0.1, 11);
    for (int64_t k = 0;; k++) {
        struct story story = {.cancel_at = k};
        struct model *m = NULL;
        struct fit_result result;
        assert_int_equal(fit("'regularization':'auto','search':{'bandwidth':[1,2]}", ds, &story, &m,
                             &result, NULL),
                         0);
        buf_deinit(&story.messages);
        if (story.asked <= k) {
            assert_non_null(m);
            model_free(m);
            break;
        }
        assert_null(m);
        assert_int_equal(result.outcome.reason, REASON_CANCELLED);
    }
    fixture_dataset_free(ds);
}

/* Every allocation of a search fails once, sampled and whole, with folds and without. */
static void no_memory(const char *fields, const struct dataset *ds)
{
    struct backend *be = fixture_backend();
    struct job_spec *spec = fixture_spec_read(fields);
    struct story story = {.cancel_at = -1};
    const struct solve_control control = {.context = &story, .now = story_now};
    int64_t refused = 0;
    for (int64_t k = 1; k < 100000; k++) {
        struct model *m = NULL;
        struct fit_result result;
        struct err err;
        mem_fail_nth(k);
        const struct fit_input in = {.train = ds};
        const int r = fit_run(be, spec, &in, &control, &m, &result, &err);
        mem_fail_nth(0);
        assert_int_equal(be->bytes, 0);
        if (r == 0 && m != NULL) {
            model_free(m);
            break;
        }
        assert_true(r == -ERR_NO_MEMORY || result.outcome.reason == REASON_OUT_OF_MEMORY);
        refused++;
    }
    assert_true(refused > 20);
    job_spec_free(spec);
    backend_close(be);
}

static void test_no_memory_anywhere(void **state)
{
    (void)state;
    struct dataset *ds = waves(140, 0.1, 12);
    no_memory("'kernel':'gaussian','search':{'regularization':[1e-4,1e-2],'folds':3}", ds);
    no_memory("'kernel':'gaussian','search':{'regularization':[1e-4,1e-2],'max_rows':100}", ds);
    fixture_dataset_free(ds);
}

TEST_MAIN(cmocka_unit_test(test_a_sample_that_fits_the_time),
          cmocka_unit_test(test_a_sample_of_many_rows), cmocka_unit_test(test_many_rows_by_centers),
          cmocka_unit_test(test_models_on_centers), cmocka_unit_test(test_alike_on_centers),
          cmocka_unit_test(test_rounding_does_not_win), cmocka_unit_test(test_time_budget),
          cmocka_unit_test(test_time_is_left_for_the_model), cmocka_unit_test(test_cancel_anywhere),
          cmocka_unit_test(test_no_memory_anywhere))
