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
                          enum dtype dtype)
{
    const struct backend_ops ops = {.name = "test", .memory_available = memory_of_test};
    struct backend be = {.ops = &ops};
    assert_string_equal(choose_solver(&be, n, d, regularization, dtype), solver);
}

static void test_solver_follows_memory_and_cost(void **state)
{
    (void)state;
    room = INT64_MAX;
    assert_chosen("cholesky", 12120, 18, 1e-6, DTYPE_F64); /* 12 (50 * 18 + 110) */
    assert_chosen("pcg", 12121, 18, 1e-6, DTYPE_F64);
    assert_chosen("cholesky", 12120, 18, 1e-9, DTYPE_F32);
    assert_chosen("pcg", 12121, 18, 1e-9, DTYPE_F32);
    assert_chosen("cholesky", 24000, 18, 1e-9, DTYPE_F64);
    assert_chosen("pcg", 24001, 18, 1e-9, DTYPE_F64);
    assert_chosen("pcg", 12120, 3, 1e-6, DTYPE_F64);
    assert_chosen("cholesky", 25920, 64, 1e-6, DTYPE_F64);
    assert_chosen("pcg", 25921, 435, 1e-6, DTYPE_F64);
    assert_chosen("pcg", INT64_C(1) << 40, 435, 0, DTYPE_F64);
    room = 4 * 1000 * 1000 * 8;
    assert_chosen("cholesky", 1000, 3, 0, DTYPE_F64);
    assert_chosen("pcg", 1001, 3, 0, DTYPE_F64);
    assert_chosen("cholesky", 1414, 3, 1e-3, DTYPE_F64);
    assert_chosen("pcg", 1415, 3, 1e-3, DTYPE_F64);
}

TEST_MAIN(cmocka_unit_test(test_kernel_follows_smoothness),
          cmocka_unit_test(test_few_rows_take_gaussian),
          cmocka_unit_test(test_solver_follows_memory_and_cost))
