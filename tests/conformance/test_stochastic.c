/* What the stochastic methods on centers are made of: mini-batches, preconditioners from a sample
 * of the rows, their steps, and the race for a damping. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"
#include "engine/methods/stochastic/stochastic.h"

static const char *const solvers[] = {"sketchysaga", "sketchykatyusha"};

/* ---- batches ---- */

static void check_epochs(int64_t n, int64_t d, int64_t batch, int64_t ret_counts[2])
{
    const struct row_source source = {.n = n, .d = d, .t = 1, .dtype = DTYPE_F64};
    struct row_batches b = {0};
    must(row_batches_init(&b, 3, &source, batch, &err));
    int64_t *first = mem_zarray((size_t)n, sizeof(*first)), smallest = n, moved = 0;
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        int64_t *seen = mem_zarray((size_t)n, sizeof(*seen)), place = 0;
        for (int64_t k = 0; k < b.batches; k++) {
            const int64_t count = row_batches_draw(&b, epoch, k);
            assert_in_range(count, 1, b.most);
            smallest = count < smallest ? count : smallest;
            for (int64_t i = 0; i < count; i++) {
                assert_in_range(b.index[i], 0, n - 1);
                assert_int_equal(seen[b.index[i]]++, 0);
                moved += epoch == 1 && first[place] != b.index[i];
                first[place++] = b.index[i];
            }
        }
        assert_int_equal(place, n);
        mem_free(seen);
    }
    assert_true(b.batches == 1 || b.most - smallest < 2 * b.chunk);
    assert_true(n < 20 || moved > n / 2);
    ret_counts[0] = b.batches;
    ret_counts[1] = b.chunk;
    mem_free(first);
    row_batches_deinit(&b);
}

static void test_batches(void **state)
{
    (void)state;
    static const struct {
        int64_t n, d, batch, batches, chunk;
    } cases[] = {
        {1, 1, 1, 1, 1},          {7, 3, 2, 4, 1},
        {300, 3, 37, 9, 1},       {10000, 8, 1000, 10, 15}, /* 64 chunks a batch */
        {10007, 64, 1000, 11, 8},                           /* a page has 8 rows */
        {5000, 2000, 500, 10, 1},                           /* and here less than one */
        {1000, 1, 1000, 1, 15},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t found[2];
        check_epochs(cases[i].n, cases[i].d, cases[i].batch, found);
        assert_int_equal(found[0], cases[i].batches);
        assert_int_equal(found[1], cases[i].chunk);
    }
}

/* ---- the preconditioner ---- */

static void build(struct hessian_sketch *h, struct restricted_fixture *f, int64_t rows,
                  int64_t rank)
{
    must(hessian_sketch_init(h, &f->problem, rows, rank, &err));
    int r = 0;
    double fraction = 0;
    while (r == 0) {
        struct err err;
        r = hessian_sketch_build(h, &fraction, &err);
        assert_in_range((int64_t)(1e6 * fraction), 0, 1000000);
    }
    assert_int_equal(r, 1);
}

/* From all rows, with rank m and the ridge for damping, P is H. */
static void test_all_rows_are_exact(void **state)
{
    const struct restricted_spec spec = restricted_matern(300);
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    struct hessian_sketch h = {0};
    build(&h, &f, f.n, f.m);
    assert_close(h.least, f.problem.ridge, 1e-15);
    must(hessian_sketch_damp(&h, h.least, &err));
    hessian_sketch_settle(&h);
    struct rng rng = rng_new(4, RNG_TEST);
    double *V = host_normal(&rng, f.m * f.t), *G = restricted_hessian(&f, V);
    struct mat R = device_mat(f.be, DTYPE_F64, f.m, f.t, G);
    must(hessian_sketch_apply(&h, &R, &err));
    double *found = device_get(f.be, &R);
    for (int64_t i = 0; i < f.m * f.t; i++) {
        assert_near(found[i], V[i], 1e-7);
    }
    f.be->ops->mat_free(f.be, &R);
    hessian_sketch_deinit(&h);
    mem_free(found);
    mem_free(V);
    mem_free(G);
    restricted_deinit(&f);
}

/* Of a sketch: (F F' + rho I) P^-1 v = v, F F' <= K_nm' K_nm, and close to it where the rank is
 * nearly full. */
static void test_sketch(void **state)
{
    const struct restricted_spec spec = restricted_matern(300);
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    for (int64_t rank = 5; rank < f.m; rank += 12) {
        struct hessian_sketch h = {0};
        build(&h, &f, f.n, rank);
        assert_true(h.least > 0);
        const double rho = 10 * h.least;
        must(hessian_sketch_damp(&h, rho, &err));
        struct rng rng = rng_new(6, RNG_TEST);
        double *v = host_normal(&rng, f.m * f.t), *F = device_get(f.be, &h.F);
        struct mat R = device_mat(f.be, DTYPE_F64, f.m, f.t, v);
        must(hessian_sketch_apply(&h, &R, &err));
        double *x = device_get(f.be, &R), largest = 0;
        for (int64_t a = 0; a < f.m; a++) {
            double sum = rho * x[a];
            for (int64_t k = 0; k < rank; k++) {
                double inner = 0;
                for (int64_t b = 0; b < f.m; b++) {
                    inner += F[b + k * f.m] * x[b];
                }
                sum += F[a + k * f.m] * inner;
            }
            assert_near(sum, v[a], 1e-8);
            double diagonal = 0;
            for (int64_t k = 0; k < rank; k++) {
                diagonal += F[a + k * f.m] * F[a + k * f.m];
            }
            largest = fmax(largest, diagonal);
        }
        assert_true(largest < (double)f.n); /* k(x, x) = 1 */
        f.be->ops->mat_free(f.be, &R);
        hessian_sketch_deinit(&h);
        mem_free(x);
        mem_free(F);
        mem_free(v);
    }
    restricted_deinit(&f);
}

/* ---- solves ---- */

/* Each parameter by itself reaches the same solution. */
static void test_parameters(void **state)
{
    static const char *const params[] = {
        "{\"rank\": 20}",         "{\"rank\": 29, \"damping\": 3}", "{\"batch_size\": 10}",
        "{\"batch_size\": 1000}", "{\"hessian_rows\": 40}",         "{\"damping\": 100}",
        "{\"damping\": 0.1}",     "{\"power_iterations\": 1}",      "{\"hessian_rows\": 1}",
        "{\"rho\": 1}",           "{\"rank\": 20, \"rho\": 30}",
    };
    struct restricted_spec spec = restricted_matern(300);
    spec.lambda = 0.1;
    for (size_t i = 0; i < sizeof(params) / sizeof(*params); i++) {
        for (int k = 0; k < 2; k++) {
            struct restricted_fixture f;
            restricted_init(&f, *state, &spec);
            const struct solve_outcome outcome =
                restricted_solve_params(&f, solvers[k], params[i], 1e-6, 3000);
            double *A = device_get(f.be, &f.A), *B = restricted_solution(&f);
            const double difference = restricted_difference(&f, A, B);
            if (outcome.reason != REASON_CONVERGED || !(difference < 1e-4)) {
                print_error("%s %s: %s after %lld, residual %g, predictions differ by %g\n",
                            solvers[k], params[i], reason_name(outcome.reason),
                            (long long)outcome.iterations, outcome.relative_residual, difference);
                fail();
            }
            mem_free(A);
            mem_free(B);
            restricted_deinit(&f);
        }
    }
}

/* The coefficients after one step from zero with all rows, -eta P^-1 of the gradient there. */
static double *first_step(struct restricted_fixture *f, const char *solver, const char *params)
{
    struct solver_options options = options_make(solver, NULL, 1e-9);
    char text[160];
    snprintf(text, sizeof(text), "{\"batch_size\": 1000, \"rank\": %d, %s}", (int)f->m, params);
    options_set(&options, text);
    const struct solver_ops *ops = solver_find(solver);
    struct solver *s = NULL;
    struct step_report at = {.iteration = 0};
    must(ops->setup(&f->problem, &options, &s, &err));
    while (at.iteration == 0) {
        must(ops->step(s, &at, &err));
    }
    must(ops->coef(s, &f->A, &err));
    ops->teardown(s);
    return device_get(f->be, &f->A);
}

static void check_first_steps(struct restricted_fixture *f, const char *solver, const char *one,
                              const char *other, double factor)
{
    double *a = first_step(f, solver, one), *b = first_step(f, solver, other);
    for (int64_t i = 0; i < f->m * f->t; i++) {
        assert_close(a[i], factor * b[i], 1e-9);
    }
    mem_free(a);
    mem_free(b);
}

/* Algorithm 5's alpha and rho: a step is alpha / L long, and rho is the damping itself, of which
 * `damping` is a multiple of n lambda where the rank is that of all centers. */
static void test_scaling_and_rho(void **state)
{
    struct restricted_fixture f;
    struct restricted_spec spec = restricted_matern(300);
    spec.lambda = 0.01;
    restricted_init(&f, *state, &spec);
    char rho[64];
    snprintf(rho, sizeof(rho), "\"rho\": %.17g", 7.0 * f.problem.ridge);
    check_first_steps(&f, "sketchysaga", "\"damping\": 7, \"learning_rate_scaling\": 0.8",
                      "\"damping\": 7, \"learning_rate_scaling\": 0.2", 4.0);
    check_first_steps(&f, "sketchysaga", "\"damping\": 7, \"learning_rate_scaling\": 0.5",
                      "\"damping\": 7", 1.0);
    for (int k = 0; k < 2; k++) {
        check_first_steps(&f, solvers[k], rho, "\"damping\": 7", 1.0);
    }
    restricted_deinit(&f);
}

/* A mu that the job names is taken as it is, however small beside the smoothness. */
static void test_mu(void **state)
{
    struct restricted_fixture f;
    struct restricted_spec spec = restricted_matern(300);
    restricted_init(&f, *state, &spec);
    double *a = first_step(&f, "sketchykatyusha", "\"damping\": 1e-6, \"mu\": 1e-12");
    double *b = first_step(&f, "sketchykatyusha", "\"damping\": 1e-6, \"mu\": 2e-12");
    for (int64_t i = 0; i < f.m * f.t; i++) {
        assert_close(a[i], b[i], 1e-5);
        assert_true(a[i] != b[i]);
    }
    mem_free(a);
    mem_free(b);
    restricted_deinit(&f);
}

/* The same bits whether the rows stay in memory or not, and from one run to the next. */
static void test_residency(void **state)
{
    for (int k = 0; k < 2; k++) {
        double *found[2];
        for (int streamed = 0; streamed < 2; streamed++) {
            struct restricted_spec spec = restricted_matern(300);
            spec.streamed = streamed == 1;
            struct restricted_fixture f;
            restricted_init(&f, *state, &spec);
            restricted_solve_params(&f, solvers[k], NULL, 1e-6, 3000);
            found[streamed] = device_get(f.be, &f.A);
            restricted_deinit(&f);
        }
        assert_memory_equal(found[0], found[1], 30 * 2 * sizeof(double));
        mem_free(found[0]);
        mem_free(found[1]);
    }
}

static void build_stochastic(struct stochastic *s, const struct restricted_fixture *f,
                             const char *params)
{
    struct solver_options options = options_make(solvers[0], NULL, 1e-6);
    options_set(&options, params);
    must(stochastic_init(s, &f->problem, &options.params, &err));
    int r = 0;
    double fraction;
    while (r == 0) {
        struct err err;
        r = stochastic_build(s, &fraction, &err);
    }
    assert_int_equal(r, 1);
    assert_true(s->damping > 1 && s->L > 0 && s->note != NULL);
    assert_non_null(strstr(s->note, "race"));
}

/* A sample of few rows misses what batches have: the race takes more damping, says so, and with the
 * steps that it allows the method is ahead of what the smallest damping reaches. */
static void test_race(void **state)
{
    struct restricted_spec spec = restricted_matern(300);
    spec.lambda = 1e-6;
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    double damping[2];
    for (int again = 0; again < 2; again++) {
        struct stochastic s = {0};
        build_stochastic(&s, &f, "{\"hessian_rows\": 30}");
        assert_non_null(strstr(s.note, "More `hessian_rows`"));
        damping[again] = s.damping;
        stochastic_deinit(&s);
    }
    assert_true(damping[0] == damping[1]);
    double residuals[2];
    const char *const params[] = {"{\"hessian_rows\": 30}",
                                  "{\"hessian_rows\": 30, \"damping\": 1}"};
    const struct solve_limits limits = {
        .tolerance = 1e-12, .max_iterations = 20, .time_budget_s = INFINITY};
    for (int k = 0; k < 2; k++) {
        struct world w = world_calm();
        const struct solve_control control = world_control(&w);
        struct solve_outcome outcome;
        struct solver_options options = options_make(solvers[0], NULL, 1e-12);
        options_set(&options, params[k]);
        must(solve_run(solver_find(solvers[0]), &f.problem, &options, &limits, &control, NULL, NULL,
                       NULL, &f.A, &outcome, &err));
        residuals[k] = outcome.relative_residual;
    }
    if (!(residuals[0] < residuals[1])) {
        print_error("%g with the race's damping, %g with the smallest\n", residuals[0],
                    residuals[1]);
        fail();
    }
    restricted_deinit(&f);
}

/* Where all rows are in the sample there are no more to advise. */
static void test_race_with_all_rows(void **state)
{
    struct restricted_spec spec = restricted_matern(300);
    spec.n = 40;
    spec.m = 20;
    spec.lambda = 1e-6;
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    f.problem.seed = 10; /* of so few rows every second seed's race takes more damping */
    struct stochastic s = {0};
    build_stochastic(&s, &f, "{\"hessian_rows\": 40, \"batch_size\": 5}");
    assert_null(strstr(s.note, "hessian_rows"));
    assert_non_null(strstr(s.note, "A larger `batch_size`"));
    stochastic_deinit(&s);
    restricted_deinit(&f);
}

/* With next to no ridge the smallest damping is far below what batches differ by: the race goes on
 * until one is found that steps can be taken with. */
static void test_tiny_ridge(void **state)
{
    struct restricted_spec spec = restricted_matern(300);
    spec.kernel = KERNEL_LAPLACIAN;
    spec.n = 600;
    spec.m = 100;
    spec.d = 12;
    spec.lambda = 1e-12;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome outcome =
            restricted_solve_params(&f, solvers[k], "{\"hessian_rows\": 100}", 1e-4, 3000);
        if (outcome.reason != REASON_CONVERGED) {
            print_error("%s: %s after %lld, residual %g\n", solvers[k], reason_name(outcome.reason),
                        (long long)outcome.iterations, outcome.relative_residual);
            fail();
        }
        restricted_deinit(&f);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(cmocka_unit_test(test_batches), TEST(test_all_rows_are_exact), TEST(test_sketch),
          TEST(test_parameters), TEST(test_scaling_and_rho), TEST(test_mu), TEST(test_residency),
          TEST(test_race), TEST(test_race_with_all_rows), TEST(test_tiny_ridge))
