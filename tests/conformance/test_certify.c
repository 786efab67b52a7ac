/* The certificate by sampled rows against the whole one, on residuals of many shapes. */
#include "engine/solve/certify.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

enum { N = 400, T = 2, ROWS = 200, SEEDS = 40 };

/* What coefficients leave over: `size` times |y| in all, evenly or in a few rows. */
enum shape { EVEN, HEAVY, ONE_ROW };

static void residual_of_shape(enum shape shape, struct rng *rng, double *ret)
{
    double square = 0;
    for (int i = 0; i < N; i++) {
        const double u = rng_uniform(rng);
        const double e = rng_normal(rng);
        ret[i] = shape == EVEN ? e : shape == HEAVY ? e / (u * u) : 1e-6 * e;
    }
    if (shape == ONE_ROW) {
        ret[rng_below(rng, N)] = 1;
    }
    for (int i = 0; i < N; i++) {
        square += ret[i] * ret[i];
    }
    for (int i = 0; i < N; i++) {
        ret[i] /= sqrt(square);
    }
}

/* Coefficients with Y - (K + ridge I) A = size |Y| times a residual of that shape, by L. */
static void set_coefficients(const struct fixture *f, const double *L, enum shape shape,
                             double size, struct rng *rng)
{
    double *A = host_zeros(N * T);
    for (int c = 0; c < T; c++) {
        double *a = A + c * N, yy = 0;
        residual_of_shape(shape, rng, a);
        for (int i = 0; i < N; i++) {
            yy += f->Y[i + c * N] * f->Y[i + c * N];
        }
        for (int i = 0; i < N; i++) {
            a[i] = f->Y[i + c * N] - size * sqrt(yy) * a[i];
        }
    }
    host_solve(L, N, A, T);
    must(f->be->ops->mat_put(f->be, A, N, &f->A, &err));
    mem_free(A);
}

struct tally {
    int missed, off; /* bounds below the truth; estimates more than a third from it */
    double loosest;  /* largest bound / truth */
};

static struct tally try_seeds(const struct fixture *f, const double *L, enum shape shape,
                              double size)
{
    struct tally tally = {.missed = 0};
    struct rng rng = rng_new(1, RNG_TEST);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        set_coefficients(f, L, shape, size, &rng);
        double truth;
        struct certificate c;
        must(certify_residual(&f->problem, &f->kernel, &f->host, &f->A, NULL, &truth, &err));
        must(certify_sampled(&f->problem, &f->kernel, &f->host, &f->A, ROWS, seed, NULL, &c, &err));
        assert_true(c.sampled && c.residual <= c.bound);
        tally.missed += c.bound < truth;
        tally.off += fabs(c.residual / truth - 1) > 1.0 / 3.0;
        tally.loosest = fmax(tally.loosest, c.bound / truth);
    }
    return tally;
}

static void test_bound_covers_the_truth(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_MATERN32,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = N,
                                      .d = 3,
                                      .t = T,
                                      .lambda = 1e-5,
                                      .seed = 2};
    fixture_init(&f, *state, &spec);
    double *L = fixture_matrix(&f);
    assert_true(host_factor(L, N));
    const struct {
        enum shape shape;
        double size, loosest;
    } cases[] = {{EVEN, 0.3, 2},
                 {EVEN, 1e-3, 2},
                 {HEAVY, 0.3, 2},
                 {HEAVY, 1e-3, 2},
                 {ONE_ROW, 0.3, 2},
                 {ONE_ROW, 1e-3, 2},
                 /* Far below what float32 kernel values can see: as good as uniform rows, so that
                    only an even residual can be judged. */
                 {EVEN, 1e-9, 6}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        const struct tally t = try_seeds(&f, L, cases[k].shape, cases[k].size);
        if (t.missed > 0 || t.off > 0 || t.loosest > cases[k].loosest) {
            fail_msg("case %d: %d missed, %d off, bound at most %.3g times", (int)k, t.missed,
                     t.off, t.loosest);
        }
    }
    mem_free(L);
    fixture_deinit(&f);
}

/* Infinity and NaN are told, not averaged away; a column of zeros needs no coefficients. */
static void test_awkward_columns(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = N,
                                      .d = 2,
                                      .t = T,
                                      .lambda = 1e-3};
    fixture_init(&f, *state, &spec);
    struct certificate c;
    memset(f.Y + N, 0, N * sizeof(double));
    must(f.be->ops->mat_put(f.be, f.Y, N, &f.problem.Y, &err));
    must(certify_sampled(&f.problem, &f.kernel, &f.host, &f.A, ROWS, 0, NULL, &c, &err));
    assert_close(c.residual, 1.0, 0.2); /* A = 0: the first column's residual is its target */
    assert_true(c.bound >= 1.0);
    double *A = host_zeros(N * T);
    A[3] = NAN;
    must(f.be->ops->mat_put(f.be, A, N, &f.A, &err));
    must(certify_sampled(&f.problem, &f.kernel, &f.host, &f.A, ROWS, 0, NULL, &c, &err));
    assert_true(isnan(c.residual) && isnan(c.bound));
    mem_free(A);
    fixture_deinit(&f);
}

/* Kernel values that overflow float32 tell nothing of the rows that are not drawn: the estimate
 * stands, and no bound is claimed. */
static void test_no_bound_without_rough_residuals(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_POLYNOMIAL,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = N,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-3};
    fixture_init(&f, *state, &spec);
    for (int64_t i = 0; i < N * 2; i++) {
        f.X[i] *= 1e10;
    }
    f.kernel.degree = 4;
    double *A = host_zeros(N);
    for (int64_t i = 0; i < N; i++) {
        A[i] = i % 2 == 0 ? 1e-60 : -1e-60;
    }
    must(f.be->ops->mat_put(f.be, A, N, &f.A, &err));
    double whole;
    struct certificate c;
    must(certify_residual(&f.problem, &f.kernel, &f.host, &f.A, NULL, &whole, &err));
    must(certify_sampled(&f.problem, &f.kernel, &f.host, &f.A, ROWS, 0, NULL, &c, &err));
    assert_true(isfinite(whole) && isfinite(c.residual));
    assert_true(isnan(c.bound));
    mem_free(A);
    fixture_deinit(&f);
}

static bool stop_at_zero(void *context)
{
    int *left = context;
    return (*left)-- == 0;
}

/* In pieces the residual is the same but for the order of its sums, and drawn rows have the same
 * bits; asked before each piece, which ends it there. */
static void test_pieces(void **state)
{
    enum { SMALL = 7, DRAWN = 30 };
    struct fixture f;
    struct err why;
    const struct fixture_spec spec = {.kernel = KERNEL_MATERN52,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = N,
                                      .d = 3,
                                      .t = T,
                                      .lambda = 1e-3};
    fixture_init(&f, *state, &spec);
    const struct view all = view_all(f.points, N);
    const double small = SMALL * N + 0.5;
    int64_t index[DRAWN];
    for (int64_t k = 0; k < DRAWN; k++) {
        index[k] = k * k % N;
    }
    const struct view views[] = {all, view_index(f.points, index, DRAWN)};
    for (int v = 0; v < 2; v++) {
        const int64_t rows = views[v].count;
        struct mat whole, parts;
        must(f.be->ops->mat_new(f.be, DTYPE_F64, rows, T, &whole, &err));
        must(f.be->ops->mat_new(f.be, DTYPE_F64, rows, T, &parts, &err));
        int left = -1;
        const struct certify_stop stop = {.asked = stop_at_zero, .context = &left};
        must(certify_subtract(f.be, views[v], all, 1e9, &f.problem.Y, NULL, &whole, &err));
        must(certify_subtract(f.be, views[v], all, small, &f.problem.Y, &stop, &parts, &err));
        assert_int_equal(-1 - left, (rows + SMALL - 1) / SMALL);
        double *a = host_zeros(rows * T), *b = host_zeros(rows * T);
        must(f.be->ops->mat_get(f.be, &whole, a, rows, &err));
        must(f.be->ops->mat_get(f.be, &parts, b, rows, &err));
        for (int64_t i = 0; i < rows * T; i++) {
            assert_true(a[i] != 0);
            assert_near(b[i], a[i], v == 1 ? 0.0 : 1e-12 * N);
        }
        left = 2;
        assert_int_equal(
            certify_subtract(f.be, views[v], all, small, &f.problem.Y, &stop, &parts, &why),
            -ERR_CANCELLED);
        mem_free(a);
        mem_free(b);
        f.be->ops->mat_free(f.be, &whole);
        f.be->ops->mat_free(f.be, &parts);
    }
    fixture_deinit(&f);
}

/* Both certificates ask before each product with K. */
static void test_can_be_stopped(void **state)
{
    struct fixture f;
    struct err why;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = N,
                                      .d = 2,
                                      .t = T,
                                      .lambda = 1e-3};
    fixture_init(&f, *state, &spec);
    const int64_t bytes = f.be->bytes;
    struct certificate c;
    double whole;
    int left = 0;
    const struct certify_stop stop = {.asked = stop_at_zero, .context = &left};
    assert_int_equal(certify_residual(&f.problem, &f.kernel, &f.host, &f.A, &stop, &whole, &why),
                     -ERR_CANCELLED);
    for (int k = 0; k < 2; k++) {
        left = k;
        assert_int_equal(
            certify_sampled(&f.problem, &f.kernel, &f.host, &f.A, ROWS, 0, &stop, &c, &why),
            -ERR_CANCELLED);
    }
    assert_int_equal(f.be->bytes, bytes);
    fixture_deinit(&f);
}

/* Where products go by a grid, the exact points would repeat its errors, for which points that lie
 * a little elsewhere stand: the certificate is by points of its own. */
static void test_by_no_grid(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F32,
                                      .vectors = DTYPE_F64,
                                      .n = 90,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-6};
    fixture_init(&f, *state, &spec);
    must(f.be->ops->mat_put(f.be, f.Y, f.n, &f.A, &err));
    double truth, found;
    must(certify_residual(&f.problem, &f.kernel, &f.host, &f.A, NULL, &truth, &err));
    struct rows elsewhere = f.host;
    double *X = host_zeros(f.n * f.d);
    for (int64_t i = 0; i < f.n * f.d; i++) {
        X[i] = f.X[i] * 1.001;
    }
    elsewhere.data = X;
    struct points *off;
    must(f.be->ops->points_new(f.be, &f.kernel, DTYPE_F64, &elsewhere, &off, &err));
    struct problem problem = f.problem;
    problem.exact = off;
    must(certify_residual(&problem, &f.kernel, &f.host, &f.A, NULL, &found, &err));
    assert_true(fabs(found - truth) > 1e-6 * truth);
    problem.product_share = 0.1;
    must(certify_residual(&problem, &f.kernel, &f.host, &f.A, NULL, &found, &err));
    assert_same_bits(found, truth);
    f.be->ops->points_free(f.be, off);
    mem_free(X);
    fixture_deinit(&f);
}

/* Up to 100,000 rows every row, of more only where the solve itself took twenty products. */
static void test_rule(void **state)
{
    (void)state;
    assert_false(certify_samples(100000, 0));
    assert_true(certify_samples(100001, 0));
    assert_false(certify_samples(1000000, INT64_C(20) * 1000000 * 1000000));
    assert_true(certify_samples(1000000, INT64_C(19) * 1000000 * 1000000));
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)

TEST_MAIN(on_device(test_bound_covers_the_truth), on_device(test_awkward_columns),
          on_device(test_no_bound_without_rough_residuals), on_device(test_pieces),
          on_device(test_can_be_stopped), on_device(test_by_no_grid), cmocka_unit_test(test_rule))
