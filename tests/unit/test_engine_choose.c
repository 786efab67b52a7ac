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

TEST_MAIN(cmocka_unit_test(test_kernel_follows_smoothness),
          cmocka_unit_test(test_few_rows_take_gaussian))
