/*
 * Products of points on a grid (backend.h, points_grid) against the float64 reference, with every
 * kernel of a distance in every precision: places without a row, places with several, a bandwidth
 * for each feature, another set of rows on the same grid; steps that are equal, and steps of any
 * length. And what is no grid, or none that pays.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"

enum { ROWS = 600, OTHERS = 500, DIMS_MAX = 3, FEATURES = 4 };

static const int64_t places[DIMS_MAX][DIMS_MAX] = {{200}, {19, 14}, {7, 5, 6}};
static const double steps[FEATURES] = {0.1, 0.7, 0.25, 1.0};
static const double bandwidths[FEATURES] = {2.1, 1.7, 0.9, 1.0};
static const enum kernel_id kernels[] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN, KERNEL_LAPLACIAN_L1,
                                         KERNEL_MATERN12, KERNEL_MATERN32,  KERNEL_MATERN52};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

/* Rows at random places of a grid of `dims` dimensions; the other features are all 5. */
struct fixture {
    struct kernel kernel;
    enum precision precision;
    int dims;
    bool uneven;
    int64_t t;
    double x[ROWS * FEATURES], other[OTHERS * FEATURES];
    double *v, *y;
    struct points *X, *Z;
};

/* Coordinate `at` of a feature; uneven steps differ by up to half. */
static double coordinate(int feature, int64_t at, bool uneven)
{
    const double off = uneven ? 0.25 * sin(7.0 * (double)at + feature) : 0.0;
    return -3.0 + steps[feature] * ((double)at + off);
}

static void place_rows(struct rng *rng, int dims, bool uneven, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < FEATURES; k++) {
            const int64_t at = k < dims ? rng_below(rng, places[dims - 1][k]) : 0;
            x[i * FEATURES + k] = k < dims ? coordinate(k, at, uneven) : 5.0;
        }
    }
}

static struct fixture *fixture_with(enum kernel_id id, enum precision precision, int dims,
                                    int64_t t, bool uneven)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    struct rng rng = rng_new((uint64_t)(10 * dims + t), RNG_TEST);
    f->kernel = (struct kernel){.id = id, .d = FEATURES, .bandwidths = bandwidths};
    f->precision = precision;
    f->dims = dims;
    f->t = t;
    f->uneven = uneven;
    place_rows(&rng, dims, uneven, f->x, ROWS);
    place_rows(&rng, dims, uneven, f->other, OTHERS);
    for (int k = 0; k < dims; k++) {
        f->x[k] = coordinate(k, 0, uneven);
    }
    f->v = host_normal(&rng, ROWS * t);
    f->y = host_normal(&rng, ROWS * t);
    host_round(f->v, ROWS * t, vector_dtype(precision));
    host_round(f->y, ROWS * t, vector_dtype(precision));
    return f;
}

static struct fixture *fixture_new(enum kernel_id id, enum precision precision, int dims, int64_t t)
{
    return fixture_with(id, precision, dims, t, false);
}

static void fixture_upload(struct backend *be, struct fixture *f)
{
    f->X = device_points(be, &f->kernel, points_dtype(f->precision), ROWS, f->x);
    f->Z = device_points(be, &f->kernel, points_dtype(f->precision), OTHERS, f->other);
}

static void fixture_free(struct backend *be, struct fixture *f)
{
    be->ops->points_free(be, f->X);
    be->ops->points_free(be, f->Z);
    mem_free(f->v);
    mem_free(f->y);
    mem_free(f);
}

static struct grid find(struct backend *be, const struct fixture *f, int64_t bytes)
{
    struct grid ret = {.dims = -1};
    must(be->ops->points_grid(be, (struct points *[]){f->X, f->Z}, 2, bytes, &ret, &err));
    return ret;
}

/* 1.5 K(P,X) V - 0.5 Y. */
static double *product(struct backend *be, const struct fixture *f, struct view P)
{
    return device_update(be, P, view_all(f->X, ROWS), vector_dtype(f->precision), f->t, f->v, f->y);
}

/* The largest difference to the reference, as a share of the largest |K||v| of a row. */
static double error_of(const struct fixture *f, const double *x, int64_t n, const double *found)
{
    double error = 0.0, scale = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < f->t; c++) {
            double sum = 0.0, size = 0.0;
            for (int64_t j = 0; j < ROWS; j++) {
                const double k = kernel_eval(&f->kernel, x + i * FEATURES, f->x + j * FEATURES);
                sum += k * f->v[j + c * ROWS];
                size += k * fabs(f->v[j + c * ROWS]);
            }
            const double y = 1.5 * sum - 0.5 * f->y[i + c * ROWS];
            error = fmax(error, fabs(found[i + c * n] - y));
            scale = fmax(scale, size);
        }
    }
    return error / scale;
}

/* By the way of tiles or by the grid. */
static void check_products(struct backend *be, const struct fixture *f)
{
    const double most = points_dtype(f->precision) == DTYPE_F64 ? 1e-14 : 2e-6;
    double *own = product(be, f, view_all(f->X, ROWS));
    double *other = product(be, f, view_all(f->Z, OTHERS));
    assert_true(error_of(f, f->x, ROWS, own) < most);
    assert_true(error_of(f, f->other, OTHERS, other) < most);
    double *part = product(be, f, view_range(f->Z, 0, OTHERS - 1));
    assert_true(error_of(f, f->other, OTHERS - 1, part) < most);
    mem_free(own);
    mem_free(other);
    mem_free(part);
}

/* Coordinates of a feature that rows have. */
static int64_t count_used(const struct fixture *f, int feature)
{
    int64_t used = 0;
    for (int64_t at = 0; at < places[f->dims - 1][feature]; at++) {
        const double x = coordinate(feature, at, f->uneven);
        bool any = false;
        for (int64_t i = 0; i < ROWS; i++) {
            any |= f->x[i * FEATURES + feature] == x;
        }
        for (int64_t i = 0; i < OTHERS; i++) {
            any |= f->other[i * FEATURES + feature] == x;
        }
        used += any;
    }
    return used;
}

static void check_grid(struct backend *be, const struct fixture *f)
{
    const int64_t before = be->bytes;
    const struct grid g = find(be, f, INT64_C(1) << 24);
    assert_int_equal(g.dims, f->dims);
    assert_true(g.kronecker || !f->uneven);
    for (int k = 0; k < f->dims; k++) {
        assert_int_equal(g.feature[k], k);
        assert_int_equal(g.size[k], g.kronecker ? count_used(f, k) : places[f->dims - 1][k]);
    }
    assert_true(be->bytes > before);
    check_products(be, f);
}

static void check_kernel(struct backend *be, enum kernel_id id, enum precision precision)
{
    const bool is_product = id == KERNEL_GAUSSIAN || id == KERNEL_LAPLACIAN_L1;
    for (int dims = 1; dims <= DIMS_MAX; dims++) {
        for (int uneven = 0; uneven <= is_product; uneven++) {
            struct fixture *f = fixture_with(id, precision, dims, dims, uneven);
            fixture_upload(be, f);
            check_grid(be, f);
            fixture_free(be, f);
        }
    }
}

/* Uneven steps want a kernel that is a product over the features. */
static void test_other_kernels_want_even_steps(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    for (int i = 0; be->ops->points_grid != NULL && i < KERNELS; i++) {
        const bool is_product = kernels[i] == KERNEL_GAUSSIAN || kernels[i] == KERNEL_LAPLACIAN_L1;
        struct fixture *f = fixture_with(kernels[i], F64, 2, 1, true);
        fixture_upload(be, f);
        assert_int_equal(find(be, f, INT64_C(1) << 24).dims, is_product ? 2 : 0);
        check_products(be, f);
        fixture_free(be, f);
    }
    device_close(be);
}

static void test_products(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    if (be->ops->points_grid == NULL) {
        device_close(be);
        skip();
    }
    for (int i = 0; i < KERNELS; i++) {
        for (enum precision p = 0; p < PRECISIONS; p++) {
            check_kernel(be, kernels[i], p);
        }
    }
    device_close(be);
}

static void check_threads(enum kernel_id id, int dims, bool uneven)
{
    double *first = NULL;
    for (int threads = 1; threads <= 4; threads++) {
        struct backend *be = device_open(threads);
        struct fixture *f = fixture_with(id, F64, dims, 3, uneven);
        fixture_upload(be, f);
        const bool finds = be->ops->points_grid != NULL;
        assert_true(!finds || find(be, f, INT64_C(1) << 24).dims == dims);
        double *found = product(be, f, view_all(f->X, ROWS));
        if (first != NULL && finds) {
            assert_memory_equal(found, first, (size_t)(ROWS * f->t) * sizeof *found);
        }
        mem_free(first);
        first = found;
        fixture_free(be, f);
        device_close(be);
    }
    mem_free(first);
}

static void test_threads_change_no_bit(void **state)
{
    (void)state;
    for (int dims = 1; dims <= DIMS_MAX; dims++) {
        check_threads(KERNEL_MATERN32, dims, false);
        check_threads(KERNEL_GAUSSIAN, dims, true);
    }
}

/* An axis long enough for a library to share out one of its products among threads. */
static void test_threads_change_no_bit_of_a_long_axis(void **state)
{
    (void)state;
    double *first = NULL;
    for (int threads = 1; threads <= 4; threads++) {
        struct backend *be = device_open(threads);
        struct fixture *f = fixture_with(KERNEL_GAUSSIAN, F64, 2, 3, true);
        for (int64_t i = 0; i < ROWS; i++) {
            f->x[i * FEATURES] = coordinate(0, i % 7, true);
            f->x[i * FEATURES + 1] = coordinate(1, i * 31 % 201, true);
        }
        fixture_upload(be, f);
        const bool finds = be->ops->points_grid != NULL;
        struct grid g = {.dims = 0};
        if (finds) {
            must(be->ops->points_grid(be, &f->X, 1, INT64_C(1) << 24, &g, &err));
            assert_true(g.kronecker && g.size[0] == 7 && g.size[1] == 201);
        }
        double *found = product(be, f, view_all(f->X, ROWS));
        if (first != NULL && finds) {
            assert_memory_equal(found, first, (size_t)(ROWS * f->t) * sizeof *found);
        }
        mem_free(first);
        first = found;
        fixture_free(be, f);
        device_close(be);
    }
    mem_free(first);
}

/* What a fixture becomes that lies on no grid, or on none that pays. */
static void disturb(struct fixture *f, int how)
{
    struct rng rng = rng_new(7, RNG_TEST);
    switch (how) {
    case 0: /* one coordinate of 600 */
        f->x[FEATURES * 300] += 1e-4;
        break;
    case 1: /* all of them, as measurements are */
        for (int64_t i = 0; i < ROWS; i++) {
            f->x[FEATURES * i] += 1e-3 * rng_normal(&rng);
        }
        break;
    case 2: /* a row far away: too many places */
        f->other[0] += 1e4;
        break;
    case 3: /* of an inner product */
        f->kernel =
            (struct kernel){.id = KERNEL_POLYNOMIAL, .d = FEATURES, .gamma = 0.1, .degree = 2};
        break;
    default:
        break;
    }
}

static void test_what_is_no_grid(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    for (int how = 0; be->ops->points_grid != NULL && how < 5; how++) {
        struct fixture *f = fixture_new(how == 1 ? KERNEL_GAUSSIAN : KERNEL_MATERN32, F64, 1, 1);
        disturb(f, how);
        fixture_upload(be, f);
        const int64_t before = be->bytes;
        assert_int_equal(find(be, f, how == 4 ? 4096 : INT64_C(1) << 24).dims, 0);
        assert_int_equal(be->bytes, before);
        if (how != 3) {
            check_products(be, f);
        }
        fixture_free(be, f);
    }
    device_close(be);
}

/* Of uneven steps: float32 rows of other values than those of float64 are not among them. */
static void test_uneven_sets_of_both_types(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    for (int off = 0; be->ops->points_grid != NULL && off < 2; off++) {
        struct fixture *f = fixture_with(KERNEL_GAUSSIAN, F64, 2, 1, true);
        fixture_upload(be, f);
        f->x[FEATURES * 300] += off == 0 ? 0.0 : 1e-3;
        struct points *single = device_points(be, &f->kernel, DTYPE_F32, ROWS, f->x);
        f->x[FEATURES * 300] -= off == 0 ? 0.0 : 1e-3;
        struct grid g;
        must(be->ops->points_grid(be, (struct points *[]){single, f->X, f->Z}, 3, INT64_C(1) << 24,
                                  &g, &err));
        assert_int_equal(g.dims, off == 0 ? 2 : 0);
        check_products(be, f);
        be->ops->points_free(be, single);
        fixture_free(be, f);
    }
    device_close(be);
}

/* The same rows in float32 and in float64, as mixed precision has them. Float64 says whether they
 * lie on a grid: what float32 cannot tell from one is none. */
static void test_sets_of_both_types(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    for (int i = 0; be->ops->points_grid != NULL && i < 3; i++) {
        struct fixture *f = fixture_new(KERNEL_MATERN52, F64, 1, 1);
        f->x[FEATURES * 300] += i == 0 ? 0.0 : i == 1 ? 1e-9 : 1e-7;
        fixture_upload(be, f);
        f->precision = F32;
        struct points *single =
            device_points(be, &f->kernel, points_dtype(f->precision), ROWS, f->x);
        f->precision = F64;
        struct grid wide, g;
        must(be->ops->points_grid(be, &f->X, 1, INT64_C(1) << 24, &wide, &err));
        must(be->ops->points_grid(be, (struct points *[]){single, f->X, f->Z}, 3, INT64_C(1) << 24,
                                  &g, &err));
        assert_int_equal(g.dims, i == 0 ? 1 : 0);
        if (i == 0) {
            assert_true(fabs(g.step[0] / wide.step[0] - 1.0) < 1e-14);
        }
        check_products(be, f);
        be->ops->points_free(be, single);
        fixture_free(be, f);
    }
    device_close(be);
}

/* One feature: numbers anywhere, numbers side by side, one far out, a range that overflows. */
static void test_rows_that_are_everywhere(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    struct rng rng = rng_new(9, RNG_TEST);
    float *x = mem_array(MANY, sizeof *x);
    struct grid g;
    for (int64_t i = 0; i < MANY; i++) {
        x[i] = (float)rng_uniform(&rng);
    }
    const struct rows X = {.dtype = DTYPE_F32, .n = MANY, .d = 1, .data = x};
    must(grid_find(&X, 1, 1, INT64_C(1) << 40, &g, &err));
    assert_int_equal(g.dims, 0);
    x[0] = 1.0F;
    for (int64_t i = 1; i < MANY; i++) {
        x[i] = nextafterf(x[i - 1], 2.0F);
    }
    must(grid_find(&X, 1, 1, INT64_C(1) << 40, &g, &err));
    assert_int_equal(g.dims, 0);
    mem_free(x);
    /* Beside one that is far out the others are all the same, to its roundings alone. */
    const double out[2][4] = {{1e30, 0.25, 0.5, 0.125}, {-1e30, 0.25, 0.5, 0.125}};
    for (int i = 0; i < 2; i++) {
        const struct rows Z = {.dtype = DTYPE_F64, .n = 4, .d = 1, .data = out[i]};
        must(grid_find(&Z, 1, 1, INT64_C(1) << 40, &g, &err));
        assert_int_equal(g.dims, 0);
    }
    const double far[4] = {-1.7e308, 0.0, 1.7e308, 1.0};
    const struct rows Y = {.dtype = DTYPE_F64, .n = 2, .d = 2, .data = far};
    must(grid_find(&Y, 1, 2, INT64_C(1) << 40, &g, &err));
    assert_int_equal(g.dims, 0);
}

/* A second search replaces what the first has found, and what one set keeps lasts as long as it. */
static void test_sets_come_and_go(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    if (be->ops->points_grid == NULL) {
        device_close(be);
        skip();
    }
    struct fixture *f = fixture_new(KERNEL_MATERN52, F64, 2, 1);
    fixture_upload(be, f);
    const int64_t before = be->bytes;
    assert_int_equal(find(be, f, INT64_C(1) << 24).dims, 2);
    assert_int_equal(find(be, f, INT64_C(1) << 24).dims, 2);
    be->ops->points_free(be, f->Z);
    f->Z = device_points(be, &f->kernel, points_dtype(f->precision), OTHERS, f->other);
    check_products(be, f);
    assert_int_equal(find(be, f, INT64_C(1) << 24).dims, 2);
    assert_int_equal(find(be, f, 100).dims, 0);
    assert_int_equal(be->bytes, before);
    check_products(be, f);
    fixture_free(be, f);
    device_close(be);
}

static void check_without_memory(bool uneven)
{
    struct backend *be = device_open(2);
    struct fixture *f = fixture_with(uneven ? KERNEL_GAUSSIAN : KERNEL_MATERN52, F64, 2, 1, uneven);
    fixture_upload(be, f);
    const int64_t before = be->bytes;
    int r = be->ops->points_grid != NULL ? -ERR_NO_MEMORY : 0;
    for (int64_t nth = 1; r < 0 && nth < 50; nth++) {
        struct grid g;
        mem_fail_nth(nth);
        r = be->ops->points_grid(be, (struct points *[]){f->X, f->Z}, 2, INT64_C(1) << 24, &g,
                                 NULL);
        mem_fail_nth(0);
        assert_true(r == 0 || (r == -ERR_NO_MEMORY && be->bytes == before));
        check_products(be, f);
    }
    assert_int_equal(r, 0);
    fixture_free(be, f);
    device_close(be);
}

static void test_without_memory(void **state)
{
    (void)state;
    check_without_memory(false);
    check_without_memory(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_other_kernels_want_even_steps),
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_threads_change_no_bit_of_a_long_axis),
        cmocka_unit_test(test_what_is_no_grid),
        cmocka_unit_test(test_sets_come_and_go),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_sets_of_both_types),
        cmocka_unit_test(test_uneven_sets_of_both_types),
        cmocka_unit_test(test_rows_that_are_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
