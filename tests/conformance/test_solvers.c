/* Every solver, with every preconditioner, kernel and precision, against a Cholesky solution by
 * plain loops in float64; and what the interface promises in the awkward cases. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

static const struct solve_limits patient = {
    .tolerance = 1e-10, .max_iterations = 1000, .time_budget_s = INFINITY};

/* ---- the answer ---- */

/* |K (A - reference)| / |K reference|, K with its ridge: the error of the training predictions. */
static double prediction_error(const struct fixture *f, const double *M, const double *A,
                               const double *reference)
{
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
    return sqrt(error / size);
}

struct precision_case {
    enum dtype points, vectors;
    double tolerance; /* asked of the solver */
    double error;     /* allowed of the predictions */
};

static const struct precision_case precisions[] = {
    {DTYPE_F64, DTYPE_F64, 1e-10, 1e-9},
    {DTYPE_F32, DTYPE_F64, 1e-4, 3e-4},
    {DTYPE_F32, DTYPE_F32, 1e-4, 3e-4},
};

static void check_case(struct backend *be, enum kernel_id id, const struct precision_case *p)
{
    struct fixture f;
    const struct fixture_spec spec = {
        .kernel = id,
        .points = p->points,
        .vectors = p->vectors,
        .n = 150,
        .d = 3,
        .t = 3,
        .lambda = 1e-3,
        .seed = 7,
    };
    fixture_init(&f, be, &spec);
    double *M = fixture_matrix(&f), *L = fixture_matrix(&f), *reference = host_zeros(f.n * f.t);
    assert_true(host_factor(L, f.n));
    memcpy(reference, f.Y, (size_t)(f.n * f.t) * sizeof(double));
    host_solve(L, f.n, reference, f.t);
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct world w = world_calm();
        struct solve_limits limits = patient;
        limits.tolerance = p->tolerance;
        const struct solve_outcome out =
            fixture_solve(&f, methods[i].solver, methods[i].precond, &limits, &w, NULL, NULL);
        double *A = device_get(be, &f.A);
        const double error = prediction_error(&f, M, A, reference);
        if (out.reason != REASON_CONVERGED || !(error <= p->error)) {
            print_error("%s + %s, %s, points %s, vectors %s: %s, error %g\n", methods[i].solver,
                        methods[i].precond, kernel_name(id), dtype_name(p->points),
                        dtype_name(p->vectors), reason_name(out.reason), error);
            fail();
        }
        /* The certificate is the truth, and the fraction never steps back. */
        const double truth = host_residual(&f, M, A);
        assert_near(out.relative_residual, truth, 0.01 * truth + 1e-13);
        assert_true(out.relative_residual <= 1.01 * p->tolerance);
        assert_true(w.fraction_fell <= 0);
        assert_string_equal(w.last.phase, "saving");
        mem_free(A);
    }
    mem_free(reference);
    mem_free(L);
    mem_free(M);
    fixture_deinit(&f);
}

static void test_every_method_kernel_and_precision(void **state)
{
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        for (size_t p = 0; id != KERNEL_SIGMOID && p < 3; p++) {
            check_case(*state, (enum kernel_id)id, &precisions[p]);
        }
    }
}

static void one_method(struct backend *be, const struct method *m, const struct fixture_spec *spec,
                       double tolerance, double residual)
{
    struct fixture f;
    fixture_init(&f, be, spec);
    double *M = fixture_matrix(&f);
    struct world w = world_calm();
    struct solve_limits limits = patient;
    limits.tolerance = tolerance;
    const struct solve_outcome out =
        fixture_solve(&f, m->solver, m->precond, &limits, &w, NULL, NULL);
    double *A = device_get(be, &f.A);
    assert_true(reason_gives_model(out.reason));
    assert_true(host_residual(&f, M, A) <= residual);
    mem_free(A);
    mem_free(M);
    fixture_deinit(&f);
}

static void each_method(struct backend *be, const struct fixture_spec *spec, double tolerance,
                        double residual)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        one_method(be, &methods[i], spec, tolerance, residual);
    }
}

/* Descent on batches, or on the same blocks over and over: passes grow as 1 / lambda, or its root.
 */
static bool needs_ridge(const struct method *m)
{
    return strcmp(m->solver, "eigenpro2") == 0 || strcmp(m->solver, "skotch") == 0 ||
           strcmp(m->solver, "askotch") == 0;
}

static void test_one_row(void **state)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 1,
                                      .d = 2,
                                      .t = 2,
                                      .lambda = 1e-6};
    each_method(*state, &spec, 1e-12, 1e-12);
}

/* A target of zeros is answered by zeros, whatever the coefficients to begin with. */
static void test_zero_target_from_a_start(void **state)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 40,
                                      .d = 2,
                                      .t = 2,
                                      .lambda = 1e-3};
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        fixture_init(&f, *state, &spec);
        struct mat start = device_mat(f.be, DTYPE_F64, f.n, f.t, f.Y);
        double *zero = host_zeros(f.n * f.t);
        must(f.be->ops->mat_put(f.be, zero, f.n, &f.problem.Y, &err));
        f.problem.start = &start;
        struct world w = world_calm();
        const struct solve_outcome out =
            fixture_solve(&f, methods[i].solver, methods[i].precond, &patient, &w, NULL, NULL);
        double *A = device_get(f.be, &f.A);
        assert_int_equal(out.reason, REASON_CONVERGED);
        for (int64_t k = 0; k < f.n * f.t; k++) {
            assert_true(A[k] == 0);
        }
        mem_free(A);
        mem_free(zero);
        f.be->ops->mat_free(f.be, &start);
        fixture_deinit(&f);
    }
}

/* More rows than a panel of the factorisation and than a block of pivots. */
static void test_more_rows_than_blocks(void **state)
{
    struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN,
                                .points = DTYPE_F64,
                                .vectors = DTYPE_F64,
                                .n = 1100,
                                .d = 3,
                                .t = 1};
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        const bool easy = needs_ridge(&methods[i]);
        const double tolerance = easy ? 1e-6 : 1e-8;
        spec.lambda = easy ? 1e-1 : 1e-4;
        one_method(*state, &methods[i], &spec, tolerance, 1.01 * tolerance);
    }
}

static void test_tiny_ridge(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_MATERN52,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 120,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = 1e-13};
    fixture_init(&f, *state, &spec);
    struct world w = world_calm();
    struct solve_outcome out = fixture_solve(&f, "cholesky", NULL, &patient, &w, NULL, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    out = fixture_solve(&f, "pcg", "rpcholesky", &patient, &w, NULL, NULL);
    assert_true(reason_gives_model(out.reason));
    assert_true(out.relative_residual <= 1e-6);
    fixture_deinit(&f);
}

/* Whatever the precision, a ridge beyond it ends with a reason, and CONVERGED is said of what has
 * converged alone. */
static void test_tiny_ridge_everywhere(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (size_t k = 0; k < 3 * (size_t)count; k++) {
        const struct method *m = &methods[k / 3];
        const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                          .points = precisions[k % 3].points,
                                          .vectors = precisions[k % 3].vectors,
                                          .n = 60,
                                          .d = 3,
                                          .t = 2,
                                          .lambda = 1e-12,
                                          .copies = 10};
        struct fixture f;
        fixture_init(&f, *state, &spec);
        double *M = fixture_matrix(&f);
        struct world w = world_calm();
        struct solve_limits limits = patient;
        limits.tolerance = 1e-4;
        limits.max_iterations = 60;
        const struct solve_outcome out =
            fixture_solve(&f, m->solver, m->precond, &limits, &w, NULL, NULL);
        double *A = device_get(*state, &f.A);
        assert_true(out.model == reason_gives_model(out.reason));
        if (out.reason == REASON_CONVERGED) {
            assert_true(host_residual(&f, M, A) <= 1.02 * limits.tolerance);
        }
        mem_free(A);
        mem_free(M);
        fixture_deinit(&f);
    }
}

/* One target a class, as in `letter`. */
static void test_26_classes(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (size_t k = 0; k < 3 * (size_t)count; k++) {
        const struct precision_case *p = &precisions[k % 3];
        const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                          .points = p->points,
                                          .vectors = p->vectors,
                                          .n = 120,
                                          .d = 3,
                                          .t = 26,
                                          .lambda = 1e-3,
                                          .seed = 9};
        one_method(*state, &methods[k / 3], &spec, p->tolerance, 1.02 * p->tolerance);
    }
}

static void test_duplicate_rows_with_ridge(void **state)
{
    const struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 100,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-5,
                                      .copies = 30};
    each_method(*state, &spec, 1e-9, 1e-9 * 1.01);
}

/* No factor, and what to do; float64 is advice where the factor is of float32. */
static void refuse_duplicate_rows(struct backend *be, enum dtype points)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN,
                                      .points = points,
                                      .vectors = points,
                                      .n = 100,
                                      .d = 3,
                                      .t = 1,
                                      .copies = 1};
    fixture_init(&f, be, &spec);
    struct world w = world_calm();
    struct err err;
    const struct solve_outcome out = fixture_solve(&f, "cholesky", NULL, &patient, &w, NULL, &err);
    assert_int_equal(out.reason, REASON_NOT_POSITIVE_DEFINITE);
    assert_int_equal(err.code, ERR_NOT_POSITIVE_DEFINITE);
    assert_string_equal(err.pointer, "#/regularization");
    assert_contains(err.detail, "training row 100 of 100");
    assert_contains(err.detail, "remove duplicate rows");
    assert_true((strstr(err.detail, "use precision float64") != NULL) == (points == DTYPE_F32));
    double *A = device_get(be, &f.A);
    for (int64_t i = 0; i < f.n; i++) {
        assert_true(A[i] == 0);
    }
    mem_free(A);
    fixture_deinit(&f);
}

static void test_duplicate_rows_without_ridge(void **state)
{
    refuse_duplicate_rows(*state, DTYPE_F64);
    refuse_duplicate_rows(*state, DTYPE_F32);
}

static void test_indefinite_kernel(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        const struct fixture_spec spec = {.kernel = KERNEL_SIGMOID,
                                          .points = DTYPE_F64,
                                          .vectors = DTYPE_F64,
                                          .n = 80,
                                          .d = 3,
                                          .t = 1,
                                          .lambda = 1e-9};
        fixture_init(&f, *state, &spec);
        struct world w = world_calm();
        struct err err;
        const struct solve_outcome out =
            fixture_solve(&f, methods[i].solver, methods[i].precond, &patient, &w, NULL, &err);
        if (out.reason == REASON_NOT_POSITIVE_DEFINITE) {
            assert_contains(err.detail, "positive definite kernel");
        } else {
            assert_int_equal(out.reason, REASON_BREAKDOWN);
            assert_true(out.relative_residual <= 1); /* better than nothing */
        }
        fixture_deinit(&f);
    }
}

/* A target of zeros has coefficients of zeros and does not disturb the others. */
static void test_zero_column(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                          .points = DTYPE_F64,
                                          .vectors = DTYPE_F64,
                                          .n = 60,
                                          .d = 3,
                                          .t = 3,
                                          .lambda = 1e-4};
        fixture_init(&f, *state, &spec);
        memset(f.Y + f.n, 0, (size_t)f.n * sizeof(double));
        must(f.be->ops->mat_put(f.be, f.Y, f.n, &f.problem.Y, &err));
        double *M = fixture_matrix(&f);
        struct world w = world_calm();
        const struct solve_outcome out =
            fixture_solve(&f, methods[i].solver, methods[i].precond, &patient, &w, NULL, NULL);
        assert_int_equal(out.reason, REASON_CONVERGED);
        double *A = device_get(*state, &f.A);
        for (int64_t k = 0; k < f.n; k++) {
            assert_true(A[f.n + k] == 0);
        }
        assert_true(host_residual(&f, M, A) <= 1.01e-10);
        mem_free(A);
        mem_free(M);
        fixture_deinit(&f);
    }
}

static void test_all_zero(void **state)
{
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        struct fixture f;
        const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                          .points = DTYPE_F64,
                                          .vectors = DTYPE_F64,
                                          .n = 20,
                                          .d = 3,
                                          .t = 2,
                                          .lambda = 1e-4};
        fixture_init(&f, *state, &spec);
        memset(f.Y, 0, (size_t)(f.n * f.t) * sizeof(double));
        must(f.be->ops->mat_put(f.be, f.Y, f.n, &f.problem.Y, &err));
        struct world w = world_calm();
        const struct solve_outcome out =
            fixture_solve(&f, methods[i].solver, methods[i].precond, &patient, &w, NULL, NULL);
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_true(out.relative_residual == 0);
        fixture_deinit(&f);
    }
}

/* Many columns that converge at different times keep the answers they had alone. */
static void test_columns_do_not_mix(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_MATERN32,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 90,
                                      .d = 2,
                                      .t = 5,
                                      .lambda = 1e-6};
    fixture_init(&f, be, &spec);
    double *M = fixture_matrix(&f);
    /* Column 0 is easy: its solution is one eigenvector-like smooth vector, K 1. */
    for (int64_t i = 0; i < f.n; i++) {
        f.Y[i] = 0;
        for (int64_t j = 0; j < f.n; j++) {
            f.Y[i] += M[i + j * f.n];
        }
    }
    must(be->ops->mat_put(be, f.Y, f.n, &f.problem.Y, &err));
    struct world w = world_calm();
    const struct solve_outcome out = fixture_solve(&f, "pcg", "none", &patient, &w, NULL, NULL);
    assert_int_equal(out.reason, REASON_CONVERGED);
    double *A = device_get(be, &f.A);
    assert_true(host_residual(&f, M, A) <= 1.01e-10);
    for (int64_t i = 0; i < f.n; i++) {
        assert_near(A[i], 1.0, 1e-4);
    }
    mem_free(A);
    mem_free(M);
    fixture_deinit(&f);
}

/* ---- the interface ---- */

/* Solvers whose own residual is an estimate from the rows they have just been at. */
static bool estimates_residual(const char *solver)
{
    return strcmp(solver, "eigenpro2") == 0;
}

/* Coefficients are there at any time after setup; an iteration's own residual is that of the
 * coefficients it would hand out, where it is no estimate; a step after the end changes nothing. */
static void test_coefficients_at_any_time(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 70,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-4};
    fixture_init(&f, be, &spec);
    double *M = fixture_matrix(&f);
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        const struct solver_ops *ops = solver_find(methods[i].solver);
        const struct solver_options options =
            options_make(methods[i].solver, methods[i].precond, 1e-9);
        struct solver *s = NULL;
        must(ops->setup(&f.problem, &options, &s, &err));
        int r = 0, steps = 0;
        struct step_report at = {.usable = false};
        while (r == 0 && steps++ < 1000) {
            r = ops->step(s, &at, NULL);
            must(ops->coef(s, &f.A, &err));
            double *A = device_get(be, &f.A);
            const bool exact = r != 0 || !estimates_residual(methods[i].solver);
            if (at.usable && exact && !isnan(at.relative_residual)) {
                assert_near(at.relative_residual, host_residual(&f, M, A), 1e-11);
            }
            mem_free(A);
        }
        assert_int_equal(r, REASON_CONVERGED);
        const int64_t iterations = at.iteration;
        double *before = device_get(be, &f.A);
        assert_int_equal(ops->step(s, &at, NULL), REASON_CONVERGED);
        assert_int_equal(at.iteration, iterations);
        must(ops->coef(s, &f.A, &err));
        double *after = device_get(be, &f.A);
        assert_memory_equal(before, after, (size_t)(f.n * f.t) * sizeof(double));
        mem_free(after);
        mem_free(before);
        ops->teardown(s);
    }
    mem_free(M);
    fixture_deinit(&f);
}

static void test_same_seed_same_bits(void **state)
{
    struct backend *be = *state;
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    for (int i = 0; i < count; i++) {
        double *answers[2];
        for (int k = 0; k < 2; k++) {
            struct fixture f;
            const struct fixture_spec spec = {.kernel = KERNEL_LAPLACIAN_L1,
                                              .points = DTYPE_F64,
                                              .vectors = DTYPE_F64,
                                              .n = 300,
                                              .d = 4,
                                              .t = 2,
                                              .lambda = 1e-5,
                                              .seed = 3};
            fixture_init(&f, be, &spec);
            struct world w = world_calm();
            struct solve_limits brief = patient;
            brief.max_iterations = 60;
            fixture_solve(&f, methods[i].solver, methods[i].precond, &brief, &w, NULL, NULL);
            answers[k] = device_get(be, &f.A);
            fixture_deinit(&f);
        }
        assert_memory_equal(answers[0], answers[1], 600 * sizeof(double));
        mem_free(answers[0]);
        mem_free(answers[1]);
    }
}

static void test_registries_are_the_catalog(void **state)
{
    (void)state;
    const struct method_def *def = catalog_list(CATALOG_SOLVERS);
    assert_string_equal(def->name, "auto");
    int64_t count = 0;
    for (def++; def->name != NULL; def++, count++) {
        assert_non_null(solver_find(def->name));
        assert_string_equal(solver_find(def->name)->name, def->name);
        assert_int_equal(solver_find(def->name)->restricted, def->restricted);
    }
    for (const struct solver_ops *const *s = solver_list(); *s != NULL; s++) {
        count--;
    }
    assert_int_equal(count, 0);
    for (def = catalog_list(CATALOG_PRECONDITIONERS); def->name != NULL; def++, count++) {
        assert_non_null(precond_find(def->name));
        assert_string_equal(precond_find(def->name)->name, def->name);
    }
    for (const struct precond_ops *const *m = precond_list(); *m != NULL; m++) {
        count--;
    }
    assert_int_equal(count, 0);
    assert_null(solver_find("auto"));
    assert_null(precond_find("ilu"));
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)

TEST_MAIN(on_device(test_every_method_kernel_and_precision), on_device(test_one_row),
          on_device(test_zero_target_from_a_start), on_device(test_more_rows_than_blocks),
          on_device(test_tiny_ridge), on_device(test_tiny_ridge_everywhere),
          on_device(test_26_classes), on_device(test_duplicate_rows_with_ridge),
          on_device(test_duplicate_rows_without_ridge), on_device(test_indefinite_kernel),
          on_device(test_zero_column), on_device(test_all_zero), on_device(test_columns_do_not_mix),
          on_device(test_coefficients_at_any_time), on_device(test_same_seed_same_bits),
          cmocka_unit_test(test_registries_are_the_catalog))
