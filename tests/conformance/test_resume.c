/* Pause, checkpoints and resume as the driver does them: schedule, budgets, refusals, same bits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

/* A clock, a pause switch, the last checkpoint, what was said. */
struct desk {
    double now, tick;
    int64_t asked, pause_at; /* -1: never */
    int64_t saves, refused;
    double save_s; /* seconds that a save takes */
    bool full;     /* no checkpoint can be kept */
    int64_t lack;  /* the allocation of the solve that fails; 0: none */
    struct state *kept;
    char warning[640], info[640];
};

static double desk_now(void *context)
{
    struct desk *d = context;
    d->now += d->tick;
    return d->now;
}

static bool desk_paused(void *context)
{
    struct desk *d = context;
    return d->asked++ == d->pause_at;
}

static int desk_keep(void *context, const struct state *s, struct err *err)
{
    struct desk *d = context;
    d->now += d->save_s;
    if (d->full) {
        d->refused++;
        return err_set(err, ERR_DISK_FULL, "There is no room left on the disk.");
    }
    d->saves++;
    state_free(d->kept);
    d->kept = state_through_file(s);
    return 0;
}

static void desk_message(void *context, const char *level, const char *text)
{
    struct desk *d = context;
    char *to = strcmp(level, "warning") == 0 ? d->warning : d->info;
    snprintf(to, sizeof(d->info), "%s", text);
}

struct resumable {
    const char *solver, *precond, *problem;
    struct solve_limits limits;
    double every_s;
    const struct state *resume;
    const struct solver_ops *ops; /* NULL: those of `solver` */
    const char *params;           /* of the solver, JSON; NULL: its defaults */
};

static struct solve_outcome desk_solve(struct desk *d, struct fixture *f,
                                       const struct resumable *job, struct err *ret_err)
{
    struct solver_options options = options_make(job->solver, job->precond, job->limits.tolerance);
    options_set(&options, job->params);
    const struct solver_ops *ops = job->ops != NULL ? job->ops : solver_find(job->solver);
    const struct solve_control control = {
        .context = d,
        .now = desk_now,
        .paused = desk_paused,
        .checkpoint = desk_keep,
        .message = desk_message,
        .checkpoint_every_s = job->every_s,
        .resume = job->resume,
        .problem = job->problem,
        .started = d->now,
    };
    struct solve_outcome out = {.reason = REASON_NONE};
    struct err cause = {.code = ERR_OK};
    mem_fail_nth(d->lack);
    const int r = solve_run(ops, &f->problem, &options, &job->limits, &control, NULL, &f->kernel,
                            &f->host, &f->A, &out, &cause);
    mem_fail_nth(0);
    if (d->lack > 0 && r == -ERR_NO_MEMORY) {
        return (struct solve_outcome){.reason = REASON_OUT_OF_MEMORY};
    }
    if (r != 0) {
        print_error("solve_run: %d %s\n", r, cause.detail);
        fail();
    }
    if (ret_err != NULL) {
        *ret_err = cause;
    }
    return out;
}

/* A ridge with which all solvers come below the residual that is warned of. */
static const struct fixture_spec driven = {.kernel = KERNEL_MATERN52,
                                           .points = DTYPE_F64,
                                           .vectors = DTYPE_F64,
                                           .n = 160,
                                           .d = 3,
                                           .t = 2,
                                           .lambda = 1e-6};

static struct resumable job_of(const struct method *m)
{
    return (struct resumable){.solver = m->solver,
                              .precond = m->precond,
                              .problem = "this one",
                              .limits = {1e-9, 400, INFINITY},
                              .every_s = INFINITY};
}

/* Paused again and again until it ends: the end of one that never was. */
static void pause_often(struct fixture *f, const struct method *m)
{
    struct desk quiet = {.pause_at = -1};
    struct resumable job = job_of(m);
    const struct solve_outcome straight = desk_solve(&quiet, f, &job, NULL);
    assert_int_equal(quiet.saves, 0);
    double *expected = device_get(f->be, &f->A);
    const bool keeps = solver_find(m->solver)->save != NULL;

    struct desk d = {.pause_at = 0};
    struct solve_outcome out;
    int64_t pauses = 0;
    do {
        struct state *last = d.kept;
        d.kept = NULL;
        d.asked = 0;
        d.pause_at = 5 + 9 * pauses; /* The preconditioner takes steps of its own every time. */
        job.resume = last;
        out = desk_solve(&d, f, &job, NULL);
        if (d.kept == NULL) {
            d.kept = last;
        } else {
            state_free(last);
        }
        assert_true(++pauses < 100);
        if (out.reason == REASON_PAUSED) {
            assert_false(out.model);
            assert_close(out.relative_residual, 1.0, 0);
        }
    } while (out.reason == REASON_PAUSED);
    double *found = device_get(f->be, &f->A);
    assert_int_equal(out.reason, straight.reason);
    assert_int_equal(out.iterations, straight.iterations);
    assert_memory_equal(found, expected, (size_t)(f->n * f->t) * sizeof(double));
    assert_true(keeps || d.saves == 0);
    assert_true(!keeps || d.saves > 0 ||
                straight.iterations <= 2); /* over before the first pause */
    assert_string_equal(d.warning, "");
    mem_free(found);
    mem_free(expected);
    state_free(d.kept);
}

static void test_pause_and_resume(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        fixture_init(&f, *state, &driven);
        const int64_t bytes = f.be->bytes;
        pause_often(&f, &methods[i]);
        assert_int_equal(f.be->bytes, bytes);
        fixture_deinit(&f);
    }
}

/* Paused at its k-th step and resumed; the start that it was given is worth keeping. */
static void pause_once(struct fixture *f, const struct method *m, int64_t k)
{
    struct desk quiet = {.pause_at = -1}, d = {.pause_at = k};
    struct resumable job = job_of(m);
    const struct solve_outcome straight = desk_solve(&quiet, f, &job, NULL);
    double *expected = device_get(f->be, &f->A);
    struct solve_outcome out = desk_solve(&d, f, &job, NULL);
    struct state *kept = d.kept;
    if (out.reason == REASON_PAUSED) {
        d = (struct desk){.pause_at = -1};
        job.resume = kept;
        out = desk_solve(&d, f, &job, NULL);
    }
    double *found = device_get(f->be, &f->A);
    assert_int_equal(out.reason, straight.reason);
    assert_int_equal(out.iterations, straight.iterations);
    assert_memory_equal(found, expected, (size_t)(f->n * f->t) * sizeof(double));
    mem_free(found);
    mem_free(expected);
    state_free(kept);
}

/* A job that began with coefficients may be paused before its preconditioner is built. */
static void test_pause_while_building(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        fixture_init(&f, *state, &driven);
        struct world w = world_calm();
        const struct solve_limits rough = {1e-2, 400, INFINITY};
        fixture_solve(&f, "pcg", "none", &rough, &w, NULL, NULL);
        double *values = device_get(f.be, &f.A);
        struct mat start = device_mat(f.be, DTYPE_F64, f.n, f.t, values);
        f.problem.start = &start;
        for (int64_t k = 1; k < 5; k++) {
            pause_once(&f, &methods[i], k);
        }
        f.be->ops->mat_free(f.be, &start);
        mem_free(values);
        fixture_deinit(&f);
    }
}

/* Where directions end and conjugate gradients go on from them, at every step. */
static void test_pause_beyond_the_directions(void **state)
{
    const struct method kmcg = {"kmcg", NULL};
    struct fixture f;
    struct fixture_spec spec = driven;
    spec.lambda = 1e-4;
    fixture_init(&f, *state, &spec);
    struct resumable job = job_of(&kmcg);
    job.params = "{\"directions\":20,\"probes\":2}";
    struct desk d = {.pause_at = -1};
    const struct solve_outcome straight = desk_solve(&d, &f, &job, NULL);
    double *expected = device_get(f.be, &f.A);
    assert_int_equal(straight.reason, REASON_CONVERGED);
    for (int64_t k = 1; k < 16; k++) {
        d = (struct desk){.pause_at = k};
        job.resume = NULL;
        assert_int_equal(desk_solve(&d, &f, &job, NULL).reason, REASON_PAUSED);
        job.resume = d.kept;
        struct state *kept = d.kept;
        d = (struct desk){.pause_at = -1};
        const struct solve_outcome out = desk_solve(&d, &f, &job, NULL);
        double *found = device_get(f.be, &f.A);
        assert_int_equal(out.iterations, straight.iterations);
        assert_memory_equal(found, expected, (size_t)(f.n * f.t) * sizeof(double));
        mem_free(found);
        state_free(kept);
    }
    mem_free(expected);
    fixture_deinit(&f);
}

/* In the middle of a factorisation there is something to keep, though no coefficients: a budget
 * that is spent then gives no model, and what was kept is gone on with. */
static void test_pause_in_a_factorisation(void **state)
{
    static const char *const params[] = {"{\"factor\":\"float64\",\"block_size\":64}",
                                         "{\"factor\":\"float32\",\"block_size\":64}"};
    const struct method cholesky = {"cholesky", NULL};
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        struct fixture_spec spec = driven;
        spec.n = 330;
        fixture_init(&f, *state, &spec);
        struct resumable job = job_of(&cholesky);
        job.params = params[i];
        struct desk d = {.pause_at = -1};
        const struct solve_outcome straight = desk_solve(&d, &f, &job, NULL);
        double *expected = device_get(f.be, &f.A);
        for (int64_t k = 1; k < 14; k++) {
            d = (struct desk){.pause_at = k};
            job.resume = NULL;
            if (desk_solve(&d, &f, &job, NULL).reason != REASON_PAUSED) {
                assert_true(k > 6); /* panels */
                break;
            }
            struct state *kept = d.kept;
            assert_non_null(kept);
            d = (struct desk){.pause_at = -1};
            job.resume = kept;
            if (k <= 6) {
                struct err why = {0};
                job.limits.time_budget_s = 0;
                const struct solve_outcome spent = desk_solve(&d, &f, &job, &why);
                assert_int_equal(spent.reason, REASON_TIME_BUDGET);
                assert_false(spent.model);
                job.limits.time_budget_s = INFINITY;
            }
            const struct solve_outcome out = desk_solve(&d, &f, &job, NULL);
            double *found = device_get(f.be, &f.A);
            assert_contains(d.info, "Resumed from the checkpoint");
            assert_int_equal(out.reason, straight.reason);
            assert_int_equal(out.iterations, straight.iterations);
            assert_memory_equal(found, expected, (size_t)(f.n * f.t) * sizeof(double));
            mem_free(found);
            state_free(kept);
        }
        mem_free(expected);
        fixture_deinit(&f);
    }
}

static const struct method plain = {"pcg", "none"};

/* The first after the interval; then as long apart, and less than a fiftieth of the time. */
static void test_schedule(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &driven);
    struct resumable job = job_of(&plain);
    job.limits.tolerance = 1e-14;
    job.limits.max_iterations = 300;
    job.every_s = 30;
    struct desk d = {.pause_at = -1, .tick = 1.0};
    struct solve_outcome out = desk_solve(&d, &f, &job, NULL);
    assert_true(d.saves >= 2);
    assert_true((double)d.saves * 30.0 <= out.seconds);
    const int64_t cheap = d.saves;
    state_free(d.kept);

    d = (struct desk){.pause_at = -1, .tick = 1.0, .save_s = 10.0};
    out = desk_solve(&d, &f, &job, NULL);
    assert_true(d.saves >= 1 && d.saves < cheap);
    assert_true((double)(d.saves - 1) * 10.0 <= 0.02 * out.seconds);
    state_free(d.kept);
    fixture_deinit(&f);
}

/* Seconds and iterations of earlier attempts count; a budget that is spent gives what there is. */
static void test_budgets_span_attempts(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &driven);
    struct resumable job = job_of(&plain);
    job.limits.tolerance = 1e-14;
    job.limits.time_budget_s = 200;
    struct desk d = {.pause_at = 20, .tick = 1.0};
    struct solve_outcome out = desk_solve(&d, &f, &job, NULL);
    assert_int_equal(out.reason, REASON_PAUSED);
    const double first = out.seconds;
    assert_true(first > 20 && first < 190);

    job.resume = d.kept;
    d.kept = NULL;
    d.pause_at = -1;
    d.now = 1e6; /* the pause itself costs nothing */
    out = desk_solve(&d, &f, &job, NULL);
    assert_int_equal(out.reason, REASON_TIME_BUDGET);
    assert_true(out.model && out.iterations > 20);
    assert_true(out.earlier_s > 20 && out.earlier_s <= first);
    assert_true(out.seconds > 200 && out.seconds < 220);
    assert_contains(d.info, "iteration 19"); /* one step was the preconditioner's */

    job.limits.time_budget_s = 10;
    out = desk_solve(&d, &f, &job, NULL);
    assert_int_equal(out.reason, REASON_TIME_BUDGET);
    assert_true(out.model);
    assert_int_equal(out.iterations, 19);
    job.limits.time_budget_s = INFINITY;
    job.limits.max_iterations = 33;
    out = desk_solve(&d, &f, &job, NULL);
    assert_int_equal(out.reason, REASON_ITERATION_LIMIT);
    assert_int_equal(out.iterations, 33);
    state_free((struct state *)(uintptr_t)job.resume);
    state_free(d.kept);
    fixture_deinit(&f);
}

/* What belongs to another problem is refused with a sentence, and the solve is what it would have
 * been without. */
static void test_unfit_checkpoints(void **state)
{
    struct fixture f, larger;
    struct fixture_spec spec = driven;
    fixture_init(&f, *state, &spec);
    spec.n += 1;
    fixture_init(&larger, *state, &spec);
    struct resumable job = job_of(&plain);
    struct desk d = {.pause_at = 9};
    desk_solve(&d, &f, &job, NULL);
    struct state *kept = d.kept;
    d = (struct desk){.pause_at = -1};
    struct solve_outcome out = desk_solve(&d, &f, &job, NULL);
    double *expected = device_get(f.be, &f.A);
    const int64_t iterations = out.iterations;

    job.resume = kept;
    job.problem = "another one";
    out = desk_solve(&d, &f, &job, NULL);
    assert_contains(d.warning, "specification or data");
    assert_contains(d.warning, "begins at its beginning");
    assert_int_equal(out.iterations, iterations);
    double *found = device_get(f.be, &f.A);
    assert_memory_equal(found, expected, (size_t)(f.n * f.t) * sizeof(double));
    mem_free(found);
    job.problem = "this one";

    desk_solve(&d, &larger, &job, NULL);
    assert_contains(d.warning, "number of rows");
    struct resumable direct = job;
    direct.solver = "cholesky";
    direct.precond = NULL;
    desk_solve(&d, &f, &direct, NULL);
    assert_contains(d.warning, "another solver");
    struct solver_ops forgetful = *solver_find("pcg");
    forgetful.save = NULL;
    forgetful.load = NULL;
    job.ops = &forgetful;
    desk_solve(&d, &f, &job, NULL);
    assert_contains(d.warning, "keeps no checkpoints");
    job.ops = NULL;

    /* The right texts on a state that holds nothing. */
    struct state *hollow = state_new();
    static const char *const texts[] = {"format", "solver", "size", "precision", "problem"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        must(state_put_text(hollow, texts[i], state_text(kept, texts[i]), &err));
    }
    job.resume = hollow;
    out = desk_solve(&d, &f, &job, NULL);
    assert_contains(d.warning, "driver.seconds");
    assert_int_equal(out.iterations, iterations);
    mem_free(expected);
    state_free(hollow);
    state_free(kept);
    fixture_deinit(&larger);
    fixture_deinit(&f);
}

/* Numbers that no solve leaves are not believed. */
static void test_impossible_counters(void **state)
{
    static const int64_t counters[][4] = {
        {-1, 0, 0, 0}, {3, -1, 0, 0}, {3, 1, 99, 0}, {3, 1, 0, 77}};
    struct fixture f;
    fixture_init(&f, *state, &driven);
    const struct solver_ops *ops = solver_find("pcg");
    const struct solver_options options = options_make("pcg", "none", 1e-9);
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        struct solver *s = NULL;
        struct err why = {0};
        struct state *bad = state_new();
        must(ops->setup(&f.problem, &options, &s, &err));
        must(state_put_ints(bad, "counters", counters[i], 4, &err));
        assert_int_equal(ops->load(s, bad, &why), -ERR_CORRUPT);
        assert_contains(why.detail, "counters");
        state_free(bad);
        ops->teardown(s);
    }
    fixture_deinit(&f);
}

static void test_full_disk(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &driven);
    struct resumable job = job_of(&plain);
    job.every_s = 5;
    struct desk d = {.pause_at = -1, .tick = 1.0, .full = true};
    const struct solve_outcome out = desk_solve(&d, &f, &job, NULL);
    assert_true(d.refused > 0);
    assert_contains(d.warning, "no room left");
    assert_true(out.model);
    fixture_deinit(&f);
}

/* Every allocation of a solve that resumes and saves fails once: the job may end for lack of
 * memory, or do without the checkpoint, and nothing is lost. */
static void test_no_memory_anywhere(void **state)
{
    struct fixture f;
    struct fixture_spec spec = driven;
    spec.n = 40;
    fixture_init(&f, *state, &spec);
    struct resumable job = job_of(&plain);
    struct desk d = {.pause_at = 3};
    desk_solve(&d, &f, &job, NULL);
    struct state *kept = d.kept;
    assert_non_null(kept);
    job.resume = kept;
    const int64_t bytes = f.be->bytes;
    int64_t k = 1, refused = 0;
    for (;; k++) {
        d = (struct desk){.pause_at = 9, .full = true, .lack = k};
        const struct solve_outcome out = desk_solve(&d, &f, &job, NULL);
        assert_int_equal(f.be->bytes, bytes);
        refused += out.reason == REASON_OUT_OF_MEMORY;
        if (out.reason == REASON_PAUSED && d.refused == 1) {
            break;
        }
        assert_true(out.reason == REASON_OUT_OF_MEMORY || d.warning[0] != '\0');
        assert_true(k < 10000);
    }
    assert_true(refused > 5);
    state_free(kept);
    fixture_deinit(&f);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)

TEST_MAIN(on_device(test_pause_and_resume), on_device(test_pause_while_building),
          on_device(test_pause_beyond_the_directions), on_device(test_pause_in_a_factorisation),
          on_device(test_schedule), on_device(test_budgets_span_attempts),
          on_device(test_unfit_checkpoints), on_device(test_impossible_counters),
          on_device(test_full_disk), on_device(test_no_memory_anywhere))
