/*
 * Kept kernel values: products with them against the float64 triple loop and, to the last bit,
 * against products without; what is accounted, and what a product takes when nothing is kept.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/ram.h"
#include "conformance/device.h"
#include "conformance/precisions.h"

/* A product Y <- K V of n points with themselves, in numbers that every precision holds. */
struct fixture {
    struct backend *be;
    struct kernel kernel;
    enum precision precision;
    int64_t n, t;
    double *x, *v;
    struct points *points;
};

static struct fixture fixture_on(struct backend *be, enum kernel_id id, enum precision precision,
                                 int64_t n, int64_t d, int64_t t)
{
    struct rng rng = rng_new((uint64_t)(n + 7 * t), RNG_TEST);
    struct fixture f = {
        .be = be,
        .kernel = usual_kernel(id, d),
        .precision = precision,
        .n = n,
        .t = t,
        .x = host_normal(&rng, n * d),
        .v = host_normal(&rng, n * t),
    };
    host_round(f.x, n * d, DTYPE_F32);
    host_round(f.v, n * t, DTYPE_F32);
    const struct rows X = {.dtype = DTYPE_F64, .n = n, .d = d, .data = f.x};
    must(f.be->ops->points_new(f.be, &f.kernel, points_dtype(precision), &X, &f.points, &err));
    return f;
}

/* The backend stays; nothing of the fixture does. */
static void fixture_leave(struct fixture *f)
{
    f->be->ops->points_free(f->be, f->points);
    mem_free(f->x);
    mem_free(f->v);
    assert_int_equal(f->be->bytes, 0);
}

static struct fixture fixture_new(int threads, enum kernel_id id, enum precision precision,
                                  int64_t n, int64_t d, int64_t t)
{
    return fixture_on(device_open(threads), id, precision, n, d, t);
}

static void fixture_free(struct fixture *f)
{
    fixture_leave(f);
    device_close(f->be);
}

/* Rows first .. first+count-1 of K times all columns; the caller frees. */
static double *multiply(struct fixture *f, int64_t first, int64_t count)
{
    struct mat V = device_mat(f->be, vector_dtype(f->precision), f->n, f->t, f->v);
    struct mat Y = device_mat(f->be, vector_dtype(f->precision), count, f->t, NULL);
    must(f->be->ops->kmv(f->be, view_range(f->points, first, count), view_all(f->points, f->n), 1.0,
                         &V, 0.0, &Y, &err));
    double *y = device_get(f->be, &Y);
    f->be->ops->mat_free(f->be, &V);
    f->be->ops->mat_free(f->be, &Y);
    return y;
}

static int64_t keep(struct fixture *f, int64_t bytes, enum kernel_storage storage)
{
    int64_t kept = -1;
    must(f->be->ops->points_cache(f->be, f->points, bytes, storage, &kept, &err));
    return kept;
}

static void assert_same(const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        assert_same_bits(a[i], b[i]);
    }
}

/* ---- against the triple loop ---- */

static void check_reference(const struct fixture *f, const double *y, double rtol)
{
    const int64_t d = f->kernel.d;
    for (int64_t i = 0; i<f->n; i += f->n> 40 ? 13 : 1) {
        for (int64_t c = 0; c < f->t; c++) {
            double sum = 0.0, size = 0.0;
            for (int64_t j = 0; j < f->n; j++) {
                const double k = kernel_eval(&f->kernel, f->x + i * d, f->x + j * d);
                sum += k * f->v[j + c * f->n];
                size += fabs(k * f->v[j + c * f->n]);
            }
            assert_near(y[i + c * f->n], sum, rtol * size);
        }
    }
}

static void check_kept(struct backend *be, enum kernel_id id, enum precision precision, int64_t n,
                       int64_t d, int64_t t)
{
    struct fixture f = fixture_on(be, id, precision, n, d, t);
    double *computed = multiply(&f, 0, n);
    const int64_t kept = keep(&f, INT64_MAX / 2, KERNEL_STORE_EXACT);
    double *exact = multiply(&f, 0, n);
    check_reference(&f, exact, precision == F64 ? 1e-12 : 2e-5);
    assert_same(exact, computed, n * t);
    if (n > 64) { /* the widest panel there is */
        assert_true(kept >= n * (n + 1) / 2 * (int64_t)dtype_size(points_dtype(precision)));
    }
    if (kernel_uses_distance(id)) {
        const int64_t half = keep(&f, INT64_MAX / 2, KERNEL_STORE_HALF);
        assert_true(half == kept / (precision == F64 ? 4 : 2));
        double *rounded = multiply(&f, 0, n);
        check_reference(&f, rounded, 2e-5 + 1.01 / 4096);
        mem_free(rounded);
    }
    mem_free(exact);
    mem_free(computed);
    fixture_leave(&f);
}

/* How values are kept does not depend on the features; where there are many, one number of those is
 * taken in turn. */
static void test_products(void **state)
{
    (void)state;
    static const int64_t few[] = {1, 2, 15, 16, 17, 31, 33}, many[] = {65, 129, 255, 257, 600};
    static const int64_t dims[] = {1, 2, 3, 7, 64, 435};
    struct backend *be = device_open(2);
    for (int i = 0; i < KERNEL_COUNT_ * PRECISIONS; i++) {
        const enum kernel_id id = (enum kernel_id)(i / PRECISIONS);
        const enum precision precision = (enum precision)(i % PRECISIONS);
        for (int j = 0; j < 7 * 6; j++) {
            check_kept(be, id, precision, few[j / 6], dims[j % 6], (i + j) % 3 + 1);
        }
        for (int j = 0; j < 5; j++) {
            check_kept(be, id, precision, many[j], dims[(i + j) % 6], (i + j) % 3 + 1);
        }
    }
    for (int precision = 0; precision < PRECISIONS; precision++) {
        check_kept(be, KERNEL_MATERN52, (enum precision)precision, 300, 4, 10);
        check_kept(be, KERNEL_GAUSSIAN, (enum precision)precision, 300, 4, 70);
    }
    device_close(be);
}

/* ---- parts, threads ---- */

/* Whatever part is kept, on any number of threads: the bits of a product that computes. */
static void test_bits_of_parts(void **state)
{
    (void)state;
    static const int64_t shares[] = {1, 2, 3, 8, 20};
    for (int precision = 0; precision < PRECISIONS; precision++) {
        struct fixture one = fixture_new(1, KERNEL_MATERN32, (enum precision)precision, 2500, 5, 3);
        double *computed = multiply(&one, 0, one.n);
        const int64_t all = keep(&one, INT64_MAX / 2, KERNEL_STORE_EXACT);
        fixture_free(&one);
        for (int i = 0; i < 10; i++) {
            struct fixture f =
                fixture_new(1 + i % 3, KERNEL_MATERN32, (enum precision)precision, 2500, 5, 3);
            const int64_t budget = all / shares[i % 5], kept = keep(&f, budget, KERNEL_STORE_EXACT);
            assert_true(kept <= budget && kept > budget - all / 20);
            double *y = multiply(&f, 0, f.n);
            assert_same(y, computed, f.n * f.t);
            mem_free(y);
            y = multiply(&f, 100, 50); /* some rows do not use what is kept */
            for (int64_t c = 0; c < f.t; c++) {
                for (int64_t j = 0; j < 50; j++) {
                    assert_near(y[j + c * 50], computed[100 + j + c * f.n], 1e-2);
                }
            }
            mem_free(y);
            fixture_free(&f);
        }
        mem_free(computed);
    }
}

/* Two half-precision products have the same bits on any number of threads, too. */
static void test_bits_of_halves(void **state)
{
    (void)state;
    double *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        struct fixture f = fixture_new(threads, KERNEL_LAPLACIAN_L1, F32, 1500, 4, 2);
        keep(&f, 1500L * 1500, KERNEL_STORE_HALF);
        double *y = multiply(&f, 0, f.n);
        if (first != NULL) {
            assert_same(y, first, f.n * f.t);
            mem_free(y);
        } else {
            first = y;
        }
        fixture_free(&f);
    }
    mem_free(first);
}

/* Values from 1 down to nothing keep their relative size in 16 bits, and 0 and 1 stay. */
static void test_halves(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, KERNEL_LAPLACIAN, F64, 100, 1, 1);
    f.be->ops->points_free(f.be, f.points);
    for (int64_t i = 0; i < f.n; i++) {
        f.x[i] = i < 90 ? 0.23 * (double)i : 1e4;
        f.v[i] = 0.0;
    }
    f.v[0] = 1.0;
    f.kernel.bandwidth = 1.0;
    const struct rows X = {.dtype = DTYPE_F64, .n = f.n, .d = 1, .data = f.x};
    must(f.be->ops->points_new(f.be, &f.kernel, DTYPE_F64, &X, &f.points, &err));
    assert_true(keep(&f, 1 << 20, KERNEL_STORE_HALF) > 0);
    double *y = multiply(&f, 0, f.n);
    assert_near(y[0], 1.0, 0x1p-31);
    assert_true(y[95] == 0.0);
    for (int64_t i = 1; i < 90; i++) {
        const double value = exp(-f.x[i]);
        assert_near(y[i], value, 1.001 / 4096 * (value + 0x1p-31));
    }
    mem_free(y);
    fixture_free(&f);
}

/* ---- memory ---- */

static void test_what_is_kept_is_accounted(void **state)
{
    (void)state;
    struct fixture f = fixture_new(2, KERNEL_GAUSSIAN, F32, 1000, 3, 1);
    const int64_t before = f.be->bytes;
    assert_int_equal(keep(&f, 0, KERNEL_STORE_EXACT), 0);
    assert_int_equal(f.be->bytes, before);
    const int64_t exact = keep(&f, 1 << 24, KERNEL_STORE_EXACT);
    assert_true(exact > 1000 * 1001 / 2 * 4 && exact < 1000 * 1001 / 2 * 4 * 3 / 2);
    assert_int_equal(f.be->bytes, before + exact);
    assert_true(f.be->peak_bytes >= before + exact);
    const int64_t half = keep(&f, exact, KERNEL_STORE_HALF); /* takes the place of the other */
    assert_int_equal(f.be->bytes, before + half);
    assert_int_equal(keep(&f, 100, KERNEL_STORE_EXACT), 0);
    assert_int_equal(f.be->bytes, before);
    fixture_free(&f); /* checks that nothing is left */
}

/* Takes the device's memory but for what is left for the library, and that in small matrices, until
 * there is no other: how much of the last of it a device gives, and in which pieces, is its own. A
 * few of them are given back, for the vectors of a product. */
enum { FILLERS = 512, SPARE = 3 };
static void fill_device(struct backend *be, struct mat *fillers)
{
    const int64_t piece = 1 << 20;
    must(be->ops->mat_new(be, DTYPE_F32, be->ops->memory_available(be) / 4, 1, &fillers[0], &err));
    int count = 1;
    while (count < FILLERS &&
           be->ops->mat_new(be, DTYPE_F32, piece / 4, 1, &fillers[count], NULL) == 0) {
        count++;
    }
    assert_true(count < FILLERS && count > SPARE);
    for (int i = 0; i < SPARE; i++) {
        be->ops->mat_free(be, &fillers[--count]);
    }
}

/* Nor does a device give what it has not got. */
static void test_more_than_there_is(void **state)
{
    (void)state;
    static struct mat fillers[FILLERS];
    struct fixture f = fixture_new(1, KERNEL_GAUSSIAN, F32, 2000, 3, 1);
    const struct backend_ops *o = f.be->ops;
    double *computed = multiply(&f, 0, f.n);
    if (strcmp(o->name, "cuda") == 0) {
        fill_device(f.be, fillers);
        const int64_t before = f.be->bytes;
        assert_int_equal(keep(&f, INT64_MAX / 2, KERNEL_STORE_EXACT), 0);
        assert_int_equal(f.be->bytes, before);
        double *y = multiply(&f, 0, f.n);
        assert_same(y, computed, f.n);
        mem_free(y);
    }
    for (int i = 0; i < FILLERS; i++) {
        o->mat_free(f.be, &fillers[i]);
    }
    assert_true(keep(&f, INT64_MAX / 2, KERNEL_STORE_EXACT) > 0);
    mem_free(computed);
    fixture_free(&f);
}

/* Lack of memory keeps nothing, and products go on. */
static void test_no_memory(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, KERNEL_GAUSSIAN, F32, 300, 3, 1);
    const int64_t before = f.be->bytes;
    double *computed = multiply(&f, 0, f.n);
    for (int64_t nth = 1; nth < 20; nth++) {
        mem_fail_nth(nth);
        int64_t kept = -1;
        struct err err = {0};
        const int rc =
            f.be->ops->points_cache(f.be, f.points, 1 << 24, KERNEL_STORE_EXACT, &kept, &err);
        mem_fail_nth(0);
        assert_int_equal(rc, 0);
        assert_int_equal(f.be->bytes, before + kept);
        double *y = multiply(&f, 0, f.n);
        assert_same(y, computed, f.n);
        mem_free(y);
    }
    mem_free(computed);
    fixture_free(&f);
}

struct stopper {
    int looks, most;
};

static int stop_after(void *context, struct err *why)
{
    struct stopper *s = context;
    return ++s->looks > s->most ? err_set(why, ERR_CANCELLED, "enough") : 0;
}

/* 6,000 rows in float64 are some hundred MB, in pieces of 32 MiB a thread. What was filled before a
 * stop is dropped; without one the values are there. */
static void test_stopped_while_filling(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, KERNEL_GAUSSIAN, F64, 6000, 2, 1);
    double *computed = multiply(&f, 0, f.n);
    const int64_t before = f.be->bytes;
    struct stopper s = {.most = INT_MAX};
    f.be->stop = stop_after;
    f.be->stop_context = &s;
    assert_true(keep(&f, INT64_MAX / 2, KERNEL_STORE_EXACT) > 0);
    const int all = s.looks;
    assert_true(all >= 4);
    for (s.most = 0; s.most < all; s.most++) {
        int64_t kept = -1;
        struct err why = {0};
        s.looks = 0;
        assert_int_equal(
            f.be->ops->points_cache(f.be, f.points, INT64_MAX / 2, KERNEL_STORE_EXACT, &kept, &why),
            -ERR_CANCELLED);
        assert_int_equal(kept, 0);
        assert_int_equal(f.be->bytes, before);
    }
    double *y = multiply(&f, 0, f.n);
    assert_same(y, computed, f.n);
    mem_free(y);
    mem_free(computed);
    fixture_free(&f);
}

static void test_halves_are_for_distances(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, KERNEL_POLYNOMIAL, F32, 100, 3, 1);
    int64_t kept = -1;
    struct err why = {0};
    assert_int_equal(
        f.be->ops->points_cache(f.be, f.points, 1 << 24, KERNEL_STORE_HALF, &kept, &why),
        -ERR_UNSUPPORTED);
    assert_contains(why.detail, "polynomial");
    fixture_free(&f);
}

static bool on_cpu(void)
{
    struct backend *be = device_open(1);
    const bool ret = strcmp(be->ops->name, "cpu") == 0;
    device_close(be);
    return ret;
}

/* Beside data and vectors a product takes at most 64 MiB of the host, nothing of it for longer. */
static void test_memory_of_a_product(void **state)
{
    (void)state;
    if (!on_cpu()) {
        skip();
    }
    static const int64_t sizes[][3] = {{9000, 3, 64}, {20000, 2, 1}, {6000, 2, 200}};
    for (int i = 0; i < 3; i++) {
        struct fixture f = fixture_new(2, KERNEL_GAUSSIAN, F32, sizes[i][0], sizes[i][1], 1);
        struct mat V = device_mat(f.be, DTYPE_F32, f.n, sizes[i][2], NULL);
        struct mat Y = device_mat(f.be, DTYPE_F32, f.n, sizes[i][2], NULL);
        const int64_t alive = f.be->bytes, peak = f.be->peak_bytes;
        const struct view all = view_all(f.points, f.n);
        ram_peak_reset();
        const int64_t before = ram_peak();
        must(f.be->ops->kmv(f.be, all, all, 1.0, &V, 0.0, &Y, &err));
        assert_true(ram_peak() - before <= 64L << 20);
        assert_int_equal(f.be->bytes, alive);
        assert_int_equal(f.be->peak_bytes, peak);
        f.be->ops->mat_free(f.be, &V);
        f.be->ops->mat_free(f.be, &Y);
        fixture_free(&f);
    }
}

struct cached_test {
    void (*run)(void **state);
};

/* A backend that keeps nothing leaves these out. cmocka takes a skip in a setup for a failure. */
static void run_cached(void **state)
{
    const struct cached_test *test = *state;
    struct backend *be = device_open(1);
    const bool can = be->ops->points_cache != NULL;
    device_close(be);
    if (!can) {
        skip();
    }
    test->run(NULL);
}

#define TEST(f)                                                                                    \
    {                                                                                              \
        .name = #f, .test_func = run_cached, .initial_state = &(struct cached_test)                \
        {                                                                                          \
            f                                                                                      \
        }                                                                                          \
    }
TEST_MAIN(TEST(test_products), TEST(test_bits_of_parts), TEST(test_bits_of_halves),
          TEST(test_halves), TEST(test_what_is_kept_is_accounted), TEST(test_more_than_there_is),
          TEST(test_no_memory), TEST(test_stopped_while_filling),
          TEST(test_halves_are_for_distances), cmocka_unit_test(test_memory_of_a_product))
