/* The block methods with blocks smaller than the problem, in all their variants: against a Cholesky
 * solution by plain loops, and in the awkward cases. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/block_fixture.h"

/* |K (A - reference)| / |K reference|, K with its ridge. */
static double prediction_error(const struct fixture *f, const double *M, const double *reference)
{
    double *A = device_get(f->be, &f->A);
    double error = 0, size = 0;
    for (int64_t c = 0; c < f->t; c++) {
        for (int64_t i = 0; i < f->n; i++) {
            double e = 0, p = 0;
            for (int64_t j = 0; j < f->n; j++) {
                e += M[i + j * f->n] * (A[j + c * f->n] - reference[j + c * f->n]);
                p += M[i + j * f->n] * reference[j + c * f->n];
            }
            error += e * e;
            size += p * p;
        }
    }
    mem_free(A);
    return sqrt(error / size);
}

static double *solution(const struct fixture *f, const double *M)
{
    double *L = host_zeros(f->n * f->n), *X = host_zeros(f->n * f->t);
    memcpy(L, M, (size_t)(f->n * f->n) * sizeof(double));
    assert_true(host_factor(L, f->n));
    memcpy(X, f->Y, (size_t)(f->n * f->t) * sizeof(double));
    host_solve(L, f->n, X, f->t);
    mem_free(L);
    return X;
}

struct precision_case {
    enum dtype points, vectors;
    double tolerance, error;
};

static const struct precision_case precisions[] = {
    {DTYPE_F64, DTYPE_F64, 1e-10, 1e-9},
    {DTYPE_F32, DTYPE_F64, 1e-4, 3e-4},
    {DTYPE_F32, DTYPE_F32, 1e-4, 3e-4},
};

static void check_variants(struct backend *be, enum kernel_id id, const struct precision_case *p)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = id,
                                      .points = p->points,
                                      .vectors = p->vectors,
                                      .n = 150,
                                      .d = 3,
                                      .t = 3,
                                      .lambda = 1e-2,
                                      .seed = 7};
    fixture_init(&f, be, &spec);
    double *M = fixture_matrix(&f), *reference = solution(&f, M);
    for (int i = 0; i < BLOCK_VARIANTS; i++) {
        const struct solve_outcome out = block_run(&f, &block_variants[i], p->tolerance, 5000);
        const double error = prediction_error(&f, M, reference);
        if (out.reason != REASON_CONVERGED || !(error <= p->error)) {
            print_error("%s %s, %s, points %s, vectors %s: %s after %ld, residual %g, error %g\n",
                        block_variants[i].solver, block_variants[i].params, kernel_name(id),
                        dtype_name(p->points), dtype_name(p->vectors), reason_name(out.reason),
                        (long)out.iterations, out.relative_residual, error);
            fail();
        }
    }
    mem_free(reference);
    mem_free(M);
    fixture_deinit(&f);
}

static void test_every_variant_kernel_and_precision(void **state)
{
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        for (size_t p = 0; id != KERNEL_SIGMOID && p < 3; p++) {
            check_variants(*state, (enum kernel_id)id, &precisions[p]);
        }
    }
}

/* Without any preconditioner: a kernel that is kind to it. */
static void test_ablation(void **state)
{
    static const struct block_variant plain[] = {
        {"askotch2", "{\"block_size\": 40, \"block_preconditioner\": \"none\"}"},
        {"askotch", "{\"block_size\": 40, \"block_preconditioner\": \"none\"}"},
        {"skotch", "{\"block_size\": 40, \"block_preconditioner\": \"none\"}"},
    };
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 150,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = 1e-2};
    fixture_init(&f, *state, &spec);
    double *M = fixture_matrix(&f);
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
        const struct solve_outcome out = block_run(&f, &plain[i], 1e-6, 5000);
        assert_int_equal(out.reason, REASON_CONVERGED);
        double *A = device_get(f.be, &f.A);
        assert_true(host_residual(&f, M, A) <= 1.01e-6);
        mem_free(A);
    }
    mem_free(M);
    fixture_deinit(&f);
}

/* From the solution there is nothing to do but to see that. */
static void test_warm_start(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 150,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-3};
    fixture_init(&f, *state, &spec);
    double *M = fixture_matrix(&f), *X = solution(&f, M);
    struct mat start = device_mat(f.be, DTYPE_F64, f.n, f.t, X);
    f.problem.start = &start;
    for (int i = 0; i < BLOCK_VARIANTS; i++) {
        const struct solve_outcome out = block_run(&f, &block_variants[i], 1e-8, 20);
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_int_equal(out.iterations, 1);
    }
    f.be->ops->mat_free(f.be, &start);
    mem_free(X);
    mem_free(M);
    fixture_deinit(&f);
}

/* Of coefficients that somebody gave nothing is known before the first block, and a target of zeros
 * beside them changes nothing about that. */
static void test_residual_of_a_start(void **state)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 150,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-3};
    for (int i = 0; i < BLOCK_VARIANTS; i++) {
        struct fixture f;
        fixture_init(&f, *state, &spec);
        struct mat start = device_mat(f.be, DTYPE_F64, f.n, f.t, f.Y);
        memset(f.Y + f.n, 0, (size_t)f.n * sizeof(double));
        must(f.be->ops->mat_put(f.be, f.Y, f.n, &f.problem.Y, &err));
        f.problem.start = &start;
        const struct solver_ops *ops = solver_find(block_variants[i].solver);
        const struct solver_options options = block_options(&block_variants[i], 1e-8);
        struct solver *s = NULL;
        struct step_report at;
        must(ops->setup(&f.problem, &options, &s, &err));
        assert_int_equal(ops->step(s, &at, NULL), 0);
        assert_int_equal(at.iteration, 0);
        assert_true(isnan(at.relative_residual));
        ops->teardown(s);
        f.be->ops->mat_free(f.be, &start);
        fixture_deinit(&f);
    }
}

enum { PATIENCE = 5000 };

/* Converges, or, where it is given few steps, stops for a
 * reason that is true, with finite coefficients. */
static void check_awkward(struct backend *be, const struct fixture_spec *spec, bool constant,
                          double tolerance, int64_t steps)
{
    for (int i = 0; i < BLOCK_VARIANTS; i++) {
        struct fixture f;
        fixture_init(&f, be, spec);
        for (int64_t k = 0; constant && k < f.n * f.t; k++) {
            f.Y[k] = 1.0;
        }
        must(be->ops->mat_put(be, f.Y, f.n, &f.problem.Y, &err));
        double *M = fixture_matrix(&f);
        const struct solve_outcome out = block_run(&f, &block_variants[i], tolerance, steps);
        double *A = device_get(be, &f.A);
        const double truth = host_residual(&f, M, A);
        const bool honest = out.reason == REASON_CONVERGED
                                ? truth <= 1.01 * tolerance
                                : steps < PATIENCE && (out.reason == REASON_STAGNATED ||
                                                       out.reason == REASON_ITERATION_LIMIT);
        if (!honest || !isfinite(truth)) {
            print_error("%s %s: %s after %ld, residual %g\n", block_variants[i].solver,
                        block_variants[i].params, reason_name(out.reason), (long)out.iterations,
                        truth);
            fail();
        }
        mem_free(A);
        mem_free(M);
        fixture_deinit(&f);
    }
}

static void test_awkward_problems(void **state)
{
    struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                .points = DTYPE_F64,
                                .vectors = DTYPE_F64,
                                .n = 1,
                                .d = 2,
                                .t = 2,
                                .lambda = 1e-6};
    check_awkward(*state, &spec, false, 1e-12, PATIENCE);
    spec.n = 3; /* fewer than a block */
    check_awkward(*state, &spec, false, 1e-10, PATIENCE);
    spec.n = 130;
    spec.lambda = 1e-2;
    check_awkward(*state, &spec, true, 1e-9, PATIENCE);
    spec.copies = 50;
    check_awkward(*state, &spec, false, 1e-9, PATIENCE);
    spec.t = 26;
    check_awkward(*state, &spec, false, 1e-6, PATIENCE);
}

static void test_tiny_ridge(void **state)
{
    struct fixture_spec spec = {.kernel = KERNEL_MATERN32,
                                .points = DTYPE_F64,
                                .vectors = DTYPE_F64,
                                .n = 90,
                                .d = 3,
                                .t = 1,
                                .lambda = 1e-12};
    check_awkward(*state, &spec, false, 1e-6, 600);
    spec.points = spec.vectors = DTYPE_F32;
    check_awkward(*state, &spec, false, 1e-6, 600);
    spec.lambda = 0;
    check_awkward(*state, &spec, false, 1e-6, 600);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_every_variant_kernel_and_precision), on_device(test_ablation),
          on_device(test_warm_start), on_device(test_residual_of_a_start),
          on_device(test_awkward_problems), on_device(test_tiny_ridge))
