/* Restricted problems at the limits of the precision: conjugate gradients where K_mm is singular to
 * working precision, and where H is indefinite. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"
#include "engine/methods/normal_core.h"
#include "engine/normal.h"
#include "engine/solve/certify.h"

/* Where K_mm is singular to working precision and lambda tiny, what sees the rows takes a few
 * iterations all the same, down to the residual that float64 has here, up to 4e-14 / lambda. */
static void test_ill_conditioned(void **state)
{
    static const struct {
        const char *name;
        int64_t most;
    } solvers[] = {{"direct", 4}, {"krill", 40}};
    struct restricted_spec spec = restricted_ordinary();
    spec.n = 1200;
    spec.m = 150;
    spec.d = 2;
    for (spec.lambda = 1e-6; spec.lambda > 1e-9; spec.lambda /= 10) {
        const struct solve_limits limits = {.tolerance = fmax(1e-6, 1e-13 / spec.lambda),
                                            .max_iterations = 1000,
                                            .time_budget_s = INFINITY};
        for (size_t i = 0; i < 4; i++) {
            const size_t k = i > 0;
            struct restricted_fixture f;
            restricted_init(&f, *state, &spec);
            f.problem.seed = i;
            const struct solve_outcome outcome = restricted_solve(&f, solvers[k].name, &limits);
            if (outcome.reason != REASON_CONVERGED || outcome.iterations > solvers[k].most) {
                print_error("%s, lambda %g: %s after %lld iterations, residual %g\n",
                            solvers[k].name, spec.lambda, reason_name(outcome.reason),
                            (long long)outcome.iterations, outcome.relative_residual);
                fail();
            }
            restricted_deinit(&f);
        }
    }
}

/* H with an indefinite K_mm; the targets' right-hand sides are its eigenvectors: that of the least,
 * negative eigenvalue, and the sum of those of the three largest. */
static struct points *make_indefinite(struct restricted_fixture *f)
{
    const struct kernel tanh_kernel = {
        .id = KERNEL_SIGMOID, .d = f->d, .gamma = 3.0, .coef0 = -1.0};
    struct backend *be = f->be;
    const int64_t n = f->n, m = f->m;
    struct points *core = NULL;
    must(be->ops->points_new(be, &tanh_kernel, DTYPE_F64, &f->host_centers, &core, &err));
    f->restricted.core = core;
    f->problem.ridge = (double)n;
    double *K = restricted_kernel(f), values[64];
    struct mat D = device_mat(be, DTYPE_F64, n, m, K), H = device_mat(be, DTYPE_F64, m, m, NULL);
    struct mat G = device_mat(be, DTYPE_F64, m, m, NULL);
    must(be->ops->gemm(be, true, false, 1.0, &D, &D, 0.0, &G, &err));
    must(be->ops->copy(be, &G, &H, &err));
    must(core_add(&f->problem, f->problem.ridge, &H, &err));
    must(be->ops->eigh(be, &H, values, &err));
    assert_true(values[0] < 0 && values[m - 3] > 0);
    double *V = device_get(be, &H), *C = host_zeros(m * 2), *L = device_get(be, &G);
    for (int64_t i = 0; i < m; i++) {
        C[i] = V[i];
        C[m + i] = V[i + (m - 1) * m] + V[i + (m - 2) * m] + V[i + (m - 3) * m];
    }
    assert_true(host_factor(L, m)); /* Y = K (K'K)^-1 C */
    host_solve(L, m, C, 2);
    memset(f->Y, 0, (size_t)(n * 2) * sizeof(double));
    for (int64_t i = 0; i < n * m * 2; i++) {
        const int64_t row = i % n, j = i / n % m, target = i / (n * m);
        f->Y[row + target * n] += K[row + j * n] * C[j + target * m];
    }
    struct mat *const all[] = {&D, &H, &G};
    for (int i = 0; i < 3; i++) {
        be->ops->mat_free(be, all[i]);
    }
    double *const host[] = {K, V, C, L};
    for (int i = 0; i < 4; i++) {
        mem_free(host[i]);
    }
    return core;
}

/* |H A - K_nm' Y|^2 of each column; certificates take K_mm from the rows' kernel. */
static void true_residual(struct restricted_fixture *f, double *ret)
{
    struct mat G = device_mat(f->be, DTYPE_F64, f->m, f->t, NULL);
    struct normal_pass pass = {0};
    int r = 0;
    while (r == 0) {
        struct err err;
        r = normal_gradient(&f->restricted, f->be, &pass, &f->A, true, &G, &err);
    }
    assert_int_equal(r, 1);
    must(normal_add_core(&f->restricted, f->be, f->problem.ridge, &f->A, &G, &err));
    must(f->be->ops->col_dots(f->be, &G, &G, ret, &err));
    f->be->ops->mat_free(f->be, &G);
}

/* No ridge, and K_mm singular: H, whose shift stands for one, still gives what fits. */
static void test_no_ridge(void **state)
{
    struct restricted_spec spec = restricted_ordinary();
    spec.n = 600;
    spec.m = 110;
    spec.lambda = 0;
    const struct solve_limits limits = {
        .tolerance = 1e-6, .max_iterations = 1000, .time_budget_s = INFINITY};
    for (spec.d = 1; spec.d <= 2; spec.d++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome outcome = restricted_solve(&f, "direct", &limits);
        if (!(outcome.relative_residual < 1e-3)) {
            print_error("d = %lld: %s, residual %g\n", (long long)spec.d,
                        reason_name(outcome.reason), outcome.relative_residual);
            fail();
        }
        restricted_deinit(&f);
    }
}

/* A target that breaks down stays at zero, and the others go on. */
static void test_breakdown_of_one_target(void **state)
{
    struct restricted_fixture f;
    const struct restricted_spec spec = restricted_ordinary();
    restricted_init(&f, *state, &spec);
    struct points *core = make_indefinite(&f);
    const struct solver_options options = options_make("cg", NULL, 1e-6);
    const struct solver_ops *ops = solver_find("cg");
    struct solver *s = NULL;
    must(ops->setup(&f.problem, &options, &s, &err));
    struct step_report at;
    int r = 0;
    for (int k = 0; r == 0 && k < 200; k++) {
        struct err err = {0};
        r = ops->step(s, &at, &err);
    }
    assert_int_equal(r, REASON_BREAKDOWN);
    assert_true(at.usable && at.iteration < 30);
    must(ops->coef(s, &f.A, &err));
    double *A = device_get(f.be, &f.A), squares[2];
    for (int64_t i = 0; i < f.m; i++) {
        assert_true(A[i] == 0);
    }
    true_residual(&f, squares);
    assert_near(squares[0], 1.0, 1e-6); /* of an eigenvector, and of three */
    assert_true(sqrt(squares[1] / 3.0) <= 1.01e-6);
    mem_free(A);
    ops->teardown(s);
    f.be->ops->points_free(f.be, core);
    restricted_deinit(&f);
}

/* ---- what is handed out ---- */

/* The residual of what is handed out at the end, and the least one that was measured on the way:
 * with residual_every = 1 every report after a measurement has a true one. */
static void check_best(struct backend *be, const char *name, const struct restricted_spec *spec)
{
    struct restricted_fixture f;
    restricted_init(&f, be, spec);
    const struct solver_ops *ops = solver_find(name);
    struct solver_options options = options_make(name, NULL, 1e-14);
    options_set(&options, "{\"residual_every\":1}");
    struct solver *s = NULL;
    must(ops->setup(&f.problem, &options, &s, &err));
    struct step_report at = {0};
    double least = 1.0;
    for (int k = 0; k < 2000; k++) {
        const int64_t before = at.iteration;
        struct err err = {0};
        const int r = ops->step(s, &at, &err);
        assert_true(r >= 0);
        least = at.usable && at.iteration == before ? fmin(least, at.relative_residual) : least;
        if (r > 0) {
            break;
        }
    }
    struct certificate found;
    must(ops->coef(s, &f.A, &err));
    must(certify_restricted(&f.problem, &f.A, NULL, &found, &err));
    if (!(least < 1.0 && found.residual <= 1.01 * least)) {
        print_error("%s: residual %g, and %g was met\n", name, found.residual, least);
        fail();
    }
    ops->teardown(s);
    restricted_deinit(&f);
}

/* Where H is singular to working precision residuals rise again. */
static void test_best_is_handed_out(void **state)
{
    static const char *const names[] = {"cg", "falkon", "krill"};
    struct restricted_spec spec = restricted_ordinary();
    spec.d = 1;
    spec.t = 1;
    spec.m = 60;
    for (size_t k = 0; k < 3; k++) {
        for (spec.lambda = 1e-6; spec.lambda > 1e-11; spec.lambda /= 10) {
            check_best(*state, names[k], &spec);
        }
    }
}

/* A pass over many rows is several steps, which say how far it is. */
static void test_share_of_a_pass(void **state)
{
    struct restricted_spec spec = restricted_ordinary();
    spec.points = spec.vectors = DTYPE_F32;
    spec.n = 300000;
    spec.m = 2000;
    spec.d = spec.t = 1;
    spec.tile_rows = 0;
    if (((struct backend *)*state)->isa == NULL) {
        skip(); /* a simulated device would take hours */
    }
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    const struct solver_options options = options_make("cg", NULL, 1e-6);
    const struct solver_ops *ops = solver_find("cg");
    struct solver *s = NULL;
    must(ops->setup(&f.problem, &options, &s, &err));
    struct step_report at = {0};
    double last = 0;
    int shares = 0;
    for (int k = 0; k < 4; k++) { /* building, the right-hand side, and into the first product */
        must(ops->step(s, &at, &err));
        assert_true(at.share >= last && at.share < 1);
        shares += at.share > last;
        last = at.share;
    }
    assert_int_equal(at.iteration, 0);
    assert_true(shares >= 3 && last >= 0.5);
    ops->teardown(s);
    restricted_deinit(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_ill_conditioned), TEST(test_no_ridge), TEST(test_breakdown_of_one_target),
          TEST(test_best_is_handed_out), TEST(test_share_of_a_pass))
