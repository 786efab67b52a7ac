/* Work in pieces against the same sums by plain loops, on shapes that take several pieces. */
#include "engine/methods/preconds/precond_pieces.h"

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"

enum { ROWS = 9000, K = 5, SIDE = 1100 };

static struct backend *be;
static struct err err;

static int open_cpu(void **state)
{
    (void)state;
    static const struct backend_provider *const providers[] = {&backend_cpu_provider, NULL};
    return backend_open(providers, "cpu", 1, &be, &err);
}

static int close_cpu(void **state)
{
    (void)state;
    const bool clean = be->bytes == 0;
    be = backend_close(be);
    return clean ? 0 : -1;
}

/* A matrix and its numbers, which float32 holds exactly. */
static double *make(enum dtype dtype, int64_t rows, int64_t cols, struct mat *ret)
{
    struct rng rng = rng_new(3, RNG_TEST);
    double *values = mem_array((size_t)(rows * cols), sizeof(*values));
    for (int64_t i = 0; i < rows * cols; i++) {
        values[i] = (double)(float)rng_normal(&rng);
    }
    assert_int_equal(be->ops->mat_new(be, dtype, rows, cols, ret, &err), 0);
    assert_int_equal(be->ops->mat_put(be, values, rows, ret, &err), 0);
    return values;
}

static double *get(const struct mat *m)
{
    double *values = mem_array((size_t)(m->rows * m->cols), sizeof(*values));
    assert_int_equal(be->ops->mat_get(be, m, values, m->rows, &err), 0);
    return values;
}

static void test_size_of_a_piece(void **state)
{
    (void)state;
    assert_int_equal(piece_rows(1000000, 1e5), 40000);
    assert_int_equal(piece_rows(30000, 1e5), 30000);
    assert_int_equal(piece_rows(1000, 1e12), 128);
    assert_int_equal(piece_rows(100, 1e12), 100);
}

/* float32 rows are converted 4096 at a time, float64 ones are used where they lie. */
static void check_sums(enum dtype dtype, int pieces)
{
    struct mat A = {0}, C = {0}, D = {0};
    double *a = make(dtype, ROWS, K, &A);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, K, K, &C, &err), 0);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, K, K, &D, &err), 0);
    int64_t next = 0;
    int r = 0, calls = 0;
    for (; r == 0; calls++) {
        r = piece_gram(be, &A, &next, &C, &err);
    }
    assert_int_equal(r, 1);
    assert_int_equal(calls, pieces);
    next = 0;
    while ((r = piece_cross(be, &A, &A, &next, &D, &err)) == 0) {
    }
    assert_int_equal(r, 1);
    double *gram = get(&C), *cross = get(&D);
    for (int j = 0; j < K; j++) {
        for (int i = j; i < K; i++) {
            double sum = 0;
            for (int64_t row = 0; row < ROWS; row++) {
                sum += a[row + i * ROWS] * a[row + j * ROWS];
            }
            assert_near(gram[i + j * K], sum, 1e-9);
            assert_near(cross[i + j * K], sum, 1e-9);
            assert_near(cross[j + i * K], sum, 1e-9);
        }
    }
    mem_free(cross);
    mem_free(gram);
    mem_free(a);
    be->ops->mat_free(be, &D);
    be->ops->mat_free(be, &C);
    be->ops->mat_free(be, &A);
}

static void test_sums(void **state)
{
    (void)state;
    check_sums(DTYPE_F64, 1);
    check_sums(DTYPE_F32, 3);
}

/* B = A L^-T, so that B L' = A. */
static void check_solve(enum dtype dtype, double error)
{
    static const double L[K * K] = {2, 1, 0, 3, 1, 0, 1, 1, 1, 1, 0, 0, 3,
                                    0, 1, 0, 0, 0, 1, 2, 0, 0, 0, 0, 4};
    struct mat A = {0}, factor = {0};
    double *a = make(dtype, ROWS, K, &A);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, K, K, &factor, &err), 0);
    assert_int_equal(be->ops->mat_put(be, L, K, &factor, &err), 0);
    int64_t next = 0;
    int r = 0;
    while ((r = piece_solve(be, &factor, &next, &A, &err)) == 0) {
    }
    assert_int_equal(r, 1);
    double *b = get(&A);
    for (int64_t row = 0; row < ROWS; row++) {
        for (int j = 0; j < K; j++) {
            double sum = 0;
            for (int c = 0; c <= j; c++) {
                sum += b[row + c * ROWS] * L[j + c * K];
            }
            assert_near(sum, a[row + j * ROWS], error);
        }
    }
    mem_free(b);
    mem_free(a);
    be->ops->mat_free(be, &factor);
    be->ops->mat_free(be, &A);
}

static void test_solve(void **state)
{
    (void)state;
    check_solve(DTYPE_F64, 1e-13);
    check_solve(DTYPE_F32, 1e-4);
}

/* L from small integers, so that A = L L' is exact and its factor is L. */
static double entry(int64_t i, int64_t j)
{
    return i < j    ? 0.0
           : i == j ? 4.0
                    : (double)((i * 7 + j * 3) % 3 - 1) * ((i - j) < 4 ? 1.0 : 0.0);
}

static double *banded_product(void)
{
    double *A = mem_zarray((size_t)SIDE * SIDE, sizeof(*A));
    for (int64_t j = 0; j < SIDE; j++) {
        for (int64_t i = j; i < SIDE && i < j + 8; i++) {
            for (int64_t c = i > 3 ? i - 3 : 0; c <= j; c++) {
                A[i + j * SIDE] += entry(i, c) * entry(j, c);
            }
        }
    }
    return A;
}

static void test_factor(void **state)
{
    (void)state;
    double *a = banded_product();
    struct mat A = {0};
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, SIDE, SIDE, &A, &err), 0);
    assert_int_equal(be->ops->mat_put(be, a, SIDE, &A, &err), 0);
    int64_t next = 0;
    int r = 0, calls = 0;
    for (; r == 0; calls++) {
        r = piece_factor(be, &next, &A, &err);
    }
    assert_int_equal(r, 1);
    assert_int_equal(calls, 3);
    double *L = get(&A);
    for (int64_t j = 0; j < SIDE; j++) {
        for (int64_t i = j; i < SIDE; i++) {
            assert_near(L[i + j * SIDE], entry(i, j), 1e-10);
        }
    }
    a[700 + 700 * SIDE] = 0; /* in the second piece */
    assert_int_equal(be->ops->mat_put(be, a, SIDE, &A, &err), 0);
    next = 0;
    assert_int_equal(piece_factor(be, &next, &A, &err), 0);
    assert_int_equal(piece_factor(be, &next, &A, &err), -ERR_NOT_POSITIVE_DEFINITE);
    mem_free(L);
    mem_free(a);
    be->ops->mat_free(be, &A);
}

#define on_cpu(test) cmocka_unit_test_setup_teardown(test, open_cpu, close_cpu)

TEST_MAIN(cmocka_unit_test(test_size_of_a_piece), on_cpu(test_sums), on_cpu(test_solve),
          on_cpu(test_factor))
