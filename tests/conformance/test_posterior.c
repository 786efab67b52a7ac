/* Posteriors of gaussian processes against their formulas by plain loops in float64: mean, variance
 * and evidence of kernel machine conjugate gradients (JMLR 21, 2020, equations 14 to 16), after a
 * few directions and after all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/posterior_fixture.h"

/* ---- by hand ---- */

/* K of the fixture without its ridge. */
static double *kernel_matrix(const struct fixture *f)
{
    double *K = fixture_matrix(f);
    for (int64_t i = 0; i < f->n; i++) {
        K[i + i * f->n] -= f->problem.ridge;
    }
    return K;
}

/* What any S (n x p) gives. */
struct by_hand {
    int64_t n, p;
    double *S, *G, *A; /* G = S'K S, A = (K S)'K S + ridge G, by their factors */
    double *C;         /* n x t: S A^-1 (K S)'Y */
    double *quadratic; /* [t]: y'(Q + ridge I)^-1 y */
    double log_det;    /* ln |Q + ridge I| */
    double left_out;   /* trace, where the evidence pays for it */
    double ridge;
};

static void hand_init(struct by_hand *h, const struct fixture *f, const double *K, double *S,
                      int64_t p)
{
    const int64_t n = f->n;
    *h = (struct by_hand){.n = n, .p = p, .S = S, .ridge = f->problem.ridge};
    double *KS = host_product(K, n, S, p, n);
    h->G = host_product(S, p, KS, p, n);
    h->A = host_product(KS, p, KS, p, n);
    for (int64_t i = 0; i < p * p; i++) {
        h->A[i] += h->ridge * h->G[i];
    }
    double *B = host_product(KS, p, f->Y, f->t, n), *rhs = host_product(KS, p, f->Y, f->t, n);
    assert_true(host_factor(h->G, p));
    assert_true(host_factor(h->A, p));
    host_solve(h->A, p, B, f->t);
    h->C = host_zeros(n * f->t);
    h->quadratic = host_zeros(f->t);
    for (int64_t j = 0; j < f->t; j++) {
        for (int64_t k = 0; k < p; k++) {
            for (int64_t i = 0; i < n; i++) {
                h->C[i + j * n] += S[i + k * n] * B[k + j * p];
            }
            h->quadratic[j] -= rhs[k + j * p] * B[k + j * p];
        }
        for (int64_t i = 0; i < n; i++) {
            h->quadratic[j] += f->Y[i + j * n] * f->Y[i + j * n];
        }
        h->quadratic[j] /= h->ridge;
    }
    h->log_det = host_log_det(h->A, p) - host_log_det(h->G, p) + (double)(n - p) * log(h->ridge);
    mem_free(KS);
    mem_free(B);
    mem_free(rhs);
}

static void hand_deinit(struct by_hand *h)
{
    mem_free(h->S);
    mem_free(h->G);
    mem_free(h->A);
    mem_free(h->C);
    mem_free(h->quadratic);
}

/* k(x,x) - k'S G^-1 S'k + ridge k'S A^-1 S'k, k = k(X, x). */
static double hand_variance(const struct by_hand *h, const double *k, double own)
{
    double *s = host_product(h->S, h->p, k, 1, h->n), *g = host_product(h->S, h->p, k, 1, h->n);
    double *a = host_product(h->S, h->p, k, 1, h->n);
    host_solve(h->G, h->p, g, 1);
    host_solve(h->A, h->p, a, 1);
    double variance = own;
    for (int64_t i = 0; i < h->p; i++) {
        variance += s[i] * (h->ridge * a[i] - g[i]);
    }
    mem_free(s);
    mem_free(g);
    mem_free(a);
    return variance;
}

/* trace(K - Q). */
static double hand_left_out(const struct by_hand *h, const double *K)
{
    double sum = 0;
    for (int64_t i = 0; i < h->n; i++) {
        double *s = host_product(h->S, h->p, K + i * h->n, 1, h->n);
        double *g = host_product(h->S, h->p, K + i * h->n, 1, h->n);
        host_solve(h->G, h->p, g, 1);
        sum += K[i + i * h->n];
        for (int64_t j = 0; j < h->p; j++) {
            sum -= s[j] * g[j];
        }
        mem_free(s);
        mem_free(g);
    }
    return sum;
}

/* ln N(y_j; 0, s_j^2 (Q + ridge I)) less what is left out, of all targets; amplitude NaN: the
 * likeliest s_j^2. */
static double hand_evidence(const struct by_hand *h, int64_t t, double amplitude)
{
    const double n = (double)h->n;
    double sum = 0;
    for (int64_t j = 0; j < t; j++) {
        const double s2 = isnan(amplitude) ? h->quadratic[j] / n : amplitude;
        sum -= 0.5 *
               (h->quadratic[j] / s2 + n * log(two_pi * s2) + h->log_det + h->left_out / h->ridge);
    }
    return sum;
}

/* ---- the solver ---- */

static struct answer answer_of(struct fixture *f, const char *solver, const char *params,
                               double tolerance, int64_t iterations)
{
    struct world w = world_calm();
    struct solver_options options = options_make(solver, NULL, tolerance);
    options_set(&options, params);
    const struct solve_limits limits = {
        .tolerance = tolerance, .max_iterations = iterations, .time_budget_s = INFINITY};
    struct solve_control control = world_control(&w);
    struct answer a = {.A = NULL};
    control.posterior = &a.posterior;
    must(solve_run(solver_find(solver), &f->problem, &options, &limits, &control, NULL, &f->kernel,
                   &f->host, &f->A, &a.outcome, &err));
    a.A = device_get(f->be, &f->A);
    return a;
}

/* k(X, x). */
static double *values_of(const struct fixture *f, const double *x)
{
    double *k = host_zeros(f->n);
    for (int64_t i = 0; i < f->n; i++) {
        k[i] = kernel_eval(&f->kernel, x, f->X + i * f->d);
    }
    return k;
}

static void compare(const struct fixture *f, const struct answer *a, const struct by_hand *h,
                    double amplitude, double eps)
{
    double *x = posterior_points(f->d);
    const struct posterior *p = &a->posterior;
    assert_non_null(p->factor);
    assert_int_equal(p->p, h->p);
    for (int64_t i = 0; i < TESTS; i++) {
        double *k = values_of(f, x + i * f->d);
        const double own = kernel_eval(&f->kernel, x + i * f->d, x + i * f->d);
        for (int64_t j = 0; j < f->t; j++) {
            double expected = 0, actual = 0, size = 0;
            for (int64_t r = 0; r < f->n; r++) {
                expected += k[r] * h->C[r + j * f->n];
                actual += k[r] * a->A[r + j * f->n];
                size += fabs(k[r] * h->C[r + j * f->n]);
            }
            assert_near(actual, expected, eps * (size + 1e-300));
        }
        assert_near(variance_of(p, k, own), hand_variance(h, k, own), eps * own);
        mem_free(k);
    }
    for (int64_t j = 0; j < f->t; j++) {
        const double likely = h->quadratic[j] / (double)f->n;
        assert_close(p->amplitude[j], isnan(amplitude) ? likely : amplitude, eps);
    }
    assert_close(p->log_evidence, hand_evidence(h, f->t, amplitude), eps);
    mem_free(x);
}

static const struct fixture_spec usual = {.kernel = KERNEL_MATERN52,
                                          .points = DTYPE_F64,
                                          .vectors = DTYPE_F64,
                                          .n = 70,
                                          .d = 3,
                                          .t = 2,
                                          .lambda = 1e-3,
                                          .seed = 5};

/* ---- kmcg ---- */

static void test_few_directions(void **state)
{
    for (int k = 0; k < 4; k++) {
        struct fixture f;
        struct fixture_spec spec = usual;
        spec.t = k % 2 == 0 ? 1 : 3;
        spec.kernel = k < 2 ? KERNEL_MATERN52 : KERNEL_GAUSSIAN;
        fixture_init(&f, *state, &spec);
        const double amplitude = k == 0 ? 2.5 : NAN;
        struct by_hand h;
        int64_t p;
        double *K = kernel_matrix(&f), *S = host_krylov(f.n, f.t, K, f.Y, 4, &p);
        hand_init(&h, &f, K, S, p);
        char params[96];
        snprintf(params, sizeof(params), "{\"probes\":0,\"amplitude\":%s,\"approximation\":\"%s\"}",
                 k == 0 ? "2.5" : "\"auto\"", k % 3 == 0 ? "dtc" : "vfe");
        struct answer a = answer_of(&f, "kmcg", params, 1e-12, 4);
        h.left_out = k % 3 == 0 ? 0 : hand_left_out(&h, K);
        assert_int_equal(a.outcome.reason, REASON_ITERATION_LIMIT);
        assert_int_equal(a.outcome.iterations, 4);
        compare(&f, &a, &h, amplitude, 1e-8);
        answer_deinit(&a);
        hand_deinit(&h);
        mem_free(K);
        fixture_deinit(&f);
    }
}

/* Then it is the gaussian process's own posterior: S is the identity. */
static void test_all_directions(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &usual);
    double *K = kernel_matrix(&f), *S = host_zeros(f.n * f.n);
    for (int64_t i = 0; i < f.n; i++) {
        S[i + i * f.n] = 1.0;
    }
    struct by_hand h;
    hand_init(&h, &f, K, S, f.n);
    struct answer a = answer_of(&f, "kmcg", NULL, 1e-15, 100);
    assert_true(a.outcome.relative_residual < 1e-12);
    assert_true(a.posterior.p > 60); /* what rounding has not eaten */
    double *x = posterior_points(f.d);
    for (int64_t i = 0; i < TESTS; i++) {
        double *k = values_of(&f, x + i * f.d);
        assert_near(variance_of(&a.posterior, k, 1.0), hand_variance(&h, k, 1.0), 1e-9);
        mem_free(k);
    }
    assert_close(a.posterior.log_evidence, hand_evidence(&h, f.t, NAN), 1e-9);
    mem_free(x);
    answer_deinit(&a);
    hand_deinit(&h);
    mem_free(K);
    fixture_deinit(&f);
}

/* With all of them in use the mean goes on to the tolerance; what is known of its errors is that of
 * the directions. */
static void test_more_than_the_directions(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &usual);
    const char *params = "{\"directions\":12,\"probes\":0}";
    struct answer few = answer_of(&f, "kmcg", params, 1e-12, 6);
    struct answer all = answer_of(&f, "kmcg", params, 1e-11, 200);
    assert_int_equal(few.outcome.reason, REASON_ITERATION_LIMIT);
    assert_int_equal(all.outcome.reason, REASON_CONVERGED);
    assert_true(few.outcome.relative_residual > 1e-4 && few.outcome.relative_residual < 0.5);
    assert_true(all.outcome.iterations > 6);
    assert_int_equal(all.posterior.p, 12);
    assert_same_bits(all.posterior.log_evidence, few.posterior.log_evidence);
    for (int64_t j = 0; j < f.t; j++) { /* of the exact mean */
        double quadratic = 0;
        for (int64_t i = 0; i < f.n; i++) {
            quadratic += f.Y[i + j * f.n] * all.A[i + j * f.n];
        }
        assert_close(all.posterior.amplitude[j], quadratic / (double)f.n, 1e-8);
        assert_true(all.posterior.amplitude[j] < 0.99 * few.posterior.amplitude[j]);
    }
    assert_memory_equal(all.posterior.factor, few.posterior.factor,
                        (size_t)(f.n * 12) * sizeof(double));
    answer_deinit(&few);
    answer_deinit(&all);
    fixture_deinit(&f);
}

/* The mean of the directions stands until what goes on from it has a smaller residual. */
static void test_mean_never_gets_worse(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &usual);
    double own = 1.0, last = 1.0;
    for (int64_t k = 4; k < 40; k++) {
        struct answer a = answer_of(&f, "kmcg", "{\"directions\":12,\"probes\":0}", 1e-12, k);
        last = a.outcome.relative_residual;
        own = k <= 6 ? last : own;
        assert_true(last <= 1.0001 * own);
        answer_deinit(&a);
    }
    assert_true(last < 1e-8);
    fixture_deinit(&f);
}

/* All values 1: one direction, and targets that have no part in it. */
static void test_kernel_of_ones(void **state)
{
    for (int probes = 0; probes < 2; probes++) {
        struct fixture f;
        struct fixture_spec spec = usual;
        spec.kernel = KERNEL_GAUSSIAN;
        fixture_init(&f, *state, &spec);
        double *ones = host_zeros(f.n * f.d);
        const struct rows host = {.dtype = DTYPE_F64, .n = f.n, .d = f.d, .data = ones};
        struct points *given = f.points;
        must(f.be->ops->points_new(f.be, &f.kernel, DTYPE_F64, &host, &f.points, &err));
        f.be->ops->points_free(f.be, given);
        f.problem.X = f.points;
        memcpy(f.X, ones, (size_t)(f.n * f.d) * sizeof(double));
        struct answer a = answer_of(&f, "kmcg", probes ? NULL : "{\"probes\":0}", 1e-9, 50);
        assert_int_equal(a.outcome.reason, REASON_CONVERGED);
        assert_int_equal(a.posterior.p, 1);
        mem_free(ones);
        answer_deinit(&a);
        fixture_deinit(&f);
    }
}

/* The largest error of a variance, of those that all rows leave. */
static double variance_error(const struct fixture *f, const struct posterior *p)
{
    double *L = fixture_matrix(f), *x = posterior_points(f->d), largest = 0;
    assert_true(host_factor(L, f->n));
    for (int64_t i = 0; i < TESTS; i++) {
        double *k = values_of(f, x + i * f->d), *u = values_of(f, x + i * f->d), exact = 1.0;
        host_solve(L, f->n, u, 1);
        for (int64_t r = 0; r < f->n; r++) {
            exact -= k[r] * u[r];
        }
        largest = fmax(largest, fabs(variance_of(p, k, 1.0) - exact) / exact);
        mem_free(k);
        mem_free(u);
    }
    mem_free(x);
    mem_free(L);
    return largest;
}

/* With as many products probes know the variance a hundred times as well, and the mean no worse. */
static void test_probes(void **state)
{
    struct fixture f;
    struct fixture_spec spec = usual;
    spec.n = 400;
    spec.t = 1;
    fixture_init(&f, *state, &spec);
    struct answer without = answer_of(&f, "kmcg", "{\"probes\":0}", 1e-12, 8);
    struct answer with = answer_of(&f, "kmcg", NULL, 1e-12, 8);
    assert_int_equal(without.posterior.p, 8);
    assert_int_equal(with.posterior.p, 8 * 16);
    assert_true(with.outcome.relative_residual < without.outcome.relative_residual);
    const double error = variance_error(&f, &with.posterior);
    assert_true(error < 0.01 * variance_error(&f, &without.posterior));
    answer_deinit(&without);
    answer_deinit(&with);
    fixture_deinit(&f);
}

/* A kernel of rank 4 has no more directions; the variance falls to 0 where the data say it all. */
static void test_kernel_of_low_rank(void **state)
{
    struct fixture f;
    struct fixture_spec spec = usual;
    spec.kernel = KERNEL_LINEAR;
    spec.lambda = 1e-6;
    fixture_init(&f, *state, &spec);
    struct answer a = answer_of(&f, "kmcg", NULL, 1e-8, 100);
    assert_int_equal(a.outcome.reason, REASON_CONVERGED);
    assert_true(a.posterior.p <= 4);
    double *k = values_of(&f, f.X);
    const double own = kernel_eval(&f.kernel, f.X, f.X);
    assert_near(variance_of(&a.posterior, k, own), 0, 1e-5 * own); /* of the order of the ridge */
    mem_free(k);
    answer_deinit(&a);
    fixture_deinit(&f);
}

/* A target of zeros has a prior of variance 0, and no evidence. */
static void test_zero_targets(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &usual);
    double *zero = host_zeros(f.n * f.t);
    must(f.be->ops->mat_put(f.be, zero, f.n, &f.problem.Y, &err));
    struct answer a = answer_of(&f, "kmcg", NULL, 1e-9, 100);
    assert_int_equal(a.outcome.reason, REASON_CONVERGED);
    assert_non_null(a.posterior.factor);
    assert_true(a.posterior.amplitude[0] == 0 && a.posterior.amplitude[1] == 0);
    assert_true(isnan(a.posterior.log_evidence));
    mem_free(zero);
    answer_deinit(&a);
    fixture_deinit(&f);
}

/* The largest tolerance that a job may have: a direction of each target reaches it. */
static void test_tolerance_of_one(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &usual);
    struct answer a = answer_of(&f, "kmcg", NULL, 1.0, 100);
    assert_int_equal(a.outcome.reason, REASON_CONVERGED);
    assert_non_null(a.posterior.factor);
    assert_true(a.posterior.p >= f.t);
    answer_deinit(&a);
    fixture_deinit(&f);
}

/* Without noise there is no posterior of this kind. */
static void test_no_ridge(void **state)
{
    struct fixture f;
    struct fixture_spec spec = usual;
    spec.lambda = 0;
    fixture_init(&f, *state, &spec);
    const struct solver_options options = options_make("kmcg", NULL, 1e-6);
    struct solver *s = NULL;
    struct err err;
    assert_int_equal(solver_find("kmcg")->setup(&f.problem, &options, &s, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/regularization");
    assert_true(catalog_find(CATALOG_SOLVERS, "kmcg")->posterior);
    fixture_deinit(&f);
}

TEST_MAIN(cmocka_unit_test_setup_teardown(test_few_directions, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_all_directions, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_more_than_the_directions, device_setup_two,
                                          device_teardown),
          cmocka_unit_test_setup_teardown(test_kernel_of_low_rank, device_setup_two,
                                          device_teardown),
          cmocka_unit_test_setup_teardown(test_mean_never_gets_worse, device_setup_two,
                                          device_teardown),
          cmocka_unit_test_setup_teardown(test_kernel_of_ones, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_probes, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_zero_targets, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_tolerance_of_one, device_setup_two, device_teardown),
          cmocka_unit_test_setup_teardown(test_no_ridge, device_setup_two, device_teardown))
