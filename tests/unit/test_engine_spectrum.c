#include "engine/methods/spectrum.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine_fixture.h"

enum { N = 20 };

/* A = H diag(values) H with the reflection H = I - 2 u u'. */
static void fill(const double *values, double A[N * N])
{
    struct rng rng = rng_new(5, RNG_TEST);
    double u[N], size = 0;
    for (int i = 0; i < N; i++) {
        u[i] = rng_normal(&rng);
        size += u[i] * u[i];
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            A[i + j * N] = 0;
            for (int k = 0; k < N; k++) {
                const double left = (i == k ? 1.0 : 0.0) - 2.0 * u[i] * u[k] / size;
                const double right = (j == k ? 1.0 : 0.0) - 2.0 * u[j] * u[k] / size;
                A[i + j * N] += left * values[k] * right;
            }
        }
    }
}

struct ends {
    double largest, smallest;
};

static struct ends ends_of(const double *values)
{
    struct backend *be = fixture_backend();
    double host[N * N], ones[N];
    struct mat A = {0}, L = {0}, z = {0};
    struct ends found;
    fill(values, host);
    for (int i = 0; i < N; i++) {
        ones[i] = 1.0 + 0.1 * i;
    }
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, N, N, &A, NULL), 0);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, N, N, &L, NULL), 0);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, N, 1, &z, NULL), 0);
    assert_int_equal(be->ops->mat_put(be, host, N, &A, NULL), 0);
    assert_int_equal(be->ops->mat_put(be, ones, N, &z, NULL), 0);
    assert_int_equal(spectrum_largest(be, &A, 3, &found.largest, NULL), 0);
    assert_int_equal(spectrum_smallest(be, &A, &L, &z, &found.smallest, NULL), 0);
    be->ops->mat_free(be, &z);
    be->ops->mat_free(be, &L);
    be->ops->mat_free(be, &A);
    backend_close(be);
    return found;
}

/* The largest from below, the smallest from above, both to many digits where there is a gap. */
static void test_ends_of_a_known_spectrum(void **state)
{
    (void)state;
    double values[N];
    for (int i = 0; i < N; i++) {
        values[i] = 1.0 + i;
    }
    values[0] = 1e-3;
    values[N - 1] = 100.0;
    const struct ends found = ends_of(values);
    assert_close(found.largest, 100.0, 1e-12);
    assert_true(found.largest <= 100.0 * (1 + 1e-13));
    assert_close(found.smallest, 1e-3, 1e-6);
    assert_true(found.smallest >= 1e-3 * (1 - 1e-9));
}

static void test_close_values_are_bounds(void **state)
{
    (void)state;
    double values[N];
    for (int i = 0; i < N; i++) {
        values[i] = 1.0 + 1e-3 * i;
    }
    const struct ends found = ends_of(values);
    assert_true(found.largest <= 1.019 + 1e-12 && found.largest >= 1.0);
    assert_true(found.smallest >= 1.0 - 1e-12 && found.smallest <= 1.019);
}

/* Nothing to power; nothing that could be told from rounding. */
static void test_singular(void **state)
{
    (void)state;
    const double zeros[N] = {0};
    struct ends found = ends_of(zeros);
    assert_close(found.largest, 0.0, 0);
    assert_close(found.smallest, 0.0, 0);
    double values[N];
    for (int i = 0; i < N; i++) {
        values[i] = i < 3 ? -1e-9 : 1.0;
    }
    found = ends_of(values);
    assert_close(found.largest, 1.0, 1e-12);
    assert_close(found.smallest, 0.0, 0);
}

TEST_MAIN(cmocka_unit_test(test_ends_of_a_known_spectrum),
          cmocka_unit_test(test_close_values_are_bounds), cmocka_unit_test(test_singular))
