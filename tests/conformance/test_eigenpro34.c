/* What the suite of all restricted solvers does not reach of eigenpro3 and eigenpro4: projections,
 * temporary centers, saved states in the middle of a window, guards. */
#include "engine/methods/eigenpro/eigenpro34.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"

static const char *const both[] = {"eigenpro3", "eigenpro4"};

static struct restricted_spec ordinary(void)
{
    return (struct restricted_spec){.kernel = KERNEL_MATERN32,
                                    .points = DTYPE_F64,
                                    .vectors = DTYPE_F64,
                                    .n = 400,
                                    .m = 40,
                                    .d = 3,
                                    .t = 2,
                                    .lambda = 1e-3,
                                    .tile_rows = 128};
}

static struct solver_options options_of(const char *solver, const char *params, double tolerance)
{
    struct solver_options o = options_make(solver, NULL, tolerance);
    options_set(&o, params);
    return o;
}

static struct solve_outcome solve(struct restricted_fixture *f, const char *solver,
                                  const char *params, double tolerance, int64_t iterations)
{
    const struct solver_options options = options_of(solver, params, tolerance);
    const struct solve_limits limits = {tolerance, iterations, INFINITY};
    struct world w = world_calm();
    const struct solve_control control = world_control(&w);
    struct solve_outcome out = {.reason = REASON_NONE};
    must(solve_run(solver_find(solver), &f->problem, &options, &limits, &control, NULL, NULL, NULL,
                   &f->A, &out, &err));
    return out;
}

/* ---- projections ---- */

/* theta of H, [m, t], by a projection of its own. */
static double *project(struct restricted_fixture *f, bool exact, int64_t epochs, const double *H)
{
    const struct center_projection_spec spec = {
        .p = &f->problem, .exact = exact, .epochs = epochs, .subsample = 20, .eigenvectors = -1};
    struct center_projection *c = NULL;
    struct mat h = device_mat(f->be, DTYPE_F64, f->m, f->t, H), theta = {0};
    double part;
    int r = 0;
    must(center_projection_new(&spec, &c, &err));
    while (r == 0) {
        struct err err;
        r = center_projection_build(c, &part, &err);
    }
    assert_int_equal(r, 1);
    assert_true((center_projection_factor(c) != NULL) == exact);
    must(center_projection_begin(c, &h, &err));
    for (r = 0; r == 0;) {
        struct err err;
        r = center_projection_step(c, &theta, &err);
    }
    assert_int_equal(r, 1);
    double *found = device_get(f->be, &theta);
    f->be->ops->mat_free(f->be, &h);
    center_projection_free(c);
    return found;
}

/* |K_mm theta - H| / |H|. */
static double missed(struct restricted_fixture *f, const double *theta, const double *H)
{
    double rr = 0, hh = 0;
    for (int64_t j = 0; j < f->t; j++) {
        for (int64_t a = 0; a < f->m; a++) {
            double sum = -H[a + j * f->m];
            for (int64_t b = 0; b < f->m; b++) {
                sum +=
                    kernel_eval(&f->kernel, f->Z + a * f->d, f->Z + b * f->d) * theta[b + j * f->m];
            }
            rr += sum * sum;
            hh += H[a + j * f->m] * H[a + j * f->m];
        }
    }
    return sqrt(rr / hh);
}

enum { EPOCHS = 4 };

static void test_projections(void **state)
{
    const struct restricted_spec spec = ordinary();
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    struct rng rng = rng_new(3, RNG_TEST);
    double *H = host_normal(&rng, f.m * f.t), *found[EPOCHS];
    static const int64_t epochs[EPOCHS] = {1, 10, 100, 1000};
    double least = 1.0;
    for (int i = 0; i < EPOCHS; i++) {
        found[i] = project(&f, false, epochs[i], H);
        assert_true(missed(&f, found[i], H) < 0.8 * least);
        least = missed(&f, found[i], H);
    }
    double *exact = project(&f, true, 1, H), *again = project(&f, false, 1, H);
    assert_true(missed(&f, exact, H) < 1e-10);
    assert_memory_equal(found[0], again, (size_t)(f.m * f.t) * sizeof(double));
    for (int64_t i = 0; i < f.m * f.t; i++) {
        H[i] *= 2;
    }
    double *twice = project(&f, false, 1, H); /* linear */
    for (int64_t i = 0; i < f.m * f.t; i++) {
        assert_true(twice[i] == 2 * found[0][i]);
    }
    double *const all[] = {H, exact, again, twice};
    for (int i = 0; i < 4; i++) {
        mem_free(all[i]);
        mem_free(found[i]);
    }
    restricted_deinit(&f);
}

/* Either projection leads to the same solution, also when the preconditioner has few centers. With
 * an inexact one that has few itself, slow directions come slowly: the residual stops falling. */
static void test_exact_and_inexact(void **state)
{
    static const struct {
        const char *params;
        bool converges;
        double difference;
    } ways[] = {
        {"{\"projection\": \"exact\"}", true, 1e-6},
        {"{\"projection\": \"inexact\"}", true, 1e-6},
        {"{\"projection\": \"exact\", \"subsample_centers\": 15}", true, 1e-6},
        {"{\"projection\": \"inexact\", \"projection_epochs\": 3}", true, 1e-6},
        {"{\"projection\": \"exact\", \"eigenvectors\": 0}", true, 1e-6},
        {"{\"projection\": \"inexact\", \"subsample_centers\": 25}", false, 1e-2},
    };
    const struct restricted_spec spec = ordinary();
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
            struct restricted_fixture f;
            restricted_init(&f, *state, &spec);
            const struct solve_outcome out = solve(&f, both[k], ways[i].params, 1e-8, 200);
            double *B = restricted_solution(&f), *A = device_get(f.be, &f.A);
            const double difference = restricted_difference(&f, A, B);
            if ((out.reason == REASON_CONVERGED) < ways[i].converges ||
                !(difference < ways[i].difference)) {
                print_error("%s %s: %s after %lld, %g, predictions differ by %g\n", both[k],
                            ways[i].params, reason_name(out.reason), (long long)out.iterations,
                            out.relative_residual, difference);
                fail();
            }
            mem_free(A);
            mem_free(B);
            restricted_deinit(&f);
        }
    }
}

/* ---- the published iteration ---- */

/* Coefficients after the first epoch, with parameters that make the iteration plain, and the rows'
 * shares of a step, [n]. */
static double *after_an_epoch(struct restricted_fixture *f, const char *solver, const char *params,
                              double *ret_shares)
{
    const struct solver_options options = options_of(solver, params, 1e-8);
    const struct solver_ops *ops = solver_find(solver);
    struct solver *s = NULL;
    struct step_report at = {.iteration = 0};
    double *A = NULL;
    must(ops->setup(&f->problem, &options, &s, &err));
    while (at.iteration == 0) {
        mem_free(A);
        must(ops->coef(s, &f->A, &err));
        A = device_get(f->be, &f->A);
        must(ops->step(s, &at, &err));
    }
    for (int64_t i = 0; i < f->n; i++) {
        ret_shares[i] = eigenpro_far_share(eigenpro_span_far(s->span), i);
    }
    ops->teardown(s);
    return A;
}

/* One epoch of steps of 0.05 times its share a row, P = I, by plain loops: f has weights at the
 * centers (B) and at the rows of the window (w); after `window` rows the latter are projected. */
static double *plain_epoch(const struct restricted_fixture *f, const double *shares, int64_t batch,
                           int64_t window)
{
    const int64_t n = f->n, m = f->m, t = f->t;
    const struct row_order order = row_order_new(f->problem.seed, EIGENPRO34_ORDER, n);
    double *B = host_zeros(m * t), *w = host_zeros(window * t), *h = host_zeros(m * t);
    double *g = host_zeros(batch * t), *L = host_zeros(m * m);
    for (int64_t a = 0; a < m; a++) {
        for (int64_t b = 0; b < m; b++) {
            L[a + b * m] = kernel_eval(&f->kernel, f->Z + a * f->d, f->Z + b * f->d);
        }
    }
    assert_true(host_factor(L, m));
    for (int64_t first = 0; first < n; first += batch) {
        const int64_t start = first - first % window, count = batch < n - first ? batch : n - first;
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = row_order_at(&order, first + i);
            const double *x = f->X + row * f->d;
            for (int64_t j = 0; j < t; j++) {
                double sum = -f->Y[row + j * n];
                for (int64_t a = 0; a < m; a++) {
                    sum += kernel_eval(&f->kernel, x, f->Z + a * f->d) * B[a + j * m];
                }
                for (int64_t k = start; k < first; k++) {
                    const int64_t other = row_order_at(&order, k);
                    sum +=
                        kernel_eval(&f->kernel, x, f->X + other * f->d) * w[k - start + j * window];
                }
                g[i + j * batch] = shares[row] * sum;
            }
        }
        const double decay = 1.0 - 0.05 * (double)count / (double)n * f->problem.ridge;
        for (int64_t j = 0; j < t; j++) {
            for (int64_t a = 0; a < m; a++) {
                B[a + j * m] *= decay;
            }
            for (int64_t k = 0; k < first - start; k++) {
                w[k + j * window] *= decay;
            }
            for (int64_t i = 0; i < count; i++) {
                w[first - start + i + j * window] = -0.05 * g[i + j * batch];
            }
        }
        const int64_t used = first + count - start;
        if (used < window && first + count < n) {
            continue;
        }
        for (int64_t j = 0; j < t; j++) {
            for (int64_t a = 0; a < m; a++) {
                h[a + j * m] = 0;
                for (int64_t k = 0; k < used; k++) {
                    const int64_t row = row_order_at(&order, start + k);
                    h[a + j * m] += kernel_eval(&f->kernel, f->Z + a * f->d, f->X + row * f->d) *
                                    w[k + j * window];
                }
            }
        }
        host_solve(L, m, h, t);
        for (int64_t i = 0; i < m * t; i++) {
            B[i] += h[i];
        }
    }
    double *const all[] = {w, h, g, L};
    for (int i = 0; i < 4; i++) {
        mem_free(all[i]);
    }
    return B;
}

/* eigenpro3 projects after each batch, eigenpro4 after as many as have m rows; batches of 12 rows,
 * the last one of 4, and windows of 36. */
static void test_first_epoch(void **state)
{
    static const char params[] =
        "{\"eigenvectors\": 0, \"batch_size\": 12, \"learning_rate\": 0.6}";
    const struct restricted_spec spec = ordinary();
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    double *shares = host_zeros(f.n);
    for (int k = 0; k < 2; k++) {
        double *found = after_an_epoch(&f, both[k], params, shares);
        double *expected = plain_epoch(&f, shares, 12, k == 0 ? 12 : 36);
        assert_true(restricted_difference(&f, found, expected) < 1e-10);
        for (int64_t i = 0; i < f.n; i++) {
            assert_true(shares[i] == 1.0); /* k(x,x) is 1 */
        }
        mem_free(found);
        mem_free(expected);
    }
    mem_free(shares);
    restricted_deinit(&f);
}

/* ---- far rows ---- */

/* One row in 25 lies ten times as far out, where the linear kernel is a hundred times as large: its
 * step is as much shorter as its k(x,x) is above the others'. */
static void test_far_rows_step_less(void **state)
{
    static const char params[] = "{\"eigenvectors\": 0, \"batch_size\": 2, \"learning_rate\": 0.1}";
    struct restricted_spec spec = ordinary();
    spec.kernel = KERNEL_LINEAR;
    spec.far = 25;
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    double *shares = host_zeros(f.n);
    for (int k = 0; k < 2; k++) {
        double *found = after_an_epoch(&f, both[k], params, shares);
        double *expected = plain_epoch(&f, shares, 2, k == 0 || f.m < 4 ? 2 : 4);
        double ceiling = INFINITY;
        int64_t shortened = 0;
        for (int64_t i = 0; i < f.n; i++) {
            const double value = kernel_eval(&f.kernel, f.X + i * f.d, f.X + i * f.d);
            ceiling = shares[i] < 1 ? shares[i] * value : ceiling;
            shortened += shares[i] < 1;
            assert_true(shares[i] > 0 && shares[i] * value <= ceiling * (1 + 1e-9));
        }
        assert_true(shortened >= 10 && shortened <= 32);
        assert_true(restricted_difference(&f, found, expected) < 1e-10);
        mem_free(found);
        mem_free(expected);
    }
    mem_free(shares);
    restricted_deinit(&f);
}

/* A few rows far from the centers' span would make all steps short. */
static void test_far_rows(void **state)
{
    struct restricted_spec spec = ordinary();
    spec.kernel = KERNEL_GAUSSIAN;
    spec.n = 3000;
    spec.m = 100;
    spec.far = 31; /* some of them centers */
    spec.lambda = 1e-5;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome out = solve(&f, both[k], "{}", 1e-6, 200);
        double *B = restricted_solution(&f), *A = device_get(f.be, &f.A);
        print_message("%s: %lld epochs, predictions differ by %g\n", both[k],
                      (long long)out.iterations, restricted_difference(&f, A, B));
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_true(out.iterations <= 28); /* 32 and 37 where all rows have the same step */
        assert_true(restricted_difference(&f, A, B) < 1e-3);
        mem_free(A);
        mem_free(B);
        restricted_deinit(&f);
    }
}

/* What most numbers do not exceed, where few are far beyond. */
static void test_ceiling(void **state)
{
    (void)state;
    double even[100], uneven[100];
    for (int i = 0; i < 100; i++) {
        even[i] = uneven[i] = 1.0 + i;
    }
    uneven[40] = 5000;
    uneven[41] = 500;
    assert_true(eigenpro_far_ceiling(even, 100, 0) == 100.0);
    assert_true(eigenpro_far_ceiling(uneven, 100, 0) == 98.0);
    assert_true(eigenpro_far_ceiling(uneven, 100, 1000) == 1000.0);
    assert_true(eigenpro_far_ceiling(uneven, 100, 2000) == 5000.0);
    assert_true(eigenpro_far_ceiling(uneven, 1, 0) == 1.0);
    double nothing[100] = {[40] = 5000}; /* of no use as a ceiling: no row would have a step */
    assert_true(eigenpro_far_ceiling(nothing, 100, 0) == 5000.0);
}

/* A window of one batch: eigenpro4 is eigenpro3, to the bit. */
static void test_window_of_one_batch(void **state)
{
    static const char params[] =
        "{\"batch_size\": 50, \"learning_rate\": 20, \"eigenvectors\": 10}";
    const struct restricted_spec spec = ordinary();
    struct restricted_fixture f;
    double *found[2];
    restricted_init(&f, *state, &spec);
    for (int k = 0; k < 2; k++) {
        solve(&f, both[k], params, 1e-12, 4);
        found[k] = device_get(f.be, &f.A);
    }
    assert_memory_equal(found[0], found[1], (size_t)(f.m * f.t) * sizeof(double));
    mem_free(found[0]);
    mem_free(found[1]);
    restricted_deinit(&f);
}

/* Of few rows the preconditioner knows all pairs, and takes them all. */
static void test_few_rows(void **state)
{
    static const int64_t rows[] = {20, 50, 150};
    for (int i = 0; i < 6; i++) {
        struct restricted_spec spec = ordinary();
        spec.kernel = KERNEL_GAUSSIAN;
        spec.n = spec.m = rows[i / 2];
        spec.lambda = 1e-6;
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome out = solve(&f, both[i % 2], NULL, 1e-9, 40);
        assert_int_equal(out.reason, REASON_CONVERGED);
        restricted_deinit(&f);
    }
}

/* The noise of the batches stays in plain epochs, and only there. */
static void test_noise(void **state)
{
    const struct restricted_spec spec = ordinary();
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome plain =
            solve(&f, both[k], "{\"plain_epochs\": 40, \"batch_size\": 10}", 1e-8, 40);
        const struct solve_outcome corrected = solve(&f, both[k], "{}", 1e-8, 40);
        assert_true(plain.relative_residual > 1e-3);
        assert_int_equal(corrected.reason, REASON_CONVERGED);
        const struct solve_outcome none = solve(&f, both[k], "{\"plain_epochs\": 0}", 1e-8, 40);
        assert_int_equal(none.reason, REASON_CONVERGED);
        restricted_deinit(&f);
    }
}

/* Targets of the span: no noise stays in plain epochs, which arrive, and say so as soon as they are
 * looked at, or at the latest by the certificate. A look changes nothing. */
static void test_plain_epochs_arrive(void **state)
{
    static const char looked[] = "{\"plain_epochs\": 1000, \"residual_every\": 7,"
                                 " \"eigenvectors\": 5, \"batch_size\": 5}";
    static const char never[] = "{\"plain_epochs\": 1000, \"residual_every\": 1000,"
                                " \"eigenvectors\": 5, \"batch_size\": 5}";
    struct restricted_spec spec = ordinary();
    spec.n = spec.m; /* the centers are the rows */
    spec.lambda = 0;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        double *found[2];
        restricted_init(&f, *state, &spec);
        const struct solve_outcome soon = solve(&f, both[k], looked, 1e-3, 700);
        assert_int_equal(soon.reason, REASON_CONVERGED);
        assert_int_equal(soon.iterations % 7, 0);
        const struct solve_outcome later = solve(&f, both[k], never, 1e-3, soon.iterations);
        assert_int_equal(later.reason, REASON_CONVERGED);
        assert_int_equal(later.iterations, soon.iterations);
        const struct solve_outcome early = solve(&f, both[k], never, 1e-3, soon.iterations - 7);
        assert_int_equal(early.reason, REASON_ITERATION_LIMIT);
        for (int i = 0; i < 2; i++) {
            solve(&f, both[k], i == 0 ? looked : never, 1e-14, 20);
            found[i] = device_get(f.be, &f.A);
        }
        assert_memory_equal(found[0], found[1], (size_t)(f.m * f.t) * sizeof(double));
        mem_free(found[0]);
        mem_free(found[1]);
        restricted_deinit(&f);
    }
}

/* Kernel values of three epochs. */
static int64_t values_of(struct restricted_fixture *f, const char *solver, const char *params)
{
    const int64_t before = f->be->kernel_entries;
    solve(f, solver, params, 1e-14, 3);
    return f->be->kernel_entries - before;
}

/* Looks are between plain epochs: beside so many of them, or fewer, as are usual, `residual_every`
 * has no effect; below it costs a pass. */
static void test_looks_are_between_plain_epochs(void **state)
{
    const struct restricted_spec spec = ordinary();
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const int64_t usual = values_of(&f, both[k], "{}");
        const int64_t every = values_of(&f, both[k], "{\"residual_every\": 1}");
        assert_int_equal(every, usual);
        const int64_t plain = values_of(&f, both[k], "{\"plain_epochs\": 3}");
        const int64_t late = values_of(&f, both[k], "{\"plain_epochs\": 3, \"residual_every\": 3}");
        assert_int_equal(late, plain);
        const int64_t looked =
            values_of(&f, both[k], "{\"plain_epochs\": 3, \"residual_every\": 2}");
        assert_true(looked >= plain + f.n * f.m);
        restricted_deinit(&f);
    }
}

/* ---- guards ---- */

static void test_steps_too_long(void **state)
{
    const struct restricted_spec spec = ordinary();
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome out = solve(&f, both[k], "{\"learning_rate\": 1e6}", 1e-8, 300);
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_true(out.relative_residual <= 1.01e-8);
        restricted_deinit(&f);
    }
}

static void test_no_ridge(void **state)
{
    struct restricted_spec spec = ordinary();
    spec.lambda = 0;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome out = solve(&f, both[k], "{}", 1e-8, 1000);
        double *B = restricted_solution(&f), *A = device_get(f.be, &f.A);
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_true(restricted_difference(&f, A, B) < 1e-5);
        mem_free(A);
        mem_free(B);
        restricted_deinit(&f);
    }
}

/* Rows that stay in memory or are read again: the same bits. */
static void test_residency(void **state)
{
    struct restricted_spec spec = ordinary();
    for (int k = 0; k < 2; k++) {
        double *found[2];
        for (int streamed = 0; streamed < 2; streamed++) {
            struct restricted_fixture f;
            spec.streamed = streamed == 1;
            restricted_init(&f, *state, &spec);
            solve(&f, both[k], "{}", 1e-12, 5);
            found[streamed] = device_get(f.be, &f.A);
            restricted_deinit(&f);
        }
        assert_memory_equal(found[0], found[1], (size_t)(spec.m * spec.t) * sizeof(double));
        mem_free(found[0]);
        mem_free(found[1]);
    }
}

/* ---- saved states ---- */

struct run {
    struct solver *s;
    struct step_report at;
};

static void run_to(struct run *run, const struct solver_ops *ops, int64_t iteration)
{
    while (run->at.iteration < iteration) {
        struct err err = {0};
        assert_int_equal(ops->step(run->s, &run->at, &err), 0);
    }
}

/* Windows of 1,000 rows take more kernel values than a step has: some states are saved inside of
 * one, with temporary centers; others during projections and passes. */
static void test_resume_inside_a_window(void **state)
{
    struct restricted_spec spec = ordinary();
    spec.n = 2100;
    spec.m = 1000;
    spec.t = 1;
    spec.tile_rows = 500;
    const struct solver_ops *ops = solver_find("eigenpro4");
    const struct solver_options options =
        options_of("eigenpro4", "{\"subsample_centers\": 60, \"batch_size\": 100}", 1e-12);
    struct restricted_fixture f, other; /* two: a solver keeps the batch it reads */
    restricted_init(&f, *state, &spec);
    restricted_init(&other, *state, &spec);
    const size_t size = (size_t)f.m * sizeof(double);
    struct run whole = {0};
    must(ops->setup(&f.problem, &options, &whole.s, &err));
    run_to(&whole, ops, 3);
    must(ops->coef(whole.s, &f.A, &err));
    double *expected = device_get(f.be, &f.A);
    int inside = 0;
    struct run first = {0};
    must(ops->setup(&f.problem, &options, &first.s, &err));
    while (first.at.iteration < 2) {
        must(ops->step(first.s, &first.at, &err));
        const bool window = first.s->built && first.s->at.next > first.s->at.window &&
                            first.s->at.stage == EP_BATCHES;
        if (!first.at.usable || !window || inside == 3) {
            continue;
        }
        inside++;
        struct state *saved = state_new();
        must(ops->save(first.s, saved, &err));
        struct state *read = state_through_file(saved);
        struct run second = {.at = first.at};
        must(ops->setup(&other.problem, &options, &second.s, &err));
        must(ops->load(second.s, read, &err));
        run_to(&second, ops, 3);
        must(ops->coef(second.s, &f.A, &err));
        double *found = device_get(f.be, &f.A);
        assert_memory_equal(found, expected, size);
        mem_free(found);
        ops->teardown(second.s);
        state_free(read);
        state_free(saved);
    }
    assert_int_equal(inside, 3);
    ops->teardown(first.s);
    ops->teardown(whole.s);
    mem_free(expected);
    restricted_deinit(&other);
    restricted_deinit(&f);
}

/* A damaged state is refused, and none of it is used. */
static void test_impossible_counters(void **state)
{
    const struct restricted_spec spec = ordinary();
    const struct solver_ops *ops = solver_find("eigenpro3");
    const struct solver_options options = options_of("eigenpro3", "{}", 1e-12);
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    for (int k = 0; k < EIGENPRO34_COUNTERS; k++) {
        struct run run = {0}, other = {0};
        must(ops->setup(&f.problem, &options, &run.s, &err));
        run_to(&run, ops, 1);
        ((int64_t *)&run.s->at)[k] = -5;
        struct state *saved = state_new();
        must(ops->save(run.s, saved, &err));
        must(ops->setup(&f.problem, &options, &other.s, &err));
        struct err err;
        const bool written = k == EIGENPRO34_COUNTERS - 1 || k == EIGENPRO34_COUNTERS - 2;
        assert_int_equal(ops->load(other.s, saved, &err), written ? 0 : -ERR_CORRUPT);
        state_free(saved);
        ops->teardown(run.s);
        ops->teardown(other.s);
    }
    restricted_deinit(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_projections), TEST(test_exact_and_inexact), TEST(test_first_epoch),
          TEST(test_far_rows_step_less), TEST(test_far_rows), cmocka_unit_test(test_ceiling),
          TEST(test_window_of_one_batch), TEST(test_few_rows), TEST(test_noise),
          TEST(test_plain_epochs_arrive), TEST(test_looks_are_between_plain_epochs),
          TEST(test_steps_too_long), TEST(test_no_ridge), TEST(test_residency),
          TEST(test_resume_inside_a_window), TEST(test_impossible_counters))
