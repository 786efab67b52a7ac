/* Models on centers for many ridges: left-out predictions against refits without the row. */
#include "engine/search/center_path.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

#define N 4203  /* rows */
#define TILES 5 /* that they are taken in */
#define D 3
#define M 9
#define T 2

static double x_of[N * D], y_of[N * T], z_of[M * D];

static int read_rows(const struct row_source *s, int64_t first, const int64_t *index, int64_t count,
                     void *ret_X, double *ret_Y, struct err *err)
{
    (void)s;
    (void)err;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = index != NULL ? index[i] : first + i;
        memcpy((double *)ret_X + i * D, x_of + row * D, D * sizeof(double));
        for (int64_t j = 0; ret_Y != NULL && j < T; j++) {
            ret_Y[i + j * count] = y_of[row + j * N];
        }
    }
    return 0;
}

static const struct row_source source = {
    .n = N, .d = D, .t = T, .dtype = DTYPE_F64, .read = read_rows};

static int go_on(void *context, struct err *err)
{
    int *left = context;
    return --*left >= 0 ? 0 : err_set(err, ERR_CANCELLED, "Enough.");
}

static void draw(void)
{
    struct rng rng = rng_new(3, RNG_TEST);
    for (int i = 0; i < N * D; i++) {
        x_of[i] = rng_normal(&rng);
    }
    for (int i = 0; i < N * T; i++) {
        y_of[i] = sin(2 * x_of[i % N * D]) + rng_normal(&rng);
    }
    memcpy(z_of, x_of + 77 * D, sizeof(z_of));
}

/* x <- A^-1 x of M numbers; A is symmetric and positive definite. */
static void solve(double A[M][M], double *x)
{
    for (int k = 0; k < M; k++) {
        for (int i = k + 1; i < M; i++) {
            const double factor = A[i][k] / A[k][k];
            for (int j = k; j < M; j++) {
                A[i][j] -= factor * A[k][j];
            }
            x[i] -= factor * x[k];
        }
    }
    for (int k = M - 1; k >= 0; k--) {
        for (int j = k + 1; j < M; j++) {
            x[k] -= A[k][j] * x[j];
        }
        x[k] /= A[k][k];
    }
}

/* By how much row `out`, the target j of it, is missed by the model of rows 0 .. n-1 without it. */
static double refit(const struct kernel *k, int64_t n, int64_t out, int j, double ridge)
{
    double A[M][M], b[M] = {0}, row[M];
    for (int a = 0; a < M; a++) {
        for (int c = 0; c < M; c++) {
            A[a][c] = ridge * kernel_eval(k, z_of + a * D, z_of + c * D);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        for (int a = 0; a < M; a++) {
            row[a] = kernel_eval(k, x_of + i * D, z_of + a * D);
        }
        for (int a = 0; a < M && i != out; a++) {
            b[a] += row[a] * y_of[i + j * N];
            for (int c = 0; c < M; c++) {
                A[a][c] += row[a] * row[c];
            }
        }
    }
    solve(A, b);
    double value = 0.0;
    for (int a = 0; a < M; a++) {
        value += kernel_eval(k, x_of + out * D, z_of + a * D) * b[a];
    }
    return y_of[out + j * N] - value;
}

/* What else is asked for. */
struct wish {
    double *evidence;
    double amplitude;
    bool bound;
};

/* The nth allocation fails, 0: none. */
static int left_out_failing(const struct kernel *k, int64_t n, const double *ridges, int64_t count,
                            int stops, int64_t nth, const struct wish *wish, double *ret,
                            struct err *err)
{
    struct backend *be = device_open(2);
    const struct rows Z = {.dtype = DTYPE_F64, .n = M, .d = D, .data = z_of};
    int64_t *index = mem_array((size_t)n, sizeof(*index));
    for (int64_t i = 0; i < n; i++) {
        index[i] = i;
    }
    const struct center_path_task task = {.be = be,
                                          .kernel = k,
                                          .rows = &source,
                                          .index = index,
                                          .n = n,
                                          .Z = &Z,
                                          .ridges = ridges,
                                          .count = count,
                                          .ret_evidence = wish->evidence,
                                          .amplitude = wish->amplitude,
                                          .bound = wish->bound,
                                          .stop = go_on,
                                          .stop_context = &stops};
    mem_fail_nth(nth);
    const int r = center_path_left_out(&task, ret, err);
    mem_fail_nth(0);
    mem_free(index);
    device_close(be);
    return r;
}

static int left_out(const struct kernel *k, int64_t n, const double *ridges, int64_t count,
                    int stops, double *ret, struct err *err)
{
    const struct wish none = {.evidence = NULL};
    return left_out_failing(k, n, ridges, count, stops, 0, &none, ret, err);
}

static void check_refits(const struct kernel *k, int64_t n)
{
    static const double ridges[] = {1e-2, 3.0};
    static const int64_t rows[] = {0, 1, 57, 4095, 4096, N - 1};
    double *missed = mem_array((size_t)n, 2 * T * sizeof(*missed));
    struct err err = {0};
    draw();
    if (left_out(k, n, ridges, 2, 100, missed, &err) < 0) {
        fail_msg("%s", err.detail);
    }
    for (int i = 0; i < 6 * 2 * T; i++) {
        const int64_t row = rows[i % 6];
        const int l = i / 6 % 2, j = i / 12;
        if (row < n) {
            const double expected = refit(k, n, row, j, ridges[l]);
            assert_near(missed[row + (l * T + j) * n], expected, 1e-9 * (1.0 + fabs(expected)));
        }
    }
    mem_free(missed);
}

static void test_left_out_rows_are_those_of_refits(void **state)
{
    (void)state;
    const struct kernel gaussian = {.id = KERNEL_GAUSSIAN, .d = D, .bandwidth = 1.3, .gamma = 1};
    const struct kernel matern = {.id = KERNEL_MATERN32, .d = D, .bandwidth = 2, .gamma = 1};
    const struct kernel polynomial = {
        .id = KERNEL_POLYNOMIAL, .d = D, .bandwidth = 1, .gamma = 3, .coef0 = 2, .degree = 3};
    check_refits(&gaussian, N);
    check_refits(&matern, 60);
    check_refits(&polynomial, 500);
}

/* C (n x n) <- K_nm K_mm^-1 K_mn; returns the trace of K less its own. */
static double shown(const struct kernel *k, int64_t n, double *C)
{
    double L[M * M], *B = host_zeros(M * n), left = 0;
    for (int a = 0; a < M * M; a++) {
        L[a] = kernel_eval(k, z_of + a % M * D, z_of + a / M * D);
    }
    assert_true(host_factor(L, M));
    for (int64_t i = 0; i < M * n; i++) {
        B[i] = kernel_eval(k, z_of + i % M * D, x_of + i / M * D);
    }
    host_solve(L, M, B, n);
    for (int64_t i = 0; i < n * n; i++) {
        for (int a = 0; a < M; a++) {
            C[i] += kernel_eval(k, z_of + a * D, x_of + i % n * D) * B[a + i / n * M];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        left += kernel_eval(k, x_of + i * D, x_of + i * D) - C[i + i * n];
    }
    mem_free(B);
    return left;
}

/* ln N(y_j; 0, s^2 (Q + ridge I)) of all targets, less what the bound pays. */
static double evidence_by_hand(const struct kernel *k, int64_t n, double ridge,
                               const struct wish *wish)
{
    double *C = host_zeros(n * n), *y = host_zeros(n), log_det = 0, sum = 0;
    const double left = shown(k, n, C), two_pi = 6.283185307179586477;
    for (int64_t i = 0; i < n; i++) {
        C[i + i * n] += ridge;
    }
    assert_true(host_factor(C, n));
    for (int64_t i = 0; i < n; i++) {
        log_det += 2 * log(C[i + i * n]);
    }
    for (int j = 0; j < T; j++) {
        double quadratic = 0;
        memcpy(y, y_of + j * N, (size_t)n * sizeof(double));
        host_solve(C, n, y, 1);
        for (int64_t i = 0; i < n; i++) {
            quadratic += y[i] * y_of[i + j * N];
        }
        const double s2 = isnan(wish->amplitude) ? quadratic / (double)n : wish->amplitude;
        sum -= 0.5 * (quadratic / s2 + (double)n * log(two_pi * s2) + log_det);
        sum -= wish->bound ? 0.5 * left / ridge : 0.0;
    }
    mem_free(C);
    mem_free(y);
    return sum;
}

static void test_evidence_is_that_of_the_process(void **state)
{
    (void)state;
    static const double ridges[] = {1e-2, 3.0};
    const struct kernel k = {.id = KERNEL_MATERN32, .d = D, .bandwidth = 2, .gamma = 1};
    double *missed = mem_zarray(120 * T * 2, sizeof(double)), found[2];
    draw();
    for (int i = 0; i < 4; i++) {
        const struct wish wish = {found, i < 2 ? NAN : 0.7, i % 2 == 1};
        must(left_out_failing(&k, 120, ridges, 2, 100, 0, &wish, missed, &err));
        for (int l = 0; l < 2; l++) {
            assert_close(found[l], evidence_by_hand(&k, 120, ridges[l], &wish), 1e-9);
        }
    }
    mem_free(missed);
}

/* Centers that are there twice span what they span once. */
static void test_equal_centers(void **state)
{
    (void)state;
    const struct kernel k = {.id = KERNEL_GAUSSIAN, .d = D, .bandwidth = 1.3, .gamma = 1};
    const double ridge = 0.1;
    double *twice = mem_zarray(60 * T, sizeof(double)), *once = mem_zarray(60 * T, sizeof(double));
    struct err err = {0};
    draw();
    memcpy(z_of + D, z_of, D * sizeof(double));
    assert_int_equal(left_out(&k, 60, &ridge, 1, 100, twice, &err), 0);
    memcpy(z_of + D, z_of + 2 * D, D * sizeof(double)); /* another one is there twice */
    assert_int_equal(left_out(&k, 60, &ridge, 1, 100, once, &err), 0);
    for (int i = 0; i < 60 * T; i++) {
        assert_near(twice[i], once[i], 1e-6);
    }
    mem_free(twice);
    mem_free(once);
}

/* Ten centers of a kernel of rank three: the other directions are rounding. */
static void test_ridges_below_rounding_have_none(void **state)
{
    (void)state;
    const struct kernel k = {.id = KERNEL_LINEAR, .d = D, .bandwidth = 1, .gamma = 1};
    const double ridges[] = {1e-300, 1.0};
    double *missed = mem_zarray(60 * T * 2, sizeof(double));
    struct err err = {0};
    draw();
    assert_int_equal(left_out(&k, 60, ridges, 2, 100, missed, &err), 0);
    assert_true(isnan(missed[0]) && isnan(missed[60 * T - 1]));
    assert_true(isfinite(missed[60 * T]) && isfinite(missed[2 * 60 * T - 1]));
    mem_free(missed);
}

/* Rows that are the centers, far from each other: of 1 - u (1 + ridge)^-1 u' nothing is left but
 * rounding under the first ridge; under the second each row is missed by all of it. */
static void test_rows_that_their_models_know_have_none(void **state)
{
    (void)state;
    const struct kernel k = {.id = KERNEL_GAUSSIAN, .d = D, .bandwidth = 0.01, .gamma = 1};
    const double ridges[] = {1e-13, 1e-4};
    double missed[M * T * 2] = {0};
    struct err err = {.code = ERR_OK};
    draw();
    memcpy(z_of, x_of, sizeof(z_of));
    assert_int_equal(left_out(&k, M, ridges, 2, 100, missed, &err), 0);
    for (int i = 0; i < M * T; i++) {
        assert_true(isnan(missed[i]));
        assert_near(missed[M * T + i], y_of[i % M + i / M * N], 1e-6);
    }
}

/* Asked before each tile of both passes, and before the eigenvectors between them. */
static void test_stops(void **state)
{
    (void)state;
    const struct kernel k = {.id = KERNEL_GAUSSIAN, .d = D, .bandwidth = 1.3, .gamma = 1};
    const double ridge = 0.1;
    double *missed = mem_zarray(N * T, sizeof(double));
    draw();
    const int questions = 2 * TILES + 1;
    for (int stops = 0; stops <= questions; stops++) {
        struct err err = {0};
        const int r = left_out(&k, N, &ridge, 1, stops, missed, &err);
        assert_int_equal(r, stops < questions ? -ERR_CANCELLED : 0);
    }
    mem_free(missed);
}

static void test_no_memory(void **state)
{
    (void)state;
    const struct kernel k = {.id = KERNEL_GAUSSIAN, .d = D, .bandwidth = 1.3, .gamma = 1};
    const double ridge = 0.1;
    double *missed = mem_zarray(60 * T, sizeof(double)), evidence;
    const struct wish wish = {.evidence = &evidence, .amplitude = 1};
    int r = -1, nth = 1;
    draw();
    for (; r != 0 && nth < 100; nth++) {
        struct err err = {0};
        r = left_out_failing(&k, 60, &ridge, 1, 100, nth, &wish, missed, &err);
        assert_true(r == 0 || r == -ERR_NO_MEMORY);
    }
    assert_true(r == 0 && nth > 10);
    mem_free(missed);
}

TEST_MAIN(cmocka_unit_test(test_left_out_rows_are_those_of_refits),
          cmocka_unit_test(test_evidence_is_that_of_the_process),
          cmocka_unit_test(test_equal_centers),
          cmocka_unit_test(test_ridges_below_rounding_have_none),
          cmocka_unit_test(test_rows_that_their_models_know_have_none),
          cmocka_unit_test(test_stops), cmocka_unit_test(test_no_memory))
