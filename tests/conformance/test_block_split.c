/* Block methods where a block's kernel values are evaluated once, for the preconditioner and for
 * their part of the gradient (block_descent.h, `splits`): the same gradients, the same answers, and
 * interrupted after every step to the same bits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "conformance/solve_fixture.h"
#include "engine/methods/blocks/block_descent.h"
#include "engine/methods/blocks/block_precond.h"

enum { ROWS = 170, BLOCK = 85, TARGETS = 2, STEPS_MAX = 5000, INTERRUPTED = 24 };

struct precision_case {
    enum dtype points, vectors;
    double tolerance;
    double gradient; /* of |G| */
};

static const struct precision_case precisions[] = {
    {DTYPE_F64, DTYPE_F64, 1e-10, 1e-13},
    {DTYPE_F32, DTYPE_F64, 1e-4, 1e-13},
    {DTYPE_F32, DTYPE_F32, 1e-4, 1e-5},
};

static void fixture_make(struct fixture *f, struct backend *be, const struct precision_case *p)
{
    const struct fixture_spec spec = {.kernel = KERNEL_MATERN32,
                                      .points = p->points,
                                      .vectors = p->vectors,
                                      .n = ROWS,
                                      .d = 60,
                                      .t = TARGETS,
                                      .lambda = 1e-4,
                                      .seed = 11};
    fixture_init(f, be, &spec);
}

static struct solver_options options_for(const char *solver, const char *kind, double tolerance)
{
    struct solver_options o = options_make(solver, NULL, tolerance);
    char text[128];
    snprintf(text, sizeof(text), "{\"block_size\":%d,\"block_preconditioner\":\"%s\",\"rank\":40}",
             BLOCK, kind);
    options_set(&o, text);
    return o;
}

/* G of one block at random E, with its K_bb and without; NULL where the backend does not split. */
static double *gradient(struct fixture *f, const char *kind, const double *E, bool split)
{
    const struct solver_options o = options_for("askotch2", kind, 1e-9);
    int64_t index[BLOCK];
    struct rng rng = rng_new(5, RNG_TEST);
    struct mat start = device_mat(f->be, f->problem.dtype, f->n, f->t, E);
    struct problem problem = f->problem;
    problem.start = &start;
    struct block_descent d;
    struct block_precond *P = NULL;
    for (int64_t i = 0; i < BLOCK; i++) { /* one of every two neighbours, ascending */
        index[i] = 2 * i + (rng_uniform(&rng) < 0.5);
    }
    must(block_descent_init(&d, &problem, 1e-9, BLOCK, 2, 10, true, &err));
    must(block_precond_new(&problem, &o.params, BLOCK, &P, &err));
    double *found = NULL, L = 0;
    if (d.splits || !split) {
        struct mat K_bb = {0}, G = {0};
        if (split) {
            must(block_precond_fill(P, index, BLOCK, &K_bb, &err));
        }
        must(block_descent_gradient(&d, index, BLOCK, 0.5, NULL, split ? &K_bb : NULL, &G, &err));
        must(block_precond_build(P, index, BLOCK, &L, &err));
        assert_true(L > 0.5);
        must(block_precond_apply(P, &G, &err));
        found = device_get(f->be, &G);
    }
    block_precond_free(P);
    block_descent_deinit(&d);
    f->be->ops->mat_free(f->be, &start);
    return found;
}

static void check_gradient(struct backend *be, const char *kind, const struct precision_case *p)
{
    struct fixture f;
    double E[ROWS * TARGETS];
    struct rng rng = rng_new(6, RNG_TEST);
    fixture_make(&f, be, p);
    for (int64_t i = 0; i < ROWS * TARGETS; i++) {
        E[i] = (double)(float)rng_normal(&rng);
    }
    double *whole = gradient(&f, kind, E, false), *split = gradient(&f, kind, E, true);
    assert_true((split != NULL) == (be->isa != NULL));
    double size = 0, error = 0;
    for (int64_t i = 0; split != NULL && i < BLOCK * TARGETS; i++) {
        size += whole[i] * whole[i];
        error += (split[i] - whole[i]) * (split[i] - whole[i]);
    }
    assert_true(sqrt(error) <= p->gradient * sqrt(size));
    mem_free(split);
    mem_free(whole);
    fixture_deinit(&f);
}

/* A block's preconditioned gradient. */
static void test_gradient(void **state)
{
    for (int p = 0; p < 3; p++) {
        check_gradient(*state, "cholesky", &precisions[p]);
        check_gradient(*state, "nystrom", &precisions[p]);
        check_gradient(*state, "none", &precisions[p]);
    }
}

static const char *const methods[] = {"askotch2", "askotch", "skotch"};

static void test_answers(void **state)
{
    for (int i = 0; i < 9; i++) {
        struct fixture f;
        const struct precision_case *p = &precisions[i / 3];
        fixture_make(&f, *state, p);
        double *M = fixture_matrix(&f);
        for (int k = 0; k < 2; k++) {
            const struct solver_options o =
                options_for(methods[i % 3], k == 0 ? "cholesky" : "nystrom", p->tolerance);
            const struct solve_limits limits = {p->tolerance, STEPS_MAX, INFINITY};
            struct world w = world_calm();
            const struct solve_control control = world_control(&w);
            struct solve_outcome out = {.reason = REASON_NONE};
            must(solve_run(solver_find(methods[i % 3]), &f.problem, &o, &limits, &control, NULL,
                           &f.kernel, &f.host, &f.A, &out, &err));
            double *A = device_get(f.be, &f.A);
            assert_int_equal(out.reason, REASON_CONVERGED);
            assert_true(host_residual(&f, M, A) <= 1.02 * p->tolerance);
            mem_free(A);
        }
        mem_free(M);
        fixture_deinit(&f);
    }
}

/* Goes on until so many iterations are done, or the method has ended. */
static void advance(const struct solver_ops *ops, struct solver *s, int64_t until)
{
    struct step_report at = {.iteration = 0};
    int ended = 0;
    for (int i = 0; ended == 0 && at.iteration < until; i++) {
        assert_true(i < STEPS_MAX);
        ended = ops->step(s, &at, NULL);
        assert_true(ended >= 0);
    }
}

static double *answer(struct fixture *f, const struct solver_ops *ops, struct solver *s)
{
    must(ops->coef(s, &f->A, &err));
    return device_get(f->be, &f->A);
}

/* skotch and askotch have two fixed blocks here: every other step meets the one before again. */
static void check_interrupted(struct fixture *f, const char *solver, const char *kind)
{
    const struct solver_ops *ops = solver_find(solver);
    const struct solver_options o = options_for(solver, kind, 1e-14);
    struct solver *whole = NULL;
    must(ops->setup(&f->problem, &o, &whole, &err));
    advance(ops, whole, INTERRUPTED);
    double *expected = answer(f, ops, whole);
    for (int64_t k = 1; k < INTERRUPTED; k++) {
        struct solver *first = NULL, *second = NULL;
        struct state *saved = state_new();
        must(ops->setup(&f->problem, &o, &first, &err));
        advance(ops, first, k);
        must(ops->save(first, saved, &err));
        must(ops->setup(&f->problem, &o, &second, &err));
        must(ops->load(second, saved, &err));
        advance(ops, second, INTERRUPTED);
        double *found = answer(f, ops, second);
        assert_memory_equal(found, expected, (size_t)(f->n * f->t) * sizeof(double));
        mem_free(found);
        state_free(saved);
        ops->teardown(first);
        ops->teardown(second);
    }
    mem_free(expected);
    ops->teardown(whole);
}

static void test_interrupted(void **state)
{
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        fixture_make(&f, *state, &precisions[i]);
        for (int k = 0; k < 3; k++) {
            check_interrupted(&f, methods[k], i == 0 ? "nystrom" : "cholesky");
        }
        fixture_deinit(&f);
    }
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_gradient), on_device(test_answers), on_device(test_interrupted))
