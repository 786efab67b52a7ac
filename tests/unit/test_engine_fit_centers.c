/* Fits on centers: whose kernel matrix is singular to rounding, and what is told of their
 * selection. */
#include <math.h>

#include "fit_fixture.h"

enum { ROWS = 600 };

/* ---- their kernel matrix ---- */

static double no_time(void *context)
{
    (void)context;
    return 0;
}

/* y = sin 3 x and noise, x even from -3 to 3. */
static struct dataset *wave(void)
{
    struct rng rng = rng_new(3, RNG_TEST);
    double *v = mem_array(ROWS, 2 * sizeof(double));
    for (int64_t i = 0; i < ROWS; i++) {
        v[2 * i] = 6.0 * (double)i / ROWS - 3.0;
        v[2 * i + 1] = sin(3.0 * v[2 * i]) + 0.1 * rng_normal(&rng);
    }
    struct dataset *ds = fixture_dataset(v, ROWS, 2, 0);
    mem_free(v);
    return ds;
}

static struct solve_outcome fitted(const struct dataset *ds, const char *solver,
                                   const char *precision)
{
    char fields[256];
    snprintf(fields, sizeof(fields),
             "'solver':'%s','precision':'%s','centers':{'count':60},'regularization':1e-6,"
             "'kernel':'gaussian','test':{'fraction':0}",
             solver, precision);
    struct job_spec *spec = fixture_spec_read(fields);
    struct backend *be = fixture_backend();
    const struct solve_control control = {.now = no_time};
    const struct fit_input in = {.train = ds};
    struct model *m = NULL;
    struct fit_result result;
    struct err err;
    assert_int_equal(fit_run(be, spec, &in, &control, &m, &result, &err), 0);
    model_free(m);
    job_spec_free(spec);
    backend_close(be);
    return result.outcome;
}

/* Kernel values of rows and centers are float32 whatever the data set is in: solvers that take them
 * for more stop far from the solution, or go on for a thousand iterations. */
static void test_float32_values(void **state)
{
    static const char *const solvers[] = {"falkon", "krill", "direct", "eigenpro3", "eigenpro4"};
    static const char *const precisions[] = {"mixed", "float32"};
    static const double most[] = {0.1, 0.5};
    (void)state;
    struct dataset *ds = wave();
    for (size_t i = 0; i < 10; i++) {
        const char *solver = solvers[i / 2], *precision = precisions[i % 2];
        const struct solve_outcome out = fitted(ds, solver, precision);
        if (!(out.relative_residual < most[i % 2]) || out.iterations > 100) {
            fail_msg("%s in %s: residual %g after %d iterations", solver, precision,
                     out.relative_residual, (int)out.iterations);
        }
    }
    fixture_dataset_free(ds);
}

/* ---- their selection ---- */

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

TEST_MAIN(cmocka_unit_test(test_float32_values), cmocka_unit_test(test_selections_are_told_of),
          cmocka_unit_test(test_leverage_scores_are_told_of),
          cmocka_unit_test(test_long_paths_keep_their_end),
          cmocka_unit_test(test_time_budget_of_a_selection))
