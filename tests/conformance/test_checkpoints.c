/* Checkpoints of every solver that keeps them: interrupted, written, read by a fresh solver, and
 * gone on with to the same bits. What the driver makes of them: test_resume.c. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

enum { STEPS_MAX = 400, ITERATIONS_MAX = 56 };

/* ---- solvers, without the driver ---- */

/* A solver under way. */
struct run {
    const struct solver_ops *ops;
    struct fixture *f;
    struct solver *s;
    struct step_report at;
    int ended;
};

static struct run run_begin(struct fixture *f, const struct method *m)
{
    struct run run = {.ops = solver_find(m->solver), .f = f};
    const struct solver_options options = options_make(m->solver, m->precond, 1e-9);
    must(run.ops->setup(&f->problem, &options, &run.s, &err));
    return run;
}

static void run_step(struct run *run)
{
    struct err err = {0};
    run->ended = run->ops->step(run->s, &run->at, &err);
    if (run->ended < 0) {
        print_error("%s: %s\n", run->ops->name, err.detail);
        fail();
    }
}

/* Until so many iterations are done, or the method has ended. */
static void run_until(struct run *run, int64_t iteration)
{
    for (int k = 0; run->ended == 0 && (run->at.iteration < iteration || !run->at.usable); k++) {
        assert_true(k < STEPS_MAX);
        run_step(run);
    }
}

/* The coefficients; the caller frees. */
static double *run_coef(struct run *run)
{
    must(run->ops->coef(run->s, &run->f->A, &err));
    return device_get(run->f->be, &run->f->A);
}

static void run_end(struct run *run)
{
    run->ops->teardown(run->s);
}

static void assert_same_coef(struct run *run, const double *expected, const char *when)
{
    const size_t size = (size_t)(run->f->n * run->f->t) * sizeof(double);
    double *found = run_coef(run);
    if (memcmp(found, expected, size) != 0) {
        print_error("%s: other bits %s\n", run->ops->name, when);
        fail();
    }
    mem_free(found);
}

/* Interrupted after `at` iterations: the fresh solver has the same coefficients at once, and the
 * same end. */
static void interrupt(struct fixture *f, const struct method *m, int64_t at,
                      const struct run *straight, const double *last)
{
    struct run first = run_begin(f, m);
    run_until(&first, at);
    struct state *saved = state_new();
    must(first.ops->save(first.s, saved, &err));
    double *then = run_coef(&first);
    struct state *read = state_through_file(saved);
    assert_int_equal(state_bytes(read), state_bytes(saved));

    struct run second = run_begin(f, m);
    must(second.ops->load(second.s, read, &err));
    assert_same_coef(&second, then, "right after loading");
    run_until(&second, ITERATIONS_MAX);
    assert_int_equal(second.ended, straight->ended);
    assert_int_equal(second.at.iteration, straight->at.iteration);
    assert_same_bits(second.at.relative_residual, straight->at.relative_residual);
    assert_same_coef(&second, last, "at the end");

    run_until(&first, ITERATIONS_MAX); /* saving changes nothing */
    assert_same_coef(&first, last, "after saving");
    mem_free(then);
    state_free(read);
    state_free(saved);
    run_end(&second);
    run_end(&first);
}

struct variant {
    enum kernel_id kernel;
    enum dtype points, vectors;
    double lambda;
    bool warm;
};

/* In the last one pcg with rpcholesky goes over to products in float64 on its way. */
static const struct variant variants[] = {
    {KERNEL_MATERN32, DTYPE_F64, DTYPE_F64, 1e-6, false},
    {KERNEL_MATERN32, DTYPE_F64, DTYPE_F64, 1e-6, true},
    {KERNEL_MATERN32, DTYPE_F32, DTYPE_F32, 1e-6, false},
    {KERNEL_MATERN32, DTYPE_F32, DTYPE_F64, 1e-6, false},
    {KERNEL_MATERN32, DTYPE_F32, DTYPE_F64, 1e-6, true},
    {KERNEL_GAUSSIAN, DTYPE_F32, DTYPE_F64, 1e-10, false}, /* for pcg alone */
};

/* Iterations after which it is interrupted. */
static const int64_t moments[] = {0, 1, 2, 7, 31, 50, 51};

static void check_method(struct backend *be, const struct method *m, const struct variant *v)
{
    const struct fixture_spec spec = {.kernel = v->kernel,
                                      .points = v->points,
                                      .vectors = v->vectors,
                                      .n = 110,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = v->lambda,
                                      .seed = 3};
    struct fixture f;
    fixture_init(&f, be, &spec);
    struct mat start = device_mat(be, v->vectors, f.n, f.t, f.Y);
    f.problem.start = v->warm ? &start : NULL;
    struct run straight = run_begin(&f, m);
    run_until(&straight, ITERATIONS_MAX);
    if (m->precond != NULL && strcmp(m->precond, "rpcholesky") == 0) {
        assert_true((v->lambda < 1e-6) == (straight.at.note != NULL));
    }
    double *last = run_coef(&straight);
    for (size_t k = 0; k < sizeof(moments) / sizeof(moments[0]); k++) {
        interrupt(&f, m, moments[k], &straight, last);
    }
    mem_free(last);
    run_end(&straight);
    be->ops->mat_free(be, &start);
    fixture_deinit(&f);
}

static void test_same_bits(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    int64_t checked = 0;
    for (int i = 0; i < count; i++) {
        const struct solver_ops *ops = solver_find(methods[i].solver);
        assert_true((ops->save == NULL) == (ops->load == NULL));
        if (ops->save != NULL) {
            for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++) {
                if (variants[v].lambda >= 1e-6 || strcmp(methods[i].solver, "pcg") == 0) {
                    check_method(*state, &methods[i], &variants[v]);
                }
            }
            checked++;
        }
    }
    assert_true(checked > 0);
}

/* ---- a factorisation ---- */

static struct run factorise(struct fixture *f, const char *params, double tolerance)
{
    struct run run = {.ops = solver_find("cholesky"), .f = f};
    struct solver_options options = options_make("cholesky", NULL, tolerance);
    options_set(&options, params);
    must(run.ops->setup(&f->problem, &options, &run.s, &err));
    return run;
}

/* Steps until `most` are done or the method has ended; how many. */
static int run_steps(struct run *run, int most)
{
    int done = 0;
    while (run->ended == 0 && done < most) {
        run_step(run);
        assert_true(run->at.usable || run->at.savable);
        done++;
    }
    return done;
}

/* Interrupted after every step, in the middle of every panel's work too: what is lent takes no
 * memory, and the end has the bits of a run without. */
static void check_factor(struct backend *be, const struct fixture_spec *spec, const char *params,
                         double tolerance)
{
    struct fixture f;
    fixture_init(&f, be, spec);
    struct run straight = factorise(&f, params, tolerance);
    const int steps = run_steps(&straight, STEPS_MAX);
    double *last = run_coef(&straight);
    assert_true(steps > 7 && straight.ended > 0);
    for (int k = 1; k <= steps; k++) {
        struct run first = factorise(&f, params, tolerance), second;
        run_steps(&first, k);
        struct state *saved = state_new();
        must(first.ops->save(first.s, saved, &err));
        struct state *read = state_through_file(saved);
        assert_true(state_bytes(read) < (f.n * f.n * 5 / 8 + 10 * f.n * f.t) * 8);
        state_free(saved);
        run_end(&first);
        second = factorise(&f, params, tolerance);
        must(second.ops->load(second.s, read, &err));
        state_free(read);
        run_steps(&second, STEPS_MAX);
        assert_int_equal(second.ended, straight.ended);
        assert_int_equal(second.at.iteration, straight.at.iteration);
        assert_same_bits(second.at.relative_residual, straight.at.relative_residual);
        assert_ptr_equal(second.at.note, straight.at.note);
        assert_same_coef(&second, last, "at the end");
        run_end(&second);
    }
    mem_free(last);
    run_end(&straight);
    fixture_deinit(&f);
}

static const char float64_factor[] = "{\"factor\":\"float64\",\"block_size\":64}";
static const char float32_factor[] = "{\"factor\":\"float32\",\"block_size\":64}";

static void test_factor_under_way(void **state)
{
    for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++) {
        const struct fixture_spec spec = {.kernel = KERNEL_MATERN32,
                                          .points = variants[v].points,
                                          .vectors = variants[v].vectors,
                                          .n = 330,
                                          .d = 3,
                                          .t = 2,
                                          .lambda = 1e-6,
                                          .seed = 3};
        check_factor(*state, &spec, "{\"block_size\":64}", 1e-9);
        check_factor(*state, &spec, float64_factor, 1e-14);
        if (spec.vectors == DTYPE_F64) {
            check_factor(*state, &spec, float32_factor, 1e-9);
        }
    }
}

/* Float32 gives way to float64: the state says which way it was taken of, and what was kept. */
static void test_factor_that_gave_way(void **state)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 350,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = 1e-12};
    check_factor(*state, &spec, float32_factor, 1e-12);
}

/* Places that no factorisation leaves. */
static void test_impossible_factors(void **state)
{
    static const int64_t places[][5] = {
        {0, 1, 0, 0, 9}, {2, 1, 0, 0, 0}, {0, 0, 0, 0, 0}, {1, 0, 1, 0, 0}, {0, 1, 0, -1, 0}};
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 150,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-4};
    static const int64_t directs[][4] = {/* stage, refinements, columns, block */
                                         {0, 0, 150, 64}, {1, 0, 128, 64}, {9, 0, 128, 64},
                                         {0, 9, 128, 64}, {0, 0, 129, 64}, {0, 0, 128, 128},
                                         {0, 0, 192, 64}, {0, 0, -64, 64}};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    const size_t outer = sizeof(places) / sizeof(places[0]);
    const size_t all = outer + sizeof(directs) / sizeof(directs[0]);
    for (size_t i = 0; i < all; i++) {
        static const int64_t good[5] = {0, 1, 0, 0, 0};
        static const double residual = 0.5;
        struct run run = factorise(&f, float64_factor, 1e-9);
        struct state *bad = state_new();
        must(state_put_ints(bad, "cholesky.place", i < outer ? places[i] : good, 5, &err));
        must(state_put_reals(bad, "cholesky.residual", &residual, 1, &err));
        if (i >= outer) {
            cleanup_mem double *numbers = mem_zarray(192 * 192, sizeof(double));
            const int64_t *d = directs[i - outer];
            int64_t count = 0;
            for (int64_t j = 0; j < d[2]; j += 64) {
                count += (150 - j) * (d[2] - j < 64 ? d[2] - j : 64);
            }
            must(state_put_ints(bad, "direct.place", d, 2, &err));
            must(state_put_reals(bad, "direct.residual", &residual, 1, &err));
            must(state_put_ints(bad, "factor.place", d + 2, 2, &err));
            must(state_put_reals(bad, "factor.panels", numbers, count, &err));
        }
        assert_int_equal(run.ops->load(run.s, bad, NULL), -ERR_CORRUPT);
        state_free(bad);
        run_end(&run);
    }
    fixture_deinit(&f);
}

/* A state that lacks anything is refused, and so is one of another shape; nothing is lost. */
static void test_unfit_states(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        const struct solver_ops *ops = solver_find(methods[i].solver);
        if (ops->save == NULL) {
            continue;
        }
        struct fixture f, other;
        struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                    .points = DTYPE_F64,
                                    .vectors = DTYPE_F64,
                                    .n = 60,
                                    .d = 2,
                                    .t = 1,
                                    .lambda = 1e-4};
        fixture_init(&f, *state, &spec);
        spec.n = 61;
        fixture_init(&other, *state, &spec);
        struct run run = run_begin(&f, &methods[i]), wrong = run_begin(&other, &methods[i]),
                   empty = run_begin(&f, &methods[i]);
        run_until(&run, 2);
        struct state *s = state_new(), *nothing = state_new();
        must(ops->save(run.s, s, &err));
        assert_int_equal(ops->load(wrong.s, s, NULL), -ERR_CORRUPT);
        assert_int_equal(ops->load(empty.s, nothing, NULL), -ERR_CORRUPT);
        state_free(s);
        state_free(nothing);
        run_end(&run);
        run_end(&wrong);
        run_end(&empty);
        fixture_deinit(&f);
        fixture_deinit(&other);
    }
}

/* ---- coefficients to begin with ---- */

/* The solution itself is accepted as it is; a poor start costs no more than none. */
static void test_start(void **state)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 120,
                                      .d = 3,
                                      .t = 3,
                                      .lambda = 1e-4};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    const struct solve_limits limits = {1e-9, 1000, INFINITY};
    struct world w = world_calm();
    struct solve_outcome out = fixture_solve(&f, "pcg", "none", &limits, &w, NULL, NULL);
    const int64_t cold = out.iterations;
    assert_int_equal(out.reason, REASON_CONVERGED);
    double *solution = device_get(f.be, &f.A);
    struct mat start = device_mat(f.be, DTYPE_F64, f.n, f.t, solution);
    f.problem.start = &start;
    w = world_calm();
    out = fixture_solve(&f, "pcg", "none", &limits, &w, NULL, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_int_equal(out.iterations, 0);

    /* A larger ridge than before: near, not there. */
    f.problem.ridge *= 1.2;
    w = world_calm();
    out = fixture_solve(&f, "pcg", "none", &limits, &w, NULL, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_true(out.iterations > 0 && out.iterations < cold);
    f.problem.ridge /= 1.2;

    /* One column good, one absurd, one infinite. */
    for (int64_t i = 0; i < f.n; i++) {
        solution[f.n + i] *= 1e6;
        solution[2 * f.n + i] = INFINITY;
    }
    f.be->ops->mat_free(f.be, &start);
    start = device_mat(f.be, DTYPE_F64, f.n, f.t, solution);
    w = world_calm();
    out = fixture_solve(&f, "pcg", "none", &limits, &w, NULL, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_true(out.iterations <= cold);
    mem_free(solution);
    f.be->ops->mat_free(f.be, &start);
    fixture_deinit(&f);
}

/* Many short products: two threads would wait for each other. */
#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_same_bits), on_device(test_factor_under_way),
          on_device(test_factor_that_gave_way), on_device(test_impossible_factors),
          on_device(test_unfit_states), on_device(test_start))
