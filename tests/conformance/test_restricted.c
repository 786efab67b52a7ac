/* Every solver that takes centers, on restricted problems: its solution, its start, and its
 * checkpoints. */
#include "conformance/restricted_fixture.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/precisions.h"

/* ---- solvers ---- */

static const struct solve_limits patient = {
    .tolerance = 1e-10, .max_iterations = 3000, .time_budget_s = INFINITY};

static bool needs_weights(const struct solver_ops *ops)
{
    return strcmp(ops->name, "falkon_bless") == 0;
}

/* Solves, and compares the predictions with those of the normal equations. */
static void check_solver(struct backend *be, const struct solver_ops *ops,
                         const struct restricted_spec *given, double tolerance)
{
    struct restricted_spec spec = *given;
    cleanup_mem double *ones = mem_array((size_t)spec.m, sizeof(double));
    for (int64_t j = 0; j < spec.m; j++) {
        ones[j] = 1.0;
    }
    spec.weights = needs_weights(ops) ? ones : NULL;
    if (strcmp(ops->name, "cg") == 0) {
        spec.lambda = fmax(spec.lambda, 0.1); /* nothing helps it */
    }
    struct restricted_fixture f;
    restricted_init(&f, be, &spec);
    const struct solve_limits limits = {
        .tolerance = tolerance, .max_iterations = 3000, .time_budget_s = INFINITY};
    const struct solve_outcome outcome = restricted_solve(&f, ops->name, &limits);
    double *B = restricted_solution(&f), *A = device_get(be, &f.A);
    const double difference = restricted_difference(&f, A, B);
    if (!outcome.model || !(difference < 1e4 * tolerance)) {
        print_error("%s, %s: %s after %lld iterations, residual %g, predictions differ by %g\n",
                    ops->name, kernel_name(spec.kernel), reason_name(outcome.reason),
                    (long long)outcome.iterations, outcome.relative_residual, difference);
        fail();
    }
    assert_true(fabs(outcome.relative_residual - restricted_residual(&f, A)) <
                1e-6 * outcome.relative_residual + 1e-12);
    mem_free(A);
    mem_free(B);
    restricted_deinit(&f);
}

static void for_each_solver(struct backend *be, const struct restricted_spec *spec,
                            double tolerance)
{
    for (const struct solver_ops *const *ops = solver_list(); *ops != NULL; ops++) {
        if ((*ops)->restricted) {
            check_solver(be, *ops, spec, tolerance);
        }
    }
}

/* Each solver, kernel and precision. */
static void test_solvers(void **state)
{
    static const double tolerances[PRECISIONS] = {[F64] = 1e-10, [MIXED] = 1e-7};
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        for (int precision = 0; precision < PRECISIONS; precision++) {
            if (id == KERNEL_SIGMOID || precision == F32) {
                continue; /* K_mm is no norm; vectors are float64 in every fit */
            }
            struct restricted_spec spec = restricted_ordinary();
            spec.kernel = (enum kernel_id)id;
            spec.points = points_dtype((enum precision)precision);
            spec.vectors = vector_dtype((enum precision)precision);
            for_each_solver(*state, &spec, tolerances[precision]);
        }
    }
}

static void test_shapes(void **state)
{
    static const struct {
        int64_t n, m, d, t, copies;
        double lambda;
    } shapes[] = {
        {1, 1, 1, 1, 0, 1e-3},     {50, 1, 2, 1, 0, 1e-6},   {40, 40, 3, 1, 0, 1e-3},
        {260, 30, 3, 26, 0, 1e-3}, {300, 30, 3, 2, 5, 1e-4}, {300, 20, 3, 1, 0, 1e-9},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        struct restricted_spec spec = restricted_ordinary();
        spec.n = shapes[i].n;
        spec.m = shapes[i].m;
        spec.d = shapes[i].d;
        spec.t = shapes[i].t;
        spec.copies = shapes[i].copies;
        spec.lambda = shapes[i].lambda;
        spec.kernel = KERNEL_MATERN32;
        if (spec.copies == 0) {
            for_each_solver(*state, &spec, 1e-8);
        }
    }
}

/* Equal centers make K_mm singular: the solution is not unique, its residual is small all the same.
 */
static void test_equal_centers(void **state)
{
    struct restricted_spec spec = restricted_ordinary();
    spec.copies = 6;
    for (const struct solver_ops *const *ops = solver_list(); *ops != NULL; ops++) {
        if (!(*ops)->restricted || needs_weights(*ops)) {
            continue;
        }
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_limits limits = {
            .tolerance = 1e-7, .max_iterations = 3000, .time_budget_s = INFINITY};
        const struct solve_outcome outcome = restricted_solve(&f, (*ops)->name, &limits);
        if (outcome.reason != REASON_CONVERGED) {
            print_error("%s: %s, %g\n", (*ops)->name, reason_name(outcome.reason),
                        outcome.relative_residual);
            fail();
        }
        restricted_deinit(&f);
    }
}

/* Targets that are 0 have the coefficients 0, beside others that do not. */
static void test_zero_targets(void **state)
{
    const struct restricted_spec spec = restricted_ordinary();
    for (const struct solver_ops *const *ops = solver_list(); *ops != NULL; ops++) {
        if (!(*ops)->restricted || needs_weights(*ops)) {
            continue;
        }
        for (int both = 0; both < 2; both++) {
            struct restricted_fixture f;
            restricted_init(&f, *state, &spec);
            memset(f.Y, 0, (size_t)(f.n * (both + 1)) * sizeof(double));
            const struct solve_outcome outcome = restricted_solve(&f, (*ops)->name, &patient);
            assert_true(outcome.model && isfinite(outcome.relative_residual));
            double *A = device_get(f.be, &f.A);
            for (int64_t i = 0; i < f.m * (both + 1); i++) {
                assert_true(A[i] == 0.0);
            }
            mem_free(A);
            restricted_deinit(&f);
        }
    }
}

/* Weights of 1 are no weights. */
static void test_weights_of_one(void **state)
{
    struct restricted_spec spec = restricted_ordinary();
    double ones[30], *found[2];
    for (int i = 0; i < 30; i++) {
        ones[i] = 1.0;
    }
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        spec.weights = k == 1 ? ones : NULL;
        restricted_init(&f, *state, &spec);
        restricted_solve(&f, k == 1 ? "falkon_bless" : "falkon", &patient);
        found[k] = device_get(f.be, &f.A);
        restricted_deinit(&f);
    }
    assert_memory_equal(found[0], found[1], 30 * 2 * sizeof(double));
    mem_free(found[0]);
    mem_free(found[1]);
}

/* One that begins with what the parameter says. */
static struct solver_options bless_options(const char *start)
{
    struct solver_options o = options_make("falkon_bless", NULL, patient.tolerance);
    for (int i = 0; o.params.defs[i].key != NULL; i++) {
        if (strcmp(o.params.defs[i].key, "start") == 0) {
            o.params.values[i].choice = start;
        }
    }
    assert_string_equal(param_choice(&o.params, "start"), start);
    return o;
}

/* Targets that a few of them tell the others of: of noise the centers' own solution is farther away
 * than 0, and the solver does not begin with it. */
static void make_smooth(struct restricted_fixture *f)
{
    for (int64_t i = 0; i < f->n * f->t; i++) {
        f->Y[i] = sin(f->X[(i % f->n) * f->d + i / f->n]);
    }
}

/* Its residual after three iterations. */
static double after_few(struct restricted_fixture *f, const struct solver_options *options)
{
    const struct solve_limits few = {
        .tolerance = 1e-10, .max_iterations = 3, .time_budget_s = INFINITY};
    return restricted_solve_with(f, "falkon_bless", options, &few).relative_residual;
}

/* Where centers are rows of the data, their targets give something to begin with, unless the job
 * says otherwise. */
static void test_start_of_falkon_bless(void **state)
{
    static const char *const starts[] = {"centers", "centers", "zero"};
    const struct restricted_spec spec = restricted_ordinary();
    double weights[30], *found[3];
    double residual[3];
    int64_t positions[30], iterations[3];
    for (int i = 0; i < 30; i++) {
        weights[i] = 0.8 + 0.02 * i;
    }
    for (int k = 0; k < 3; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        make_smooth(&f);
        for (int64_t i = 0; i < f.m; i++) {
            positions[i] = i * (f.n / f.m);
        }
        f.restricted.weights = weights;
        f.restricted.positions = k >= 1 ? positions : NULL;
        const struct solver_options options = bless_options(starts[k]);
        residual[k] = after_few(&f, &options);
        const struct solve_outcome outcome =
            restricted_solve_with(&f, "falkon_bless", &options, &patient);
        assert_int_equal(outcome.reason, REASON_CONVERGED);
        iterations[k] = outcome.iterations;
        double *B = restricted_solution(&f);
        found[k] = device_get(f.be, &f.A);
        assert_true(restricted_difference(&f, found[k], B) < 1e-7);
        mem_free(B);
        restricted_deinit(&f);
    }
    assert_true(residual[1] < 0.5 * residual[0]);
    assert_true(residual[2] == residual[0]);
    assert_int_equal(iterations[2], iterations[0]); /* from zero, as without their targets */
    assert_memory_equal(found[2], found[0], 30 * 2 * sizeof(double));
    assert_true(memcmp(found[1], found[0], 30 * 2 * sizeof(double)) != 0);
    for (int k = 0; k < 3; k++) {
        mem_free(found[k]);
    }
}

static void test_bless_needs_weights(void **state)
{
    const struct restricted_spec spec = restricted_ordinary();
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    const struct solver_options options = options_make("falkon_bless", NULL, 1e-3);
    struct solver *s = NULL;
    struct err err;
    assert_int_equal(solver_find("falkon_bless")->setup(&f.problem, &options, &s, &err),
                     -ERR_INVALID);
    assert_string_equal(err.pointer, "#/centers/method");
    restricted_deinit(&f);
}

/* Who factorises the matrix of the centers tells that the kernel is at fault. */
static void test_indefinite_kernel(void **state)
{
    static const char *const names[] = {"falkon", "krill", "eigenpro3", "eigenpro4"};
    const struct restricted_spec spec = restricted_ordinary();
    for (size_t k = 0; k < 4; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct kernel tanh_kernel = {
            .id = KERNEL_SIGMOID, .d = spec.d, .gamma = 3.0, .coef0 = -1.0};
        struct points *core = NULL;
        must(f.be->ops->points_new(f.be, &tanh_kernel, DTYPE_F64, &f.host_centers, &core, &err));
        f.restricted.core = core;
        const struct solver_options options = options_make(names[k], NULL, 1e-3);
        const struct solver_ops *ops = solver_find(names[k]);
        struct solver *s = NULL;
        must(ops->setup(&f.problem, &options, &s, &err));
        struct step_report at;
        struct err err = {0};
        int r = 0;
        while (r == 0) {
            r = ops->step(s, &at, &err);
        }
        assert_int_equal(r, -ERR_NOT_POSITIVE_DEFINITE);
        assert_string_equal(err.pointer, "#/kernel");
        assert_contains(err.detail, "positive definite kernel");
        ops->teardown(s);
        f.be->ops->points_free(f.be, core);
        restricted_deinit(&f);
    }
}

/* Coefficients to begin with: the solution is taken as it is, nonsense is dropped. */
static void test_start(void **state)
{
    const struct restricted_spec spec = restricted_ordinary();
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    const struct solve_limits limits = {
        .tolerance = 1e-6, .max_iterations = 3000, .time_budget_s = INFINITY};
    double *B = restricted_solution(&f);
    struct mat start = device_mat(f.be, DTYPE_F64, f.m, f.t, B);
    f.problem.start = &start;
    struct solve_outcome outcome = restricted_solve(&f, "falkon", &limits);
    assert_int_equal(outcome.reason, REASON_CONVERGED);
    assert_int_equal(outcome.iterations, 0);
    B[0] = INFINITY;
    must(f.be->ops->mat_put(f.be, B, f.m, &start, &err));
    outcome = restricted_solve(&f, "falkon", &limits);
    assert_int_equal(outcome.reason, REASON_CONVERGED);
    assert_true(outcome.iterations > 0);
    mem_free(B);
    f.be->ops->mat_free(f.be, &start);
    restricted_deinit(&f);
}

/* ---- checkpoints ---- */

/* cg in float32 wanders for thousands of steps before it is told to be getting nowhere. */
enum { STEPS_MAX = 30000 };

struct run {
    const struct solver_ops *ops;
    struct solver *s;
    struct step_report at;
    int ended, steps;
};

static struct run run_begin(struct restricted_fixture *f, const struct solver_ops *ops)
{
    struct run run = {.ops = ops};
    const struct solver_options options = options_make(ops->name, NULL, 1e-6);
    must(ops->setup(&f->problem, &options, &run.s, &err));
    return run;
}

/* So many steps more, or to the end; at least until there is something to keep. */
static void run_steps(struct run *run, int steps)
{
    while (run->ended == 0 && run->steps < STEPS_MAX && (steps-- > 0 || !run->at.usable)) {
        struct err err = {0};
        run->ended = run->ops->step(run->s, &run->at, &err);
        run->steps++;
        assert_true(run->ended >= 0);
    }
}

static double *coefficients(struct restricted_fixture *f, struct run *run)
{
    must(run->ops->coef(run->s, &f->A, &err));
    return device_get(f->be, &f->A);
}

static void check_resume(struct restricted_fixture *f, const struct solver_ops *ops, int after)
{
    const size_t size = (size_t)(f->m * f->t) * sizeof(double);
    struct run first = run_begin(f, ops), second = run_begin(f, ops);
    run_steps(&first, 0);
    run_steps(&first, after);
    struct state *saved = state_new();
    must(ops->save(first.s, saved, &err));
    struct state *read = state_through_file(saved);
    must(ops->load(second.s, read, &err));
    second.at = first.at;
    second.ended = 0;
    double *a = coefficients(f, &first), *b = coefficients(f, &second);
    assert_memory_equal(a, b, size);
    run_steps(&first, STEPS_MAX);
    run_steps(&second, STEPS_MAX);
    double *c = coefficients(f, &first), *d = coefficients(f, &second);
    assert_int_equal(first.ended, second.ended);
    assert_int_equal(first.at.iteration, second.at.iteration);
    if (memcmp(c, d, size) != 0) {
        print_error("%s: other bits when resumed after %d steps\n", ops->name, after);
        fail();
    }
    double *const all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        mem_free(all[i]);
    }
    state_free(read);
    state_free(saved);
    ops->teardown(first.s);
    ops->teardown(second.s);
}

static void test_resume(void **state)
{
    struct restricted_spec spec = restricted_ordinary();
    double ones[30];
    for (int i = 0; i < 30; i++) {
        ones[i] = 1.0;
    }
    spec.weights = ones;
    spec.lambda = 1e-2;
    for (int precision = 0; precision < PRECISIONS; precision++) {
        spec.points = points_dtype((enum precision)precision);
        spec.vectors = vector_dtype((enum precision)precision);
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        for (const struct solver_ops *const *ops = solver_list(); *ops != NULL; ops++) {
            for (int after = 0; (*ops)->restricted && after < 5; after++) {
                check_resume(&f, *ops, after * after);
            }
        }
        restricted_deinit(&f);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_solvers), TEST(test_shapes), TEST(test_equal_centers), TEST(test_zero_targets),
          TEST(test_weights_of_one), TEST(test_start_of_falkon_bless),
          TEST(test_bless_needs_weights), TEST(test_indefinite_kernel), TEST(test_start),
          TEST(test_resume))
