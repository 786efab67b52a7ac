/* Fits with something in the way: odd data, fields that do not go together, a cancel, no memory, no
 * time. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "fit_fixture.h"

static double rmse_at(const char *fields, const struct dataset *ds)
{
    struct fit_result result;
    model_free(fit_well(fields, ds, NULL, NULL, &result));
    return result.outcome.metrics.rmse;
}

/* Of features as they are. */
static void assert_float32_is_enough(const struct dataset *ds)
{
    static const char fields[] =
        "'standardize':{'features':false},'kernel':{'name':'gaussian','bandwidth':2},"
        "'solver':'cholesky','regularization':1e-5,'features':['x0','x1'],'precision':'%s'";
    char wide[256], narrow[256];
    snprintf(wide, sizeof(wide), fields, "float64");
    snprintf(narrow, sizeof(narrow), fields, "float32");
    assert_close(rmse_at(narrow, ds), rmse_at(wide, ds), 1e-2);
}

/* Features as they are, a million away from the origin: float32 holds them to a sixteenth there,
 * which says nothing about x, unless their mean is taken off first. */
static void test_far_from_the_origin_in_float32(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(300, 11);
    for (int64_t i = 0; i < 300; i++) {
        ((double *)(uintptr_t)ds->data)[5 * i] += 1e6;
        ((double *)(uintptr_t)ds->data)[5 * i + 1] += 1e6;
    }
    assert_float32_is_enough(ds);
    fixture_dataset_free(ds);
}

/* Few rows that lie far out drag the mean away from all others, but not the points. */
static void test_far_rows_do_not_move_the_origin(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(300, 11);
    for (int64_t i = 0; i < 3; i++) {
        ((double *)(uintptr_t)ds->data)[5 * i] = 1e8;
    }
    assert_float32_is_enough(ds);
    fixture_dataset_free(ds);
}

static void test_constant_target(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(60, 8);
    struct fit_result result;
    struct model *m = fit_well("'target':'x2','features':['x0','x1']", ds, NULL,
                               "warning: The target \"x2\" is constant", &result);
    assert_int_equal(result.outcome.reason, REASON_CONVERGED);
    assert_close(result.outcome.metrics.rmse, 0.0, 0);
    model_free(m);
    fixture_dataset_free(ds);
}

/* y = unit (5 + 3 sin(x0)), rows of [x0, y]. */
static struct dataset *in_units_of(double unit)
{
    enum { ROWS = 60 };
    struct rng rng = rng_new(21, RNG_TEST);
    double v[2 * ROWS];
    for (int64_t i = 0; i < ROWS; i++) {
        v[2 * i] = 2 * rng_normal(&rng);
        v[2 * i + 1] = unit * (5 + 3 * sin(v[2 * i]));
    }
    return fixture_dataset(v, ROWS, 2, 0);
}

/* Targets as they are, whose squares are 0 or infinite: the solve is that of moderate numbers, bit
 * by bit; in float32 the targets themselves would be 0 or infinite. */
static void test_targets_of_any_size(void **state)
{
    (void)state;
    static const int exponents[] = {-1000, -600, -200, 200, 600, 1000};
    static const char *const precisions[] = {"float64", "float32"};
    for (int k = 0; k < 2; k++) {
        char fields[256];
        snprintf(fields, sizeof(fields),
                 "'standardize':{'target':false},'kernel':{'name':'gaussian','bandwidth':1},"
                 "'regularization':1e-3,'precision':'%s','solver':'pcg','test':{'fraction':0}",
                 precisions[k]);
        struct fit_result plain, scaled;
        struct dataset *ds = in_units_of(1.0);
        struct model *m = fit_well(fields, ds, NULL, NULL, &plain);
        assert_close(m->target_scale[0], 1.0, 0);
        assert_true(plain.outcome.relative_residual > 0);
        model_free(m);
        fixture_dataset_free(ds);
        for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++) {
            ds = in_units_of(ldexp(1.0, exponents[i]));
            model_free(fit_well(fields, ds, NULL, NULL, &scaled));
            assert_int_equal(scaled.outcome.reason, REASON_CONVERGED);
            assert_int_equal(scaled.outcome.iterations, plain.outcome.iterations);
            assert_close(scaled.outcome.relative_residual, plain.outcome.relative_residual, 0);
            fixture_dataset_free(ds);
        }
    }
}

static void test_one_row(void **state)
{
    (void)state;
    const double values[] = {1, 2, 3, 42};
    struct dataset *ds = fixture_dataset(values, 1, 4, 0);
    struct fit_result result;
    struct model *m = fit_well("", ds, NULL, "bandwidth is 1", &result);
    assert_int_equal(result.test_rows, 0);
    assert_true(isnan(result.outcome.metrics.rmse));
    assert_close(m->target_mean[0], 42.0, 0);
    model_free(m);
    fixture_dataset_free(ds);
}

static void test_a_class_without_rows(void **state)
{
    (void)state;
    struct dataset *ds = clouds(60, 3, 9);
    ds->info.class_labels = names_free(ds->info.class_labels, 3);
    ds->info.classes = 5;
    ds->info.class_labels = fixture_names("c", 5);
    struct fit_result result;
    struct model *m = fit_well("", ds, NULL, "2 of 5 classes, \"c3\" among them", &result);
    assert_int_equal(m->t, 5);
    assert_true(result.outcome.metrics.accuracy > 0.9);
    model_free(m);
    fixture_dataset_free(ds);
}

/* Duplicate rows with zero ridge: a result that says what to do, and no model. */
static void test_not_positive_definite(void **state)
{
    (void)state;
    double values[40];
    for (int i = 0; i < 20; i++) {
        values[2 * i] = i % 10;
        values[2 * i + 1] = i;
    }
    struct dataset *ds = fixture_dataset(values, 20, 2, 0);
    struct backend *be = fixture_backend();
    struct story story = {.cancel_at = -1};
    struct model *m = NULL;
    struct fit_result result;
    struct err err;
    const char *fields = "'regularization':0,'solver':{'name':'cholesky'},'test':{'fraction':0}";
    assert_int_equal(fit(be, fields, ds, NULL, &story, &m, &result, &err), 0);
    assert_null(m);
    assert_int_equal(result.outcome.reason, REASON_NOT_POSITIVE_DEFINITE);
    assert_contains(err.detail, "regularization");
    buf_deinit(&story.messages);
    backend_close(be);
    fixture_dataset_free(ds);
}

static void test_bad_combinations(void **state)
{
    (void)state;
    const struct {
        const char *fields, *pointer;
    } cases[] = {{"'target':'nope'", "#/target"},
                 {"'features':['x0','nope']", "#/features"},
                 {"'task':'classification'", "#/task"},
                 {"'test':{'mask':'x0'}", "#/test/mask"},
                 {"'test':{'mask':'nope'}", "#/test/mask"},
                 {"'kernel':{'name':'gaussian','bandwidth':[1,2]}", "#/kernel/bandwidth"},
                 {"'kernel':{'name':'gaussian','bandwidth':1e-320}", "#/kernel/bandwidth"},
                 {"'test':{'dataset':'ds_01HZXW5GQ0ABCDEFGHJKMNPQRT'}", "#/test/dataset"}};
    struct dataset *ds = fixture_smooth(30, 10);
    struct backend *be = fixture_backend();
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct story story = {.cancel_at = -1};
        struct model *m = NULL;
        struct fit_result result;
        struct err err = {.code = ERR_OK};
        assert_int_equal(fit(be, cases[k].fields, ds, NULL, &story, &m, &result, &err),
                         -ERR_INVALID);
        assert_memory_equal(err.pointer, cases[k].pointer, strlen(cases[k].pointer));
        assert_null(m);
        buf_deinit(&story.messages);
    }
    backend_close(be);
    fixture_dataset_free(ds);
}

static void test_cancel_anywhere(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(100, 11);
    struct backend *be = fixture_backend();
    for (int64_t k = 0;; k++) {
        struct story story = {.cancel_at = k};
        struct model *m = NULL;
        struct fit_result result;
        assert_int_equal(fit(be, "'solver':{'name':'pcg'}", ds, NULL, &story, &m, &result, NULL),
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
    backend_close(be);
    fixture_dataset_free(ds);
}

/* Every allocation fails once: the job says out_of_memory, or an error, and nothing is lost. */
static void test_no_memory_anywhere(void **state)
{
    (void)state;
    struct dataset *ds = clouds(40, 2, 12);
    struct backend *be = fixture_backend();
    int64_t refused = 0;
    for (int64_t k = 1; k < 100000; k++) {
        struct job_spec *spec = fixture_spec_read("'solver':{'name':'pcg'}");
        struct story story = {.cancel_at = -1};
        const struct solve_control control = {.context = &story, .now = story_now};
        struct model *m = NULL;
        struct fit_result result;
        mem_fail_nth(k);
        const struct fit_input in = {.train = ds};
        const int r = fit_run(be, spec, &in, &control, &m, &result, NULL);
        mem_fail_nth(0);
        job_spec_free(spec);
        assert_int_equal(be->bytes, 0);
        assert_int_equal(r, 0);
        if (m != NULL) {
            model_free(m);
            break;
        }
        assert_int_equal(result.outcome.reason, REASON_OUT_OF_MEMORY);
        refused++;
    }
    assert_true(refused > 50);
    backend_close(be);
    fixture_dataset_free(ds);
}

static void test_time_budget(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(300, 13);
    struct backend *be = fixture_backend();
    const char *fields = "'regularization':1e-9,'stop':{'tolerance':1e-14,'time_budget_s':100},"
                         "'solver':{'name':'pcg','preconditioner':{'name':'none'}}";
    struct story story = {.cancel_at = -1, .tick = 1};
    struct model *m = NULL;
    struct fit_result result;
    assert_int_equal(fit(be, fields, ds, NULL, &story, &m, &result, NULL), 0);
    assert_int_equal(result.outcome.reason, REASON_TIME_BUDGET);
    assert_non_null(m);
    assert_true(result.outcome.metrics.rmse > 0);
    model_free(m);
    buf_deinit(&story.messages);
    backend_close(be);
    fixture_dataset_free(ds);
}

TEST_MAIN(cmocka_unit_test(test_constant_target), cmocka_unit_test(test_targets_of_any_size),
          cmocka_unit_test(test_one_row), cmocka_unit_test(test_a_class_without_rows),
          cmocka_unit_test(test_not_positive_definite), cmocka_unit_test(test_bad_combinations),
          cmocka_unit_test(test_cancel_anywhere), cmocka_unit_test(test_no_memory_anywhere),
          cmocka_unit_test(test_time_budget), cmocka_unit_test(test_far_from_the_origin_in_float32),
          cmocka_unit_test(test_far_rows_do_not_move_the_origin))
