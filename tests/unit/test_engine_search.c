/* The search for regularization and bandwidth, through whole fits on generated data. */
#include "engine/search/search.h"

#include <math.h>

#include "search_fixture.h"

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

TEST_MAIN(cmocka_unit_test(test_metrics_are_those_of_refits), cmocka_unit_test(test_folds),
          cmocka_unit_test(test_a_fold_that_fails),
          cmocka_unit_test(test_the_model_is_the_best_pair),
          cmocka_unit_test(test_other_solvers_take_the_pair), cmocka_unit_test(test_classification),
          cmocka_unit_test(test_nothing_can_be_judged), cmocka_unit_test(test_r2_of_a_constant),
          cmocka_unit_test(test_targets_of_all_sizes),
          cmocka_unit_test(test_infinite_metrics_do_not_win),
          cmocka_unit_test(test_what_float32_can_solve), cmocka_unit_test(test_result_as_json))
