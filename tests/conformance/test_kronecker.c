/*
 * The preconditioner "kronecker" against the inverse of the whole matrix: grids of one to three
 * features, full ones, with gaps, with repeated rows; what is no grid, and memory that ends.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"
#include "engine/methods/methods.h"

enum { FEATURES = 4, ROWS_MOST = 260 };

struct shape {
    enum kernel_id kernel;
    int64_t sizes[3];    /* 0: the feature is the same everywhere */
    double share, twice; /* of places with a row, and of these with another one */
    double lambda;
    enum dtype vectors;
    bool corner; /* places without a row lie together */
};

static const double bandwidths[FEATURES] = {0.9, 0.7, 1.3, 1.0};

struct grid_fixture {
    struct backend *be;
    struct kernel kernel;
    int64_t n;
    double x[ROWS_MOST * FEATURES];
    struct rows host;
    struct problem problem;
    struct mat identity, P; /* n x n */
};

static void add_row(struct grid_fixture *f, const struct shape *s, const int64_t *at)
{
    double *x = f->x + f->n++ * FEATURES;
    assert_true(f->n <= ROWS_MOST);
    for (int k = 0; k < FEATURES; k++) {
        const bool varies = k < 3 && s->sizes[k] > 0;
        x[k] = varies ? 0.4 * (double)at[k] + 0.1 * sin(5.0 * (double)at[k] + k) : 3.0;
    }
}

static bool in_corner(const struct shape *s, const int64_t *at)
{
    bool in = true;
    for (int k = 0; k < 3; k++) {
        in = in && (s->sizes[k] == 0 || at[k] < s->sizes[k] / 2);
    }
    return in;
}

static void place_rows(struct grid_fixture *f, const struct shape *s)
{
    struct rng rng = rng_new(11, RNG_TEST);
    int64_t at[3], most[3];
    for (int k = 0; k < 3; k++) {
        most[k] = s->sizes[k] > 0 ? s->sizes[k] : 1;
    }
    for (at[0] = 0; at[0] < most[0]; at[0]++) {
        for (at[1] = 0; at[1] < most[1]; at[1]++) {
            for (at[2] = 0; at[2] < most[2]; at[2]++) {
                const bool has = s->corner ? !in_corner(s, at) : rng_uniform(&rng) < s->share;
                const bool twice = rng_uniform(&rng) < s->twice;
                for (int i = 0; i < (has ? 1 + twice : 0); i++) {
                    add_row(f, s, at);
                }
            }
        }
    }
}

static struct grid_fixture *fixture_new(struct backend *be, const struct shape *s)
{
    struct grid_fixture *f = mem_zalloc(sizeof *f);
    f->be = be;
    place_rows(f, s);
    const int64_t n = f->n;
    f->kernel = (struct kernel){.id = s->kernel, .d = FEATURES, .bandwidths = bandwidths};
    f->host = (struct rows){.dtype = DTYPE_F64, .n = n, .d = FEATURES, .data = f->x};
    double *one = host_zeros(n * n);
    for (int64_t i = 0; i < n; i++) {
        one[i + i * n] = 1.0;
    }
    f->identity = device_mat(be, s->vectors, n, n, one);
    f->P = device_mat(be, s->vectors, n, n, NULL);
    mem_free(one);
    f->problem = (struct problem){.be = be,
                                  .host = &f->host,
                                  .kernel = &f->kernel,
                                  .n = n,
                                  .t = n,
                                  .d = FEATURES,
                                  .ridge = (double)n * s->lambda,
                                  .dtype = s->vectors,
                                  .points_dtype = DTYPE_F64,
                                  .seed = 5};
    return f;
}

static void fixture_free(struct grid_fixture *f)
{
    f->be->ops->mat_free(f->be, &f->identity);
    f->be->ops->mat_free(f->be, &f->P);
    mem_free(f);
}

static int try_setup(const struct grid_fixture *f, struct precond **ret, struct err *err)
{
    const struct param_set none = {0};
    return precond_kronecker_ops.setup(&f->problem, &none, ret, err);
}

static int build_all(struct precond *m, struct err *err)
{
    double before = 0.0, fraction = 0.0;
    int r = 0;
    for (int i = 0; r == 0 && i < 100; i++) {
        r = precond_kronecker_ops.build(m, &fraction, err);
        assert_true(r < 0 || (fraction >= before && fraction <= 1.0));
        before = fraction;
    }
    return r;
}

/* P^-1, applied to the identity. */
static double *inverse(struct grid_fixture *f)
{
    struct precond *m = NULL;
    must(try_setup(f, &m, &err));
    assert_int_equal(build_all(m, NULL), 1);
    must(precond_kronecker_ops.apply(m, &f->identity, &f->P, &err));
    precond_kronecker_ops.teardown(m);
    return device_get(f->be, &f->P);
}

/* The largest entry of P^-1 (K + ridge I) - I. */
static double error_of(const struct grid_fixture *f, const double *P)
{
    const int64_t n = f->n;
    double most = 0.0, *K = host_zeros(n * n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            K[i + j * n] = kernel_eval(&f->kernel, f->x + i * FEATURES, f->x + j * FEATURES) +
                           (i == j ? f->problem.ridge : 0.0);
        }
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            double sum = i == j ? -1.0 : 0.0;
            for (int64_t k = 0; k < n; k++) {
                sum += P[i + k * n] * K[k + j * n];
            }
            most = fmax(most, fabs(sum));
        }
    }
    mem_free(K);
    return most;
}

static void check_definite(const struct grid_fixture *f, const double *P)
{
    const int64_t n = f->n;
    double most = 0.0, *copy = host_zeros(n * n);
    for (int64_t i = 0; i < n * n; i++) {
        most = fmax(most, fabs(P[i]));
        copy[i] = P[i];
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < j; i++) {
            assert_true(fabs(P[i + j * n] - P[j + i * n]) <= 1e-6 * most);
        }
    }
    assert_true(host_factor(copy, n));
    mem_free(copy);
}

static void check(struct backend *be, const struct shape *s, double error)
{
    struct grid_fixture *f = fixture_new(be, s);
    double *P = inverse(f);
    assert_true(error_of(f, P) < error);
    if (s->vectors == DTYPE_F64) {
        check_definite(f, P);
    }
    mem_free(P);
    fixture_free(f);
}

static const enum kernel_id kernels[] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN_L1};

static void test_a_full_grid_has_the_inverse(void **state)
{
    for (int i = 0; i < 2; i++) {
        const struct shape shapes[] = {
            {kernels[i], {150, 0, 0}, 1.0, 0.0, 1e-5, DTYPE_F64, false},
            {kernels[i], {12, 0, 15}, 1.0, 0.0, 1e-6, DTYPE_F64, false},
            {kernels[i], {5, 6, 7}, 1.0, 0.0, 1e-6, DTYPE_F64, false},
            {kernels[i], {5, 6, 4}, 1.0, 1.0, 1e-5, DTYPE_F64, false}, /* every row twice */
        };
        for (int k = 0; k < 4; k++) {
            check(*state, &shapes[k], 1e-6);
        }
        const struct shape single = {kernels[i], {5, 6, 7}, 1.0, 0.0, 1e-3, DTYPE_F32, false};
        check(*state, &single, 1e-3);
    }
}

static void test_gaps_and_repeated_rows(void **state)
{
    for (int i = 0; i < 2; i++) {
        const struct shape shapes[] = {
            {kernels[i], {14, 16, 0}, 0.8, 0.0, 1e-4, DTYPE_F64, false},
            {kernels[i], {6, 6, 7}, 0.7, 0.3, 1e-5, DTYPE_F64, false},
            {kernels[i], {200, 0, 0}, 0.9, 0.1, 1e-5, DTYPE_F64, false},
        };
        for (int k = 0; k < 3; k++) {
            check(*state, &shapes[k], 2e-2);
        }
    }
}

/* A quarter of the places is missing side by side: what the steps do not reach stays definite. */
static void test_gaps_that_lie_together(void **state)
{
    const struct shape s = {KERNEL_LAPLACIAN_L1, {16, 20, 0}, 1.0, 0.0, 1e-9, DTYPE_F64, true};
    struct grid_fixture *f = fixture_new(*state, &s);
    double *P = inverse(f);
    check_definite(f, P);
    mem_free(P);
    fixture_free(f);
}

static void check_refused(struct grid_fixture *f, const char *why)
{
    struct precond *m = NULL;
    struct err err = {.code = ERR_OK};
    assert_int_equal(try_setup(f, &m, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/solver/preconditioner");
    assert_non_null(strstr(err.detail, why));
}

static void test_what_is_refused(void **state)
{
    const struct shape s = {KERNEL_GAUSSIAN, {6, 6, 7}, 0.8, 0.0, 1e-5, DTYPE_F64, false};
    struct grid_fixture *f = fixture_new(*state, &s);
    f->kernel.id = KERNEL_MATERN52;
    check_refused(f, "products over the features");
    f->kernel.id = KERNEL_GAUSSIAN;
    for (int64_t i = 0; i < f->n; i++) {
        f->x[i * FEATURES] += 1e-9 * (double)i; /* as measurements are */
    }
    check_refused(f, "on a grid");
    for (int64_t i = 0; i < f->n * FEATURES; i++) {
        f->x[i] = 1.0; /* all the same */
    }
    check_refused(f, "rows are equal");
    f->problem.host = NULL;
    check_refused(f, "kronecker");
    fixture_free(f);
}

static void test_without_memory(void **state)
{
    const struct shape s = {KERNEL_GAUSSIAN, {6, 6, 7}, 0.8, 0.1, 1e-5, DTYPE_F64, false};
    struct backend *be = *state;
    struct grid_fixture *f = fixture_new(be, &s);
    const int64_t before = be->bytes;
    int r = -ERR_NO_MEMORY;
    for (int64_t nth = 1; r != 1 && nth < 200; nth++) {
        struct precond *m = NULL;
        mem_fail_nth(nth);
        r = try_setup(f, &m, NULL);
        r = r == 0 ? build_all(m, NULL) : r;
        mem_fail_nth(0);
        assert_true(r == 1 || r == -ERR_NO_MEMORY);
        if (m != NULL) {
            precond_kronecker_ops.teardown(m);
        }
        assert_true(be->bytes == before);
    }
    assert_int_equal(r, 1);
    fixture_free(f);
}

/* ---- pcg ---- */

static struct solver *begin(const struct grid_fixture *f)
{
    const struct solver_options options = options_make("pcg", "kronecker", 1e-9);
    struct solver *s = NULL;
    must(solver_find("pcg")->setup(&f->problem, &options, &s, &err));
    return s;
}

/* Until so many iterations are done, or none is left; the coefficients. */
static double *run(struct grid_fixture *f, struct solver *s, int64_t iterations)
{
    const struct solver_ops *pcg = solver_find("pcg");
    struct step_report at = {.iteration = 0};
    int r = 0;
    for (int i = 0; r == 0 && (at.iteration < iterations || !at.usable); i++) {
        assert_true(i < 200);
        r = pcg->step(s, &at, NULL);
    }
    assert_true(r == 0 || r == REASON_CONVERGED);
    assert_true(at.iteration <= 4);
    must(pcg->coef(s, &f->P, &err));
    return device_get(f->be, &f->P);
}

/* Interrupted after an iteration, it goes on to the same bits. */
static void test_pcg_goes_on(void **state)
{
    const struct shape s = {KERNEL_GAUSSIAN, {6, 6, 7}, 0.8, 0.1, 1e-5, DTYPE_F64, false};
    struct grid_fixture *f = fixture_new(*state, &s);
    struct points *X = device_points(f->be, &f->kernel, DTYPE_F64, f->n, f->x);
    f->problem.X = X;
    f->problem.Y = f->identity;
    const struct solver_ops *pcg = solver_find("pcg");
    struct solver *first = begin(f), *second = begin(f);
    struct state *saved = state_new();
    mem_free(run(f, first, 1));
    must(pcg->save(first, saved, &err));
    struct state *read = state_through_file(saved);
    must(pcg->load(second, read, &err));
    double *straight = run(f, first, 100), *late = run(f, second, 100);
    assert_memory_equal(straight, late, (size_t)(f->n * f->n) * sizeof *late);
    mem_free(straight);
    mem_free(late);
    state_free(read);
    state_free(saved);
    pcg->teardown(first);
    pcg->teardown(second);
    f->be->ops->points_free(f->be, X);
    fixture_free(f);
}

/* Asked between its products, it stops where it is told to. */
static int refuse(void *context, struct err *err)
{
    int *left = context;
    return --*left < 0 ? err_set(err, ERR_CANCELLED, "stop") : 0;
}

static void test_stops_when_asked(void **state)
{
    const struct shape s = {KERNEL_GAUSSIAN, {6, 6, 7}, 0.8, 0.1, 1e-5, DTYPE_F64, false};
    struct backend *be = *state;
    struct grid_fixture *f = fixture_new(be, &s);
    struct precond *m = NULL;
    must(try_setup(f, &m, &err));
    assert_int_equal(build_all(m, NULL), 1);
    int left = 2;
    be->stop = refuse;
    be->stop_context = &left;
    assert_int_equal(precond_kronecker_ops.apply(m, &f->identity, &f->P, NULL), -ERR_CANCELLED);
    be->stop = NULL;
    precond_kronecker_ops.teardown(m);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_grid_has_the_inverse),
        cmocka_unit_test(test_gaps_and_repeated_rows),
        cmocka_unit_test(test_gaps_that_lie_together),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_pcg_goes_on),
        cmocka_unit_test(test_stops_when_asked),
    };
    return cmocka_run_group_tests(tests, device_setup_two, device_teardown);
}
