/*
 * Products of few rows with all of some points that have lanes (backend.h, points_lanes): the bits
 * of those without, which test_backend_oracle.c and test_backend_sizes.c hold to the reference,
 * with every kernel in every precision, however many rows and threads. And of predictions: a row's
 * bits alone are those in a batch.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"
#include "engine/model/model.h"

#define ROWS 1000 /* the largest number */

static const int64_t counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                 11, 12, 13, 14, 15, 16, 17, 31, 33, ROWS};
static const int thread_counts[] = {1, 2, 4};

enum { COUNTS = sizeof counts / sizeof counts[0], THREAD_COUNTS = 3 };

/* Rows, points that they meet, and weights of the points. */
struct fixture {
    struct kernel kernel;
    enum precision precision;
    int64_t n, t; /* points, columns */
    double *x, *z, *v;
};

static struct fixture fixture_new(enum kernel_id id, enum precision precision, int64_t n, int64_t d,
                                  int64_t t)
{
    struct rng rng = rng_new((uint64_t)(n + d), RNG_TEST);
    struct fixture f = {.kernel = usual_kernel(id, d), .precision = precision, .n = n, .t = t};
    f.x = host_normal(&rng, ROWS * d);
    f.z = host_normal(&rng, n * d);
    f.v = host_normal(&rng, n * t);
    host_round(f.v, n * t, vector_dtype(precision));
    return f;
}

static void fixture_free(struct fixture *f)
{
    mem_free(f->x);
    mem_free(f->z);
    mem_free(f->v);
}

/* `count` rows from `first` on, as a range and as an index, against all of them at once. */
static void check_part(struct backend *be, const struct fixture *f, const struct points *P,
                       const struct points *Q, int64_t first, int64_t count, const double *whole)
{
    int64_t index[ROWS];
    for (int64_t i = 0; i < count; i++) {
        index[i] = first + i;
    }
    double *range = device_product(be, view_range(P, first, count), view_all(Q, f->n),
                                   vector_dtype(f->precision), f->t, f->v);
    double *indexed = device_product(be, view_index(P, index, count), view_all(Q, f->n),
                                     vector_dtype(f->precision), f->t, f->v);
    for (int64_t c = 0; c < f->t; c++) {
        for (int64_t i = 0; i < count; i++) {
            assert_same_bits(range[i + c * count], whole[first + i + c * ROWS]);
            assert_same_bits(indexed[i + c * count], whole[first + i + c * ROWS]);
        }
    }
    mem_free(range);
    mem_free(indexed);
}

static void check_fixture(struct backend *be, const struct fixture *f)
{
    const int threads = be->threads;
    struct points *P = device_points(be, &f->kernel, points_dtype(f->precision), ROWS, f->x),
                  *Q = device_points(be, &f->kernel, points_dtype(f->precision), f->n, f->z);
    int64_t bytes = 0, again = 0;
    must(be->ops->points_lanes(be, Q, &bytes, &err));
    const int64_t with = be->bytes;
    must(be->ops->points_lanes(be, Q, &again, &err)); /* instead of the others */
    assert_true(bytes > 0 && again == bytes && be->bytes == with);
    double *whole =
        device_product(be, view_all(P, ROWS), view_all(Q, f->n), vector_dtype(f->precision), f->t,
                       f->v); /* by panels, but for a few rows */
    for (int i = 0; i < COUNTS; i++) {
        be->threads = thread_counts[i % THREAD_COUNTS];
        check_part(be, f, P, Q, 0, counts[i], whole);
        check_part(be, f, P, Q, ROWS - counts[i], counts[i], whole);
    }
    for (int i = 0; i < THREAD_COUNTS; i++) {
        be->threads = thread_counts[i];
        check_part(be, f, P, Q, 77, 1, whole);
    }
    be->threads = threads;
    mem_free(whole);
    be->ops->points_free(be, P);
    be->ops->points_free(be, Q);
}

/* Ends: whole runs, part of one, whole groups of them; one chunk of runs and more. */
static void test_bits(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1920, 1081, 4081, 2003};
    static const int64_t dims[] = {1, 3, 18, 7};
    struct backend *be = device_open(2);
    for (int i = 0; i < KERNEL_COUNT_ * PRECISIONS && be->ops->points_lanes != NULL; i++) {
        const enum kernel_id id = (enum kernel_id)(i / PRECISIONS);
        struct fixture f = fixture_new(id, (enum precision)(i % PRECISIONS), sizes[i % 4],
                                       dims[(i + i / 4) % 4], 1 + i % 3);
        check_fixture(be, &f);
        fixture_free(&f);
    }
    device_close(be);
}

static void check_no_nan(struct backend *be, const struct fixture *f)
{
    struct points *P = device_points(be, &f->kernel, points_dtype(f->precision), ROWS, f->x),
                  *Q = device_points(be, &f->kernel, points_dtype(f->precision), f->n, f->z);
    double *y = device_product(be, view_all(P, ROWS), view_all(Q, f->n), vector_dtype(f->precision),
                               f->t, f->v);
    for (int64_t i = 0; i < ROWS * f->t; i++) {
        if (isnan(y[i])) {
            fail_msg("row %lld, %s: NaN", (long long)i, kernel_name(f->kernel.id));
        }
    }
    mem_free(y);
    be->ops->points_free(be, P);
    be->ops->points_free(be, Q);
}

/* Kernel values up to infinity: rows that are not there, whose weights are zero, add nothing. The
 * linear product of positive rows with positive points and weights is never NaN. */
static void test_huge_rows(void **state)
{
    (void)state;
    static const enum kernel_id ids[] = {KERNEL_LINEAR, KERNEL_POLYNOMIAL, KERNEL_SIGMOID};
    struct backend *be = device_open(2);
    for (int i = 0; i < 3 * PRECISIONS && be->ops->points_lanes != NULL; i++) {
        const enum precision precision = (enum precision)(i % PRECISIONS);
        struct fixture f = fixture_new(ids[i / PRECISIONS], precision, 1081, 3, 1);
        const double huge = points_dtype(precision) == DTYPE_F32 ? 1e38 : 1e307;
        for (int64_t k = 0; k < f.n * 3; k++) {
            f.z[k] = 8.0 * fabs(f.z[k]) + 1.0;
        }
        for (int64_t k = 0; k < ROWS * 3; k++) {
            f.x[k] = k / 3 % 5 == 0 ? huge : fabs(f.x[k]);
        }
        for (int64_t k = 0; k < f.n; k++) {
            f.v[k] = fabs(f.v[k]);
        }
        check_fixture(be, &f);
        if (f.kernel.id == KERNEL_LINEAR) {
            check_no_nan(be, &f);
        }
        fixture_free(&f);
    }
    device_close(be);
}

/* Near rows, for which there are other ways to distances: of every kernel that has them, with so
 * many features that they are taken, and rests. */
static void check_near_rows(struct backend *be, double far)
{
    static const enum kernel_id ids[] = {KERNEL_GAUSSIAN, KERNEL_MATERN32, KERNEL_MATERN52,
                                         KERNEL_LAPLACIAN_L1};
    static const int64_t dims[] = {6, 12, 13, 14, 18, 40, 91};
    for (int i = 0; i < 4 * PRECISIONS * 7 && be->ops->points_lanes != NULL; i++) {
        const int64_t d = dims[i / PRECISIONS / 4];
        struct fixture f = fixture_new(ids[i / PRECISIONS % 4], (enum precision)(i % PRECISIONS),
                                       2003, d, 1 + i % 2);
        f.kernel.bandwidth *= 1.5;
        for (int64_t k = 0; k < f.n * d; k++) {
            f.z[k] *= k / d % 53 == 2 || k / d % 127 == 3 ? far : 1.0;
        }
        memcpy(f.x, f.z, (size_t)(40 * d) * sizeof *f.x); /* which some far rows meet */
        check_fixture(be, &f);
        fixture_free(&f);
    }
}

static void test_bits_of_near_rows(void **state)
{
    (void)state;
    struct backend *be = device_open(2);
    check_near_rows(be, 1.0);
    device_close(be);
}

/* Some of them far out, which take the usual way. */
static void test_bits_with_far_rows(void **state)
{
    (void)state;
    struct backend *be = device_open(2);
    check_near_rows(be, 30.0);
    device_close(be);
}

/* Rows so far out that squares of their features overflow, of either sign: values are 0, by
 * whatever way distances are computed, and have the same bits in few rows and in many. */
static void test_rows_out_of_range(void **state)
{
    (void)state;
    static const enum kernel_id ids[] = {KERNEL_GAUSSIAN, KERNEL_MATERN32, KERNEL_MATERN52};
    static const int64_t dims[] = {5, 18, 40};
    struct backend *be = device_open(2);
    for (int i = 0; i < 9 * PRECISIONS && be->ops->points_lanes != NULL; i++) {
        const int64_t d = dims[i / PRECISIONS / 3];
        const enum precision precision = (enum precision)(i % PRECISIONS);
        struct fixture f = fixture_new(ids[i / PRECISIONS % 3], precision, 2000, d, 2);
        const double huge = points_dtype(precision) == DTYPE_F32 ? 1e20 : 1e200;
        for (int64_t j = 0; j < 3 * d; j++) {
            f.x[j] = huge * (j / d == 0   ? 1.0
                             : j / d == 1 ? (j % 2 ? 1.0 : -1.0)
                                          : (j % 5 ? 3.0 : -2.0));
        }
        check_fixture(be, &f);
        struct points *P = device_points(be, &f.kernel, points_dtype(f.precision), ROWS, f.x),
                      *Q = device_points(be, &f.kernel, points_dtype(f.precision), f.n, f.z);
        double *y = device_product(be, view_range(P, 0, 4), view_all(Q, f.n),
                                   vector_dtype(f.precision), f.t, f.v);
        for (int row = 0; row < 3; row++) {
            assert_true(y[row] == 0.0 && y[row + 4] == 0.0);
        }
        assert_true(y[3] != 0.0);
        mem_free(y);
        be->ops->points_free(be, P);
        be->ops->points_free(be, Q);
        fixture_free(&f);
    }
    device_close(be);
}

/* Few points would fill few lanes. */
static void test_few_points_have_none(void **state)
{
    (void)state;
    struct backend *be = device_open(1);
    struct fixture f = fixture_new(KERNEL_GAUSSIAN, F32, 120, 2, 1);
    struct points *Q = device_points(be, &f.kernel, points_dtype(f.precision), f.n, f.z);
    int64_t bytes = -1;
    if (be->ops->points_lanes != NULL) {
        must(be->ops->points_lanes(be, Q, &bytes, &err));
        assert_int_equal(bytes, 0);
    }
    be->ops->points_free(be, Q);
    fixture_free(&f);
    device_close(be);
}

/* Points that get no lanes keep the way in which their near rows come. */
static void check_form_without_memory(struct backend *be, const struct fixture *f)
{
    for (int64_t k = 0; k < f->kernel.d; k++) {
        f->z[k] *= 30.0;
    }
    struct points *Q = device_points(be, &f->kernel, points_dtype(f->precision), f->n, f->z),
                  *P = device_points(be, &f->kernel, points_dtype(f->precision), ROWS, f->x);
    double *before = device_product(be, view_all(P, ROWS), view_all(Q, f->n),
                                    vector_dtype(f->precision), f->t, f->v);
    for (int nth = 1; nth <= 2 && be->ops->points_lanes != NULL; nth++) {
        int64_t bytes = 0;
        mem_fail_nth(nth);
        assert_int_equal(be->ops->points_lanes(be, Q, &bytes, NULL), -ERR_NO_MEMORY);
        mem_fail_nth(0);
        double *after = device_product(be, view_all(P, ROWS), view_all(Q, f->n),
                                       vector_dtype(f->precision), f->t, f->v);
        for (int64_t i = 0; i < ROWS * f->t; i++) {
            assert_same_bits(after[i], before[i]);
        }
        mem_free(after);
    }
    mem_free(before);
    be->ops->points_free(be, P);
    be->ops->points_free(be, Q);
}

static void test_lack_of_memory(void **state)
{
    (void)state;
    struct backend *be = device_open(1);
    struct fixture f = fixture_new(KERNEL_GAUSSIAN, F32, 2000, 40, 1);
    struct points *Q = device_points(be, &f.kernel, points_dtype(f.precision), f.n, f.z),
                  *P = device_points(be, &f.kernel, points_dtype(f.precision), 1, f.x);
    struct mat V = device_mat(be, DTYPE_F32, f.n, 1, f.v),
               Y = device_mat(be, DTYPE_F32, 1, 1, NULL);
    int64_t bytes = 0;
    check_form_without_memory(be, &f);
    for (int nth = 1; nth <= 2 && be->ops->points_lanes != NULL; nth++) {
        mem_fail_nth(nth);
        assert_int_equal(be->ops->points_lanes(be, Q, &bytes, NULL), -ERR_NO_MEMORY);
        mem_fail_nth(0);
        must(be->ops->points_lanes(be, Q, &bytes, &err));
        mem_fail_nth(nth);
        assert_int_equal(be->ops->kmv(be, view_all(P, 1), view_all(Q, f.n), 1.0, &V, 0.0, &Y, NULL),
                         -ERR_NO_MEMORY);
        mem_fail_nth(0);
    }
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    be->ops->points_free(be, P);
    be->ops->points_free(be, Q);
    fixture_free(&f);
    device_close(be);
}

/* ---- predictions ---- */

static struct model model_of(struct fixture *f, double *units)
{
    return (struct model){.kernel = f->kernel,
                          .m = f->n,
                          .d = f->kernel.d,
                          .t = f->t,
                          .dtype = DTYPE_F64,
                          .centers = f->z,
                          .coef = f->v,
                          .feature_mean = units,
                          .feature_scale = units + f->kernel.d,
                          .target_mean = units,
                          .target_scale = units + f->kernel.d};
}

/* Alone, by two, three, ... rows: the bits of a thousand. */
static void test_predictions(void **state)
{
    (void)state;
    struct backend *be = device_open(4);
    struct fixture f = fixture_new(KERNEL_GAUSSIAN, F64, 10000, 9, 2);
    double units[18], *whole = host_zeros(ROWS * f.t), *part = host_zeros(ROWS * f.t);
    for (int i = 0; i < 18; i++) {
        units[i] = i < 9 ? 0.0 : 1.0;
    }
    const struct model m = model_of(&f, units);
    struct predictor *p = NULL;
    must(predictor_new(&m, be, &p, &err));
    must(predictor_run(p, f.x, 0, ROWS, whole, NULL, &err));
    for (int64_t rows = 1; rows <= 40; rows++) {
        must(predictor_run(p, f.x + rows * 9, 0, rows, part, NULL, &err));
        assert_memory_equal(part, whole + rows * f.t, (size_t)(rows * f.t) * sizeof *part);
    }
    predictor_free(p);
    mem_free(whole);
    mem_free(part);
    fixture_free(&f);
    device_close(be);
}

TEST_MAIN(cmocka_unit_test(test_bits), cmocka_unit_test(test_bits_of_near_rows),
          cmocka_unit_test(test_bits_with_far_rows), cmocka_unit_test(test_rows_out_of_range),
          cmocka_unit_test(test_huge_rows), cmocka_unit_test(test_few_points_have_none),
          cmocka_unit_test(test_lack_of_memory), cmocka_unit_test(test_predictions))
