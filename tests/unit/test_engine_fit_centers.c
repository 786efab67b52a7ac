/* Fits on centers whose kernel matrix is singular to rounding. */
#include <math.h>

#include "engine/fit/fit.h"
#include "engine_fixture.h"

enum { ROWS = 600 };

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

TEST_MAIN(cmocka_unit_test(test_float32_values))
