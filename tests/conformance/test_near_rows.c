/*
 * Kernels with a slope at 0 (laplacian, matern12), for which a small distance must be known well:
 * rows that are equal, next to each other or in a few heaps, and those of a usual sample.
 */
#include <math.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"

#define N 310
#define COLS 2

enum arrangement { SAMPLE, TWINS, HEAPS, ARRANGEMENTS };

/* x: P's rows, z: those of Q. */
struct fixture {
    struct backend *be;
    struct kernel kernel;
    enum precision precision;
    double *x, *z;
    struct points *P, *Q;
};

/* Twins: every fifth row of P is one of Q, or 1e-4 beside it. Heaps: rows lie 1e-3 around five
 * places. */
static void arrange(struct fixture *f, enum arrangement how, struct rng *rng)
{
    const int64_t d = f->kernel.d;
    for (int64_t i = 0; i < N && how != SAMPLE; i++) {
        const int64_t heap = i % 5;
        for (int64_t k = 0; k < d; k++) {
            double *x = f->x + i * d + k, *z = f->z + i * d + k;
            if (how == HEAPS && i >= 5) {
                *z = f->z[heap * d + k] + 1e-3 * rng_normal(rng);
            }
            if (how == HEAPS || heap == 0) {
                *x = *z + (i % 2 == 0 ? 0.0 : 1e-4 * rng_normal(rng));
            }
        }
    }
}

static struct fixture fixture_new(struct backend *be, enum kernel_id id, int64_t d,
                                  enum precision precision, enum arrangement how)
{
    struct rng rng = rng_new((uint64_t)d, RNG_TEST);
    struct fixture f = {.be = be,
                        .kernel = usual_kernel(id, d),
                        .precision = precision,
                        .x = host_normal(&rng, N * d),
                        .z = host_normal(&rng, N * d)};
    arrange(&f, how, &rng);
    host_round(f.x, N * d, DTYPE_F32);
    host_round(f.z, N * d, DTYPE_F32);
    f.P = device_points(be, &f.kernel, points_dtype(precision), N, f.x);
    f.Q = device_points(be, &f.kernel, points_dtype(precision), N, f.z);
    return f;
}

static void fixture_free(struct fixture *f)
{
    f->be->ops->points_free(f->be, f->P);
    f->be->ops->points_free(f->be, f->Q);
    mem_free(f->x);
    mem_free(f->z);
    assert_int_equal(f->be->bytes, 0);
}

/* y = K(x,z) v, to what the engine promises of a row's |K||v|. */
static void check_sums(const struct fixture *f, const double *x, const double *v, const double *y)
{
    const int64_t d = f->kernel.d;
    for (int64_t i = 0; i < N; i++) {
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < N; j++) {
            const double k = kernel_eval(&f->kernel, x + i * d, f->z + j * d);
            sum += k * v[j];
            size += fabs(k * v[j]);
        }
        assert_near(y[i], sum, (f->precision == F64 ? 1e-13 : 1e-5) * size);
    }
}

/* Each of P's first rows by itself, which other loops take, has the bits that it has among all. */
static void check_alone(const struct fixture *f, const double *v, const double *y)
{
    const struct view Q = view_all(f->Q, N);
    for (int64_t i = 0; i < 10 && f->be->ops->points_lanes != NULL; i++) { /* a CPU */
        double *one = device_product(f->be, (struct view){.points = f->P, .first = i, .count = 1},
                                     Q, vector_dtype(f->precision), COLS, v);
        for (int c = 0; c < COLS; c++) {
            assert_same_bits(one[c], y[i + c * N]);
        }
        mem_free(one);
    }
}

static void check_products(const struct fixture *f)
{
    struct rng rng = rng_new(7, RNG_TEST);
    double *v = host_normal(&rng, N * COLS);
    host_round(v, N * COLS, DTYPE_F32);
    const struct view P = view_all(f->P, N), Q = view_all(f->Q, N);
    double *plain = device_product(f->be, P, Q, vector_dtype(f->precision), COLS, v),
           *both = device_product(f->be, Q, Q, vector_dtype(f->precision), COLS, v);
    for (int c = 0; c < COLS; c++) {
        check_sums(f, f->x, v + c * N, plain + c * N);
        check_sums(f, f->z, v + c * N, both + c * N);
    }
    check_alone(f, v, plain);
    mem_free(plain);
    mem_free(both);
    mem_free(v);
}

static void test_products(void **state)
{
    static const int64_t dims[] = {1, 3, 4, 9, 64, 435};
    static const enum kernel_id ids[] = {KERNEL_LAPLACIAN, KERNEL_MATERN12};
    (void)state;
    struct backend *be = device_open(2);
    for (int i = 0; i < 6 * PRECISIONS * ARRANGEMENTS; i++) {
        const int how = i % ARRANGEMENTS, precision = i / ARRANGEMENTS % PRECISIONS;
        struct fixture f = fixture_new(be, ids[i % 2], dims[i / ARRANGEMENTS / PRECISIONS],
                                       (enum precision)precision, (enum arrangement)how);
        check_products(&f);
        fixture_free(&f);
    }
    device_close(be);
}

/* The same row on both sides, so far from the origin that |x|^2 is infinite. */
static void test_far_away(void **state)
{
    static const enum kernel_id ids[] = {KERNEL_LAPLACIAN, KERNEL_MATERN12};
    static const double x[] = {1e20, -1e20, 0.0, 1e20, 1e19};
    (void)state;
    struct backend *be = device_open(2);
    for (int i = 0; i < 2 * PRECISIONS && be->ops->points_lanes != NULL; i++) { /* a CPU */
        struct fixture f = {
            .be = be, .kernel = usual_kernel(ids[i % 2], 5), .precision = (enum precision)(i / 2)};
        const struct rows X = {.dtype = DTYPE_F64, .n = 1, .d = 5, .data = x};
        const enum dtype dtype = points_dtype(f.precision);
        must(be->ops->points_new(be, &f.kernel, dtype, &X, &f.P, &err));
        must(be->ops->points_new(be, &f.kernel, dtype, &X, &f.Q, &err));
        double *y =
            device_product(be, view_all(f.P, 1), view_all(f.Q, 1), vector_dtype(f.precision), COLS,
                           (const double[COLS]){1.0, -2.0});
        assert_same_bits(y[0], 1.0);
        assert_same_bits(y[1], -2.0);
        mem_free(y);
        fixture_free(&f);
    }
    device_close(be);
}

TEST_MAIN(cmocka_unit_test(test_products), cmocka_unit_test(test_far_away))
