/* Epochs of eigenpro3 and eigenpro4: the published iteration by plain loops, the steps of far rows,
 * and what noise stays where nothing corrects it. */
#include "engine/methods/eigenpro/eigenpro34.h"

#include <math.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"

static const char *const both[] = {"eigenpro3", "eigenpro4"};

/* ---- the published iteration ---- */

/* Coefficients after the first epoch, with parameters that make the iteration plain, and the rows'
 * shares of a step, [n]. */
static double *after_an_epoch(struct restricted_fixture *f, const char *solver, const char *params,
                              double *ret_shares)
{
    struct solver_options options = options_make(solver, NULL, 1e-8);
    options_set(&options, params);
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

/* f has weights at the centers (B) and at the rows of the window (w); g has the gradients of a
 * batch's rows. */
struct plain {
    const struct restricted_fixture *f;
    struct row_order order;
    const double *shares;
    int64_t batch, window;
    double *B, *w, *g;
    double *L; /* the factor of K_mm */
};

static struct plain plain_begin(const struct restricted_fixture *f, const double *shares,
                                int64_t batch, int64_t window)
{
    struct plain p = {.f = f,
                      .order = row_order_new(f->problem.seed, ORDER_EIGENPRO_EPOCH, 0, f->n),
                      .shares = shares,
                      .batch = batch,
                      .window = window,
                      .B = host_zeros(f->m * f->t),
                      .w = host_zeros(window * f->t),
                      .g = host_zeros(batch * f->t),
                      .L = host_zeros(f->m * f->m)};
    for (int64_t a = 0; a < f->m; a++) {
        for (int64_t b = 0; b < f->m; b++) {
            p.L[a + b * f->m] = kernel_eval(&f->kernel, f->Z + a * f->d, f->Z + b * f->d);
        }
    }
    assert_true(host_factor(p.L, f->m));
    return p;
}

/* Of `count` rows from the first on, of a window that began at `start`. */
static void plain_gradients(struct plain *p, int64_t start, int64_t first, int64_t count)
{
    const struct restricted_fixture *f = p->f;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = row_order_at(&p->order, first + i);
        const double *x = f->X + row * f->d;
        for (int64_t j = 0; j < f->t; j++) {
            double sum = -f->Y[row + j * f->n];
            for (int64_t a = 0; a < f->m; a++) {
                sum += kernel_eval(&f->kernel, x, f->Z + a * f->d) * p->B[a + j * f->m];
            }
            for (int64_t k = start; k < first; k++) {
                const int64_t other = row_order_at(&p->order, k);
                sum += kernel_eval(&f->kernel, x, f->X + other * f->d) *
                       p->w[k - start + j * p->window];
            }
            p->g[i + j * p->batch] = p->shares[row] * sum;
        }
    }
}

static void plain_step(struct plain *p, int64_t start, int64_t first, int64_t count)
{
    const int64_t m = p->f->m;
    const double decay = 1.0 - 0.05 * (double)count / (double)p->f->n * p->f->problem.ridge;
    for (int64_t j = 0; j < p->f->t; j++) {
        for (int64_t a = 0; a < m; a++) {
            p->B[a + j * m] *= decay;
        }
        for (int64_t k = 0; k < first - start; k++) {
            p->w[k + j * p->window] *= decay;
        }
        for (int64_t i = 0; i < count; i++) {
            p->w[first - start + i + j * p->window] = -0.05 * p->g[i + j * p->batch];
        }
    }
}

/* The weights of the window's `used` rows go to the centers. */
static void plain_project(struct plain *p, int64_t start, int64_t used)
{
    const struct restricted_fixture *f = p->f;
    const int64_t m = f->m, t = f->t;
    double *h = host_zeros(m * t);
    for (int64_t j = 0; j < t; j++) {
        for (int64_t a = 0; a < m; a++) {
            for (int64_t k = 0; k < used; k++) {
                const int64_t row = row_order_at(&p->order, start + k);
                h[a + j * m] += kernel_eval(&f->kernel, f->Z + a * f->d, f->X + row * f->d) *
                                p->w[k + j * p->window];
            }
        }
    }
    host_solve(p->L, m, h, t);
    for (int64_t i = 0; i < m * t; i++) {
        p->B[i] += h[i];
    }
    mem_free(h);
}

/* One epoch of steps of 0.05 times its share a row, P = I, by plain loops; after `window` rows
 * their weights are projected. */
static double *plain_epoch(const struct restricted_fixture *f, const double *shares, int64_t batch,
                           int64_t window)
{
    const int64_t n = f->n;
    struct plain p = plain_begin(f, shares, batch, window);
    for (int64_t first = 0; first < n; first += batch) {
        const int64_t start = first - first % window, count = batch < n - first ? batch : n - first;
        plain_gradients(&p, start, first, count);
        plain_step(&p, start, first, count);
        const int64_t used = first + count - start;
        if (used >= window || first + count >= n) {
            plain_project(&p, start, used);
        }
    }
    mem_free(p.w);
    mem_free(p.g);
    mem_free(p.L);
    return p.B;
}

/* eigenpro3 projects after each batch, eigenpro4 after as many as have m rows; batches of 12 rows,
 * the last one of 4, and windows of 36. */
static void test_first_epoch(void **state)
{
    static const char params[] =
        "{\"eigenvectors\": 0, \"batch_size\": 12, \"learning_rate\": 0.6}";
    const struct restricted_spec spec = restricted_matern(400);
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

/* A window of one batch: eigenpro4 is eigenpro3, to the bit. */
static void test_window_of_one_batch(void **state)
{
    static const char params[] =
        "{\"batch_size\": 50, \"learning_rate\": 20, \"eigenvectors\": 10}";
    const struct restricted_spec spec = restricted_matern(400);
    struct restricted_fixture f;
    double *found[2];
    restricted_init(&f, *state, &spec);
    for (int k = 0; k < 2; k++) {
        restricted_solve_params(&f, both[k], params, 1e-12, 4);
        found[k] = device_get(f.be, &f.A);
    }
    assert_memory_equal(found[0], found[1], (size_t)(f.m * f.t) * sizeof(double));
    mem_free(found[0]);
    mem_free(found[1]);
    restricted_deinit(&f);
}

/* ---- far rows ---- */

/* One row in 25 lies ten times as far out, where the linear kernel is a hundred times as large: its
 * step is as much shorter as its k(x,x) is above the others'. */
static void test_far_rows_step_less(void **state)
{
    static const char params[] = "{\"eigenvectors\": 0, \"batch_size\": 2, \"learning_rate\": 0.1}";
    struct restricted_spec spec = restricted_matern(400);
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
    struct restricted_spec spec = restricted_matern(400);
    spec.kernel = KERNEL_GAUSSIAN;
    spec.n = 3000;
    spec.m = 100;
    spec.far = 31; /* some of them centers */
    spec.lambda = 1e-5;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome out = restricted_solve_params(&f, both[k], "{}", 1e-6, 200);
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

/* ---- plain epochs ---- */

/* The noise of the batches stays in plain epochs, and only there. */
static void test_noise(void **state)
{
    const struct restricted_spec spec = restricted_matern(400);
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome plain = restricted_solve_params(
            &f, both[k], "{\"plain_epochs\": 40, \"batch_size\": 10}", 1e-8, 40);
        const struct solve_outcome corrected = restricted_solve_params(&f, both[k], "{}", 1e-8, 40);
        assert_true(plain.relative_residual > 1e-3);
        assert_int_equal(corrected.reason, REASON_CONVERGED);
        const struct solve_outcome none =
            restricted_solve_params(&f, both[k], "{\"plain_epochs\": 0}", 1e-8, 40);
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
    struct restricted_spec spec = restricted_matern(400);
    spec.n = spec.m; /* the centers are the rows */
    spec.lambda = 0;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        double *found[2];
        restricted_init(&f, *state, &spec);
        const struct solve_outcome soon = restricted_solve_params(&f, both[k], looked, 1e-3, 700);
        assert_int_equal(soon.reason, REASON_CONVERGED);
        assert_int_equal(soon.iterations % 7, 0);
        const struct solve_outcome later =
            restricted_solve_params(&f, both[k], never, 1e-3, soon.iterations);
        assert_int_equal(later.reason, REASON_CONVERGED);
        assert_int_equal(later.iterations, soon.iterations);
        const struct solve_outcome early =
            restricted_solve_params(&f, both[k], never, 1e-3, soon.iterations - 7);
        assert_int_equal(early.reason, REASON_ITERATION_LIMIT);
        for (int i = 0; i < 2; i++) {
            restricted_solve_params(&f, both[k], i == 0 ? looked : never, 1e-14, 20);
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
    restricted_solve_params(f, solver, params, 1e-14, 3);
    return f->be->kernel_entries - before;
}

/* Looks are between plain epochs: beside so many of them, or fewer, as are usual, `residual_every`
 * has no effect; below it costs a pass. */
static void test_looks_are_between_plain_epochs(void **state)
{
    const struct restricted_spec spec = restricted_matern(400);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_first_epoch), TEST(test_far_rows_step_less), TEST(test_far_rows),
          cmocka_unit_test(test_ceiling), TEST(test_window_of_one_batch), TEST(test_noise),
          TEST(test_plain_epochs_arrive), TEST(test_looks_are_between_plain_epochs))
