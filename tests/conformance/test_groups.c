/*
 * A backend compares its fast products with slow ones when it opens: it says what is wrong and does
 * without, and products are right. KRR_NOTICE is how the notice begins; empty: there is none.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"

enum { N = 200, D = 100 }; /* more than short_products.cuh takes */

static void test_notice(void **state)
{
    (void)state;
    const char *notice = getenv("KRR_NOTICE");
    struct backend *be = device_open(1);
    assert_non_null(notice);
    assert_true(strncmp(be->notice, notice, strlen(notice)) == 0);
    assert_int_equal(be->notice[0] == '\0', notice[0] == '\0');
    assert_int_equal(be->kernel_entries, 0);
    device_close(be);
}

/* Points that products by groups would take, and a vector of ones. */
struct fixture {
    struct backend *be;
    struct kernel kernel;
    double *x; /* [N, D] */
    struct points *points;
    struct mat V, Y;
};

static struct fixture fixture_new(void)
{
    struct rng rng = rng_new(5, RNG_TEST);
    struct fixture f = {.be = device_open(1), .kernel = usual_kernel(KERNEL_GAUSSIAN, D)};
    double *ones = host_zeros(N);
    f.x = host_normal(&rng, N * D);
    host_round(f.x, N * D, DTYPE_F32);
    for (int i = 0; i < N; i++) {
        ones[i] = 1.0;
    }
    const struct rows X = {.dtype = DTYPE_F64, .n = N, .d = D, .data = f.x};
    must(f.be->ops->points_new(f.be, &f.kernel, DTYPE_F32, &X, &f.points, &err));
    f.V = device_mat(f.be, DTYPE_F32, N, 1, ones);
    f.Y = device_mat(f.be, DTYPE_F32, N, 1, NULL);
    mem_free(ones);
    return f;
}

static void fixture_free(struct fixture *f)
{
    f->be->ops->mat_free(f->be, &f->V);
    f->be->ops->mat_free(f->be, &f->Y);
    f->be->ops->points_free(f->be, f->points);
    mem_free(f->x);
    device_close(f->be);
}

/* ret <- K v. */
static void multiply(const struct fixture *f, const double *v, double *ret)
{
    for (int i = 0; i < N; i++) {
        ret[i] = 0.0;
        for (int j = 0; j < N; j++) {
            ret[i] += v[j] * kernel_eval(&f->kernel, f->x + (size_t)i * D, f->x + (size_t)j * D);
        }
    }
}

static double *product(const struct fixture *f)
{
    const struct view all = view_all(f->points, N);
    must(f->be->ops->kmv(f->be, all, all, 1.0, &f->V, 0.0, &f->Y, &err));
    return device_get(f->be, &f->Y);
}

/* Computed, and from values that are kept: the same bits. */
static void test_products_are_right(void **state)
{
    (void)state;
    struct fixture f = fixture_new();
    double ones[N], sums[N];
    int64_t bytes = 0;
    for (int i = 0; i < N; i++) {
        ones[i] = 1.0;
    }
    multiply(&f, ones, sums);
    double *y = product(&f);
    must(f.be->ops->points_cache(f.be, f.points, INT64_MAX / 2, KERNEL_STORE_EXACT, &bytes, &err));
    assert_true(bytes > 0);
    double *kept = product(&f);
    for (int i = 0; i < N; i++) {
        assert_near(y[i], sums[i], 1e-5 * sums[i]);
        assert_same_bits(y[i], kept[i]);
    }
    mem_free(y);
    mem_free(kept);
    fixture_free(&f);
}

/* Values that are stored for a transpose. */
static void test_normal_products_are_right(void **state)
{
    (void)state;
    struct fixture f = fixture_new();
    const struct view all = view_all(f.points, N);
    double ones[N], once[N], twice[N];
    for (int i = 0; i < N; i++) {
        ones[i] = 1.0;
    }
    multiply(&f, ones, once);
    multiply(&f, once, twice);
    must(f.be->ops->kmtkv(f.be, all, all, NULL, &f.V, NULL, NULL, false, &f.Y, &err));
    double *y = device_get(f.be, &f.Y);
    for (int i = 0; i < N; i++) {
        assert_near(y[i], twice[i], 2e-5 * twice[i]);
    }
    mem_free(y);
    fixture_free(&f);
}

TEST_MAIN(cmocka_unit_test(test_notice), cmocka_unit_test(test_products_are_right),
          cmocka_unit_test(test_normal_products_are_right))
