/* The whole pipeline on generated data. */
#include <math.h>
#include <string.h>

#include "fit_fixture.h"

static void test_regression_with_defaults(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(400, 1);
    struct fit_result result;
    struct model *m = fit_well("", ds, NULL, "Kernel chosen", &result);
    assert_int_equal(result.train_rows, 320);
    assert_int_equal(result.test_rows, 80);
    assert_string_equal(result.solver, "cholesky");
    assert_int_equal(result.outcome.reason, REASON_CONVERGED);
    assert_true(result.outcome.metrics.r2 > 0.95);
    assert_true(isnan(result.outcome.metrics.accuracy));
    assert_close(result.ridge, 320.0 * result.regularization, 1e-15);
    assert_true(result.regularization > 0 && result.regularization <= 1e-6);
    assert_int_equal(m->d, 4);
    assert_int_equal(m->outputs, 1);
    struct json *j = fit_result_to_json(&result);
    assert_string_equal(json_string(json_get(j, "stop_reason")), "converged");
    assert_close(json_number(json_get(json_get(j, "metrics"), "r2")), result.outcome.metrics.r2,
                 1e-15);
    assert_int_equal(json_type(json_get(j, "preconditioner")), JSON_NULL);
    json_free(j);
    model_free(m);
    fixture_dataset_free(ds);
}

/* What "auto" makes of the precision: mixed for pcg with a kernel of a distance, refined to what
 * float64 gives; float64 for the rest, and where float32 cannot hold the points. */
static void test_precision_left_open(void **state)
{
    static const struct {
        const char *fields, *message;
        enum precision precision;
    } cases[] = {
        {"'solver':'pcg'", "Precision chosen for pcg: mixed.", PRECISION_MIXED},
        {"'solver':'pcg','precision':'mixed'", NULL, PRECISION_MIXED},
        {"'solver':'cholesky'", "cholesky: float64.", PRECISION_FLOAT64},
        {"'solver':{'name':'askotch2','block_size':100}", "float64.", PRECISION_FLOAT64},
        {"'solver':'pcg','kernel':{'name':'polynomial','degree':2}", "float64.", PRECISION_FLOAT64},
        {"'solver':'pcg','kernel':{'name':'gaussian','bandwidth':1e-40}", NULL, PRECISION_FLOAT64},
        {"'solver':'pcg','regularization':1e-11", "too coarse", PRECISION_FLOAT64},
    };
    (void)state;
    struct dataset *ds = fixture_smooth(400, 12);
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        char fields[256];
        snprintf(fields, sizeof(fields), "%s%s%s", cases[k].fields,
                 strstr(cases[k].fields, "kernel") != NULL ? "" : ",'kernel':'gaussian'",
                 strstr(cases[k].fields, "regul") != NULL ? "" : ",'regularization':1e-7");
        struct fit_result result;
        struct model *m = fit_well(fields, ds, NULL, cases[k].message, &result);
        assert_int_equal(result.outcome.reason, REASON_CONVERGED);
        assert_true(result.outcome.relative_residual <= 1.01e-6);
        assert_int_equal(result.precision, cases[k].precision);
        assert_int_equal(m->dtype, DTYPE_F64);
        model_free(m);
    }
    fixture_dataset_free(ds);
}

/* The metrics of the job are those of the model that comes out of it. */
static void test_metrics_are_the_models(void **state)
{
    (void)state;
    const char *const cases[] = {"'precision':'float64'",
                                 "'precision':'float32'",
                                 "'precision':'mixed'",
                                 "'precision':'mixed','solver':'falkon','centers':{'count':50}",
                                 "'solver':{'name':'pcg'}",
                                 "'kernel':{'name':'polynomial','degree':2}",
                                 "'kernel':{'name':'matern32','bandwidth':[1,2,3]}",
                                 "'kernel':{'bandwidth':2.5}",
                                 "'standardize':{'features':false,'target':false}"};
    struct backend *be = fixture_backend();
    struct dataset *ds = fixture_smooth(200, 2);
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        char fields[256];
        snprintf(fields, sizeof(fields), "'test':{'mask':'x3'},'regularization':1e-4,%s", cases[k]);
        struct fit_result result;
        struct model *m = fit_well(fields, ds, NULL, NULL, &result);
        struct predictor *p = NULL;
        assert_int_equal(predictor_new(m, be, &p, NULL), 0);
        double error = 0;
        for (int64_t i = 0; i < 200; i += 5) {
            double y;
            assert_int_equal(
                predictor_run(p, (const double *)ds->data + 5 * i, 0, 1, &y, NULL, NULL), 0);
            error += fabs(y - dataset_at(ds, i, 4)) / 40;
        }
        assert_int_equal(result.test_rows, 40);
        const double rounding = k == 1 ? 1e-3 : 1e-9;
        assert_close(error, result.outcome.metrics.mae, rounding);
        predictor_free(p);
        model_free(m);
    }
    fixture_dataset_free(ds);
    backend_close(be);
}

static void test_many_classes(void **state)
{
    (void)state;
    struct dataset *ds = clouds(26 * 30, 26, 3);
    struct fit_result result;
    struct model *m = fit_well("'regularization':1e-4", ds, NULL, NULL, &result);
    assert_int_equal(m->t, 26);
    assert_int_equal(m->outputs, 1);
    assert_string_equal(m->class_labels[25], "c25");
    assert_true(result.outcome.metrics.accuracy > 0.98);
    assert_true(isnan(result.outcome.metrics.auc) && isnan(result.outcome.metrics.rmse));
    model_free(m);
    m = fit_well("'regularization':1e-4,'solver':{'name':'pcg'}", ds, NULL, NULL, &result);
    assert_true(result.outcome.metrics.accuracy > 0.98);
    assert_string_equal(result.preconditioner, "rpcholesky");
    assert_int_equal(result.rank, 250); /* ceil(10 sqrt(624)) */
    model_free(m);
    fixture_dataset_free(ds);
}

static void test_two_classes_have_auc(void **state)
{
    (void)state;
    struct dataset *ds = clouds(200, 2, 4);
    struct fit_result result;
    model_free(fit_well("", ds, NULL, NULL, &result));
    assert_true(result.outcome.metrics.auc > 0.99);
    fixture_dataset_free(ds);
}

static void test_test_data_set(void **state)
{
    (void)state;
    struct dataset *train = clouds(120, 4, 5), *test = clouds(60, 3, 6);
    const char *fields = "'test':{'dataset':'ds_01HZXW5GQ0ABCDEFGHJKMNPQRT'}";
    struct fit_result result;
    model_free(fit_well(fields, train, test, NULL, &result));
    assert_int_equal(result.train_rows, 120);
    assert_int_equal(result.test_rows, 60);
    assert_true(result.outcome.metrics.accuracy > 0.98);

    struct backend *be = fixture_backend();
    struct story story = {.cancel_at = -1};
    struct model *m = NULL;
    struct err err;
    fixture_rename(&test->info.class_labels[1], "martian");
    assert_int_equal(fit(be, fields, train, test, &story, &m, &result, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/test/dataset");
    assert_contains(err.detail, "martian");
    assert_contains(err.detail, "Row 2");
    fixture_rename(&test->info.column_names[0], "other");
    assert_int_equal(fit(be, fields, train, test, &story, &m, &result, &err), -ERR_INVALID);
    assert_contains(err.detail, "\"x0\"");
    buf_deinit(&story.messages);
    backend_close(be);
    fixture_dataset_free(train);
    fixture_dataset_free(test);
}

/* Two targets at once are the two models that each would have alone. */
static void test_several_targets(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(150, 7);
    struct fit_result both, first, second;
#define COMMON "'features':['x0','x1'],'kernel':{'name':'gaussian'},'solver':{'name':'cholesky'}"
    struct model *m = fit_well("'target':['x4','x3']," COMMON, ds, NULL, NULL, &both);
    struct model *a = fit_well("'target':'x4'," COMMON, ds, NULL, NULL, &first);
    struct model *b = fit_well("'target':'x3'," COMMON, ds, NULL, NULL, &second);
    assert_int_equal(m->outputs, 2);
    assert_string_equal(m->target_names[1], "x3");
    for (int64_t i = 0; i < m->m; i++) {
        assert_near(m->coef[2 * i], a->coef[i], 1e-6 * (1 + fabs(a->coef[i])));
        assert_near(m->coef[2 * i + 1], b->coef[i], 1e-6 * (1 + fabs(b->coef[i])));
    }
    assert_close(both.outcome.metrics.mae,
                 (first.outcome.metrics.mae + second.outcome.metrics.mae) / 2, 1e-6);
    model_free(m);
    model_free(a);
    model_free(b);
    fixture_dataset_free(ds);
}

/* Values are kept for pcg, as far as the spec asks for it, and the model is the same to the last
 * bit. Left to itself the engine keeps them where the clock says that it pays. */
static void test_kept_kernel_values(void **state)
{
    (void)state;
    enum { ROWS = 500, COLUMNS = 21 };
    struct rng rng = rng_new(12, RNG_TEST);
    double *v = mem_array(ROWS * COLUMNS, sizeof(double));
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        v[i] = rng_normal(&rng);
    }
    struct dataset *ds = fixture_dataset(v, ROWS, COLUMNS, 0);
    mem_free(v);
    static const struct {
        const char *fields;
        bool kept;
        int64_t most;
    } cases[] = {
        {"'solver':'pcg','kernel_cache_bytes':0", false, 0},
        {"'solver':'pcg','kernel_cache_bytes':10000000", true, 10000000},
        {"'solver':'pcg','kernel_cache_bytes':400000", true, 400000},
        {"'solver':'cholesky','kernel_cache_bytes':400000", false, 0},
    };
    struct model *first = NULL;
    for (int i = 0; i < 4; i++) {
        char fields[256];
        snprintf(fields, sizeof(fields), "'kernel':'laplacian_l1','stop':{'max_iterations':3},%s",
                 cases[i].fields);
        struct fit_result result;
        struct model *m =
            fit_well(fields, ds, NULL, cases[i].kept ? "kept in memory" : NULL, &result);
        assert_true(cases[i].kept == (result.kernel_cache_bytes > 0));
        assert_true(result.kernel_cache_bytes <= cases[i].most);
        if (first == NULL) {
            first = m;
            continue;
        }
        if (i < 3) {
            assert_memory_equal(m->coef, first->coef, (size_t)m->m * sizeof(double));
        }
        model_free(m);
    }
    model_free(first);
    fixture_dataset_free(ds);
}

/* A model of noise, followed to the last digit or hardly at all. */
static void test_worse_than_the_mean(void **state)
{
    (void)state;
    enum { ROWS = 200, COLUMNS = 3 };
    struct rng rng = rng_new(13, RNG_TEST);
    double v[ROWS * COLUMNS];
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        v[i] = rng_normal(&rng);
    }
    struct dataset *ds = fixture_dataset(v, ROWS, COLUMNS, 0);
    struct fit_result result;
    struct model *m = fit_well("'kernel':'laplacian','regularization':1e-9", ds, NULL,
                               "warning: On the test rows the model is worse", &result);
    assert_true(result.outcome.metrics.r2 < -0.1);
    model_free(m);
    fixture_dataset_free(ds);
    ds = fixture_smooth(200, 8);
    struct backend *be = fixture_backend();
    struct story story = {.cancel_at = -1};
    struct err err = {.code = ERR_OK};
    assert_int_equal(fit(be, "'kernel':'gaussian'", ds, NULL, &story, &m, &result, &err), 0);
    assert_true(result.outcome.metrics.r2 > 0);
    assert_null(strstr(story.messages.data, "warning"));
    model_free(m);
    buf_deinit(&story.messages);
    backend_close(be);
    fixture_dataset_free(ds);
}

/* What the device does without is among a job's messages. */
static void test_notice_of_the_backend(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(60, 8);
    struct backend *be = fixture_backend();
    struct story story = {.cancel_at = -1};
    struct fit_result result;
    struct model *m = NULL;
    struct err err = {.code = ERR_OK};
    snprintf(be->notice, sizeof be->notice, "The device does without 100%% of it.");
    assert_int_equal(fit(be, "'kernel':'gaussian'", ds, NULL, &story, &m, &result, &err), 0);
    assert_contains(story.messages.data, "warning: The device does without 100% of it.");
    model_free(m);
    buf_deinit(&story.messages);
    backend_close(be);
    fixture_dataset_free(ds);
}

TEST_MAIN(cmocka_unit_test(test_regression_with_defaults),
          cmocka_unit_test(test_precision_left_open), cmocka_unit_test(test_metrics_are_the_models),
          cmocka_unit_test(test_many_classes), cmocka_unit_test(test_two_classes_have_auc),
          cmocka_unit_test(test_test_data_set), cmocka_unit_test(test_several_targets),
          cmocka_unit_test(test_kept_kernel_values), cmocka_unit_test(test_worse_than_the_mean),
          cmocka_unit_test(test_notice_of_the_backend))
