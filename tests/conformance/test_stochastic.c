/* What the stochastic methods on centers are made of: mini-batches, preconditioners from a sample
 * of the rows, the race for a damping, and the steps back. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"
#include "engine/methods/stochastic/stochastic.h"

static const char *const solvers[] = {"sketchysaga", "sketchykatyusha"};

static struct restricted_spec ordinary(void)
{
    return (struct restricted_spec){.kernel = KERNEL_MATERN32,
                                    .points = DTYPE_F64,
                                    .vectors = DTYPE_F64,
                                    .n = 300,
                                    .m = 30,
                                    .d = 3,
                                    .t = 2,
                                    .lambda = 1e-3,
                                    .tile_rows = 128};
}

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

/* H V on the host, V [m, t]. */
static double *host_hessian(struct restricted_fixture *f, const double *V)
{
    double *K = restricted_kernel(f), *G = host_zeros(f->m * f->t);
    for (int64_t j = 0; j < f->t; j++) {
        for (int64_t i = 0; i < f->n; i++) {
            double u = 0;
            for (int64_t a = 0; a < f->m; a++) {
                u += K[i + a * f->n] * V[a + j * f->m];
            }
            for (int64_t a = 0; a < f->m; a++) {
                G[a + j * f->m] += K[i + a * f->n] * u;
            }
        }
        for (int64_t a = 0; a < f->m; a++) {
            for (int64_t b = 0; b < f->m; b++) {
                G[a + j * f->m] += f->problem.ridge *
                                   kernel_eval(&f->kernel, f->Z + a * f->d, f->Z + b * f->d) *
                                   V[b + j * f->m];
            }
        }
    }
    mem_free(K);
    return G;
}

/* From all rows, with rank m and the ridge for damping, P is H. */
static void test_all_rows_are_exact(void **state)
{
    const struct restricted_spec spec = ordinary();
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    struct hessian_sketch h = {0};
    build(&h, &f, f.n, f.m);
    assert_close(h.least, f.problem.ridge, 1e-15);
    must(hessian_sketch_damp(&h, h.least, &err));
    hessian_sketch_settle(&h);
    struct rng rng = rng_new(4, RNG_TEST);
    double *V = host_normal(&rng, f.m * f.t), *G = host_hessian(&f, V);
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
    const struct restricted_spec spec = ordinary();
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

static struct solve_outcome solve(struct restricted_fixture *f, const char *solver,
                                  const char *params, double tolerance)
{
    struct solver_options options = options_make(solver, NULL, tolerance);
    options_set(&options, params);
    const struct solve_limits limits = {
        .tolerance = tolerance, .max_iterations = 3000, .time_budget_s = INFINITY};
    struct world w = world_calm();
    const struct solve_control control = world_control(&w);
    struct solve_outcome outcome = {.reason = REASON_NONE};
    must(solve_run(solver_find(solver), &f->problem, &options, &limits, &control, NULL, NULL, NULL,
                   &f->A, &outcome, &err));
    return outcome;
}

/* Each parameter by itself reaches the same solution. */
static void test_parameters(void **state)
{
    static const char *const params[] = {
        "{\"rank\": 20}",         "{\"rank\": 29, \"damping\": 3}", "{\"batch_size\": 10}",
        "{\"batch_size\": 1000}", "{\"hessian_rows\": 40}",         "{\"damping\": 100}",
        "{\"damping\": 0.1}",     "{\"power_iterations\": 1}",      "{\"hessian_rows\": 1}",
        "{\"rho\": 1}",           "{\"rank\": 20, \"rho\": 30}",
    };
    struct restricted_spec spec = ordinary();
    spec.lambda = 0.1;
    for (size_t i = 0; i < sizeof(params) / sizeof(*params); i++) {
        for (int k = 0; k < 2; k++) {
            struct restricted_fixture f;
            restricted_init(&f, *state, &spec);
            const struct solve_outcome outcome = solve(&f, solvers[k], params[i], 1e-6);
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
    struct restricted_spec spec = ordinary();
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
    struct restricted_spec spec = ordinary();
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
            struct restricted_spec spec = ordinary();
            spec.streamed = streamed == 1;
            struct restricted_fixture f;
            restricted_init(&f, *state, &spec);
            solve(&f, solvers[k], NULL, 1e-6);
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
    struct restricted_spec spec = ordinary();
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
    struct restricted_spec spec = ordinary();
    spec.n = 40;
    spec.m = 20;
    spec.lambda = 1e-6;
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    struct stochastic s = {0};
    build_stochastic(&s, &f, "{\"hessian_rows\": 40, \"batch_size\": 5}");
    assert_null(strstr(s.note, "hessian_rows"));
    assert_non_null(strstr(s.note, "A larger `batch_size`"));
    stochastic_deinit(&s);
    restricted_deinit(&f);
}

enum { COUNTERS = 9, NUMBERS = 7, SMOOTHNESS = 4, KEPT_MAX = 6 };

/* A checkpoint of either method. */
struct kept {
    int64_t counters[COUNTERS];
    double numbers[NUMBERS], norm[2];
    struct mat matrices[KEPT_MAX], table;
};

static const char *const kept_names[2][KEPT_MAX] = {{"B", "best", "mean"},
                                                    {"Y", "Z", "W", "best", "gradient", "rhs"}};

static void take_apart(struct restricted_fixture *f, int k, const struct state *from,
                       struct kept *ret)
{
    *ret = (struct kept){0};
    must(state_get_ints(from, "counters", ret->counters, COUNTERS, &err));
    must(state_get_reals(from, "numbers", ret->numbers, NUMBERS, &err));
    must(state_get_reals(from, "norm", ret->norm, 2, &err));
    for (int i = 0; i < KEPT_MAX && kept_names[k][i] != NULL; i++) {
        ret->matrices[i] = device_mat(f->be, DTYPE_F64, f->m, f->t, NULL);
        must(state_get_mat(from, kept_names[k][i], f->be, &ret->matrices[i], &err));
    }
    ret->table = device_mat(f->be, DTYPE_F64, f->n, f->t, NULL);
    if (k == 0) {
        must(state_get_mats(from, "table", f->be, &ret->table, 1, &err));
    }
}

/* Lends the table. */
static void put_together(struct restricted_fixture *f, int k, struct kept *from, struct state *to)
{
    must(state_put_ints(to, "counters", from->counters, COUNTERS, &err));
    must(state_put_reals(to, "numbers", from->numbers, NUMBERS, &err));
    must(state_put_reals(to, "norm", from->norm, 2, &err));
    for (int i = 0; i < KEPT_MAX && kept_names[k][i] != NULL; i++) {
        must(state_put_mat(to, kept_names[k][i], f->be, &from->matrices[i], &err));
    }
    if (k == 0) {
        must(state_lend_mats(to, "table", f->be, &from->table, 1, &err));
    }
}

/* A checkpoint at the first coefficients, with a hundredth of the smoothness. */
static struct state *misleading(struct restricted_fixture *f, int k,
                                const struct solver_options *options)
{
    const struct solver_ops *ops = solver_find(solvers[k]);
    struct solver *s = NULL;
    struct step_report at = {0};
    must(ops->setup(&f->problem, options, &s, &err));
    while (!at.usable) {
        must(ops->step(s, &at, &err));
    }
    struct state *saved = state_new(), *changed = state_new();
    must(ops->save(s, saved, &err));
    struct state *read = state_through_file(saved);
    struct kept kept;
    take_apart(f, k, read, &kept);
    kept.numbers[SMOOTHNESS] *= 0.01;
    put_together(f, k, &kept, changed);
    state_free(read);
    read = state_through_file(changed);
    state_free(changed);
    state_free(saved);
    for (int i = 0; i < KEPT_MAX; i++) {
        f->be->ops->mat_free(f->be, &kept.matrices[i]);
    }
    f->be->ops->mat_free(f->be, &kept.table);
    ops->teardown(s);
    return read;
}

/* Where the step is far too long the method goes back, halves it, says so, and converges. */
static void test_steps_back(void **state)
{
    const struct restricted_spec spec = ordinary();
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solver_ops *ops = solver_find(solvers[k]);
        struct solver_options options = options_make(solvers[k], NULL, 1e-6);
        options_set(&options, "{\"damping\": 1}");
        struct state *from = misleading(&f, k, &options);
        struct solver *s = NULL;
        struct step_report at = {0};
        must(ops->setup(&f.problem, &options, &s, &err));
        must(ops->load(s, from, &err));
        int r = 0;
        for (int steps = 0; r == 0 && steps < 20000; steps++) {
            struct err err;
            r = ops->step(s, &at, &err);
        }
        assert_int_equal(r, REASON_CONVERGED);
        assert_true(at.relative_residual <= 1e-6);
        assert_non_null(at.note);
        assert_non_null(strstr(at.note, "halved"));
        ops->teardown(s);
        state_free(from);
        restricted_deinit(&f);
    }
}

/* Coefficients to begin with: the solution is taken as it is, nonsense is dropped. */
static void test_start(void **state)
{
    const struct restricted_spec spec = ordinary();
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        double *B = restricted_solution(&f);
        struct mat start = device_mat(f.be, DTYPE_F64, f.m, f.t, B);
        f.problem.start = &start;
        struct solve_outcome outcome = solve(&f, solvers[k], NULL, 1e-6);
        assert_int_equal(outcome.reason, REASON_CONVERGED);
        assert_int_equal(outcome.iterations, 0);
        for (int64_t i = 0; i < f.m * f.t; i++) {
            B[i] = 1e6;
        }
        must(f.be->ops->mat_put(f.be, B, f.m, &start, &err));
        outcome = solve(&f, solvers[k], NULL, 1e-6);
        assert_int_equal(outcome.reason, REASON_CONVERGED);
        assert_true(outcome.iterations > 0);
        mem_free(B);
        f.be->ops->mat_free(f.be, &start);
        restricted_deinit(&f);
    }
}

/* f(V) - f(0) of column j, with H V and K_nm' Y. */
static double energy(const struct restricted_fixture *f, const double *V, const double *HV,
                     const double *rhs, int64_t j)
{
    double value = 0;
    for (int64_t a = j * f->m; a < (j + 1) * f->m; a++) {
        value += V[a] * (0.5 * HV[a] - rhs[a]);
    }
    return value;
}

static double *host_rhs(const struct restricted_fixture *f)
{
    double *K = restricted_kernel(f), *rhs = host_zeros(f->m * f->t);
    for (int64_t j = 0; j < f->t; j++) {
        for (int64_t a = 0; a < f->m; a++) {
            for (int64_t i = 0; i < f->n; i++) {
                rhs[a + j * f->m] += K[i + a * f->n] * f->Y[i + j * f->n];
            }
        }
    }
    mem_free(K);
    return rhs;
}

/* V = c (e_0 - e_b), the same for all columns, with the least residual of column 0: the first b for
 * which f of it is above that at 0. */
static void lead_astray(struct restricted_fixture *f, const double *rhs, double *V)
{
    for (int64_t b = 1; b < f->m; b++) {
        memset(V, 0, (size_t)(f->m * f->t) * sizeof(double));
        for (int64_t j = 0; j < f->t; j++) {
            V[j * f->m] = 1.0;
            V[b + j * f->m] = -1.0;
        }
        double *HV = host_hessian(f, V), cross = 0, square = 0;
        for (int64_t a = 0; a < f->m; a++) {
            cross += HV[a] * rhs[a];
            square += HV[a] * HV[a];
        }
        for (int64_t a = 0; a < f->m * f->t; a++) {
            V[a] *= cross / square;
            HV[a] *= cross / square;
        }
        const bool found = energy(f, V, HV, rhs, 0) > 0;
        mem_free(HV);
        if (found) {
            return;
        }
    }
    fail_msg("no such direction");
}

/* Coefficients with a smaller residual than zeros that predict worse are dropped. */
static void test_energy_of_a_start(void **state)
{
    struct restricted_spec spec = ordinary();
    spec.t = 1;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        double *rhs = host_rhs(&f), *V = host_zeros(f.m);
        lead_astray(&f, rhs, V);
        assert_true(restricted_residual(&f, V) < 1);
        struct mat start = device_mat(f.be, DTYPE_F64, f.m, 1, V);
        f.problem.start = &start;
        const struct solver_options options = options_make(solvers[k], NULL, 1e-6);
        struct solver *s = NULL;
        struct step_report at = {0};
        must(solver_find(solvers[k])->setup(&f.problem, &options, &s, &err));
        while (!at.usable) {
            must(solver_find(solvers[k])->step(s, &at, &err));
        }
        must(solver_find(solvers[k])->coef(s, &f.A, &err));
        double *A = device_get(f.be, &f.A), *HA = host_hessian(&f, A);
        assert_true(energy(&f, A, HA, rhs, 0) <= 0);
        solver_find(solvers[k])->teardown(s);
        double *const numbers[] = {rhs, V, A, HA};
        for (int i = 0; i < 4; i++) {
            mem_free(numbers[i]);
        }
        f.be->ops->mat_free(f.be, &start);
        restricted_deinit(&f);
    }
}

/* With next to no ridge the smallest damping is far below what batches differ by: the race goes on
 * until one is found that steps can be taken with. */
static void test_tiny_ridge(void **state)
{
    struct restricted_spec spec = ordinary();
    spec.kernel = KERNEL_LAPLACIAN;
    spec.n = 600;
    spec.m = 100;
    spec.d = 12;
    spec.lambda = 1e-12;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome outcome = solve(&f, solvers[k], "{\"hessian_rows\": 100}", 1e-4);
        if (outcome.reason != REASON_CONVERGED) {
            print_error("%s: %s after %lld, residual %g\n", solvers[k], reason_name(outcome.reason),
                        (long long)outcome.iterations, outcome.relative_residual);
            fail();
        }
        restricted_deinit(&f);
    }
}

/* A checkpoint with numbers that no run leaves behind is refused. */
static void test_refuses_nonsense(void **state)
{
    const struct restricted_spec spec = ordinary();
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    for (int i = 0; i < 2 * (COUNTERS + 2); i++) {
        const int k = i % 2, which = i / 2;
        const struct solver_options options = options_make(solvers[k], NULL, 1e-6);
        struct solver *s = NULL;
        must(solver_find(solvers[k])->setup(&f.problem, &options, &s, &err));
        int64_t counters[COUNTERS] = {0};
        double numbers[NUMBERS] = {1, 1, 1, 1, 1};
        if (which < COUNTERS) {
            counters[which] = -1;
        } else {
            numbers[3 + which - COUNTERS] = NAN;
        }
        struct state *bad = state_new();
        must(state_put_ints(bad, "counters", counters, COUNTERS, &err));
        must(state_put_reals(bad, "numbers", numbers, NUMBERS, &err));
        struct err err = {0};
        const int r = solver_find(solvers[k])->load(s, bad, &err);
        assert_int_equal(r, -ERR_CORRUPT);
        assert_non_null(strstr(err.detail, "out of range")); /* and not that arrays are missing */
        state_free(bad);
        solver_find(solvers[k])->teardown(s);
    }
    restricted_deinit(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(cmocka_unit_test(test_batches), TEST(test_all_rows_are_exact), TEST(test_sketch),
          TEST(test_parameters), TEST(test_scaling_and_rho), TEST(test_mu), TEST(test_residency),
          TEST(test_race), TEST(test_race_with_all_rows), TEST(test_steps_back), TEST(test_start),
          TEST(test_energy_of_a_start), TEST(test_tiny_ridge), TEST(test_refuses_nonsense))
