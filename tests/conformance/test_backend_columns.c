/* Memory of a backend, and its operations on columns, rows and diagonals, against plain loops on
 * the host. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/dense_fixture.h"

/* ---- memory ---- */

static void check_host_arrays(struct backend *be, int64_t n)
{
    const struct backend_ops *o = be->ops;
    double *x = host_zeros(n);
    int64_t *index = mem_array((size_t)n, sizeof *index);
    assert_non_null(index);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (double)i;
        index[i] = n - 1 - i;
    }
    struct mat from = device_mat(be, DTYPE_F64, n, 1, x), to = device_mat(be, DTYPE_F64, n, 1, x);
    memset(x, 0, (size_t)n * sizeof *x);
    must(o->gather_rows(be, &from, index, &to, &err));
    must(o->add_rows(be, &(double){2.0}, &from, index, &to, &err));
    memset(index, 0, (size_t)n * sizeof *index);
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0.5;
    }
    must(o->scale_rows(be, x, &to, &err));
    memset(x, 0, (size_t)n * sizeof *x);
    double *got = device_get(be, &to);
    for (int64_t i = 0; i < n; i++) {
        assert_same_bits(got[i], 1.5 * (double)(n - 1 - i));
    }
    mem_free(got);
    mem_free(index);
    mem_free(x);
    o->mat_free(be, &from);
    o->mat_free(be, &to);
}

/* A caller may use its arrays for something else as soon as an operation has returned, though a
 * device may not have begun with it: short arrays, and those too large for a launch's arguments or
 * for all staging buffers. */
static void test_host_arrays_are_read_by_the_call(void **state)
{
    check_host_arrays(*state, 3);
    check_host_arrays(*state, 400000);
    check_host_arrays(*state, 900000);
}

static void test_new_is_zero_and_accounted(void **state)
{
    struct backend *be = *state;
    struct mat m = device_mat(be, DTYPE_F32, 5, 3, NULL);
    assert_int_equal(m.ld, 5);
    assert_int_equal(be->bytes, 60);
    double *x = device_get(be, &m);
    for (int i = 0; i < 15; i++) {
        assert_same_bits(x[i], 0.0);
    }
    mem_free(x);
    be->ops->mat_free(be, &m);
    be->ops->mat_free(be, &m); /* a zeroed struct is fine */
    assert_int_equal(be->bytes, 0);
    assert_true(be->peak_bytes >= 60);

    struct mat empty = device_mat(be, DTYPE_F64, 0, 4, NULL);
    assert_int_equal(empty.ld, 1);
    be->ops->mat_free(be, &empty);
}

static void test_too_much_memory_is_refused(void **state)
{
    struct backend *be = *state;
    struct mat m = {0};
    const int64_t huge = INT64_C(1) << 33;
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, huge, huge, &m, NULL), -ERR_NO_MEMORY);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, INT64_MAX, 1, &m, NULL), -ERR_NO_MEMORY);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, huge, 1 << 20, &m, NULL), -ERR_NO_MEMORY);
    assert_null(m.data);
    assert_int_equal(be->bytes, 0);
}

static void test_put_get_copy(void **state)
{
    struct backend *be = *state;
    struct rng rng = rng_new(1, RNG_TEST);
    double *host = host_normal(&rng, 7 * 4); /* ld 7, of which 5 rows are used */
    host_round(host, 7 * 4, DTYPE_F32);
    for (int t = 0; t < 2; t++) {
        struct mat m = device_mat(be, dtypes[t], 5, 4, NULL);
        struct mat other = device_mat(be, dtypes[1 - t], 5, 4, NULL);
        double back[9 * 4] = {0};
        must(be->ops->mat_put(be, host, 7, &m, &err));
        must(be->ops->copy(be, &m, &other, &err));
        must(be->ops->mat_get(be, &other, back, 9, &err));
        for (int j = 0; j < 4; j++) {
            assert_all_close(back + 9 * j, host + 7 * j, 5, 0.0, 0.0);
            assert_same_bits(back[9 * j + 5], 0.0); /* beyond the rows: untouched */
        }
        be->ops->mat_free(be, &m);
        be->ops->mat_free(be, &other);
    }
    mem_free(host);
}

/* ---- columns ---- */

static void check_dots(struct backend *be, enum dtype dtype, int64_t n, int64_t cols)
{
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    double *a = host_normal(&rng, cols * n), *b = host_normal(&rng, cols * n);
    host_round(a, cols * n, dtype);
    host_round(b, cols * n, dtype);
    struct mat A = device_mat(be, dtype, n, cols, a), B = device_mat(be, dtype, n, cols, b);
    double *dots = host_zeros(cols);
    must(be->ops->col_dots(be, &A, &B, dots, &err));
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0.0, size = 0.0;
        for (int64_t i = 0; i < n; i++) {
            sum += a[i + j * n] * b[i + j * n];
            size += fabs(a[i + j * n] * b[i + j * n]);
        }
        assert_near(dots[j], sum, 1e-14 * size); /* float64 sums for both types */
    }
    be->ops->mat_free(be, &A);
    be->ops->mat_free(be, &B);
    mem_free(a);
    mem_free(b);
    mem_free(dots);
}

static void test_col_dots(void **state)
{
    for (int s = 0; s < SIZES; s++) {
        check_dots(*state, DTYPE_F32, sizes[s], 3);
        check_dots(*state, DTYPE_F64, sizes[s], 3);
    }
    check_dots(*state, DTYPE_F64, 100000, 3);
    check_dots(*state, DTYPE_F64, 2, 17000); /* more columns than a grid of the GPU's has */
}

static void check_axpby(struct backend *be, enum dtype dtype, int64_t n)
{
    const double a[4] = {2.0, -0.5, 0.0, 0.0}, b[4] = {1.0, 0.0, 1.0, -3.0};
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    double *x = host_normal(&rng, 4 * n), *y = host_normal(&rng, 4 * n);
    host_round(x, 4 * n, dtype);
    host_round(y, 4 * n, dtype);
    y[n] = NAN;     /* column 1: b = 0 ignores what Y held */
    x[2 * n] = NAN; /* column 2: (0, 1) skips */
    struct mat X = device_mat(be, dtype, n, 4, x), Y = device_mat(be, dtype, n, 4, y);
    must(be->ops->col_axpby(be, a, &X, b, &Y, &err));
    double *got = device_get(be, &Y);
    for (int j = 0; j < 4; j++) {
        for (int64_t i = j * n; i < (j + 1) * n; i++) {
            if (j == 2) {
                assert_same_bits(got[i], y[i]);
                continue;
            }
            const double new = a[j] * x[i], old = j == 1 ? 0.0 : b[j] * y[i];
            assert_near(got[i], new + old, tolerance(dtype) * (fabs(new) + fabs(old)));
        }
    }
    be->ops->mat_free(be, &X);
    be->ops->mat_free(be, &Y);
    mem_free(got);
    mem_free(x);
    mem_free(y);
}

static void test_col_axpby(void **state)
{
    for (int s = 0; s < SIZES; s++) {
        check_axpby(*state, DTYPE_F32, sizes[s]);
        check_axpby(*state, DTYPE_F64, sizes[s]);
    }
}

static void check_rows_and_diagonals(struct backend *be, enum dtype dtype, int64_t n)
{
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    double *f = host_normal(&rng, 3 * n), *d = host_zeros(n);
    int64_t *index = mem_array((size_t)n, sizeof *index);
    host_round(f, 3 * n, dtype);
    for (int64_t i = 0; i < n; i++) {
        d[i] = i % 2 == 0 ? 20.0 : 0.5; /* half of them end at 0 */
        index[i] = rng_below(&rng, n);
    }
    struct mat F = device_mat(be, dtype, n, 3, f), D = device_mat(be, dtype, n, 1, d);
    struct mat G = device_mat(be, dtype, n, 3, NULL);
    must(be->ops->deflate_diag(be, &F, &D, &err));
    must(be->ops->gather_rows(be, &F, index, &G, &err));
    double *left = device_get(be, &D), *gathered = device_get(be, &G);
    for (int64_t i = 0; i < n; i++) {
        double expected = d[i];
        for (int j = 0; j < 3; j++) {
            expected -= f[i + j * n] * f[i + j * n];
            assert_same_bits(gathered[i + j * n], f[index[i] + j * n]);
        }
        assert_near(left[i], fmax(expected, 0.0), tolerance(dtype) * 40.0);
        assert_true(left[i] >= 0.0);
    }
    be->ops->mat_free(be, &F);
    be->ops->mat_free(be, &D);
    be->ops->mat_free(be, &G);
    mem_free(left);
    mem_free(gathered);
    mem_free(index);
    mem_free(f);
    mem_free(d);
}

static void test_gather_and_deflate(void **state)
{
    for (int s = 0; s < SIZES; s++) {
        check_rows_and_diagonals(*state, DTYPE_F32, sizes[s]);
        check_rows_and_diagonals(*state, DTYPE_F64, sizes[s]);
    }
}

/* Rows times factors, in a matrix that is part of a larger one. */
static void test_scale_rows(void **state)
{
    struct backend *be = *state;
    const double factors[] = {2, 0, -0.5};
    for (int k = 0; k < 2; k++) {
        const enum dtype dtype = k == 0 ? DTYPE_F32 : DTYPE_F64;
        struct mat A = device_mat(be, dtype, 4, 2, (double[]){1, 2, 3, 4, 5, 6, 7, 8});
        const struct mat part = mat_rows(A, 1, 3);
        must(be->ops->scale_rows(be, factors, &part, &err));
        double *a = device_get(be, &A);
        const double expected[] = {1, 4, 0, -2, 5, 12, 0, -4};
        for (int i = 0; i < 8; i++) {
            assert_same_bits(a[i] + 0.0, expected[i]);
        }
        mem_free(a);
        be->ops->mat_free(be, &A);
    }
}

static void test_clear_upper(void **state)
{
    struct backend *be = *state;
    struct mat A = device_mat(be, DTYPE_F64, 3, 3, (double[]){1, 2, 3, NAN, 5, 6, INFINITY, 8, 9});
    must(be->ops->clear_upper(be, &A, &err));
    double *a = device_get(be, &A);
    const double expected[] = {1, 2, 3, 0, 5, 6, 0, 0, 9};
    for (int i = 0; i < 9; i++) {
        assert_same_bits(a[i], expected[i]);
    }
    mem_free(a);
    const struct mat wide = mat_rows(A, 0, 2);
    assert_int_equal(be->ops->clear_upper(be, &wide, NULL), -ERR_INTERNAL);
    be->ops->mat_free(be, &A);
}

static void test_add_diag(void **state)
{
    struct backend *be = *state;
    const double a[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, sum[9] = {1.5, 2, 3, 4, 5.5, 6, 7, 8, 9.5};
    for (int t = 0; t < 2; t++) {
        struct mat A = device_mat(be, dtypes[t], 3, 3, a);
        must(be->ops->add_diag(be, 0.5, &A, &err));
        double *got = device_get(be, &A);
        assert_all_close(got, sum, 9, 0.0, 0.0);
        mem_free(got);
        be->ops->mat_free(be, &A);
    }
}

static void test_add_rows(void **state)
{
    struct backend *be = *state;
    const int64_t index[3] = {4, 0, 2};
    const double factor[2] = {2.0, -1.0};
    for (int t = 0; t < 2; t++) {
        const double from[6] = {1, 2, 3, 10, 20, 30};
        const double to[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        const double expected[10] = {4, 1, 8, 3, 6, -15, 6, -23, 8, -1};
        struct mat A = device_mat(be, dtypes[t], 3, 2, from);
        struct mat B = device_mat(be, dtypes[t], 5, 2, to);
        must(be->ops->add_rows(be, factor, &A, index, &B, &err));
        double *b = device_get(be, &B);
        assert_all_close(b, expected, 10, 0.0, 0.0);
        mem_free(b);
        be->ops->mat_free(be, &A);
        be->ops->mat_free(be, &B);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, device_setup_two, device_teardown)
TEST_MAIN(TEST(test_new_is_zero_and_accounted), TEST(test_host_arrays_are_read_by_the_call),
          TEST(test_too_much_memory_is_refused), TEST(test_put_get_copy), TEST(test_col_dots),
          TEST(test_col_axpby), TEST(test_gather_and_deflate), TEST(test_add_diag),
          TEST(test_scale_rows), TEST(test_clear_upper), TEST(test_add_rows))
