#include "engine/choose.h"

#include <math.h>

#include "base/rng.h"
#include "engine_fixture.h"

enum { N = 600, D = 2 };

static enum kernel_id choose(int64_t n, double (*f)(double, double), uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double X[N * D], Y[N];
    for (int64_t i = 0; i < n; i++) {
        X[i * D] = rng_normal(&rng);
        X[i * D + 1] = rng_normal(&rng);
        Y[i] = f(X[i * D], X[i * D + 1]);
    }
    struct backend *be = fixture_backend();
    const struct rows rows = {.dtype = DTYPE_F64, .n = n, .d = D, .data = X};
    const struct choose_data data = {.be = be,
                                     .X = &rows,
                                     .Y = Y,
                                     .t = 1,
                                     .points_dtype = DTYPE_F64,
                                     .regularization = 1e-6,
                                     .seed = seed};
    enum kernel_id id = KERNEL_COUNT_;
    assert_int_equal(choose_kernel(&data, &id, NULL), 0);
    assert_int_equal(be->bytes, 0);
    backend_close(be);
    return id;
}

static double smooth(double a, double b)
{
    return sin(a) * cos(b);
}

/* A step and a kink: what an analytic kernel fits badly. */
static double rough(double a, double b)
{
    return fabs(sin(3 * a)) + (b > 0.3 ? 1.0 : 0.0);
}

static void test_kernel_follows_smoothness(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        assert_int_equal(choose(N, smooth, seed), KERNEL_GAUSSIAN);
        assert_int_equal(choose(N, rough, seed), KERNEL_LAPLACIAN);
    }
}

static void test_few_rows_take_gaussian(void **state)
{
    (void)state;
    assert_int_equal(choose(19, rough, 0), KERNEL_GAUSSIAN);
    assert_int_equal(choose(1, rough, 0), KERNEL_GAUSSIAN);
}

static int64_t room;

static int64_t memory_of_test(struct backend *be)
{
    (void)be;
    return room;
}

static void assert_chosen(const char *solver, int64_t n, int64_t d, double regularization,
                          enum precision precision)
{
    const struct backend_ops ops = {.name = "test", .memory_available = memory_of_test};
    struct backend be = {.ops = &ops};
    assert_string_equal(choose_solver(&be, n, d, regularization, precision), solver);
}

/* The last number of rows that is factorised. */
static void assert_last(int64_t n, int64_t d, double regularization, enum precision precision)
{
    assert_chosen("cholesky", n, d, regularization, precision);
    assert_chosen("pcg", n + 1, d, regularization, precision);
}

static void test_solver_follows_memory_and_cost(void **state)
{
    (void)state;
    room = INT64_MAX;
    assert_last(4560, 18, 1e-6, PRECISION_MIXED); /* 12 (30 * 9 + 110) */
    assert_last(4560, 435, 1e-6, PRECISION_MIXED);
    assert_last(3210, 3, 1e-6, PRECISION_MIXED);
    assert_last(11460, 18, 1e-9, PRECISION_MIXED); /* 6 (200 * 9 + 110) */
    assert_last(4560, 18, 1e-9, PRECISION_FLOAT32);
    assert_last(7800, 18, 1e-6, PRECISION_FLOAT64);
    assert_last(22260, 18, 1e-9, PRECISION_FLOAT64);
    assert_chosen("pcg", INT64_C(1) << 40, 435, 0, PRECISION_MIXED);
    room = 4 * 1000 * 1000 * 8;
    assert_last(1000, 3, 0, PRECISION_MIXED);
    assert_last(1414, 3, 1e-3, PRECISION_MIXED);
}

TEST_MAIN(cmocka_unit_test(test_kernel_follows_smoothness),
          cmocka_unit_test(test_few_rows_take_gaussian),
          cmocka_unit_test(test_solver_follows_memory_and_cost))
