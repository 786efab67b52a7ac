/* Coefficients of an earlier model, row by row. */
#include "engine/fit/warm.h"

#include <math.h>

#include "base/rng.h"
#include "engine/fit/fit.h"
#include "engine_fixture.h"

enum { COLUMNS = 4 };

static double clock_now(void *context)
{
    (void)context;
    return 0;
}

/* Columns of any size; every tenth row is the one before it once more, with another target. */
static double *numbers(int64_t rows, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *v = mem_array((size_t)rows, COLUMNS * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        double *x = v + COLUMNS * i;
        x[0] = 1e4 + rng_normal(&rng);
        x[1] = 1e-5 * rng_normal(&rng);
        x[2] = (double)rng_below(&rng, 3) - 1;
        if (i % 10 == 9) {
            memcpy(x, x - COLUMNS, 3 * sizeof(double));
        }
        x[3] = 100 + 10 * rng_normal(&rng);
    }
    return v;
}

static struct model *train(const char *fields, const struct dataset *ds)
{
    struct backend *be = fixture_backend();
    struct job_spec *spec = fixture_spec_read(fields);
    const struct solve_control control = {.now = clock_now};
    const struct fit_input in = {.train = ds};
    struct model *m = NULL;
    struct fit_result result;
    struct err err = {.code = ERR_OK};
    if (fit_run(be, spec, &in, &control, &m, &result, &err) < 0 || m == NULL) {
        fail_msg("%s", err.detail);
    }
    job_spec_free(spec);
    backend_close(be);
    return m;
}

static void load(const char *fields, const struct dataset *ds, struct fit_data *ret)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct err err = {.code = ERR_OK};
    if (fit_data_load(spec, ds, NULL, ret, &err) < 0) {
        fail_msg("%s", err.detail);
    }
    job_spec_free(spec);
}

#define WHOLE "'kernel':{'name':'gaussian','bandwidth':2},'test':{'fraction':0},"

/* The same data: every row has its own coefficient back, duplicates in their order. */
static void check_same(const char *fields)
{
    double *v = numbers(60, 1);
    struct dataset *ds = fixture_dataset(v, 60, COLUMNS, 0);
    struct model *m = train(fields, ds);
    struct fit_data data;
    load(fields, ds, &data);
    double start[60];
    int64_t found = -1;
    assert_int_equal(warm_start(m, &data, NULL, data.n, start, &found, NULL), 0);
    assert_int_equal(found, 60);
    for (int64_t i = 0; i < 60; i++) {
        assert_same_bits(start[i], m->coef[i]);
    }
    fit_data_deinit(&data);
    model_free(m);
    fixture_dataset_free(ds);
    mem_free(v);
}

static void test_same_data(void **state)
{
    (void)state;
    check_same(WHOLE "'precision':'float64'");
    check_same(WHOLE "'precision':'mixed','regularization':1e-3");
    check_same(WHOLE "'standardize':{'features':false,'target':false}");
}

/* Rows in another order, some gone, some new, other means and scales: those that the model knows
 * have the function's coefficients in the new units. */
static void test_other_rows(void **state)
{
    (void)state;
    double *v = numbers(60, 1), *w = numbers(80, 2);
    for (int64_t i = 0; i < 40; i++) {
        memcpy(w + COLUMNS * i, v + COLUMNS * (59 - i), COLUMNS * sizeof(double));
    }
    struct dataset *old = fixture_dataset(v, 60, COLUMNS, 0);
    struct dataset *grown = fixture_dataset(w, 80, COLUMNS, 0);
    struct model *m = train(WHOLE "'precision':'mixed'", old);
    struct fit_data data;
    load(WHOLE "'precision':'float64'", grown, &data);
    double start[80];
    int64_t found = -1;
    assert_int_equal(warm_start(m, &data, NULL, data.n, start, &found, NULL), 0);
    assert_int_equal(found, 40);
    const double ratio = m->target_scale[0] / data.target_scale[0];
    assert_true(fabs(ratio - 1) > 1e-3);
    for (int64_t i = 0; i < 40; i++) {
        /* Of two equal rows, which are neighbours, either one's. */
        const int64_t same = 59 - i, other = same % 10 == 9 ? same - 1 : same + 1;
        const bool own = start[i] == ratio * m->coef[same];
        const bool twin = same % 10 >= 8 && start[i] == ratio * m->coef[other];
        assert_true(own || twin);
    }
    for (int64_t i = 40; i < 80; i++) {
        assert_close(start[i], 0, 0);
    }
    fit_data_deinit(&data);
    model_free(m);
    fixture_dataset_free(old);
    fixture_dataset_free(grown);
    mem_free(v);
    mem_free(w);
}

static void check_refused(const struct model *m, const char *fields, const struct dataset *ds,
                          const char *part)
{
    struct fit_data data;
    struct err err = {.code = ERR_OK};
    double *start = mem_zarray(600, sizeof(double));
    int64_t found = -1;
    load(fields, ds, &data);
    assert_int_equal(warm_start(m, &data, NULL, data.n, start, &found, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/warm_start");
    assert_contains(err.detail, part);
    assert_int_equal(found, -1);
    fit_data_deinit(&data);
    mem_free(start);
}

static void test_refusals(void **state)
{
    (void)state;
    double *v = numbers(60, 1);
    struct dataset *ds = fixture_dataset(v, 60, COLUMNS, 0);
    struct model *m = train(WHOLE "'seed':1", ds);
    check_refused(m, WHOLE "'features':['x0','x1']", ds, "has 3 features, this job has 2");
    check_refused(m, WHOLE "'features':['x0','x2','x1']", ds, "Feature 2 of the earlier model");
    model_free(m);

    m = train(WHOLE "'features':['x0'],'seed':1", ds);
    check_refused(m, WHOLE "'target':['x1','x3'],'features':['x0']", ds,
                  "has 1 targets, this job has 2");
    for (int64_t i = 0; i < 60; i++) {
        v[COLUMNS * i + 3] = (double)(i % 3);
    }
    struct dataset *classes = fixture_dataset(v, 60, COLUMNS, 3);
    check_refused(m, WHOLE "'features':['x0']", classes, "another task");
    model_free(m);
    m = train(WHOLE "'features':['x0'],'seed':1", classes);
    fixture_rename(&classes->info.class_labels[1], "other");
    check_refused(m, WHOLE "'features':['x0']", classes, "Class 2");
    model_free(m);
    fixture_dataset_free(classes);
    fixture_dataset_free(ds);
    mem_free(v);
}

static void test_no_memory(void **state)
{
    (void)state;
    double *v = numbers(60, 1), start[60];
    struct dataset *ds = fixture_dataset(v, 60, COLUMNS, 0);
    struct model *m = train(WHOLE "'seed':1", ds);
    struct fit_data data;
    load(WHOLE "'seed':1", ds, &data);
    int64_t k = 1, found = 0;
    for (int r = -1; r != 0; k++) {
        mem_fail_nth(k);
        r = warm_start(m, &data, NULL, data.n, start, &found, NULL);
        mem_fail_nth(0);
        assert_true(r == 0 || r == -ERR_NO_MEMORY);
    }
    assert_true(k > 4);
    assert_int_equal(found, 60);
    fit_data_deinit(&data);
    model_free(m);
    fixture_dataset_free(ds);
    mem_free(v);
}

TEST_MAIN(cmocka_unit_test(test_same_data), cmocka_unit_test(test_other_rows),
          cmocka_unit_test(test_refusals), cmocka_unit_test(test_no_memory))
