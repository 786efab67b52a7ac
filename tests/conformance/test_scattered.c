/*
 * Products of points of few features that lie anywhere (backend.h, points_grid: grid.scattered)
 * against the float64 reference: every kernel of a distance, one to three features that vary,
 * several right-hand sides, two sets, both types together, any number of threads. And what is left
 * to tiles.
 */
#include <math.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"

enum { ROWS = 24000, OTHERS = 18000, FEATURES = 5, COLUMNS = 3, CHECKED = 60 };

struct fixture {
    struct kernel kernel;
    double bandwidths[FEATURES];
    enum precision precision;
    double *x, *other, *v, *y;
    struct points *X, *Z;
};

/* Features that vary are those with odd numbers and the first, `dims` of them. */
static bool varies(int feature, int dims)
{
    return dims > 3       ? feature < dims
           : feature == 0 ? dims > 2
                          : feature % 2 == 1 && feature / 2 < dims;
}

static double *scatter(struct rng *rng, int64_t n, int dims, double middle)
{
    double *x = mem_array((size_t)(n * FEATURES), sizeof *x);
    for (int64_t i = 0; i < n * FEATURES; i++) {
        x[i] = varies((int)(i % FEATURES), dims) ? middle + rng_normal(rng) : 3.0;
    }
    return x;
}

/* What has a near part goes by it where that is small, with several features for narrow bandwidths
 * alone; by their last digits float32 coordinates are off by a part of those. */
static bool is_narrow(enum kernel_id id, enum precision precision, int dims)
{
    return id != KERNEL_GAUSSIAN && dims > (precision == F64 ? 1 : 2);
}

static void choose_bandwidths(struct fixture *f, enum kernel_id id, int dims)
{
    static const double wide[FEATURES] = {2.2, 1.6, 4.0, 2.0, 2.0};
    const double share = !is_narrow(id, f->precision, dims) ? 1.0
                         : f->precision == F64              ? 1.0 / 300.0
                                                            : 1.0 / 80.0;
    for (int k = 0; k < FEATURES; k++) {
        f->bandwidths[k] = share * wide[k];
    }
}

static struct fixture *fixture_new(struct backend *be, enum kernel_id id, enum precision precision,
                                   int dims)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    struct rng rng = rng_new((uint64_t)(10 * dims + (int)precision), RNG_TEST);
    const double middle = id == KERNEL_GAUSSIAN ? -40.0 : 1.0; /* as float32 has bandwidths */
    f->precision = precision;
    choose_bandwidths(f, id, dims);
    f->kernel = (struct kernel){.id = id, .d = FEATURES, .bandwidths = f->bandwidths};
    f->x = scatter(&rng, ROWS, dims, middle);
    f->other = scatter(&rng, OTHERS, dims, middle);
    f->v = host_normal(&rng, ROWS * COLUMNS);
    f->y = host_normal(&rng, ROWS * COLUMNS);
    host_round(f->v, ROWS * COLUMNS, vector_dtype(precision));
    host_round(f->y, ROWS * COLUMNS, vector_dtype(precision));
    f->X = device_points(be, &f->kernel, points_dtype(precision), ROWS, f->x);
    f->Z = device_points(be, &f->kernel, points_dtype(precision), OTHERS, f->other);
    return f;
}

static void fixture_free(struct backend *be, struct fixture *f)
{
    be->ops->points_free(be, f->X);
    be->ops->points_free(be, f->Z);
    mem_free(f->x);
    mem_free(f->other);
    mem_free(f->v);
    mem_free(f->y);
    mem_free(f);
}

/* The first set anew, of what f->x holds. */
static void replace_points(struct backend *be, struct fixture *f)
{
    be->ops->points_free(be, f->X);
    f->X = device_points(be, &f->kernel, points_dtype(f->precision), ROWS, f->x);
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
    return device_update(be, P, view_all(f->X, ROWS), vector_dtype(f->precision), COLUMNS, f->v,
                         f->y);
}

/* Of some rows, the largest difference to the reference, as a share of their largest |K||v|. */
static double error_of(const struct fixture *f, const double *x, int64_t n, const double *found)
{
    double error = 0.0, scale = 0.0;
    for (int64_t i = 0; i < n; i += n / CHECKED) {
        double sum[COLUMNS] = {0.0}, size[COLUMNS] = {0.0};
        for (int64_t j = 0; j < ROWS; j++) {
            const double k = kernel_eval(&f->kernel, x + i * FEATURES, f->x + j * FEATURES);
            for (int c = 0; c < COLUMNS; c++) {
                sum[c] += k * f->v[j + c * ROWS];
                size[c] += k * fabs(f->v[j + c * ROWS]);
            }
        }
        for (int c = 0; c < COLUMNS; c++) {
            const double y = 1.5 * sum[c] - 0.5 * f->y[i + c * ROWS];
            error = fmax(error, fabs(found[i + c * n] - y));
            scale = fmax(scale, size[c]);
        }
    }
    return error / scale;
}

/* Of the first set alone, and its product with itself. */
static struct grid check_own(struct backend *be, const struct fixture *f)
{
    struct grid g;
    must(be->ops->points_grid(be, (struct points *[]){f->X}, 1, INT64_C(1) << 26, &g, &err));
    double *own = product(be, f, view_all(f->X, ROWS));
    assert_true(error_of(f, f->x, ROWS, own) < 1e-13);
    mem_free(own);
    return g;
}

static void check_products(struct backend *be, const struct fixture *f)
{
    const bool narrow = f->bandwidths[0] < 1.0;
    const bool exact = f->precision == F64;
    const double most = narrow ? (exact ? 1e-11 : 1e-5) : (exact ? 1e-13 : 2e-7);
    double *own = product(be, f, view_all(f->X, ROWS));
    double *other = product(be, f, view_all(f->Z, OTHERS));
    assert_true(error_of(f, f->x, ROWS, own) < most);
    assert_true(error_of(f, f->other, OTHERS, other) < most);
    mem_free(own);
    mem_free(other);
}

static void check_kernel(struct backend *be, enum kernel_id id, enum precision p, int dims)
{
    struct fixture *f = fixture_new(be, id, p, dims);
    const struct grid g = find(be, f, INT64_C(1) << 26);
    assert_true(g.scattered && g.share > 0.0 && g.share <= 1.0);
    assert_int_equal(g.dims, dims);
    const int64_t before = be->kernel_entries;
    check_products(be, f);
    assert_int_equal(be->kernel_entries, before); /* no kernel value was used */
    fixture_free(be, f);
}

static void test_products(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    for (enum kernel_id id = 0; be->ops->points_grid != NULL && id <= KERNEL_MATERN52; id++) {
        for (int dims = 1; dims <= (kernel_uses_l1(id) ? 1 : 3); dims++) {
            for (enum precision p = 0; p < PRECISIONS; p++) {
                check_kernel(be, id, p, dims);
            }
        }
    }
    device_close(be);
}

static void check_bits(enum kernel_id id, int dims)
{
    double *first = NULL;
    for (int threads = 1; threads <= 4; threads++) {
        struct backend *be = device_open(threads);
        struct fixture *f = fixture_new(be, id, F64, dims);
        const bool finds = be->ops->points_grid != NULL;
        assert_true(!finds || find(be, f, INT64_C(1) << 26).scattered);
        double *found = product(be, f, view_all(f->X, ROWS));
        if (first != NULL && finds) {
            assert_memory_equal(found, first, (size_t)(ROWS * COLUMNS) * sizeof *found);
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
    for (int dims = 1; dims <= 3; dims++) {
        check_bits(KERNEL_GAUSSIAN, dims);
        check_bits(KERNEL_MATERN32, dims);
    }
}

/* As mixed precision has them: each type has places of its own. */
static void test_both_types(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    if (be->ops->points_grid == NULL) {
        device_close(be);
        skip();
    }
    struct fixture *f = fixture_new(be, KERNEL_MATERN32, F64, 1);
    struct points *single = device_points(be, &f->kernel, DTYPE_F32, ROWS, f->x), *exact = f->X;
    struct grid g;
    must(be->ops->points_grid(be, (struct points *[]){single, f->X, f->Z}, 3, INT64_C(1) << 26, &g,
                              &err));
    assert_true(g.scattered);
    check_products(be, f);
    f->X = single;
    double *own = product(be, f, view_all(f->X, ROWS));
    assert_true(error_of(f, f->x, ROWS, own) < 1e-6);
    mem_free(own);
    f->X = exact;
    be->ops->points_free(be, single);
    fixture_free(be, f);
    device_close(be);
}

/* Rows on a grid of so many places that a matrix for each feature takes longer. */
static void test_the_way_that_takes_less(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    static const int64_t places[] = {100, 400};
    for (int i = 0; be->ops->points_grid != NULL && i < 2; i++) {
        struct fixture *f = fixture_new(be, KERNEL_GAUSSIAN, F64, 2);
        struct rng rng = rng_new(8, RNG_TEST);
        for (int64_t k = 0; k < ROWS * FEATURES; k++) {
            const double at = (double)rng_below(&rng, places[i]) / (double)places[i];
            f->x[k] = varies((int)(k % FEATURES), 2) ? 4.0 * at * at : 3.0;
        }
        replace_points(be, f);
        const struct grid g = check_own(be, f);
        assert_int_equal(g.dims, 2);
        assert_true(g.scattered == (i == 1) && g.kronecker == (i == 0));
        fixture_free(be, f);
    }
    device_close(be);
}

/* Some rows so far out that the others lie in a few cells: near pairs would be all pairs. And rows
 * so far apart that squares of distances are no numbers. */
static void test_rows_far_out(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    static const double far[] = {1e5, 1e200};
    for (int i = 0; be->ops->points_grid != NULL && i < 2; i++) {
        struct fixture *f = fixture_new(be, KERNEL_MATERN32, F64, 2);
        for (int64_t k = 0; k < ROWS * FEATURES; k += 1000 * FEATURES) {
            f->x[k + 1] *= far[i];
        }
        replace_points(be, f);
        struct grid g;
        must(be->ops->points_grid(be, (struct points *[]){f->X}, 1, INT64_C(1) << 26, &g, &err));
        assert_int_equal(g.dims, 0);
        fixture_free(be, f);
    }
    device_close(be);
}

/* Beyond 2^53 places from the origin the distance to it is not known to a place, those of points
 * are. */
static void test_far_from_the_origin(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    struct fixture *f = fixture_new(be, KERNEL_GAUSSIAN, F64, 2);
    for (int64_t i = 0; i < ROWS; i++) {
        f->x[i * FEATURES + 1] = 1e17 + 64.0 * (double)(i % 50);
    }
    replace_points(be, f);
    if (be->ops->points_grid != NULL) {
        assert_true(check_own(be, f).scattered);
    }
    fixture_free(be, f);
    device_close(be);
}

/* One row, and a set of no rows of the other type. */
static void test_few_rows(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    const struct kernel k = {.id = KERNEL_GAUSSIAN, .d = 1, .bandwidth = 1.0};
    const double x[6000] = {0.5};
    struct points *one = device_points(be, &k, DTYPE_F64, 1, x);
    struct points *none = device_points(be, &k, DTYPE_F32, 0, x);
    struct points *same = device_points(be, &k, DTYPE_F64, 6000, x);
    struct grid g = {.dims = 0};
    for (int i = 0; be->ops->points_grid != NULL && i < 2; i++) {
        struct points *sets[] = {i == 0 ? one : same, none};
        must(be->ops->points_grid(be, sets, 2, INT64_C(1) << 24, &g, &err));
        assert_true(i == 1 || g.dims == 0);
    }
    be->ops->points_free(be, one);
    be->ops->points_free(be, none);
    be->ops->points_free(be, same);
    device_close(be);
}

/* Another kernel, more features, a row far away, no room: as before. */
static void test_what_is_left_to_tiles(void **state)
{
    (void)state;
    struct backend *be = device_open(0);
    for (int how = 0; be->ops->points_grid != NULL && how < 4; how++) {
        struct fixture *f = fixture_new(be, how == 0 ? KERNEL_LAPLACIAN_L1 : KERNEL_GAUSSIAN, F64,
                                        how == 1 ? 4 : 3);
        if (how == 2) {
            f->other[1] = 1e6;
            be->ops->points_free(be, f->Z);
            f->Z = device_points(be, &f->kernel, DTYPE_F64, OTHERS, f->other);
        }
        const int64_t before = be->bytes;
        assert_int_equal(find(be, f, how == 3 ? 1 << 16 : INT64_C(1) << 26).dims, 0);
        assert_int_equal(be->bytes, before);
        fixture_free(be, f);
    }
    device_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),     cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_both_types),   cmocka_unit_test(test_the_way_that_takes_less),
        cmocka_unit_test(test_rows_far_out), cmocka_unit_test(test_far_from_the_origin),
        cmocka_unit_test(test_few_rows),     cmocka_unit_test(test_what_is_left_to_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
