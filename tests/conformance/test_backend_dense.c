/* Memory, column operations and dense algebra of a backend, against plain loops on the host. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"

static const int64_t sizes[] = {1, 2, 15, 31, 33, 257};
#define SIZES ((int)(sizeof sizes / sizeof sizes[0]))
static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64};

static double tolerance(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 1e-5 : 1e-13;
}

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

/* ---- dense algebra ---- */

/* op(A)(i, j) of a column-major matrix. */
static double at(const double *a, int64_t ld, bool transposed, int64_t i, int64_t j)
{
    return transposed ? a[j + i * ld] : a[i + j * ld];
}

/* A view of m x n inside a matrix with two more rows, so that ld > rows. */
static struct mat inner(struct mat whole, int64_t m, int64_t n)
{
    return mat_rows(mat_cols(whole, 1, n), 2, m);
}

static void check_gemm(struct backend *be, enum dtype dtype, bool ta, bool tb, int64_t m, int64_t n,
                       int64_t k, double a, double b)
{
    struct rng rng = rng_new((uint64_t)(m + n + k), RNG_TEST);
    const int64_t am = ta ? k : m, an = ta ? m : k, bm = tb ? n : k, bn = tb ? k : n;
    double *x = host_normal(&rng, (am + 2) * (an + 1)), *y = host_normal(&rng, (bm + 2) * (bn + 1));
    double *z = host_normal(&rng, (m + 2) * (n + 1));
    host_round(x, (am + 2) * (an + 1), dtype);
    host_round(y, (bm + 2) * (bn + 1), dtype);
    host_round(z, (m + 2) * (n + 1), dtype);
    struct mat X = device_mat(be, dtype, am + 2, an + 1, x);
    struct mat Y = device_mat(be, dtype, bm + 2, bn + 1, y);
    struct mat Z = device_mat(be, dtype, m + 2, n + 1, z);
    const struct mat A = inner(X, am, an), B = inner(Y, bm, bn), C = inner(Z, m, n);
    must(be->ops->gemm(be, ta, tb, a, &A, &B, b, &C, &err));
    double *got = device_get(be, &Z);
    for (int64_t j = 0; j < n + 1; j++) {
        for (int64_t i = 0; i < m + 2; i++) {
            const double old = z[i + j * (m + 2)];
            double expected = old, size = 0.0;
            if (i >= 2 && j >= 1) {
                expected = b * old;
                size = fabs(expected);
                for (int64_t l = 0; l < k; l++) {
                    const double product = a * at(x + 2 + am + 2, am + 2, ta, i - 2, l) *
                                           at(y + 2 + bm + 2, bm + 2, tb, l, j - 1);
                    expected += product;
                    size += fabs(product);
                }
            }
            assert_near(got[i + j * (m + 2)], expected, tolerance(dtype) * size);
        }
    }
    be->ops->mat_free(be, &X);
    be->ops->mat_free(be, &Y);
    be->ops->mat_free(be, &Z);
    mem_free(got);
    mem_free(x);
    mem_free(y);
    mem_free(z);
}

static void test_gemm(void **state)
{
    for (int t = 0; t < 2; t++) {
        for (int variant = 0; variant < 4; variant++) {
            const bool ta = variant & 1, tb = variant & 2;
            check_gemm(*state, dtypes[t], ta, tb, 31, 17, 65, 1.0, 0.0);
            check_gemm(*state, dtypes[t], ta, tb, 1, 33, 2, -0.5, 1.0);
            check_gemm(*state, dtypes[t], ta, tb, 5, 1, 0, 1.0, 2.0); /* empty sum */
        }
        check_gemm(*state, dtypes[t], true, false, 10, 10, 1000, 2.0, -1.0);
    }
}

static void check_syrk(struct backend *be, enum dtype dtype, bool ta, int64_t n, int64_t k)
{
    struct rng rng = rng_new((uint64_t)(n + k), RNG_TEST);
    const int64_t am = ta ? k : n;
    double *a = host_normal(&rng, n * k), *c = host_normal(&rng, n * n);
    host_round(a, n * k, dtype);
    host_round(c, n * n, dtype);
    struct mat A = device_mat(be, dtype, am, ta ? n : k, a), C = device_mat(be, dtype, n, n, c);
    must(be->ops->syrk(be, ta, 2.0, &A, -0.5, &C, &err));
    double *got = device_get(be, &C);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            double expected = c[i + j * n], size = 0.0;
            if (i >= j) { /* the upper triangle is not touched */
                expected *= -0.5;
                size = fabs(expected);
                for (int64_t l = 0; l < k; l++) {
                    const double product = 2.0 * at(a, am, ta, i, l) * at(a, am, ta, j, l);
                    expected += product;
                    size += fabs(product);
                }
            }
            assert_near(got[i + j * n], expected, tolerance(dtype) * size);
        }
    }
    be->ops->mat_free(be, &A);
    be->ops->mat_free(be, &C);
    mem_free(got);
    mem_free(a);
    mem_free(c);
}

static void test_syrk(void **state)
{
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < SIZES; s++) {
            check_syrk(*state, dtypes[t], false, sizes[s], 19);
            check_syrk(*state, dtypes[t], true, sizes[s], 19);
        }
    }
}

/* A lower triangle far from singular; the numbers above it must never be read. */
static double *host_lower(struct rng *rng, int64_t n)
{
    double *l = host_normal(rng, n * n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            l[i + j * n] = i < j ? NAN : l[i + j * n] / (double)n + (i == j ? 2.0 : 0.0);
        }
    }
    return l;
}

/* op(L)(i, j) with zeros where the triangle is not. */
static double lower_at(const double *l, int64_t n, bool transposed, int64_t i, int64_t j)
{
    return (transposed ? j >= i : i >= j) ? at(l, n, transposed, i, j) : 0.0;
}

static void check_trsm(struct backend *be, enum dtype dtype, bool right, bool tl, int64_t n)
{
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    const int64_t m = 7, rows = right ? m : n, cols = right ? n : m;
    double *l = host_lower(&rng, n), *b = host_normal(&rng, rows * cols);
    host_round(l, n * n, dtype);
    host_round(b, rows * cols, dtype);
    struct mat L = device_mat(be, dtype, n, n, l), B = device_mat(be, dtype, rows, cols, b);
    must(be->ops->trsm(be, right, tl, &L, &B, &err));
    double *x = device_get(be, &B);
    for (int64_t j = 0; j < cols; j++) {
        for (int64_t i = 0; i < rows; i++) {
            double back = 0.0, size = 0.0; /* op(L) X or X op(L) gives B again */
            for (int64_t k = 0; k < n; k++) {
                const double product = right ? x[i + k * rows] * lower_at(l, n, tl, k, j)
                                             : lower_at(l, n, tl, i, k) * x[k + j * rows];
                back += product;
                size += fabs(product);
            }
            assert_near(back, b[i + j * rows], tolerance(dtype) * size);
        }
    }
    be->ops->mat_free(be, &L);
    be->ops->mat_free(be, &B);
    mem_free(x);
    mem_free(l);
    mem_free(b);
}

static void test_trsm(void **state)
{
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < SIZES; s++) {
            for (int variant = 0; variant < 4; variant++) {
                check_trsm(*state, dtypes[t], variant & 1, variant & 2, sizes[s]);
            }
        }
    }
}

/* G G' + I, lower triangle; NaN above. */
static double *host_definite(struct rng *rng, int64_t n)
{
    double *g = host_normal(rng, n * 5), *a = host_zeros(n * n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            a[i + j * n] = i < j ? NAN : (i == j ? 1.0 : 0.0);
            for (int64_t k = 0; k < 5; k++) {
                a[i + j * n] += g[i + k * n] * g[j + k * n];
            }
        }
    }
    mem_free(g);
    return a;
}

static void check_potrf(struct backend *be, enum dtype dtype, int64_t n)
{
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    double *a = host_definite(&rng, n);
    host_round(a, n * n, dtype);
    struct mat A = device_mat(be, dtype, n, n, a);
    must(be->ops->potrf(be, &A, 0.0, NULL, &err));
    double *l = device_get(be, &A);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++) {
            double sum = 0.0;
            for (int64_t k = 0; k <= j; k++) {
                sum += l[i + k * n] * l[j + k * n];
            }
            assert_near(sum, a[i + j * n], tolerance(dtype) * sqrt(a[i + i * n] * a[j + j * n]));
        }
    }
    be->ops->mat_free(be, &A);
    mem_free(a);
    mem_free(l);
}

static void test_potrf(void **state)
{
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < SIZES; s++) {
            check_potrf(*state, dtypes[t], sizes[s]);
        }
    }
}

/* diag(4, 9, pivot, 16): column 2 is the bad one. */
static int potrf_diagonal(struct backend *be, enum dtype dtype, double pivot, double min_pivot,
                          int64_t *ret_column, struct err *err)
{
    const double a[16] = {4, 0, 0, 0, 0, 9, 0, 0, 0, 0, pivot, 0, 0, 0, 0, 16};
    struct mat A = device_mat(be, dtype, 4, 4, a);
    const int rc = be->ops->potrf(be, &A, min_pivot, ret_column, err);
    be->ops->mat_free(be, &A);
    return rc;
}

static void test_not_positive_definite(void **state)
{
    const double pivots[] = {-1.0, 0.0, 1e-8, NAN};
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 4; i++) {
            struct err err = {0};
            int64_t column = -1;
            assert_int_equal(potrf_diagonal(*state, dtypes[t], pivots[i], 1e-7, &column, &err),
                             -ERR_NOT_POSITIVE_DEFINITE);
            assert_int_equal(column, 2);
            assert_contains(err.detail, "pivot 3 of 4");
        }
        int64_t column = -1;
        assert_int_equal(potrf_diagonal(*state, dtypes[t], 1e-8, 1e-9, &column, NULL), 0);
        assert_int_equal(column, -1);
    }
}

/* A V = V diag(w), V'V = I, w ascending and equal to the trace in sum. */
static void check_eigh(struct backend *be, enum dtype dtype, int64_t n)
{
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    double *a = host_definite(&rng, n); /* NaN above the diagonal: not read */
    host_round(a, n * n, dtype);
    struct mat A = device_mat(be, dtype, n, n, a);
    double *w = host_zeros(n);
    must(be->ops->eigh(be, &A, w, &err));
    double *v = device_get(be, &A);
    const double size = w[n - 1], slack = 20 * tolerance(dtype);
    for (int64_t j = 0; j < n; j++) {
        assert_true(j == 0 || w[j] >= w[j - 1]);
        for (int64_t i = 0; i < n; i++) {
            double product = 0, dot = 0;
            for (int64_t k = 0; k < n; k++) {
                product += a[i >= k ? i + k * n : k + i * n] * v[k + j * n];
                dot += v[k + i * n] * v[k + j * n];
            }
            assert_near(product, w[j] * v[i + j * n], slack * size);
            assert_near(dot, i == j ? 1.0 : 0.0, slack);
        }
    }
    be->ops->mat_free(be, &A);
    mem_free(a);
    mem_free(w);
    mem_free(v);
}

static void test_eigh(void **state)
{
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < SIZES; s++) {
            check_eigh(*state, dtypes[t], sizes[s]);
        }
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

static void test_shapes_are_checked(void **state)
{
    struct backend *be = *state;
    struct mat A = device_mat(be, DTYPE_F64, 3, 2, NULL), B = device_mat(be, DTYPE_F32, 3, 2, NULL);
    double dots[2];
    assert_int_equal(be->ops->gemm(be, false, false, 1, &A, &A, 0, &A, NULL), -ERR_INTERNAL);
    assert_int_equal(be->ops->col_dots(be, &A, &B, dots, NULL), -ERR_INTERNAL);
    assert_int_equal(be->ops->potrf(be, &A, 0, NULL, NULL), -ERR_INTERNAL);
    assert_int_equal(be->ops->add_diag(be, 1, &A, NULL), -ERR_INTERNAL);
    assert_int_equal(be->ops->eigh(be, &A, dots, NULL), -ERR_INTERNAL);
    assert_int_equal(be->ops->add_rows(be, dots, &A, (int64_t[]){0, 1, 2}, &B, NULL),
                     -ERR_INTERNAL);
    be->ops->mat_free(be, &A);
    be->ops->mat_free(be, &B);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, device_setup_two, device_teardown)
TEST_MAIN(TEST(test_new_is_zero_and_accounted), TEST(test_host_arrays_are_read_by_the_call),
          TEST(test_too_much_memory_is_refused), TEST(test_put_get_copy), TEST(test_col_dots),
          TEST(test_col_axpby), TEST(test_gather_and_deflate), TEST(test_add_diag),
          TEST(test_scale_rows), TEST(test_clear_upper), TEST(test_gemm), TEST(test_syrk),
          TEST(test_trsm), TEST(test_potrf), TEST(test_eigh), TEST(test_add_rows),
          TEST(test_not_positive_definite), TEST(test_shapes_are_checked))
