/* The solver eigenpro2 where its batches are a part of the rows and its subsample too: what the
 * suite of all solvers, whose problems are smaller than the automatic subsample, does not reach. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

static struct solver_options options_from(const char *text, double tolerance)
{
    struct solver_options o = {.tolerance = tolerance};
    struct json *j = NULL;
    must(json_parse(text, strlen(text), &j, &err));
    must(param_read(catalog_find(CATALOG_SOLVERS, "eigenpro2")->params, j, NULL, &o.params, &err));
    json_free(j);
    return o;
}

static struct solve_outcome solve_with(struct fixture *f, const char *params, double tolerance,
                                       int64_t iterations, struct err *ret_err)
{
    struct world w = world_calm();
    const struct solver_options options = options_from(params, tolerance);
    const struct solve_control control = world_control(&w);
    const struct solve_limits limits = {tolerance, iterations, INFINITY};
    struct solve_outcome out = {.reason = REASON_NONE};
    must(solve_run(solver_find("eigenpro2"), &f->problem, &options, &limits, &control, NULL,
                   &f->kernel, &f->host, &f->A, &out, ret_err != NULL ? ret_err : &err));
    return out;
}

/* The Cholesky solution of the fixture; the caller frees. */
static double *reference(const struct fixture *f)
{
    double *L = fixture_matrix(f), *A = host_zeros(f->n * f->t);
    assert_true(host_factor(L, f->n));
    memcpy(A, f->Y, (size_t)(f->n * f->t) * sizeof(double));
    host_solve(L, f->n, A, f->t);
    mem_free(L);
    return A;
}

/* ---- the answer ---- */

struct precision_case {
    enum dtype points, vectors;
    double tolerance, error;
};

/* |A - reference| / |reference|: with a ridge the coefficients themselves are determined. */
static void check_ridge_solution(struct backend *be, enum kernel_id id,
                                 const struct precision_case *p, const char *params)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = id,
                                      .points = p->points,
                                      .vectors = p->vectors,
                                      .n = 110,
                                      .d = 3,
                                      .t = 3,
                                      .lambda = 1e-2,
                                      .copies = 15,
                                      .seed = 11};
    fixture_init(&f, be, &spec);
    const struct solve_outcome out = solve_with(&f, params, p->tolerance, 2000, NULL);
    double *expected = reference(&f), *A = device_get(be, &f.A);
    double error = 0, size = 0;
    for (int64_t i = 0; i < f.n * f.t; i++) {
        error += (A[i] - expected[i]) * (A[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    if (out.reason != REASON_CONVERGED || !(sqrt(error / size) <= p->error)) {
        print_error("%s, %s, points %s, vectors %s: %s, %d iterations, error %g\n", params,
                    kernel_name(id), dtype_name(p->points), dtype_name(p->vectors),
                    reason_name(out.reason), (int)out.iterations, sqrt(error / size));
        fail();
    }
    assert_true(out.iterations > 1);
    mem_free(A);
    mem_free(expected);
    fixture_deinit(&f);
}

/* Every kernel and precision, duplicate rows among them, rows of S in the batches, a last batch
 * that is smaller. */
static void test_batches_reach_the_ridge_solution(void **state)
{
    static const struct precision_case precisions[] = {
        {DTYPE_F64, DTYPE_F64, 1e-10, 1e-8},
        {DTYPE_F32, DTYPE_F64, 1e-4, 1e-2},
        {DTYPE_F32, DTYPE_F32, 1e-4, 1e-2},
    };
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        for (size_t p = 0; id != KERNEL_SIGMOID && p < 3; p++) {
            check_ridge_solution(*state, (enum kernel_id)id, &precisions[p],
                                 "{\"subsample\":60,\"batch_size\":32}");
        }
    }
}

/* Other sizes: the published automatic ones, single rows, all rows, no preconditioner. */
static void test_any_sizes(void **state)
{
    static const char *const params[] = {
        "{\"subsample\":50}",
        "{\"subsample\":50,\"batch_size\":1}",
        "{\"subsample\":50,\"batch_size\":1000,\"eigenvectors\":3}",
        "{\"subsample\":1,\"batch_size\":40}",
        "{\"eigenvectors\":0,\"batch_size\":8}",
        "{\"subsample\":109,\"eigenvectors\":80,\"alpha\":1}",
    };
    const struct precision_case p = {DTYPE_F64, DTYPE_F64, 1e-9, 1e-7};
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
        check_ridge_solution(*state, KERNEL_LAPLACIAN, &p, params[i]);
    }
}

/* lambda = 0, as published: the model takes the targets' values on the training rows. */
static void test_interpolates_without_ridge(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 120,
                                      .d = 4,
                                      .t = 2,
                                      .seed = 2};
    fixture_init(&f, *state, &spec);
    const struct solve_outcome out =
        solve_with(&f, "{\"subsample\":60,\"batch_size\":24}", 1e-8, 4000, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    double *K = fixture_matrix(&f), *A = device_get(f.be, &f.A);
    for (int64_t c = 0; c < f.t; c++) {
        for (int64_t i = 0; i < f.n; i++) {
            double value = 0;
            for (int64_t j = 0; j < f.n; j++) {
                value += K[i + j * f.n] * A[j + c * f.n];
            }
            assert_near(value, f.Y[i + c * f.n], 1e-6);
        }
    }
    mem_free(A);
    mem_free(K);
    fixture_deinit(&f);
}

/* No noise is left at the ridge solution: begun there, the iteration stays there, batch by batch.
 */
static void test_solution_is_a_fixed_point(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_MATERN32,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 90,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-3};
    fixture_init(&f, *state, &spec);
    double *expected = reference(&f), *M = fixture_matrix(&f);
    struct mat start = device_mat(f.be, DTYPE_F64, f.n, f.t, expected);
    f.problem.start = &start;
    const struct solve_outcome out = solve_with(
        &f, "{\"subsample\":40,\"batch_size\":7,\"residual_every\":1000}", 1e-300, 60, NULL);
    assert_int_equal(out.reason, REASON_ITERATION_LIMIT);
    double *A = device_get(f.be, &f.A);
    assert_true(host_residual(&f, M, A) <= 1e-12);
    mem_free(A);
    mem_free(M);
    mem_free(expected);
    f.be->ops->mat_free(f.be, &start);
    fixture_deinit(&f);
}

static void test_many_classes(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN,
                                      .points = DTYPE_F32,
                                      .vectors = DTYPE_F32,
                                      .n = 130,
                                      .d = 3,
                                      .t = 26,
                                      .lambda = 1e-2};
    fixture_init(&f, *state, &spec);
    for (int64_t i = 0; i < f.n * f.t; i++) {
        f.Y[i] = i % f.n % f.t == i / f.n ? 1.0 : 0.0;
    }
    must(f.be->ops->mat_put(f.be, f.Y, f.n, &f.problem.Y, &err));
    const struct solve_outcome out =
        solve_with(&f, "{\"subsample\":60,\"batch_size\":32}", 1e-4, 1000, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    fixture_deinit(&f);
}

/* Constant targets, equal rows, tiny ridges, one to three rows: an answer or a reason, and finite
 * numbers. */
static void test_tiny_problems(void **state)
{
    for (int k = 0; k < 24; k++) {
        struct fixture f;
        const int64_t n = 1 + k % 3;
        const struct fixture_spec spec = {.kernel = k < 12 ? KERNEL_GAUSSIAN : KERNEL_LINEAR,
                                          .points = DTYPE_F64,
                                          .vectors = DTYPE_F64,
                                          .n = n,
                                          .d = 2,
                                          .t = 1,
                                          .lambda = k % 12 < 6 ? 1e-2 : 1e-14,
                                          .copies = k % 6 < 3 ? n - 1 : 0};
        fixture_init(&f, *state, &spec);
        for (int64_t i = 0; i < n; i++) {
            f.Y[i] = 1.0;
        }
        must(f.be->ops->mat_put(f.be, f.Y, f.n, &f.problem.Y, &err));
        const struct solve_outcome out = solve_with(&f, "{\"subsample\":2}", 1e-9, 500, NULL);
        assert_true(reason_gives_model(out.reason));
        assert_true(out.relative_residual <= 1.0);
        assert_true(k % 12 >= 6 || out.reason == REASON_CONVERGED);
        fixture_deinit(&f);
    }
}

/* ---- steps that are too large ---- */

static struct fixture_spec rough_spec(void)
{
    return (struct fixture_spec){.kernel = KERNEL_MATERN32,
                                 .points = DTYPE_F64,
                                 .vectors = DTYPE_F64,
                                 .n = 100,
                                 .d = 3,
                                 .t = 2,
                                 .lambda = 1e-2,
                                 .seed = 4};
}

static void test_large_steps_are_halved(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = rough_spec();
    fixture_init(&f, *state, &spec);
    double *answers[2];
    for (int i = 0; i < 2; i++) {
        const struct solve_outcome out = solve_with(
            &f, "{\"subsample\":50,\"batch_size\":10,\"learning_rate\":1e3}", 1e-9, 4000, NULL);
        assert_int_equal(out.reason, REASON_CONVERGED);
        answers[i] = device_get(f.be, &f.A);
    }
    assert_memory_equal(answers[0], answers[1], (size_t)(f.n * f.t) * sizeof(double));
    mem_free(answers[0]);
    mem_free(answers[1]);
    fixture_deinit(&f);
}

static void test_hopeless_steps_diverge(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = rough_spec();
    fixture_init(&f, *state, &spec);
    struct err err;
    const struct solve_outcome out = solve_with(
        &f, "{\"subsample\":50,\"batch_size\":10,\"learning_rate\":1e30}", 1e-9, 4000, &err);
    assert_int_equal(out.reason, REASON_DIVERGED);
    assert_int_equal(err.code, ERR_DIVERGED);
    assert_contains(err.detail, "however small the step");
    fixture_deinit(&f);
}

/* Kernel values beyond the precision are an error that says so. */
static void test_overflow(void **state)
{
    struct fixture f;
    struct fixture_spec spec = rough_spec();
    spec.kernel = KERNEL_POLYNOMIAL;
    fixture_init(&f, *state, &spec);
    for (int64_t i = 0; i < f.n * f.d; i++) {
        f.X[i] *= 1e90;
    }
    f.be->ops->points_free(f.be, f.points);
    must(f.be->ops->points_new(f.be, &f.kernel, DTYPE_F64, &f.host, &f.points, &err));
    f.problem.X = f.points;
    struct err err = {0};
    const struct solve_outcome out = solve_with(&f, "{\"subsample\":50}", 1e-9, 100, &err);
    assert_int_equal(out.reason, REASON_DIVERGED);
    assert_int_equal(err.code, ERR_DIVERGED);
    fixture_deinit(&f);
}

/* ---- the interface ---- */

/* An estimate on the way, the truth after a check; the estimate is of the size of the truth. */
static void test_residuals(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = rough_spec();
    fixture_init(&f, *state, &spec);
    double *M = fixture_matrix(&f);
    const struct solver_ops *ops = solver_find("eigenpro2");
    const struct solver_options options =
        options_from("{\"subsample\":50,\"batch_size\":10,\"residual_every\":3}", 1e-9);
    struct solver *s = NULL;
    must(ops->setup(&f.problem, &options, &s, &err));
    int64_t checks = 0, last = -1;
    int r = 0;
    while (r == 0) {
        struct step_report at;
        r = ops->step(s, &at, NULL);
        assert_true(r >= 0);
        if (!at.usable) {
            continue;
        }
        must(ops->coef(s, &f.A, &err));
        double *A = device_get(f.be, &f.A);
        const double truth = host_residual(&f, M, A);
        assert_true(at.relative_residual >= 0.3 * truth && at.relative_residual <= 30 * truth);
        if (at.iteration == last) { /* no iteration: it was a check */
            assert_close(at.relative_residual, truth, 1e-3);
            checks++;
        }
        last = at.iteration;
        mem_free(A);
    }
    assert_int_equal(r, REASON_CONVERGED);
    assert_true(checks >= 3);
    ops->teardown(s);
    mem_free(M);
    fixture_deinit(&f);
}

struct saved {
    const struct solver_ops *ops;
    struct solver_options options;
    struct fixture *f;
};

static struct solver *begin(const struct saved *c)
{
    struct solver *s = NULL;
    must(c->ops->setup(&c->f->problem, &c->options, &s, &err));
    return s;
}

/* To the end, or `steps` usable steps; returns the answer of the last. */
static int go_on(const struct saved *c, struct solver *s, int64_t steps, struct step_report *at)
{
    int r = 0;
    for (int64_t k = 0; r == 0 && k < steps; k += at->usable) {
        r = c->ops->step(s, at, NULL);
        assert_true(r >= 0);
    }
    return r;
}

static double *coefficients(const struct saved *c, struct solver *s)
{
    must(c->ops->coef(s, &c->f->A, &err));
    return device_get(c->f->be, &c->f->A);
}

/* Saved in the middle of epochs, of checks and after halvings, gone on with to the same bits. */
static void check_saving(struct fixture *f, const char *params)
{
    const struct saved c = {solver_find("eigenpro2"), options_from(params, 1e-8), f};
    const size_t size = (size_t)(f->n * f->t) * sizeof(double);
    struct step_report at = {.usable = false}, end = {.usable = false};
    struct solver *straight = begin(&c);
    const int reason = go_on(&c, straight, 100000, &end);
    double *expected = coefficients(&c, straight);
    assert_int_equal(reason, REASON_CONVERGED);
    for (int64_t steps = 1; steps < end.iteration; steps = steps < 4 ? steps + 1 : 3 * steps + 1) {
        struct solver *first = begin(&c), *second = begin(&c);
        struct state *kept = state_new();
        assert_non_null(kept);
        go_on(&c, first, steps, &at);
        must(c.ops->save(first, kept, &err));
        must(c.ops->load(second, kept, &err));
        assert_int_equal(go_on(&c, second, 100000, &at), reason);
        double *found = coefficients(&c, second);
        assert_int_equal(at.iteration, end.iteration);
        assert_memory_equal(found, expected, size);
        mem_free(found);
        state_free(kept);
        c.ops->teardown(second);
        c.ops->teardown(first);
    }
    mem_free(expected);
    c.ops->teardown(straight);
}

static void test_saved_anywhere(void **state)
{
    struct fixture f;
    struct fixture_spec spec = rough_spec();
    spec.lambda = 5e-2;
    fixture_init(&f, *state, &spec);
    check_saving(&f, "{\"subsample\":50,\"batch_size\":10,\"residual_every\":2}");
    check_saving(&f, "{\"subsample\":50,\"batch_size\":10,\"learning_rate\":300}");
    double *values = host_normal(&(struct rng){.seed = 1}, f.n * f.t);
    for (int64_t i = 0; i < f.n; i++) {
        values[i] *= 1e-3; /* the first column is taken, the second is worse than nothing */
        values[f.n + i] *= 1e9;
    }
    struct mat start = device_mat(f.be, DTYPE_F64, f.n, f.t, values);
    f.problem.start = &start;
    check_saving(&f, "{\"subsample\":50,\"batch_size\":10,\"residual_every\":3}");
    mem_free(values);
    f.be->ops->mat_free(f.be, &start);
    fixture_deinit(&f);
}

/* The solution as a start is accepted without an iteration; a start of infinities is no worse than
 * none. */
static void test_start(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = rough_spec();
    fixture_init(&f, *state, &spec);
    double *values = reference(&f);
    struct mat start = device_mat(f.be, DTYPE_F64, f.n, f.t, values);
    f.problem.start = &start;
    struct solve_outcome out = solve_with(&f, "{\"subsample\":50}", 1e-9, 1000, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_int_equal(out.iterations, 0);
    for (int64_t i = 0; i < f.n; i++) {
        values[i] = INFINITY;
    }
    must(f.be->ops->mat_put(f.be, values, f.n, &start, &err));
    out = solve_with(&f, "{\"subsample\":50}", 1e-9, 1000, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_true(out.iterations > 0);
    mem_free(values);
    f.be->ops->mat_free(f.be, &start);
    fixture_deinit(&f);
}

/* What a state may hold of counters is looked at before it is believed. */
static void test_impossible_counters(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = rough_spec();
    fixture_init(&f, *state, &spec);
    const struct saved c = {solver_find("eigenpro2"), options_from("{}", 1e-9), &f};
    struct step_report at = {.usable = false};
    struct solver *first = begin(&c), *second = begin(&c);
    go_on(&c, first, 1, &at);
    struct state *kept = state_new();
    must(c.ops->save(first, kept, &err));
    int64_t counters[10];
    must(state_get_ints(kept, "counters", counters, 10, &err));
    for (int i = 0; i < 10; i++) {
        int64_t wrong[10];
        memcpy(wrong, counters, sizeof(wrong));
        wrong[i] = i == 9 ? REASON_CANCELLED : -2; /* the last is a reason */
        struct state *forged = state_new();
        must(state_put_ints(forged, "counters", wrong, 10, &err));
        struct err err = {0};
        assert_int_equal(c.ops->load(second, forged, &err), -ERR_CORRUPT);
        assert_contains(err.detail, "impossible counters");
        state_free(forged);
    }
    state_free(kept);
    c.ops->teardown(second);
    c.ops->teardown(first);
    fixture_deinit(&f);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)

TEST_MAIN(on_device(test_batches_reach_the_ridge_solution), on_device(test_any_sizes),
          on_device(test_interpolates_without_ridge), on_device(test_solution_is_a_fixed_point),
          on_device(test_many_classes), on_device(test_tiny_problems),
          on_device(test_large_steps_are_halved), on_device(test_hopeless_steps_diverge),
          on_device(test_overflow), on_device(test_residuals), on_device(test_saved_anywhere),
          on_device(test_start), on_device(test_impossible_counters))
