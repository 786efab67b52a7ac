/* Kernels whose values are no numbers of the precision: every solver says so. */
#include <math.h>
#include <string.h>

#include "engine/fit/fit.h"
#include "engine/solver.h"
#include "engine_fixture.h"

enum { ROWS = 60, FEATURES = 3 };

static double no_time(void *context)
{
    (void)context;
    return 0;
}

/* Normal features times `scale`, and a target. */
static struct dataset *scaled(double scale)
{
    struct rng rng = rng_new(8, RNG_TEST);
    double *v = mem_array(ROWS, (FEATURES + 1) * sizeof(double));
    for (int64_t i = 0; i < ROWS * (FEATURES + 1); i++) {
        v[i] = rng_normal(&rng) * (i % (FEATURES + 1) < FEATURES ? scale : 1.0);
    }
    struct dataset *ds = fixture_dataset(v, ROWS, FEATURES + 1, 0);
    mem_free(v);
    return ds;
}

/* A fit that comes to nothing because of `pointer`. */
static void refused(const struct dataset *ds, const char *solver, const char *more,
                    const char *pointer, const char *detail)
{
    char fields[512];
    const bool restricted = solver_find(solver)->restricted;
    const bool bless = strcmp(solver, "falkon_bless") == 0;
    snprintf(fields, sizeof(fields),
             "'solver':'%s','standardize':{'features':false},'test':{'fraction':0},"
             "%s%s%s%s",
             solver, strstr(more, "regularization") == NULL ? "'regularization':1e-3" : "",
             strstr(more, "kernel") == NULL ? ",'kernel':{'name':'polynomial','degree':4}" : "",
             more,
             bless        ? ",'centers':{'method':'bless','count':20}"
             : restricted ? ",'centers':{'count':20}"
                          : "");
    struct job_spec *spec = fixture_spec_read(fields);
    struct backend *be = fixture_backend();
    const struct solve_control control = {.now = no_time};
    const struct fit_input in = {.train = ds};
    struct model *m = NULL;
    struct fit_result result;
    struct err err = {0};
    const int r = fit_run(be, spec, &in, &control, &m, &result, &err);
    if (m != NULL || strcmp(err.pointer, pointer) != 0 || strstr(err.detail, detail) == NULL) {
        fail_msg("%s: %d %s %s", solver, r, err.pointer, err.detail);
    }
    job_spec_free(spec);
    backend_close(be);
}

/* Values of 1e320, and for sums of their squares 1e160. */
static void test_every_solver(void **state)
{
    (void)state;
    struct dataset *infinite = scaled(1e40), *large = scaled(1e20);
    for (const struct solver_ops *const *s = solver_list(); *s != NULL; s++) {
        refused(infinite, (*s)->name, "", "#/kernel", "overflow");
        if ((*s)->restricted) {
            refused(large, (*s)->name, "", "#/kernel", "overflow");
        }
    }
    fixture_dataset_free(infinite);
    fixture_dataset_free(large);
}

/* Rows that are no float32 are so because of the precision where a kernel has no bandwidth. */
static void test_rows(void **state)
{
    (void)state;
    struct dataset *ds = scaled(1e60);
    refused(ds, "pcg", ",'precision':'mixed'", "#/precision",
            "A row is infinity or NaN in float32");
    refused(ds, "pcg", ",'precision':'float32'", "#/precision", "The feature \"x0\" has values");
    refused(ds, "falkon", ",'precision':'float32'", "#/precision", "The feature \"x0\" has values");
    fixture_dataset_free(ds);
}

/* A bandwidth that makes them so is told of by solvers and selections of centers alike. */
static void test_bandwidth(void **state)
{
    (void)state;
    static const char narrow[] =
        ",'precision':'float32','kernel':{'name':'gaussian','bandwidth':1e-300}";
    struct dataset *ds = scaled(1.0);
    for (const struct solver_ops *const *s = solver_list(); *s != NULL; s++) {
        if (strcmp((*s)->name, "inducing") != 0 && strcmp((*s)->name, "kmcg_restricted") != 0) {
            refused(ds, (*s)->name, narrow, "#/kernel/bandwidth", "larger bandwidth");
        }
    }
    fixture_dataset_free(ds);
}

/* Coefficients of 1e-100 are 0 in float32: none of a full model's solvers blames the kernel. */
static void test_regularization(void **state)
{
    (void)state;
    struct dataset *ds = scaled(1.0);
    for (const struct solver_ops *const *s = solver_list(); *s != NULL; s++) {
        if (!(*s)->restricted) {
            refused(ds, (*s)->name,
                    "'regularization':1e100,'precision':'float32','kernel':'gaussian'",
                    "#/regularization", "float32 has no such small numbers");
        }
    }
    fixture_dataset_free(ds);
}

static void hear(void *context, const char *level, const char *text)
{
    int *lost = context;
    *lost += strcmp(level, "warning") == 0 && strstr(text, "loses what its rows differ by") != NULL;
}

/* Warnings of lost features that a fit has. */
static int lost_features(const struct dataset *ds, const char *precision)
{
    char fields[256];
    snprintf(fields, sizeof(fields),
             "'solver':'falkon','standardize':{'features':false},'test':{'fraction':0},"
             "'kernel':'linear','regularization':1e-3,'precision':'%s'",
             precision);
    struct job_spec *spec = fixture_spec_read(fields);
    struct backend *be = fixture_backend();
    int lost = 0;
    const struct solve_control control = {.context = &lost, .now = no_time, .message = hear};
    const struct fit_input in = {.train = ds};
    struct model *m = NULL;
    struct fit_result result;
    struct err err = {0};
    assert_int_equal(fit_run(be, spec, &in, &control, &m, &result, &err), 0);
    model_free(m);
    job_spec_free(spec);
    backend_close(be);
    return lost;
}

/* Features of 1e-60 are 0 in float32, and the model would be one of equal rows. */
static void test_lost_features(void **state)
{
    (void)state;
    struct dataset *tiny = scaled(1e-60), *usual = scaled(1.0);
    assert_int_equal(lost_features(tiny, "float32"), 1);
    assert_int_equal(lost_features(tiny, "float64"), 0);
    assert_int_equal(lost_features(usual, "float32"), 0);
    fixture_dataset_free(tiny);
    fixture_dataset_free(usual);
}

TEST_MAIN(cmocka_unit_test(test_every_solver), cmocka_unit_test(test_rows),
          cmocka_unit_test(test_bandwidth), cmocka_unit_test(test_regularization),
          cmocka_unit_test(test_lost_features))
