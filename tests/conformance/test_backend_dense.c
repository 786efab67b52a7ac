/* Dense algebra of a backend, against plain loops on the host. */
#include <math.h>

#include "base/mem.h"
#include "conformance/dense_fixture.h"

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
TEST_MAIN(TEST(test_gemm), TEST(test_syrk), TEST(test_trsm), TEST(test_potrf), TEST(test_eigh),
          TEST(test_not_positive_definite), TEST(test_shapes_are_checked))
