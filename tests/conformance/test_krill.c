/* KRILL: what its sketch depends on, and what its iterations do not. */
#include <math.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"

static struct restricted_spec ordinary(void)
{
    return (struct restricted_spec){.kernel = KERNEL_GAUSSIAN,
                                    .points = DTYPE_F64,
                                    .vectors = DTYPE_F64,
                                    .n = 1200,
                                    .m = 60,
                                    .d = 3,
                                    .t = 2,
                                    .lambda = 1e-7};
}

/* Targets that the centers give exactly, with the coefficients 1, -1, ... */
static void consistent_targets(struct restricted_fixture *f)
{
    double *K = restricted_kernel(f);
    for (int64_t i = 0; i < f->n * f->t; i++) {
        f->Y[i] = 0.0;
        for (int64_t j = 0; j < f->m; j++) {
            f->Y[i] += (j % 2 == 0 ? 1.0 : -1.0) * K[i % f->n + j * f->n];
        }
    }
    mem_free(K);
}

/* What a run left behind. */
struct ending {
    struct solve_outcome outcome;
    double at_start; /* the residual of what the iterations began with */
    double *A;       /* [m, t]; the caller frees */
};

static struct ending run(struct backend *be, const struct restricted_spec *spec, const char *solver,
                         const char *params, double tolerance)
{
    struct restricted_fixture f;
    restricted_init(&f, be, spec);
    struct solver_options options = options_make(solver, NULL, tolerance);
    options_set(&options, params);
    const struct solver_ops *ops = solver_find(solver);
    struct solver *s = NULL;
    struct ending ending = {.at_start = (double)NAN};
    must(ops->setup(&f.problem, &options, &s, &err));
    for (int steps = 0; ending.outcome.reason == REASON_NONE && steps < 3000; steps++) {
        struct step_report at;
        struct err err = {0};
        const int r = ops->step(s, &at, &err);
        assert_true(r >= 0);
        if (at.usable && isnan(ending.at_start)) {
            ending.at_start = at.relative_residual;
        }
        ending.outcome.reason = (enum reason)r;
        ending.outcome.iterations = at.iteration;
    }
    must(ops->coef(s, &f.A, &err));
    ending.A = device_get(be, &f.A);
    ending.outcome.relative_residual = restricted_residual(&f, ending.A);
    ops->teardown(s);
    restricted_deinit(&f);
    return ending;
}

static int64_t iterations(struct backend *be, const struct restricted_spec *spec,
                          const char *solver, const char *params, double tolerance)
{
    const struct ending e = run(be, spec, solver, params, tolerance);
    mem_free(e.A);
    if (e.outcome.reason != REASON_CONVERGED || !(e.outcome.relative_residual < 2 * tolerance)) {
        print_error("%s: %s after %lld iterations, residual %g\n", solver,
                    reason_name(e.outcome.reason), (long long)e.outcome.iterations,
                    e.outcome.relative_residual);
        fail();
    }
    return e.outcome.iterations;
}

/* The claim of the method: iterations do not grow as the regularization goes to 0. */
static void test_any_regularization(void **state)
{
    struct restricted_spec spec = ordinary();
    for (int k = 2; k <= 12; k++) {
        spec.lambda = pow(10, -k);
        assert_in_range(iterations(*state, &spec, "krill", NULL, 1e-4), 0, 15);
    }
    spec.lambda = 1e-10;
    struct ending plain = run(*state, &spec, "cg", NULL, 1e-4);
    assert_true(plain.outcome.iterations > 60);
    mem_free(plain.A);
}

/* The sketched problem's solution is what the iterations begin with: here it is the solution. */
static void test_start(void **state)
{
    struct restricted_spec spec = ordinary();
    spec.lambda = 1e-12;
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    consistent_targets(&f);
    const struct solve_limits limits = {
        .tolerance = 1e-6, .max_iterations = 100, .time_budget_s = INFINITY};
    const struct solve_outcome outcome = restricted_solve(&f, "krill", &limits);
    assert_int_equal(outcome.reason, REASON_CONVERGED);
    assert_int_equal(outcome.iterations, 0);
    restricted_deinit(&f);
}

/* Phi belongs to the rows, not to how they are cut into tiles, nor to where they are kept. */
static void test_tiles(void **state)
{
    struct restricted_spec spec = ordinary();
    static const char *const params[] = {NULL, "{\"oversampling\": 2}"}; /* rows are mixed */
    for (int i = 0; i < 2; i++) {
        spec.tile_rows = 0;
        const struct ending whole = run(*state, &spec, "krill", params[i], 1e-6);
        spec.tile_rows = 77;
        for (int streamed = 0; streamed < 2; streamed++) {
            spec.streamed = streamed == 1;
            const struct ending cut = run(*state, &spec, "krill", params[i], 1e-6);
            assert_near((double)cut.outcome.iterations, (double)whole.outcome.iterations, 2.0);
            assert_close(cut.at_start, whole.at_start, 1e-3);
            mem_free(cut.A);
        }
        mem_free(whole.A);
    }
}

static void test_parameters(void **state)
{
    const struct restricted_spec spec = ordinary();
    const int64_t usual = iterations(*state, &spec, "krill", NULL, 1e-8);
    assert_true(iterations(*state, &spec, "krill", "{\"oversampling\": 1}", 1e-8) > usual);
    assert_true(iterations(*state, &spec, "krill", "{\"oversampling\": 10}", 1e-8) < usual);
    iterations(*state, &spec, "krill", "{\"nonzeros\": 1}", 1e-8);
    iterations(*state, &spec, "krill", "{\"nonzeros\": 1000}", 1e-8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_any_regularization), TEST(test_start), TEST(test_tiles), TEST(test_parameters))
