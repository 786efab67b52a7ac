/* Few rows and default parameters: every solver arrives, or says what keeps it. */
#include <math.h>
#include <string.h>

#include "engine/fit/fit.h"
#include "engine/solver.h"
#include "engine_fixture.h"

enum { FEATURES = 3, TEXT = 512 };

static double no_time(void *context)
{
    (void)context;
    return 0;
}

static struct dataset *rows_of(int64_t n)
{
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    double *v = mem_array((size_t)n, (FEATURES + 1) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        double *row = v + i * (FEATURES + 1);
        for (int k = 0; k < FEATURES; k++) {
            row[k] = rng_normal(&rng);
        }
        row[FEATURES] = sin(row[0]) + row[1] * row[2] + 0.1 * rng_normal(&rng);
    }
    struct dataset *ds = fixture_dataset(v, n, FEATURES + 1, 0);
    mem_free(v);
    return ds;
}

struct told {
    char warning[TEXT]; /* the last one */
};

static void hear(void *context, const char *level, const char *text)
{
    struct told *told = context;
    if (strcmp(level, "warning") == 0) {
        snprintf(told->warning, sizeof(told->warning), "%s", text);
    }
}

static struct fit_result fit(const struct dataset *ds, const char *solver, const char *more,
                             struct told *told)
{
    char fields[TEXT];
    snprintf(fields, sizeof(fields), "'solver':'%s','test':{'fraction':0},%s%s", solver, more,
             strcmp(solver, "falkon_bless") == 0 ? ",'centers':'bless'" : "");
    struct job_spec *spec = fixture_spec_read(fields);
    struct backend *be = fixture_backend();
    const struct solve_control control = {.context = told, .now = no_time, .message = hear};
    const struct fit_input in = {.train = ds};
    struct model *m = NULL;
    struct fit_result result;
    struct err err = {0};
    if (fit_run(be, spec, &in, &control, &m, &result, &err) < 0) {
        fail_msg("%s: %s", solver, err.detail);
    }
    model_free(m);
    job_spec_free(spec);
    backend_close(be);
    return result;
}

static void arrives(const struct dataset *ds, int64_t n, const char *solver, const char *more)
{
    struct told told = {{0}};
    const struct fit_result result = fit(ds, solver, more, &told);
    if (result.outcome.reason != REASON_CONVERGED) {
        fail_msg("%s, %lld rows, %s: %s, %g", solver, (long long)n, more,
                 reason_name(result.outcome.reason), result.outcome.relative_residual);
    }
}

static void test_every_solver(void **state)
{
    (void)state;
    static const int64_t sizes[] = {5, 20, 50, 150, 400};
    static const char *const problems[] = {
        "'kernel':'gaussian','regularization':1e-6",
        "'kernel':'matern32','regularization':1e-3",
        "'kernel':'laplacian','regularization':1e-9",
    };
    for (int i = 0; i < 5; i++) {
        struct dataset *ds = rows_of(sizes[i]);
        for (const struct solver_ops *const *s = solver_list(); *s != NULL; s++) {
            const bool plain = strcmp((*s)->name, "cg") == 0; /* has no preconditioner */
            const int most = sizes[i] > 150 ? 1 : 3;          /* for the test's own time */
            for (int k = plain ? most : 0; k < most; k++) {
                arrives(ds, sizes[i], (*s)->name, problems[k]);
            }
        }
        fixture_dataset_free(ds);
    }
}

/* Float32 kernel values cannot: nobody iterates on, and the advice is the precision. */
static void test_what_float32_cannot(void **state)
{
    (void)state;
    static const char *const solvers[] = {"askotch", "askotch2",  "skotch",     "eigenpro2",
                                          "falkon",  "eigenpro4", "sketchysaga"};
    struct dataset *ds = rows_of(100);
    for (size_t i = 0; i < sizeof(solvers) / sizeof(*solvers); i++) {
        for (int k = 0; k < 2; k++) {
            char more[TEXT];
            struct told told = {{0}};
            const char *precision = k == 0 ? "float32" : "mixed";
            snprintf(more, sizeof(more),
                     "'kernel':'gaussian','regularization':1e-6,'stop':{'tolerance':1e-13},"
                     "'precision':'%s'",
                     precision);
            const struct fit_result result = fit(ds, solvers[i], more, &told);
            if (result.outcome.reason != REASON_STAGNATED ||
                strstr(told.warning, "recision \"float64\"") == NULL) {
                fail_msg("%s, %s: %s, %s", solvers[i], precision,
                         reason_name(result.outcome.reason), told.warning);
            }
        }
    }
    fixture_dataset_free(ds);
}

TEST_MAIN(cmocka_unit_test(test_every_solver), cmocka_unit_test(test_what_float32_cannot))
