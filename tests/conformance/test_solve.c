/* The driver: why it stops, what it says on the way, and that it leaves nothing behind. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

static const struct solve_limits patient = {
    .tolerance = 1e-10, .max_iterations = 1000, .time_budget_s = INFINITY};

static const struct fixture_spec driven = {.kernel = KERNEL_MATERN52,
                                           .points = DTYPE_F64,
                                           .vectors = DTYPE_F64,
                                           .n = 200,
                                           .d = 3,
                                           .t = 2,
                                           .lambda = 1e-7};

/* Cancelled at the k-th time of asking, for every k: the outcome says so, and whatever was under
 * way is freed. */
static void test_cancel_at_every_step(void **state)
{
    struct backend *be = *state;
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        fixture_init(&f, be, &driven);
        const int64_t bytes = be->bytes;
        for (int64_t k = 0; k < 1000; k = k < 12 ? k + 1 : 2 * k) {
            struct world w = {.cancel_at = k};
            const struct solve_outcome out =
                fixture_solve(&f, methods[i].solver, methods[i].precond, &patient, &w, NULL, NULL);
            assert_int_equal(be->bytes, bytes);
            if (w.asked <= k) {
                assert_true(reason_gives_model(out.reason));
                break;
            }
            assert_int_equal(out.reason, REASON_CANCELLED);
            assert_close(out.relative_residual, 1.0, 0);
            assert_true(isnan(out.metrics.rmse));
        }
        fixture_deinit(&f);
    }
}

static bool once_certifying(void *context)
{
    const struct world *w = context;
    return w->last.phase != NULL && strcmp(w->last.phase, "certifying") == 0;
}

/* The certificate of many rows takes minutes: it is given up when the job is cancelled. */
static void test_cancel_while_certifying(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &driven);
    const int64_t bytes = f.be->bytes;
    const struct solver_options options = options_make("pcg", "none", patient.tolerance);
    struct world w = world_calm();
    struct solve_control control = world_control(&w);
    control.cancelled = once_certifying;
    struct solve_outcome out;
    struct err err;
    assert_int_equal(solve_run(solver_find("pcg"), &f.problem, &options, &patient, &control, NULL,
                               &f.kernel, &f.host, &f.A, &out, &err),
                     0);
    assert_int_equal(out.reason, REASON_CANCELLED);
    assert_false(out.model);
    assert_int_equal(f.be->bytes, bytes);
    fixture_deinit(&f);
}

/* Every allocation of a solve fails once: the outcome is lack of memory, and nothing is lost. */
static void test_no_memory_anywhere(void **state)
{
    struct backend *be = *state;
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                          .points = DTYPE_F64,
                                          .vectors = DTYPE_F64,
                                          .n = 40,
                                          .d = 2,
                                          .t = 1,
                                          .lambda = 1e-3};
        fixture_init(&f, be, &spec);
        const int64_t bytes = be->bytes;
        int64_t refused = 0;
        const struct solver_options options =
            options_make(methods[i].solver, methods[i].precond, patient.tolerance);
        for (int64_t k = 1; k < 100000; k++) {
            struct world w = world_calm();
            const struct solve_control control = world_control(&w);
            struct solve_outcome out = {.reason = REASON_NONE};
            struct err err;
            mem_fail_nth(k);
            const int r = solve_run(solver_find(methods[i].solver), &f.problem, &options, &patient,
                                    &control, NULL, &f.kernel, &f.host, &f.A, &out, &err);
            mem_fail_nth(0);
            assert_int_equal(r, 0);
            assert_int_equal(be->bytes, bytes);
            if (out.reason == REASON_CONVERGED) {
                break;
            }
            assert_int_equal(out.reason, REASON_OUT_OF_MEMORY);
            assert_int_equal(err.code, ERR_NO_MEMORY);
            refused++;
        }
        assert_true(refused > 5);
        fixture_deinit(&f);
    }
}

static void test_time_budget(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &driven);
    struct solve_limits limits = patient;
    limits.time_budget_s = 40.0;
    struct world w = {.cancel_at = -1, .tick = 1.0};
    struct err err;
    struct solve_outcome out = fixture_solve(&f, "pcg", "none", &limits, &w, NULL, &err);
    assert_int_equal(out.reason, REASON_TIME_BUDGET);
    assert_true(out.iterations > 0);
    assert_true(isfinite(out.relative_residual) && out.relative_residual > limits.tolerance);
    assert_true(w.latest_end > 0 && w.latest_end <= limits.time_budget_s);

    /* Spent while the preconditioner is built, or the matrix factorised: nothing to show. */
    limits.time_budget_s = 3.0;
    w = (struct world){.cancel_at = -1, .tick = 1.0};
    out = fixture_solve(&f, "pcg", "rpcholesky", &limits, &w, NULL, &err);
    assert_int_equal(out.reason, REASON_TIME_BUDGET);
    assert_false(out.model);
    assert_string_equal(err.pointer, "#/stop/time_budget_s");
    assert_contains(err.detail, "preconditioner");
    assert_close(out.relative_residual, 1.0, 0);
    assert_int_equal(w.early_etas, 0);
    fixture_deinit(&f);
}

/* A product of many rows takes hours: the budget, or a job that is cancelled, ends it in its midst
 * where there are no coefficients yet. The CPU's products ask. */
static void test_ends_within_a_step(void **state)
{
    if (getenv("KRR_DEVICE") != NULL) {
        skip();
    }
    (void)state;
    struct backend *be = device_open(1); /* with more threads the one that asks may get few tasks */
    struct fixture_spec spec = driven;
    spec.n = 9000;
    struct fixture f;
    fixture_init(&f, be, &spec);
    struct solve_limits limits = patient;
    limits.time_budget_s = 20.0;
    struct world w = {.cancel_at = -1, .tick = 1.0};
    struct err err;
    struct solve_outcome out = fixture_solve(&f, "pcg", "none", &limits, &w, NULL, &err);
    assert_int_equal(out.reason, REASON_TIME_BUDGET);
    assert_false(out.model);
    assert_string_equal(err.pointer, "#/stop/time_budget_s");
    assert_int_equal(f.be->kernel_entries, 0); /* no product was whole */

    w = (struct world){.cancel_at = 10, .tick = 1.0};
    out = fixture_solve(&f, "pcg", "none", &patient, &w, NULL, &err);
    assert_int_equal(out.reason, REASON_CANCELLED);
    assert_int_equal(f.be->kernel_entries, 0);
    assert_true(f.be->stop == NULL);
    fixture_deinit(&f);
    device_close(be);
}

/* And tells how far it is, before the first iteration has ended and after. */
static void test_tells_within_a_step(void **state)
{
    if (getenv("KRR_DEVICE") != NULL) {
        skip();
    }
    (void)state;
    struct backend *be = device_open(1);
    struct fixture_spec spec = driven;
    spec.n = 9000;
    struct fixture f;
    fixture_init(&f, be, &spec);
    struct solve_limits limits = patient;
    limits.max_iterations = 3;
    struct world w = {.cancel_at = -1, .tick = 1.0};
    const struct solve_outcome out = fixture_solve(&f, "pcg", "none", &limits, &w, NULL, NULL);
    assert_int_equal(out.iterations, 3);
    assert_in_range(w.within, 3 * 4, w.reports);
    assert_true(isnan(w.last.step)); /* "saving" */
    assert_int_equal(f.be->under_way, 0);
    assert_close(w.fraction_fell, 0, 0);
    fixture_deinit(&f);
    device_close(be);
}

static void test_iteration_limit(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &driven);
    struct solve_limits limits = patient;
    limits.max_iterations = 7;
    struct world w = world_calm();
    const struct solve_outcome out = fixture_solve(&f, "pcg", "none", &limits, &w, NULL, NULL);
    assert_int_equal(out.reason, REASON_ITERATION_LIMIT);
    assert_int_equal(out.iterations, 7);
    fixture_deinit(&f);
}

static void keep_warning(void *context, const char *level, const char *text)
{
    if (strcmp(level, "warning") == 0) {
        snprintf(context, 640, "%s", text);
    }
}

static double stand_still(void *context)
{
    (void)context;
    return 0;
}

/* So many iterations at most; what the driver warned of, and the model's residual. */
static double warned(struct fixture *f, double tolerance, int64_t iterations, char ret[640])
{
    const struct solver_options options = options_make("pcg", "none", tolerance);
    const struct solve_control control = {
        .context = ret, .now = stand_still, .message = keep_warning};
    struct solve_limits limits = patient;
    limits.tolerance = tolerance;
    limits.max_iterations = iterations;
    struct solve_outcome out;
    ret[0] = '\0';
    must(solve_run(solver_find("pcg"), &f->problem, &options, &limits, &control, NULL, &f->kernel,
                   &f->host, &f->A, &out, &err));
    assert_true(out.model);
    return out.relative_residual;
}

/* A model far from the solution comes with a warning, one that is worse than none at all with
 * another; others do without, and so do those that are as near as they were asked to be. */
static void test_large_residuals_are_said(void **state)
{
    struct fixture f;
    struct fixture_spec spec = driven;
    spec.lambda = 1e-3;
    fixture_init(&f, *state, &spec);
    int worse = 0, far = 0, near = 0;
    for (int64_t k = 1; k < 200 && near == 0; k++) {
        char warning[640], residual[64];
        const double found = warned(&f, patient.tolerance, k, warning);
        snprintf(residual, sizeof(residual), "residual of the model is %.3g:", found);
        if (found <= 0.1) {
            assert_string_equal(warning, "");
            near++;
            continue;
        }
        assert_contains(warning, residual);
        assert_contains(warning, found > 1 ? "no better than zeros" : "look at the test metrics");
        assert_contains(warning, "Allow more iterations");
        worse += found > 1;
        far += found <= 1;
        assert_true(warned(&f, 1.01 * found, k, warning) > 1 || warning[0] == '\0');
    }
    assert_true(worse > 0 && far > 0 && near > 0);
    fixture_deinit(&f);
}

/* A tolerance that the precision cannot reach: stagnated, with a residual near rounding error. */
static void test_stagnation_is_said(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        struct fixture_spec spec = driven;
        spec.points = spec.vectors = DTYPE_F32;
        spec.lambda = 1e-3;
        fixture_init(&f, *state, &spec);
        struct world w = world_calm();
        const struct solve_outcome out =
            fixture_solve(&f, methods[i].solver, methods[i].precond, &patient, &w, NULL, NULL);
        assert_int_equal(out.reason, REASON_STAGNATED);
        assert_true(out.relative_residual > patient.tolerance);
        assert_true(out.relative_residual < 1e-4);
        fixture_deinit(&f);
    }
}

/* Points in float32 make a certificate in float64 that the iteration's own residual cannot see. */
static void test_certificate_overrules(void **state)
{
    struct fixture f;
    struct fixture_spec spec = driven;
    spec.points = DTYPE_F32;
    spec.lambda = 1e-5;
    fixture_init(&f, *state, &spec);
    f.problem.exact = NULL; /* the solver would take those */
    struct solve_limits limits = patient;
    limits.tolerance = 1e-12;
    struct world w = world_calm();
    const struct solve_outcome out = fixture_solve(&f, "cholesky", NULL, &limits, &w, NULL, NULL);
    assert_int_equal(out.reason, REASON_STAGNATED);
    assert_true(out.relative_residual > 1e-9);
    fixture_deinit(&f);
}

static const char last_note[] = "What the last step has noted.";

static int noting_step(struct solver *s, struct step_report *ret, struct err *err)
{
    (void)s;
    (void)err;
    *ret = (struct step_report){.phase = "iterating", .usable = true, .note = last_note};
    return REASON_BREAKDOWN;
}

static int no_coef(struct solver *s, const struct mat *A, struct err *err)
{
    (void)s;
    (void)A;
    return err_no_memory(err);
}

/* A note of the last step is told where what follows it fails, too. */
static void test_last_note_is_said(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &driven);
    struct solver_ops ops = *solver_find("pcg");
    ops.step = noting_step;
    ops.coef = no_coef;
    const struct solver_options options = options_make("pcg", "none", patient.tolerance);
    char told[640] = "";
    const struct solve_control control = {
        .context = told, .now = stand_still, .message = keep_warning};
    struct solve_outcome out;
    struct err err;
    assert_int_equal(solve_run(&ops, &f.problem, &options, &patient, &control, NULL, &f.kernel,
                               &f.host, &f.A, &out, &err),
                     0);
    assert_int_equal(out.reason, REASON_OUT_OF_MEMORY);
    assert_string_equal(told, last_note);
    fixture_deinit(&f);
}

struct counted {
    struct world *w;
    int64_t calls;
    double seconds; /* a call takes */
};

static int count_evaluation(void *context, const struct mat *A, struct metrics *ret,
                            struct err *err)
{
    (void)A;
    (void)err;
    struct counted *c = context;
    c->calls++;
    c->w->now += c->seconds;
    *ret = metrics_none();
    ret->rmse = (double)c->calls;
    return 0;
}

/* Metrics on the way stay below a twentieth of the time; those at the end are always there. */
static void test_metrics_schedule(void **state)
{
    struct fixture f;
    struct fixture_spec spec = driven;
    spec.lambda = 1e-9;
    fixture_init(&f, *state, &spec);
    struct world w = {.cancel_at = -1, .tick = 1.0};
    struct counted counted = {.w = &w, .seconds = 10.0};
    const struct solve_evaluator evaluator = {
        .context = &counted, .cost = 0.25, .evaluate = count_evaluation};
    struct solve_limits limits = patient;
    limits.max_iterations = 400;
    struct solve_outcome out = fixture_solve(&f, "pcg", "none", &limits, &w, &evaluator, NULL);
    assert_true(counted.calls >= 3);
    assert_true((double)(counted.calls - 2) * 10.0 <= 0.05 * out.seconds);
    assert_close(out.metrics.rmse, (double)counted.calls, 0);

    counted.calls = 0;
    out = fixture_solve(&f, "cholesky", NULL, &limits, &w, &evaluator, NULL);
    assert_int_equal(counted.calls, 1);
    assert_close(out.metrics.rmse, 1.0, 0);
    fixture_deinit(&f);
}

static void test_reports_are_rationed(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &driven);
    struct world w = {.cancel_at = -1, .tick = 1.0};
    const struct solver_options options = options_make("pcg", "none", 1e-10);
    struct solve_control control = world_control(&w);
    control.report_every_s = 50.0;
    struct solve_limits limits = patient;
    limits.max_iterations = 100;
    struct solve_outcome out;
    must(solve_run(solver_find("pcg"), &f.problem, &options, &limits, &control, NULL, &f.kernel,
                   &f.host, &f.A, &out, &err));
    assert_true((double)(w.reports - 2) * 50.0 <= out.seconds);
    assert_true(w.reports >= 3);
    assert_true(w.last.fraction > 0 && w.last.fraction <= 1);
    fixture_deinit(&f);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)

TEST_MAIN(on_device(test_cancel_at_every_step), on_device(test_cancel_while_certifying),
          on_device(test_no_memory_anywhere), on_device(test_time_budget),
          on_device(test_ends_within_a_step), on_device(test_tells_within_a_step),
          on_device(test_iteration_limit), on_device(test_large_residuals_are_said),
          on_device(test_stagnation_is_said), on_device(test_certificate_overrules),
          on_device(test_last_note_is_said), on_device(test_metrics_schedule),
          on_device(test_reports_are_rationed))
