/*
 * Products of points with many features, whose distances a backend may take from inner products by
 * units of its own, and with few, which it may lay out in another way: every kernel, one and
 * several right-hand sides, between points and of points with themselves, against the float64
 * triple loop; rows far from all others, rows that are equal or nearly so, and what single values
 * lose.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"

/* Points, most of them normal. */
struct cloud {
    struct backend *be;
    struct kernel kernel;
    enum dtype dtype; /* of the points */
    int64_t n;
    double *x; /* [n, d] */
    struct points *points;
};

static double *row(const struct cloud *c, int64_t i)
{
    return c->x + i * c->kernel.d;
}

/* Every 16th row is another one's, the row behind it nearly that; and rows come far out, by factors
 * that some ways to distances bear and others do not, when `spread`. */
static void place_rows(struct cloud *c, bool spread)
{
    static const double factors[] = {1.5, 2.0, 3.0, 10.0, 1e3, 1e6};
    for (int64_t i = 16; i < c->n; i += 16) {
        for (int64_t j = 0; j < c->kernel.d; j++) {
            row(c, i)[j] = row(c, i - 7)[j];
            if (i + 1 < c->n) {
                row(c, i + 1)[j] = row(c, i)[j] * (1.0 + 1e-3 * (double)(j % 3));
            }
        }
    }
    for (int64_t i = 5; spread && i < c->n; i += 37) {
        for (int64_t j = 0; j < c->kernel.d; j++) {
            row(c, i)[j] *= factors[i / 37 % 6];
        }
    }
}

static void load(struct cloud *c)
{
    const struct rows X = {.dtype = DTYPE_F64, .n = c->n, .d = c->kernel.d, .data = c->x};
    must(c->be->ops->points_new(c->be, &c->kernel, c->dtype, &X, &c->points, &err));
}

/* `narrow`: the usual bandwidth is divided by it. */
static struct cloud cloud_new(struct backend *be, enum kernel_id id, enum dtype dtype, int64_t n,
                              int64_t d, bool spread, double narrow)
{
    struct rng rng = rng_new((uint64_t)(n + d), RNG_TEST);
    struct cloud c = {.be = be,
                      .kernel = usual_kernel(id, d),
                      .dtype = dtype,
                      .n = n,
                      .x = host_normal(&rng, n * d)};
    c.kernel.bandwidth /= narrow;
    place_rows(&c, spread);
    host_round(c.x, n * d, DTYPE_F32);
    load(&c);
    return c;
}

static void cloud_free(struct cloud *c)
{
    c->be->ops->points_free(c->be, c->points);
    mem_free(c->x);
}

/* k(x, z), and its size where inner products cancel. */
static double entry(const struct kernel *k, const double *x, const double *z, double *ret_size)
{
    const double value = kernel_eval(k, x, z);
    double sum = 0.0;
    for (int64_t j = 0; j < k->d; j++) {
        sum += fabs(x[j] * z[j]);
    }
    sum = k->gamma * sum + fabs(k->coef0);
    *ret_size = kernel_uses_distance(k->id)  ? value
                : k->id == KERNEL_POLYNOMIAL ? pow(sum, k->degree)
                                             : sum;
    return value;
}

/* ---- products ---- */

/* How much of float32's bound holds for the type. */
static double share_of(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? 0x1p-28 : 1.0;
}

/* The first p rows against rows first .. first+q-1: a row is off by 1e-5 of sum |k v| at most, in
 * float64 by 2^-28 of that. */
static void check_product(const struct cloud *c, enum dtype vectors, int64_t p, int64_t first,
                          int64_t q, int64_t t)
{
    struct rng rng = rng_new((uint64_t)q, RNG_TEST);
    double *v = host_normal(&rng, q * t);
    host_round(v, q * t, DTYPE_F32);
    double *y = device_product(c->be, view_range(c->points, 0, p), view_range(c->points, first, q),
                               vectors, t, v);
    double *sums = host_zeros(t), *sizes = host_zeros(t);
    for (int64_t i = 0; i < p; i++) {
        for (int64_t k = 0; k < t; k++) {
            sums[k] = sizes[k] = 0.0;
        }
        for (int64_t j = 0; j < q; j++) {
            double size;
            const double value = entry(&c->kernel, row(c, i), row(c, first + j), &size);
            for (int64_t k = 0; k < t; k++) {
                sums[k] += value * v[j + k * q];
                sizes[k] += size * fabs(v[j + k * q]);
            }
        }
        for (int64_t k = 0; k < t; k++) {
            assert_near(y[i + k * p], sums[k], 1e-5 * share_of(c->dtype) * sizes[k]);
        }
    }
    mem_free(sums);
    mem_free(sizes);
    mem_free(y);
    mem_free(v);
}

static void check_kernel(struct backend *be, enum kernel_id id, enum dtype dtype, int64_t d,
                         int turn)
{
    static const int64_t ts[] = {1, 3, 9};
    const enum dtype vectors = turn % 4 == 3 ? DTYPE_F64 : dtype;
    struct cloud c = cloud_new(be, id, dtype, 300, d, turn % 2 == 1, 1.0);
    check_product(&c, vectors, 300, 0, 300, ts[turn % 3]);
    check_product(&c, vectors, 70, 128, 140, ts[(turn + 1) % 3]);
    cloud_free(&c);
}

static void test_products(void **state)
{
    static const int64_t dims[] = {16, 28, 64, 90, 435};
    (void)state;
    struct backend *be = device_open(2);
    for (int i = 0; i < 5; i++) {
        for (int id = 0; id < KERNEL_COUNT_; id++) {
            if (dims[i] == 28 || (id + i) % 2 == 0) {
                check_kernel(be, (enum kernel_id)id, DTYPE_F32, dims[i], id + i);
            } else if (dims[i] < 90) {
                check_kernel(be, (enum kernel_id)id, DTYPE_F64, dims[i] / 2 + id % 4, id + i / 2);
            }
        }
    }
    device_close(be);
}

/* One right-hand side, numbers of features on both sides of where something changes. */
static void test_few_features(void **state)
{
    static const int64_t dims[] = {1, 4, 5, 9, 10, 14, 15, 20, 21, 29, 44, 45, 61, 77, 92, 93};
    (void)state;
    struct backend *be = device_open(2);
    for (int i = 0; i < 16; i++) {
        struct cloud c = cloud_new(be, KERNEL_GAUSSIAN, DTYPE_F32, 300, dims[i], i % 2 == 0, 1.0);
        check_product(&c, DTYPE_F32, 300, 0, 300, 1);
        check_product(&c, DTYPE_F32, 70, 128, 140, 1);
        cloud_free(&c);
    }
    device_close(be);
}

/* So many rows that a block of them is several tiles; some are looked at. */
static void check_many_rows(const struct cloud *c)
{
    struct rng rng = rng_new((uint64_t)c->n, RNG_TEST);
    double *v = host_normal(&rng, c->n);
    host_round(v, c->n, DTYPE_F32);
    const struct view all = view_all(c->points, c->n);
    double *y = device_product(c->be, all, all, c->dtype, 1, v);
    for (int64_t i = c->n - 1; i >= 0; i -= c->n / 40) {
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < c->n; j++) {
            const double value = kernel_eval(&c->kernel, row(c, i), row(c, j));
            sum += value * v[j];
            size += fabs(value * v[j]);
        }
        assert_near(y[i], sum, 1e-5 * share_of(c->dtype) * size);
    }
    mem_free(y);
    mem_free(v);
}

static void test_many_rows(void **state)
{
    (void)state;
    struct backend *be = device_open(2);
    for (int i = 0; i < 2; i++) {
        struct cloud c =
            cloud_new(be, KERNEL_GAUSSIAN, DTYPE_F32, 12300, i == 0 ? 2 : 45, true, 1.0);
        check_many_rows(&c);
        cloud_free(&c);
    }
    device_close(be);
}

/* A processor turns rows of the 1-norm before it takes them, and those of large sets a few at a
 * time. */
static void test_turned_a_run_at_a_time(void **state)
{
    (void)state;
    struct backend *be = device_open(2);
    if (be->ops->points_lanes == NULL) {
        device_close(be);
        skip();
    }
    for (int i = 0; i < 2; i++) {
        const bool f64 = i > 0;
        struct cloud c = cloud_new(be, KERNEL_LAPLACIAN_L1, f64 ? DTYPE_F64 : DTYPE_F32,
                                   f64 ? 13500 : 49000, f64 ? 120 : 64, false, 1.0);
        check_product(&c, c.dtype, 50, 100, c.n - 150, 3);
        check_many_rows(&c);
        cloud_free(&c);
    }
    device_close(be);
}

static void check_beside(struct backend *be, enum kernel_id id, enum dtype dtype, double far)
{
    struct cloud c = cloud_new(be, id, dtype, 300, 33, false, 1.0);
    be->ops->points_free(be, c.points);
    for (int64_t i = 200; i < 300; i++) {
        for (int64_t j = 0; j < 33; j++) {
            row(&c, i)[j] *= far;
        }
    }
    load(&c);
    check_product(&c, dtype, 190, 0, 200, 2);
    cloud_free(&c);
}

/* Rows behind a view's last, in the same tile, are beyond what small floating-point types hold, or
 * have squares beyond what their own does. */
static void test_rows_beside_a_view(void **state)
{
    (void)state;
    struct backend *be = device_open(1);
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        check_beside(be, (enum kernel_id)id, DTYPE_F32, 1e7);
        check_beside(be, (enum kernel_id)id, DTYPE_F32, 1e35);
        check_beside(be, (enum kernel_id)id, DTYPE_F64, 1e300);
    }
    device_close(be);
}

/* ---- single values ---- */

#define COLUMNS 8 /* values of a row that one product gives */

/* The largest error of single values, of distances, over what they are relative to: 1. */
static double largest_error(const struct cloud *c, int64_t first)
{
    double *v = host_zeros(c->n * COLUMNS), worst = 0.0;
    for (int64_t k = 0; k < COLUMNS; k++) {
        v[first + k + k * c->n] = 1.0;
    }
    double *y = device_product(c->be, view_range(c->points, 0, c->n - 1), view_all(c->points, c->n),
                               c->dtype, COLUMNS, v);
    for (int64_t i = 0; i < c->n - 1; i++) {
        for (int64_t k = 0; k < COLUMNS; k++) {
            const double value = kernel_eval(&c->kernel, row(c, i), row(c, first + k));
            worst = fmax(worst, fabs(y[i + k * (c->n - 1)] - value));
        }
    }
    mem_free(y);
    mem_free(v);
    return worst;
}

static void check_values(struct backend *be, enum kernel_id id, enum dtype dtype, int64_t d)
{
    double worst = 0.0;
    for (double narrow = 0.8; narrow < 2.2; narrow *= 1.25) {
        struct cloud c = cloud_new(be, id, dtype, 60, d, false, narrow);
        worst = fmax(worst, largest_error(&c, 12));
        cloud_free(&c);
    }
    print_message("%s %s, d = %d: %.2e\n", kernel_name(id), dtype_name(dtype), (int)d, worst);
    assert_true(worst <= 4.5e-6 * share_of(dtype));
}

/* A value loses 4e-6 at most by its distance, in float64 2^-28 of that, and a little by its
 * function, whatever the bandwidth: the narrower it is, the more inner products lose, until they
 * are not taken. */
static void test_values(void **state)
{
    static const enum kernel_id ids[] = {KERNEL_GAUSSIAN, KERNEL_MATERN32, KERNEL_MATERN52};
    static const int64_t dims[] = {3, 13, 28, 90, 435};
    (void)state;
    struct backend *be = device_open(1);
    for (int i = 0; i < 15; i += dims[i / 3] < 435 ? 1 : 2) {
        check_values(be, ids[i % 3], DTYPE_F32, dims[i / 3]);
        if (dims[i / 3] < 435) {
            check_values(be, ids[i % 3], DTYPE_F64, dims[i / 3] - 1);
        }
    }
    device_close(be);
}

/* Of three features two are alike, or opposite. */
static void make_alike(struct cloud *c, double sign)
{
    c->be->ops->points_free(c->be, c->points);
    for (int64_t k = 0; k < c->n * c->kernel.d; k++) {
        c->x[k] = k % c->kernel.d % 3 == 1 ? sign * c->x[k - 1] : c->x[k];
    }
    load(c);
}

static void check_like_features(struct backend *be, enum dtype dtype, int64_t d, double sign)
{
    double worst = 0.0;
    for (double narrow = 0.5; narrow < 2.2; narrow *= 1.25) {
        struct cloud c = cloud_new(be, KERNEL_GAUSSIAN, dtype, 60, d, false, narrow);
        make_alike(&c, sign);
        worst = fmax(worst, largest_error(&c, 12));
        cloud_free(&c);
    }
    print_message("%s, d = %d: %.2e\n", dtype_name(dtype), (int)d, worst);
    assert_true(worst <= 4.5e-6 * share_of(dtype));
}

/* Products of pairs of such features are as large as the norms, and their roundings alike. */
static void test_values_of_like_features(void **state)
{
    static const int64_t dims[] = {6, 18, 90};
    (void)state;
    struct backend *be = device_open(1);
    for (int i = 0; i < 6; i++) {
        check_like_features(be, DTYPE_F32, dims[i % 3], i < 3 ? 1.0 : -1.0);
        check_like_features(be, DTYPE_F64, dims[i % 3], i < 3 ? 1.0 : -1.0);
    }
    device_close(be);
}

/* ---- bits ---- */

static void check_bits(struct backend *be, enum kernel_id id, enum dtype dtype)
{
    static const int64_t some[] = {5, 42, 79, 3, 100, 130, 16, 17, 299, 6};
    const int64_t n = 300, count = sizeof some / sizeof some[0];
    struct cloud c = cloud_new(be, id, dtype, n, 40, true, 1.0);
    struct rng rng = rng_new(3, RNG_TEST);
    double *v = host_normal(&rng, n * 2);
    const struct view Q = view_all(c.points, n);
    double *all = device_product(be, view_range(c.points, 0, n - 1), Q, dtype, 2, v);
    double *part = device_product(be, view_index(c.points, some, count), Q, dtype, 2, v);
    for (int64_t i = 0; i < count; i++) {
        double *one = device_product(be, view_range(c.points, some[i], 1), Q, dtype, 2, v);
        for (int64_t k = 0; k < 2; k++) {
            assert_same_bits(one[k], part[i + k * count]);
            if (some[i] < n - 1) {
                assert_same_bits(one[k], all[some[i] + k * (n - 1)]);
            }
        }
        mem_free(one);
    }
    mem_free(all);
    mem_free(part);
    mem_free(v);
    cloud_free(&c);
}

/* What a row gets does not depend on the rows beside it, however far out these are. */
static void test_bits_of_rows(void **state)
{
    (void)state;
    struct backend *be = device_open(1);
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        check_bits(be, (enum kernel_id)id, DTYPE_F32);
        check_bits(be, (enum kernel_id)id, DTYPE_F64);
    }
    device_close(be);
}

TEST_MAIN(cmocka_unit_test(test_products), cmocka_unit_test(test_few_features),
          cmocka_unit_test(test_many_rows), cmocka_unit_test(test_turned_a_run_at_a_time),
          cmocka_unit_test(test_rows_beside_a_view), cmocka_unit_test(test_values),
          cmocka_unit_test(test_values_of_like_features), cmocka_unit_test(test_bits_of_rows))
