/* The search for regularization and bandwidth, through whole fits on generated data. */
#include "engine/search/search.h"

#include <math.h>

#include "base/buf.h"
#include "base/rng.h"
#include "engine/fit/fit.h"
#include "engine_fixture.h"
#include "plan/rules.h"

struct story {
    double now, tick;
    int64_t cancel_at, asked;
    struct buf messages;
    int tables;
    int64_t last_table; /* rows of the last table told */
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

static void story_message(void *context, const char *level, const char *text)
{
    struct story *s = context;
    buf_printf(&s->messages, "%s: %s\n", level, text);
}

static void story_tell(void *context, const char *text, const struct json *data)
{
    struct story *s = context;
    buf_printf(&s->messages, "told: %s\n", text);
    s->tables++;
    s->last_table = json_size(json_get(data, "path"));
}

static int fit(const char *fields, const struct dataset *ds, struct story *story,
               struct model **ret, struct fit_result *ret_result, struct err *err)
{
    struct backend *be = fixture_backend();
    struct job_spec *spec = fixture_spec_read(fields);
    const struct solve_control control = {
        .context = story,
        .now = story_now,
        .cancelled = story_cancelled,
        .message = story_message,
        .tell = story_tell,
    };
    *ret = NULL;
    const struct fit_input in = {.train = ds};
    const int r = fit_run(be, spec, &in, &control, ret, ret_result, err);
    job_spec_free(spec);
    assert_int_equal(be->bytes, 0);
    backend_close(be);
    return r;
}

/* The fit succeeds and says `message`. */
static struct model *fit_well(const char *fields, const struct dataset *ds, const char *message,
                              struct fit_result *ret)
{
    struct story story = {.cancel_at = -1};
    struct model *m = NULL;
    struct err err = {.code = ERR_OK};
    if (fit(fields, ds, &story, &m, ret, &err) < 0 || m == NULL) {
        fail_msg("%s: %s %s", fields, err.pointer, err.detail);
    }
    assert_contains(story.messages.data != NULL ? story.messages.data : "", message);
    if (ret->search.count > 0) {
        assert_int_equal(story.last_table, ret->search.count);
    }
    buf_deinit(&story.messages);
    return m;
}

/* x2 = 10 + sin(2 x0) + noise, the target; x1 = 0, a mask for who needs one. */
static struct dataset *waves(int64_t rows, double noise, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *v = mem_array((size_t)rows, 3 * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        v[3 * i] = 2 * rng_normal(&rng);
        v[3 * i + 1] = 0;
        v[3 * i + 2] = 10 + sin(2 * v[3 * i]) + noise * rng_normal(&rng);
    }
    struct dataset *ds = fixture_dataset(v, rows, 3, 0);
    mem_free(v);
    return ds;
}

static struct dataset *clouds(int64_t rows, int64_t classes, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *v = mem_array((size_t)rows, 3 * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        v[3 * i] = 2 * (double)(i % classes) + rng_normal(&rng);
        v[3 * i + 1] = rng_normal(&rng);
        v[3 * i + 2] = (double)(i % classes);
    }
    struct dataset *ds = fixture_dataset(v, rows, 3, classes);
    mem_free(v);
    return ds;
}

#define RAW "'standardize':{'features':false,'target':false},'features':['x0'],"

/* Each row's error when it is left out, by as many fits, each with the same absolute ridge. */
static double mean_error_by_refits(struct dataset *ds, int64_t rows, double regularization,
                                   double bandwidth)
{
    double sum = 0;
    double *values = (double *)(uintptr_t)ds->data;
    for (int64_t i = 0; i < rows; i++) {
        values[3 * i + 1] = 1;
        char fields[512];
        snprintf(fields, sizeof(fields),
                 RAW "'test':{'mask':'x1'},'solver':'cholesky','regularization':%.17g,"
                     "'kernel':{'name':'gaussian','bandwidth':%.17g}",
                 regularization * (double)rows / (double)(rows - 1), bandwidth);
        struct fit_result result;
        model_free(fit_well(fields, ds, "", &result));
        sum += result.outcome.metrics.mae / (double)rows;
        values[3 * i + 1] = 0;
    }
    return sum;
}

static void test_metrics_are_those_of_refits(void **state)
{
    (void)state;
    enum { ROWS = 30 };
    struct dataset *ds = waves(ROWS, 0.1, 1);
    struct fit_result result;
    model_free(fit_well(RAW "'test':{'fraction':0},'kernel':'gaussian','search':{"
                            "'regularization':[1e-4,0.03],'bandwidth':[0.5,2],'metric':'mae'}",
                        ds, "Regularization found", &result));
    const struct search_result *s = &result.search;
    assert_int_equal(s->count, 4);
    assert_int_equal(s->rows, ROWS);
    assert_false(s->sampled);
    for (int64_t k = 0; k < 4; k++) {
        assert_close(s->points[k].bandwidth, k < 2 ? 0.5 : 2.0, 0);
        assert_close(s->points[k].regularization, k % 2 == 0 ? 1e-4 : 0.03, 0);
        assert_close(
            s->points[k].metrics.mae,
            mean_error_by_refits(ds, ROWS, s->points[k].regularization, s->points[k].bandwidth),
            1e-7);
        assert_true(s->points[s->best].metrics.mae <= s->points[k].metrics.mae);
    }
    fixture_dataset_free(ds);
}

/* As many folds as rows are leave one out. */
static void test_folds(void **state)
{
    (void)state;
    struct dataset *ds = waves(45, 0.1, 2);
    struct fit_result loo, folds, few;
#define LIST "'test':{'fraction':0},'kernel':'gaussian','search':{'regularization':[1e-5,1e-3,0.1]"
    model_free(fit_well(LIST "}", ds, "Search: 3 pairs judged", &loo));
    model_free(fit_well(LIST ",'folds':45}", ds, "", &folds));
    model_free(fit_well(LIST ",'folds':4}", ds, "", &few));
    assert_int_equal(loo.search.folds, 0);
    assert_int_equal(folds.search.folds, 45);
    for (int64_t k = 0; k < 3; k++) {
        const double rmse = loo.search.points[k].metrics.rmse;
        assert_close(folds.search.points[k].metrics.rmse, rmse, 1e-7);
        assert_true(few.search.points[k].metrics.rmse != rmse);
        assert_close(few.search.points[k].metrics.rmse, rmse, 0.5);
    }
    struct story story = {.cancel_at = -1};
    struct model *m = NULL;
    struct err err;
    assert_int_equal(fit(LIST ",'folds':46}", ds, &story, &m, &few, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/search/folds");
    buf_deinit(&story.messages);
    fixture_dataset_free(ds);
}

/* The model is the one that a job with the pair found would have given. */
static void test_the_model_is_the_best_pair(void **state)
{
    (void)state;
    struct dataset *ds = waves(120, 0.3, 3);
    struct fit_result found, direct;
    struct model *a = fit_well("'kernel':'gaussian','regularization':'auto',"
                               "'search':{'bandwidth':[0.1,0.5,3]}",
                               ds, "told: Search: 69 pairs judged, 23 of them just now", &found);
    assert_string_equal(found.solver, "eigendecomposition");
    assert_int_equal(found.outcome.reason, REASON_CONVERGED);
    assert_true(found.outcome.relative_residual <= 1e-9);
    assert_int_equal(found.search.count, 69);
    const struct search_point *best = &found.search.points[found.search.best];
    assert_close(found.regularization, best->regularization, 0);
    assert_close(found.ridge, 96 * best->regularization, 1e-15);
    assert_close(a->kernel.bandwidth, best->bandwidth, 0);
    /* Noise of 0.3 on a wave: neither end of the grid. */
    assert_true(best->regularization > 1e-10 && best->regularization < 0.1);
    char fields[256];
    snprintf(fields, sizeof(fields),
             "'kernel':{'name':'gaussian','bandwidth':%.17g},'regularization':%.17g,"
             "'solver':'cholesky'",
             best->bandwidth, best->regularization);
    struct model *b = fit_well(fields, ds, "", &direct);
    double largest = 0;
    for (int64_t i = 0; i < a->m; i++) {
        largest = fmax(largest, fabs(b->coef[i]));
    }
    for (int64_t i = 0; i < a->m; i++) {
        assert_near(a->coef[i], b->coef[i], 1e-6 * largest);
    }
    assert_int_equal(direct.search.count, 0);
    model_free(a);
    model_free(b);
    fixture_dataset_free(ds);
}

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

static const struct backend_ops *real_ops;
static int64_t factors;

static int potrf_but_once(struct backend *be, const struct mat *A, double min_pivot,
                          int64_t *ret_column, struct err *err)
{
    return factors++ == 2 ? err_set(err, ERR_NOT_POSITIVE_DEFINITE, "Rounding.")
                          : real_ops->potrf(be, A, min_pivot, ret_column, err);
}

/* A fold that cannot be factorised costs its pair, not the job. */
static void test_a_fold_that_fails(void **state)
{
    (void)state;
    struct dataset *ds = waves(60, 0.1, 12);
    struct backend *be = fixture_backend();
    real_ops = be->ops;
    struct backend_ops ops = *real_ops;
    ops.potrf = potrf_but_once;
    factors = 0;
    be->ops = &ops;
    struct job_spec *spec = fixture_spec_read(
        "'kernel':'gaussian','search':{'regularization':[1e-3,1e-2,1e-1],'folds':4}");
    struct story story = {.cancel_at = -1};
    const struct solve_control control = {.context = &story, .now = story_now};
    const struct fit_input in = {.train = ds};
    struct model *m = NULL;
    struct fit_result result;
    struct err err;
    assert_int_equal(fit_run(be, spec, &in, &control, &m, &result, &err), 0);
    assert_int_equal(result.search.count, 3);
    assert_true(isnan(result.search.points[0].metrics.rmse));
    assert_true(isfinite(result.search.points[1].metrics.rmse));
    assert_true(result.search.best > 0);
    model_free(m);
    job_spec_free(spec);
    be->ops = real_ops;
    backend_close(be);
    fixture_dataset_free(ds);
}

static void test_other_solvers_take_the_pair(void **state)
{
    (void)state;
    struct dataset *ds = waves(100, 0.2, 5);
    struct fit_result result;
    model_free(fit_well("'solver':'pcg','kernel':'gaussian','regularization':'auto'", ds,
                        "Regularization found", &result));
    assert_string_equal(result.solver, "pcg");
    assert_int_equal(result.outcome.reason, REASON_CONVERGED);
    model_free(fit_well("'precision':'float32','kernel':'laplacian','regularization':'auto',"
                        "'stop':{'tolerance':1e-3}",
                        ds, "Regularization found", &result));
    assert_int_equal(result.outcome.reason, REASON_CONVERGED);
    model_free(
        fit_well("'kernel':'linear','regularization':'auto'", ds, "Regularization found", &result));
    assert_true(isnan(result.search.points[0].bandwidth));
    fixture_dataset_free(ds);
}

static void test_classification(void **state)
{
    (void)state;
    struct dataset *three = clouds(120, 3, 6), *two = clouds(120, 2, 7);
    struct fit_result result;
    model_free(fit_well("'kernel':'gaussian','regularization':'auto','search':{'folds':5}", three,
                        "", &result));
    assert_int_equal(result.search.metric, SEARCH_ACCURACY);
    const struct search_result *s = &result.search;
    for (int64_t k = 0; k < s->count; k++) {
        const double mine = s->points[k].metrics.accuracy;
        const double best = s->points[s->best].metrics.accuracy;
        assert_true(
            isnan(mine) || mine < best ||
            (mine == best && s->points[k].regularization <= s->points[s->best].regularization));
    }
    assert_true(s->points[s->best].metrics.accuracy > 0.7);
    model_free(fit_well("'kernel':'gaussian','search':{'regularization':[1e-3],'metric':'auc'}",
                        two, "", &result));
    assert_true(result.search.points[0].metrics.auc > 0.8);
    fixture_dataset_free(three);
    fixture_dataset_free(two);
}

static void fit_without_a_pair(const char *fields, const struct dataset *ds)
{
    struct story story = {.cancel_at = -1};
    struct model *m = NULL;
    struct fit_result result;
    struct err err;
    assert_int_equal(fit(fields, ds, &story, &m, &result, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/search");
    assert_contains(err.detail, "None of the 2 pairs");
    buf_deinit(&story.messages);
}

static void test_nothing_can_be_judged(void **state)
{
    (void)state;
    struct dataset *ds = waves(60, 0.1, 8);
    fit_without_a_pair("'kernel':{'name':'sigmoid','coef0':-1},'search':{"
                       "'regularization':[1e-9,1e-8]}",
                       ds);
    fit_without_a_pair("'kernel':{'name':'sigmoid','coef0':-1},'centers':{'count':20},'search':{"
                       "'regularization':[1e-9,1e-8]}",
                       ds);
    fit_without_a_pair("'kernel':{'name':'polynomial','degree':20,'gamma':1e30},'centers':{'count':"
                       "20},'search':{'regularization':[1e-9,1e-8]}",
                       ds);
    fit_without_a_pair("'kernel':{'name':'polynomial','degree':20,'gamma':1e30},"
                       "'search':{'regularization':[1e-9,1e-8]}",
                       ds);
    fixture_dataset_free(ds);
}

/* Left-out predictions of a constant are right, and say nothing of a pair. */
static void test_r2_of_a_constant(void **state)
{
    (void)state;
    struct dataset *ds = waves(60, 0.1, 8);
    double *values = (double *)(uintptr_t)ds->data;
    for (int64_t i = 0; i < 60; i++) {
        values[3 * i + 2] = 0.1;
    }
    fit_without_a_pair("'kernel':'gaussian','search':{'regularization':[1e-9,1e-8],'metric':'r2'}",
                       ds);
    fixture_dataset_free(ds);
}

static int64_t best_of_scaled(struct dataset *ds, int exponent)
{
    double *values = (double *)(uintptr_t)ds->data;
    struct fit_result result;
    for (int64_t i = 0; i < 100; i++) {
        values[3 * i + 2] = ldexp(values[3 * i + 2], exponent);
    }
    model_free(fit_well("'kernel':'gaussian','regularization':'auto',"
                        "'search':{'bandwidth':[0.1,0.5,3]}",
                        ds, "", &result));
    for (int64_t i = 0; i < 100; i++) {
        values[3 * i + 2] = ldexp(values[3 * i + 2], -exponent);
    }
    return result.search.best;
}

/* Squares of such targets are 0, or infinite: the pair found is the same. */
static void test_targets_of_all_sizes(void **state)
{
    (void)state;
    struct dataset *ds = waves(100, 0.3, 3);
    const int64_t best = best_of_scaled(ds, 0);
    assert_int_equal(best_of_scaled(ds, -560), best);
    assert_int_equal(best_of_scaled(ds, 520), best);
    fixture_dataset_free(ds);
}

/* No pair misses the rows by less than the largest double: none is better than another. */
static void test_infinite_metrics_do_not_win(void **state)
{
    (void)state;
    struct dataset *ds = waves(60, 0.1, 8);
    double *values = (double *)(uintptr_t)ds->data;
    for (int64_t i = 0; i < 60; i++) {
        values[3 * i + 2] = i % 2 == 0 ? 8e307 : -8e307;
    }
    fit_without_a_pair("'test':{'fraction':0},'kernel':{'name':'gaussian','bandwidth':1},"
                       "'search':{'regularization':[1e-12,1e-11]}",
                       ds);
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

/* A full model in float32 has no use for a ridge below that type's rounding, which the models that
 * are judged in float64 bear. */
static void test_what_float32_can_solve(void **state)
{
    (void)state;
    struct dataset *ds = waves(400, 1e-3, 8);
    struct fit_result result;
    static const char fields[] = "'precision':'%s','kernel':{'name':'gaussian','bandwidth':1},"
                                 "'search':{'regularization':[1e-12,1e-9,1e-5],'max_rows':200}";
    char text[256];
    snprintf(text, sizeof(text), fields, "float64");
    model_free(fit_well(text, ds, "it judged had", &result));
    assert_true(result.search.best < 2);
    snprintf(text, sizeof(text), fields, "float32");
    model_free(fit_well(text, ds, "it judged had", &result));
    const struct search_point *points = result.search.points;
    assert_int_equal(result.search.best, 2);
    assert_true(isnan(points[0].metrics.rmse) && isnan(points[1].metrics.rmse));
    assert_true(result.outcome.metrics.rmse < 1.5 * points[2].metrics.rmse);
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

static void test_result_as_json(void **state)
{
    (void)state;
    struct dataset *ds = waves(50, 0.1, 9);
    struct fit_result result;
    model_free(
        fit_well("'kernel':'gaussian','search':{'regularization':[1e-4,1e-2]}", ds, "", &result));
    struct json *j = fit_result_to_json(&result);
    const struct json *search = json_get(j, "search");
    assert_string_equal(json_string(json_get(search, "metric")), "rmse");
    assert_string_equal(json_string(json_get(search, "folds")), "loo");
    assert_int_equal(json_size(json_get(search, "path")), 2);
    const struct json *point = json_first(json_get(search, "path"));
    assert_close(json_number(json_get(point, "regularization")), 1e-4, 0);
    assert_close(json_number(json_get(point, "rmse")), result.search.points[0].metrics.rmse, 0);
    assert_close(json_number(json_get(j, "regularization")), result.regularization, 0);
    json_free(j);
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

TEST_MAIN(cmocka_unit_test(test_metrics_are_those_of_refits), cmocka_unit_test(test_folds),
          cmocka_unit_test(test_a_sample_that_fits_the_time),
          cmocka_unit_test(test_a_fold_that_fails),
          cmocka_unit_test(test_the_model_is_the_best_pair),
          cmocka_unit_test(test_a_sample_of_many_rows), cmocka_unit_test(test_many_rows_by_centers),
          cmocka_unit_test(test_models_on_centers),
          cmocka_unit_test(test_other_solvers_take_the_pair), cmocka_unit_test(test_classification),
          cmocka_unit_test(test_nothing_can_be_judged), cmocka_unit_test(test_r2_of_a_constant),
          cmocka_unit_test(test_targets_of_all_sizes),
          cmocka_unit_test(test_infinite_metrics_do_not_win),
          cmocka_unit_test(test_alike_on_centers), cmocka_unit_test(test_what_float32_can_solve),
          cmocka_unit_test(test_rounding_does_not_win), cmocka_unit_test(test_result_as_json),
          cmocka_unit_test(test_time_budget), cmocka_unit_test(test_time_is_left_for_the_model),
          cmocka_unit_test(test_cancel_anywhere), cmocka_unit_test(test_no_memory_anywhere))
