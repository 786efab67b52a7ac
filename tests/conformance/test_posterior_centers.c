/* Posteriors of gaussian processes on centers against their definitions by plain loops in float64:
 * those of all centers (inducing points), and of search directions among them (JMLR 21, 2020,
 * equations 14 to 16 with M < N). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/posterior_fixture.h"

/* ---- by hand ---- */

/* What any S (m x p) gives. */
struct of_rank {
    int64_t n, m, p;
    double ridge;
    double *S, *G; /* G the factor of S'K_mm S */
    double *R;     /* K_nm S */
    double *T;     /* p x n: G^-1 R' */
    double *C;     /* n x n: the factor of Q + noise, Q = R G^-1 R' */
    double left_out;
};

static double *core_matrix(const struct restricted_fixture *f)
{
    double *K = host_zeros(f->m * f->m);
    for (int64_t i = 0; i < f->m; i++) {
        for (int64_t j = 0; j < f->m; j++) {
            K[i + j * f->m] = kernel_eval(&f->kernel, f->Z + i * f->d, f->Z + j * f->d);
        }
    }
    return K;
}

static double *transposed(const double *A, int64_t rows, int64_t cols)
{
    double *B = host_zeros(rows * cols);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            B[j + i * cols] = A[i + j * rows];
        }
    }
    return B;
}

/* S'K_mm S and K_nm S. */
static void project(struct of_rank *h, const struct restricted_fixture *f)
{
    double *core = core_matrix(f), *K = restricted_kernel(f), *Kt = transposed(K, h->n, h->m);
    double *KS = host_product(core, h->m, h->S, h->p, h->m);
    h->G = host_product(h->S, h->p, KS, h->p, h->m);
    h->R = host_product(Kt, h->n, h->S, h->p, h->m);
    assert_true(host_factor(h->G, h->p));
    mem_free(core);
    mem_free(K);
    mem_free(Kt);
    mem_free(KS);
}

static void of_rank_init(struct of_rank *h, const struct restricted_fixture *f, double *S,
                         int64_t p, bool fitc)
{
    const int64_t n = f->n;
    *h = (struct of_rank){.n = n, .m = f->m, .p = p, .S = S, .ridge = f->problem.ridge};
    project(h, f);
    h->T = transposed(h->R, n, p);
    double *Rt = transposed(h->R, n, p);
    host_solve(h->G, p, h->T, n);
    h->C = host_product(Rt, n, h->T, n, p);
    for (int64_t i = 0; i < n; i++) {
        const double left = 1.0 - h->C[i + i * n];
        h->left_out += left;
        h->C[i + i * n] += h->ridge + (fitc ? left : 0.0);
    }
    assert_true(host_factor(h->C, n));
    mem_free(Rt);
}

static void of_rank_deinit(struct of_rank *h)
{
    mem_free(h->S);
    mem_free(h->G);
    mem_free(h->R);
    mem_free(h->T);
    mem_free(h->C);
}

/* q(X, x) = K_nm S G^-1 S'k. */
static double *covariance_with_rows(const struct of_rank *h, const double *k)
{
    double *s = host_product(h->S, h->p, k, 1, h->m), *q = host_product(h->T, h->n, s, 1, h->p);
    mem_free(s);
    return q;
}

/* ln N(y_j; 0, s_j^2 C) with the likeliest s_j^2, of all targets, less what is left out. */
static double evidence_of(const struct of_rank *h, const double *Y, int64_t t, bool bound)
{
    const double n = (double)h->n, log_det = host_log_det(h->C, h->n);
    double sum = 0;
    for (int64_t j = 0; j < t; j++) {
        double *y = host_zeros(h->n), quadratic = 0;
        memcpy(y, Y + j * h->n, (size_t)h->n * sizeof(double));
        host_solve(h->C, h->n, y, 1);
        for (int64_t i = 0; i < h->n; i++) {
            quadratic += y[i] * Y[i + j * h->n];
        }
        sum -= 0.5 * (n * (1 + log(two_pi * quadratic / n)) + log_det);
        sum -= bound ? 0.5 * h->left_out / h->ridge : 0.0;
        mem_free(y);
    }
    return sum;
}

/* ---- the solvers ---- */

static struct answer answer_of(struct restricted_fixture *f, const char *solver, const char *params)
{
    struct world w = world_calm();
    struct solver_options options = options_make(solver, NULL, 1e-30);
    options_set(&options, params);
    const struct solve_limits limits = {
        .tolerance = 1e-8, .max_iterations = 10, .time_budget_s = INFINITY};
    struct solve_control control = world_control(&w);
    struct answer a = {.A = NULL};
    control.posterior = &a.posterior;
    must(solve_run(solver_find(solver), &f->problem, &options, &limits, &control, NULL, NULL, NULL,
                   &f->A, &a.outcome, &err));
    a.A = device_get(f->be, &f->A);
    return a;
}

/* k(Z, x). */
static double *values_of(const struct restricted_fixture *f, const double *x)
{
    double *k = host_zeros(f->m);
    for (int64_t j = 0; j < f->m; j++) {
        k[j] = kernel_eval(&f->kernel, x, f->Z + j * f->d);
    }
    return k;
}

static double prediction(const double *k, const double *A, int64_t m)
{
    double sum = 0;
    for (int64_t c = 0; c < m; c++) {
        sum += k[c] * A[c];
    }
    return sum;
}

static void compare_at(const struct restricted_fixture *f, const struct answer *a,
                       const struct of_rank *h, const double *x, double eps)
{
    double *k = values_of(f, x), *q = covariance_with_rows(h, k);
    double *w = covariance_with_rows(h, k), variance = 1.0;
    host_solve(h->C, h->n, w, 1);
    for (int64_t i = 0; i < h->n; i++) {
        variance -= w[i] * q[i];
    }
    assert_near(variance_of(&a->posterior, k, 1.0), variance, eps);
    for (int64_t j = 0; j < f->t; j++) {
        double mean = 0;
        for (int64_t i = 0; i < h->n; i++) {
            mean += w[i] * f->Y[i + j * h->n];
        }
        assert_near(prediction(k, a->A + j * f->m, f->m), mean, eps);
    }
    mem_free(k);
    mem_free(q);
    mem_free(w);
}

static const char *const approximations[] = {"dtc", "fitc", "vfe"};

/* By number i of the approximations. */
static void compare(const struct restricted_fixture *f, const struct answer *a,
                    const struct of_rank *h, int i)
{
    double *x = posterior_points(f->d);
    assert_int_equal(a->posterior.p, h->p);
    for (int64_t r = 0; r < TESTS; r++) {
        compare_at(f, a, h, x + r * f->d, 1e-8);
    }
    assert_close(a->posterior.log_evidence, evidence_of(h, f->Y, f->t, i == 2), 1e-8);
    mem_free(x);
}

static struct restricted_spec usual(void)
{
    struct restricted_spec spec = restricted_ordinary();
    spec.lambda = 1e-4;
    spec.kernel = KERNEL_MATERN52;
    return spec;
}

/* ---- all centers ---- */

static double *identity(int64_t m)
{
    double *I = host_zeros(m * m);
    for (int64_t i = 0; i < m; i++) {
        I[i + i * m] = 1.0;
    }
    return I;
}

static void check_all_centers(void *device, const char *solver)
{
    for (int i = 0; i < 3; i++) {
        struct restricted_fixture f;
        const struct restricted_spec spec = usual();
        restricted_init(&f, device, &spec);
        struct of_rank h;
        of_rank_init(&h, &f, identity(f.m), f.m, i == 1);
        char params[64];
        snprintf(params, sizeof(params), "{\"approximation\":\"%s\"}", approximations[i]);
        struct answer a = answer_of(&f, solver, params);
        assert_int_equal(a.outcome.reason, REASON_CONVERGED);
        assert_true(a.outcome.relative_residual < 1e-10);
        compare(&f, &a, &h, i);
        answer_deinit(&a);
        of_rank_deinit(&h);
        restricted_deinit(&f);
    }
}

static void test_inducing(void **state)
{
    check_all_centers(*state, "inducing");
}

/* With all directions there are, the same. */
static void test_all_directions(void **state)
{
    check_all_centers(*state, "kmcg_restricted");
}

/* Targets that a few directions explain to rounding: those that follow come from what rounding
 * left, which is the same in every step, and are of use all the same. */
static void test_directions_beyond_the_targets(void **state)
{
    struct restricted_fixture f;
    struct restricted_spec spec = usual();
    spec.n = 600;
    spec.m = 300;
    spec.d = 2;
    spec.t = 1;
    spec.lambda = 0.1;
    restricted_init(&f, *state, &spec);
    struct answer whole = answer_of(&f, "inducing", "{\"approximation\":\"dtc\"}");
    struct answer a = answer_of(&f, "kmcg_restricted", "{\"approximation\":\"dtc\",\"probes\":0}");
    double *k = values_of(&f, f.X + f.d);
    assert_int_equal(a.posterior.p, f.m);
    assert_close(a.posterior.log_evidence, whole.posterior.log_evidence, 1e-7);
    assert_near(variance_of(&a.posterior, k, 1.0), variance_of(&whole.posterior, k, 1.0), 1e-7);
    assert_true(a.outcome.relative_residual < 1e-9);
    mem_free(k);
    answer_deinit(&a);
    answer_deinit(&whole);
    restricted_deinit(&f);
}

/* ---- search directions ---- */

/* The row that each center is, and their targets. */
static double *choose_rows(struct restricted_fixture *f, int64_t *positions)
{
    double *Y = host_zeros(f->m * f->t);
    for (int64_t i = 0; i < f->m; i++) {
        positions[i] = i * (f->n / f->m);
        for (int64_t j = 0; j < f->t; j++) {
            Y[i + j * f->m] = f->Y[positions[i] + j * f->n];
        }
    }
    f->restricted.positions = positions;
    return Y;
}

/* K_mn Y. */
static double *sums_of_targets(const struct restricted_fixture *f)
{
    double *K = restricted_kernel(f), *Y = host_product(K, f->m, f->Y, f->t, f->n);
    mem_free(K);
    return Y;
}

static void check_few(struct backend *be, enum kernel_id kernel, int64_t t, int i, bool rows)
{
    struct restricted_fixture f;
    struct restricted_spec spec = usual();
    spec.kernel = kernel;
    spec.t = t;
    restricted_init(&f, be, &spec);
    int64_t positions[30], p;
    double *Y = rows ? choose_rows(&f, positions) : sums_of_targets(&f), *core = core_matrix(&f);
    struct of_rank h;
    double *S = host_krylov(f.m, t, core, Y, 4, &p);
    of_rank_init(&h, &f, S, p, i == 1);
    char params[96];
    snprintf(params, sizeof(params), "{\"probes\":0,\"directions\":%d,\"approximation\":\"%s\"}",
             (int)p, approximations[i]);
    struct answer a = answer_of(&f, "kmcg_restricted", params);
    assert_int_equal(a.outcome.reason, REASON_ITERATION_LIMIT);
    assert_int_equal(a.outcome.rank, p);
    if (i != 1) {
        assert_close(a.outcome.relative_residual, restricted_residual(&f, a.A), 1e-6);
    }
    compare(&f, &a, &h, i);
    answer_deinit(&a);
    of_rank_deinit(&h);
    mem_free(Y);
    mem_free(core);
    restricted_deinit(&f);
}

/* Directions from the targets of centers that are rows, and from K_mn Y where they are not. */
static void test_few_directions(void **state)
{
    for (int i = 0; i < 3; i++) {
        check_few(*state, KERNEL_MATERN52, 1, i, true);
        check_few(*state, KERNEL_MATERN52, 3, i, true);
        check_few(*state, KERNEL_GAUSSIAN, 2, i, true);
        check_few(*state, KERNEL_MATERN52, 2, i, false);
    }
}

/* The bound on the evidence rises with each direction, and variances fall, to those of all centers.
 */
static void test_more_directions_know_more(void **state)
{
    struct restricted_fixture f;
    const struct restricted_spec spec = usual();
    restricted_init(&f, *state, &spec);
    struct answer whole = answer_of(&f, "inducing", NULL);
    double *k = values_of(&f, f.X + f.d), evidence = -INFINITY, variance = INFINITY;
    for (int p = 3; p <= 30; p += 3) {
        char params[64];
        snprintf(params, sizeof(params), "{\"probes\":1,\"directions\":%d}", p);
        struct answer a = answer_of(&f, "kmcg_restricted", params);
        const double left = variance_of(&a.posterior, k, 1.0);
        assert_int_equal(a.posterior.p, p);
        assert_true(a.posterior.log_evidence > evidence && left < variance);
        evidence = a.posterior.log_evidence;
        variance = left;
        answer_deinit(&a);
    }
    assert_close(evidence, whole.posterior.log_evidence, 1e-8);
    assert_near(variance, variance_of(&whole.posterior, k, 1.0), 1e-8);
    mem_free(k);
    answer_deinit(&whole);
    restricted_deinit(&f);
}

static void count_warning(void *context, const char *level, const char *text)
{
    int *warnings = context;
    *warnings += strcmp(level, "warning") == 0 && strstr(text, "`stop.tolerance`") != NULL;
}

static double stand_still(void *context)
{
    (void)context;
    return 0;
}

/* Directions that are as many as the tolerance takes are told of where they are too few. */
static void test_what_is_told_of_directions(void **state)
{
    struct restricted_fixture f;
    const struct restricted_spec spec = usual();
    restricted_init(&f, *state, &spec);
    struct solver_options options = options_make("kmcg_restricted", NULL, 1e-2);
    options_set(&options, "{\"probes\": 0, \"directions\": 29}");
    for (int few = 0; few < 2; few++) {
        int warnings = 0;
        const struct solve_control control = {
            .context = &warnings, .now = stand_still, .message = count_warning};
        const struct solve_limits limits = {
            .tolerance = few ? 1e-12 : 0.1, .max_iterations = 10, .time_budget_s = INFINITY};
        struct solve_outcome out;
        must(solve_run(solver_find("kmcg_restricted"), &f.problem, &options, &limits, &control,
                       NULL, NULL, NULL, &f.A, &out, &err));
        assert_int_equal(out.reason, few ? REASON_ITERATION_LIMIT : REASON_CONVERGED);
        assert_int_equal(warnings, few);
    }
    restricted_deinit(&f);
}

/* Targets that are 0 in the centers' rows, as those of a rare class may be, and in all. */
static void test_zero_targets(void **state)
{
    for (int all = 0; all < 2; all++) {
        struct restricted_fixture f;
        const struct restricted_spec spec = usual();
        restricted_init(&f, *state, &spec);
        int64_t positions[30];
        mem_free(choose_rows(&f, positions));
        for (int64_t i = 0; i < f.n * f.t; i++) {
            const bool center = i % f.n % (f.n / f.m) == 0;
            f.Y[i] = all || center ? 0.0 : f.Y[i];
        }
        rowset_free(f.rows);
        const struct rowset_spec rows = {.be = f.be,
                                         .kernel = &f.kernel,
                                         .source = &f.source,
                                         .points = DTYPE_F64,
                                         .vectors = DTYPE_F64,
                                         .centers = f.m,
                                         .budget = INT64_MAX};
        must(rowset_new(&rows, &f.rows, &err));
        f.restricted.rows = f.rows;
        struct answer a = answer_of(&f, "kmcg_restricted", NULL);
        assert_int_equal(a.outcome.reason, REASON_CONVERGED);
        assert_int_equal(a.posterior.p, all ? 1 : f.m);
        assert_true(isnan(a.posterior.log_evidence) == (all == 1));
        assert_true((a.posterior.amplitude[0] == 0) == (all == 1));
        answer_deinit(&a);
        restricted_deinit(&f);
    }
}

/* Without noise there is no posterior of this kind. */
static void test_no_ridge(void **state)
{
    static const char *const solvers[] = {"inducing", "kmcg_restricted"};
    struct restricted_fixture f;
    struct restricted_spec spec = usual();
    spec.lambda = 0;
    restricted_init(&f, *state, &spec);
    for (int i = 0; i < 2; i++) {
        const struct solver_options options = options_make(solvers[i], NULL, 1e-6);
        struct solver *s = NULL;
        struct err err;
        assert_int_equal(solver_find(solvers[i])->setup(&f.problem, &options, &s, &err),
                         -ERR_INVALID);
        assert_string_equal(err.pointer, "#/regularization");
        assert_true(catalog_find(CATALOG_SOLVERS, solvers[i])->posterior);
    }
    restricted_deinit(&f);
}

TEST_MAIN(cmocka_unit_test_setup_teardown(test_inducing, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_all_directions, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_directions_beyond_the_targets, device_setup_two,
                                          device_teardown),
          cmocka_unit_test_setup_teardown(test_few_directions, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_more_directions_know_more, device_setup_two,
                                          device_teardown),
          cmocka_unit_test_setup_teardown(test_what_is_told_of_directions, device_setup_two,
                                          device_teardown),
          cmocka_unit_test_setup_teardown(test_zero_targets, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_no_ridge, device_setup_two, device_teardown))
