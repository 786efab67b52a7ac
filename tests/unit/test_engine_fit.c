/* The whole pipeline on generated data. */
#include "engine/fit/fit.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "engine_fixture.h"

struct story {
    double now;
    double tick;
    int64_t cancel_at, asked;
    struct progress last;
    int selecting; /* reports of a share of the selection of centers */
    bool fell;     /* such a share did */
    struct buf messages;
};

static double story_now(void *context)
{
    struct story *s = context;
    s->now += s->tick;
    return s->now;
}

static bool story_cancelled(void *context)
{
    struct story *s = context;
    return s->asked++ == s->cancel_at;
}

/* The last report's metrics, as the job's `progress` keeps them. */
static void story_report(void *context, const struct progress *p)
{
    struct story *s = context;
    s->fell = s->fell || (p->step < s->last.step && strcmp(p->phase, s->last.phase) == 0);
    s->selecting += strcmp(p->phase, "centers") == 0 && p->step > 0 && p->step <= 1;
    s->last = *p;
}

static void story_message(void *context, const char *level, const char *text)
{
    struct story *s = context;
    buf_printf(&s->messages, "%s: %s\n", level, text);
}

static int fit(struct backend *be, const char *fields, const struct dataset *train,
               const struct dataset *test, struct story *story, struct model **ret,
               struct fit_result *ret_result, struct err *err)
{
    struct job_spec *spec = fixture_spec_read(fields);
    const struct solve_control control = {
        .context = story,
        .now = story_now,
        .cancelled = story_cancelled,
        .report = story_report,
        .message = story_message,
    };
    *ret = NULL;
    const struct fit_input in = {.train = train, .test = test};
    const int r = fit_run(be, spec, &in, &control, ret, ret_result, err);
    job_spec_free(spec);
    assert_int_equal(be->bytes, 0);
    return r;
}

/* The job succeeds; its messages are checked and thrown away. */
static struct model *fit_well(const char *fields, const struct dataset *train,
                              const struct dataset *test, const char *message,
                              struct fit_result *ret_result)
{
    struct backend *be = fixture_backend();
    struct story story = {.cancel_at = -1};
    struct model *m = NULL;
    struct err err = {.code = ERR_OK};
    if (fit(be, fields, train, test, &story, &m, ret_result, &err) < 0 || m == NULL) {
        fail_msg("%s: %s %s", fields, err.pointer, err.detail);
    }
    assert_string_equal(story.last.phase, "saving");
    assert_close(story.last.fraction, 1.0, 0);
    assert_true(isnan(story.last.eta_s));
    assert_memory_equal(&story.last.metrics, &ret_result->outcome.metrics, sizeof(struct metrics));
    if (message != NULL) {
        assert_contains(story.messages.data != NULL ? story.messages.data : "", message);
    }
    buf_deinit(&story.messages);
    backend_close(be);
    return m;
}

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

/* `classes` clouds of points in the plane. */
static struct dataset *clouds(int64_t rows, int64_t classes, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *v = mem_array((size_t)rows, 3 * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        const int64_t c = i % classes;
        v[3 * i] = 6 * (double)(c % 6) + rng_normal(&rng);
        v[3 * i + 1] = 6 * (double)(c / 6) + rng_normal(&rng);
        v[3 * i + 2] = (double)c;
    }
    struct dataset *ds = fixture_dataset(v, rows, 3, classes);
    mem_free(v);
    return ds;
}

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

/* A selection that takes long tells how far it is. */
static void test_selections_are_told_of(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(300, 13);
    struct backend *be = fixture_backend();
    const char *fields =
        "'solver':'direct','centers':{'method':'squeak','count':20,'block_size':8}";
    struct story story = {.cancel_at = -1, .tick = 1, .last = progress_none()};
    struct model *m = NULL;
    struct fit_result result;
    struct err err = {0};
    assert_int_equal(fit(be, fields, ds, NULL, &story, &m, &result, &err), 0);
    assert_int_equal(result.outcome.reason, REASON_CONVERGED);
    assert_true(story.selecting >= 5);
    assert_false(story.fell);
    model_free(m);
    buf_deinit(&story.messages);
    backend_close(be);
    fixture_dataset_free(ds);
}

/* Rows of few different points, so that many cost little. */
static struct dataset *repeated(int64_t rows, int64_t distinct)
{
    double *v = mem_array((size_t)rows, 2 * sizeof(*v));
    for (int64_t i = 0; i < rows; i++) {
        v[2 * i] = (double)(i % distinct);
        v[2 * i + 1] = sin(v[2 * i]) + 0.01 * (double)(i % 7);
    }
    struct dataset *ds = fixture_dataset(v, rows, 2, 0);
    mem_free(v);
    return ds;
}

/* What the leverage scores say, and that they are of fewer rows than their lambda asks for. */
static void test_leverage_scores_are_told_of(void **state)
{
    (void)state;
    struct dataset *ds = repeated(12000, 40);
    struct fit_result result;
    static const char fields[] =
        "'solver':'direct','kernel':{'name':'gaussian','bandwidth':1},'regularization':1e-6,"
        "'test':{'fraction':0},'centers':{'method':'%s','count':'auto','regularization':%s}";
    char text[256];
    snprintf(text, sizeof(text), fields, "two_pass", "1e-5");
    model_free(fit_well(text, ds, NULL,
                        "warning: The regularization asks for leverage scores from "
                        "12000 rows; by default they are from 10000",
                        &result));
    assert_int_equal(result.levels, 0);
    snprintf(text, sizeof(text), fields, "bless", "1e-3");
    model_free(fit_well(text, ds, NULL, "info: Leverage scores: effective dimension", &result));
    assert_true(result.levels > 5);
    const struct center_level *last = &result.path[result.levels - 1];
    assert_close(last->lambda, 1e-3, 1e-9);
    assert_true(last->effective_dimension > 1 && last->effective_dimension < 40);
    assert_int_equal(last->count, result.centers);
    fixture_dataset_free(ds);
}

/* A path of more levels than a result has room for ends where it did. */
static void test_long_paths_keep_their_end(void **state)
{
    (void)state;
    struct dataset *ds = repeated(600, 40);
    struct fit_result result;
    model_free(
        fit_well("'solver':'direct','kernel':{'name':'gaussian','bandwidth':1},"
                 "'centers':{'method':'bless_r','count':'auto','regularization':1e-4,'q':1.05}",
                 ds, NULL, NULL, &result));
    assert_int_equal(result.levels, FIT_LEVELS_MOST); /* of 189 */
    assert_close(result.path[FIT_LEVELS_MOST - 1].lambda, 1e-4, 1e-9);
    struct json *j cleanup_json = fit_result_to_json(&result);
    const struct json *scores = json_get(j, "leverage_scores");
    assert_close(json_number(json_get(scores, "regularization")), 1e-4, 1e-9);
    assert_int_equal(json_size(json_get(scores, "path")), FIT_LEVELS_MOST);
    fixture_dataset_free(ds);
}

/* A selection of centers is part of the job's time. */
static void test_time_budget_of_a_selection(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(300, 13);
    struct backend *be = fixture_backend();
    const char *fields = "'solver':'direct','stop':{'time_budget_s':40},"
                         "'centers':{'method':'squeak','count':20,'block_size':1}";
    struct story story = {.cancel_at = -1, .tick = 1};
    struct model *m = NULL;
    struct fit_result result;
    struct err err = {0};
    assert_int_equal(fit(be, fields, ds, NULL, &story, &m, &result, &err), 0);
    assert_int_equal(result.outcome.reason, REASON_TIME_BUDGET);
    assert_null(m);
    assert_string_equal(err.pointer, "#/stop/time_budget_s");
    assert_contains(err.detail, "centers");
    buf_deinit(&story.messages);
    backend_close(be);
    fixture_dataset_free(ds);
}

TEST_MAIN(cmocka_unit_test(test_regression_with_defaults),
          cmocka_unit_test(test_precision_left_open), cmocka_unit_test(test_metrics_are_the_models),
          cmocka_unit_test(test_many_classes), cmocka_unit_test(test_two_classes_have_auc),
          cmocka_unit_test(test_test_data_set), cmocka_unit_test(test_several_targets),
          cmocka_unit_test(test_kept_kernel_values), cmocka_unit_test(test_constant_target),
          cmocka_unit_test(test_worse_than_the_mean), cmocka_unit_test(test_notice_of_the_backend),
          cmocka_unit_test(test_targets_of_any_size), cmocka_unit_test(test_one_row),
          cmocka_unit_test(test_a_class_without_rows), cmocka_unit_test(test_not_positive_definite),
          cmocka_unit_test(test_bad_combinations), cmocka_unit_test(test_cancel_anywhere),
          cmocka_unit_test(test_no_memory_anywhere), cmocka_unit_test(test_time_budget),
          cmocka_unit_test(test_selections_are_told_of),
          cmocka_unit_test(test_leverage_scores_are_told_of),
          cmocka_unit_test(test_long_paths_keep_their_end),
          cmocka_unit_test(test_time_budget_of_a_selection),
          cmocka_unit_test(test_far_from_the_origin_in_float32),
          cmocka_unit_test(test_far_rows_do_not_move_the_origin))
