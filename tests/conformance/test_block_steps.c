/* The steps of block methods: momentum that rises, steps found from a sketch, and blocks drawn by
 * leverage scores. */
#include <math.h>
#include <string.h>

#include "conformance/block_fixture.h"
#include "engine/methods/blocks/leverage.h"

/* ---- momentum ---- */

/* About 750 steps; a mu of a quarter of the guess (solver_skotch.c), too large for fixed exact
 * blocks, takes twice as many. */
static void test_momentum_on_a_hard_problem(void **state)
{
    static const struct block_variant v = {"askotch", "{\"block_size\": 60}"};
    const struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 300,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = 1e-4};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    const struct solve_outcome out = block_run(&f, &v, 1e-4, 1000);
    assert_int_equal(out.reason, REASON_CONVERGED);
    fixture_deinit(&f);
}

/* Few blocks, many blocks, fresh and fixed: further than with the mu that is measured. Where blocks
 * are fixed and sketched, what is rounded otherwise makes 4e-6 to 1.2e-5 of it. */
static void test_momentum_rises(void **state)
{
    static const struct block_variant pairs[][2] = {
        {{"askotch", "{\"block_size\": 150}"},
         {"askotch", "{\"block_size\": 150, \"restarts\": false}"}},
        {{"askotch", "{\"block_size\": 30}"},
         {"askotch", "{\"block_size\": 30, \"restarts\": false}"}},
        {{"askotch2", "{\"block_size\": 30}"},
         {"askotch2", "{\"block_size\": 30, \"restarts\": false}"}},
    };
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 300,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-5};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        const struct solve_outcome rising = block_run(&f, &pairs[i][0], 1e-12, 1000);
        const struct solve_outcome constant = block_run(&f, &pairs[i][1], 1e-12, 1000);
        const double most = strcmp(pairs[i][0].solver, "askotch2") == 0 ? 2.0 : 0.9;
        if (!(rising.relative_residual < most * constant.relative_residual)) {
            print_error("%s %s: %g, constant momentum %g\n", pairs[i][0].solver, pairs[i][0].params,
                        rising.relative_residual, constant.relative_residual);
            fail();
        }
    }
    fixture_deinit(&f);
}

/* One block of all rows that is only sketched, or not even that, needs its momentum: without,
 * errors shrink by the condition number, with it by its root. */
static void test_momentum_of_a_single_block(void **state)
{
    static const struct block_variant pairs[][2] = {
        {{"askotch", "{\"block_size\": 300, \"block_preconditioner\": \"nystrom\"}"},
         {"skotch", "{\"block_size\": 300, \"block_preconditioner\": \"nystrom\"}"}},
        {{"askotch", "{\"block_size\": 300, \"block_preconditioner\": \"none\"}"},
         {"skotch", "{\"block_size\": 300, \"block_preconditioner\": \"none\"}"}},
        {{"askotch2", "{\"block_size\": 300, \"block_preconditioner\": \"nystrom\"}"},
         {"askotch2", "{\"block_size\": 300, \"block_preconditioner\": \"nystrom\", "
                      "\"accelerated\": false}"}},
    };
    const struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 300,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-4};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        const struct solve_outcome with = block_run(&f, &pairs[i][0], 1e-12, 60);
        const struct solve_outcome without = block_run(&f, &pairs[i][1], 1e-12, 60);
        assert_int_equal(with.reason, REASON_ITERATION_LIMIT);
        if (!(with.relative_residual < 0.35 * without.relative_residual)) {
            print_error("%s %s: %g, without momentum %g\n", pairs[i][0].solver, pairs[i][0].params,
                        with.relative_residual, without.relative_residual);
            fail();
        }
    }
    fixture_deinit(&f);
}

/* A sketch of a smooth kernel misses directions in which H is small beside its large eigenvalues:
 * the step must be found from the former. Where too little powering is granted for that, the
 * descent climbs, and goes on from its best with half the step. */
static void test_step_of_a_sketch(void **state)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 240,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = 1e-8,
                                      .seed = 8};
    static const struct block_variant sketch = {
        "skotch", "{\"block_size\": 240, \"block_preconditioner\": \"nystrom\"}"};
    static const struct block_variant hasty = {
        "skotch", "{\"block_size\": 240, \"block_preconditioner\": \"nystrom\", "
                  "\"power_iterations\": 1}"};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    assert_int_equal(block_run(&f, &sketch, 1e-4, 300).reason, REASON_CONVERGED);
    const struct solver_options options = block_options(&hasty, 1e-4);
    const struct solve_limits limits = {
        .tolerance = 1e-4, .max_iterations = 100, .time_budget_s = INFINITY};
    struct world w = world_calm();
    const struct solve_control control = world_control(&w);
    struct solve_outcome out = {.reason = REASON_NONE};
    struct err err = {.code = ERR_OK};
    assert_int_equal(solve_run(solver_find(hasty.solver), &f.problem, &options, &limits, &control,
                               NULL, &f.kernel, &f.host, &f.A, &out, &err),
                     0);
    assert_true(out.reason == REASON_CONVERGED || out.reason == REASON_ITERATION_LIMIT);
    assert_true(out.model && out.relative_residual < 1.0);
    fixture_deinit(&f);
}

/* ---- draws by leverage scores ---- */

/* More rows than a piece: the core, two pieces of scores, four trial blocks, none of them a step
 * of the iteration; thrown away at any point nothing is left behind. */
static void test_leverage_comes_in_pieces(void **state)
{
    enum { PIECES = 7 };
    static const struct block_variant v = {"askotch2",
                                           "{\"block_size\": 40, \"sampling\": \"leverage\", "
                                           "\"restarts\": false}"};
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 4100,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-3};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    const struct solver_ops *ops = solver_find(v.solver);
    const struct solver_options options = block_options(&v, 1e-8);
    for (int stop = 0; stop <= PIECES; stop++) {
        struct solver *s = NULL;
        struct step_report at = {.iteration = 0};
        double before = -1.0;
        must(ops->setup(&f.problem, &options, &s, &err));
        for (int i = 0; i < stop; i++) {
            must(ops->step(s, &at, &err));
            assert_string_equal(at.phase, "preconditioner");
            assert_int_equal(at.iteration, 0);
            assert_true(at.fraction >= before && at.fraction <= 0.1);
            before = at.fraction;
        }
        if (stop == PIECES) {
            must(ops->step(s, &at, &err));
            assert_int_equal(at.iteration, 1);
        }
        ops->teardown(s);
    }
    fixture_deinit(&f);
}

/* Rows in a heap but for the last, which stands alone. */
static void init_lonely(struct fixture *f, struct backend *be)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 150,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-3,
                                      .seed = 5};
    fixture_init(f, be, &spec);
    for (int64_t k = 0; k < f->n * f->d; k++) {
        f->X[k] = k < (f->n - 1) * f->d ? 0.1 * f->X[k] : 50.0;
    }
    be->ops->points_free(be, f->points);
    must(be->ops->points_new(be, &f->kernel, DTYPE_F64, &f->host, &f->points, &err));
    f->problem.X = f->points;
}

static void test_leverage_draws(void **state)
{
    enum { DRAWS = 12, ROUNDS = 4000 };
    struct fixture f;
    init_lonely(&f, *state);
    struct leverage l;
    must(leverage_init(&l, &f.problem, DRAWS, &err));
    while (!leverage_ready(&l)) {
        must(leverage_build(&l, &err));
    }
    double sum = 0;
    for (int64_t i = 0; i < f.n; i++) {
        sum += l.included[i];
    }
    assert_close(sum, DRAWS, 1e-6);
    assert_true(l.included[f.n - 1] > 5.0 * l.included[0]);
    struct rng rng = rng_new(1, RNG_TEST);
    int64_t rows[DRAWS], last = 0;
    for (int k = 0; k < ROUNDS; k++) {
        leverage_draw(&l, &rng, rows);
        for (int i = 1; i < DRAWS; i++) {
            assert_true(rows[i - 1] < rows[i]);
        }
        last += rows[DRAWS - 1] == f.n - 1;
    }
    const double p = l.included[f.n - 1];
    assert_near((double)last / ROUNDS, p, 5.0 * sqrt(p * (1.0 - p) / ROUNDS) + 0.02);
    leverage_deinit(&l);
    fixture_deinit(&f);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_step_of_a_sketch), on_device(test_momentum_on_a_hard_problem),
          on_device(test_momentum_of_a_single_block), on_device(test_leverage_comes_in_pieces),
          on_device(test_leverage_draws), on_device(test_momentum_rises))
