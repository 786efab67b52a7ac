/* One eigendecomposition for all ridges, against refits without the left-out rows by plain loops.
 */
#include "engine/search/ridge_path.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

enum { N = 37, T = 2 };

static const struct fixture_spec spec = {.kernel = KERNEL_MATERN52,
                                         .points = DTYPE_F64,
                                         .vectors = DTYPE_F64,
                                         .n = N,
                                         .d = 3,
                                         .t = T,
                                         .lambda = 0,
                                         .seed = 3};
static const double ridges[] = {1e-4, 0.02, 3.0};

static struct ridge_path *path_of(const struct fixture *f)
{
    struct ridge_path *p = NULL;
    must(ridge_path_new(f->be, &f->kernel, DTYPE_F64, &f->host, f->Y, f->t, &p, &err));
    return p;
}

/* What predictions of the rows S miss when the others alone are fitted with the same ridge. */
static void refit_without(const struct fixture *f, double ridge, const int64_t *S, int64_t count,
                          double *ret)
{
    bool out[N] = {false};
    int64_t kept[N], m = 0;
    for (int64_t k = 0; k < count; k++) {
        out[S[k]] = true;
    }
    for (int64_t i = 0; i < N; i++) {
        if (!out[i]) {
            kept[m++] = i;
        }
    }
    double *K = fixture_matrix(f), *L = host_zeros(m * m), *A = host_zeros(m * T);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < m; j++) {
            L[i + j * m] = K[kept[i] + kept[j] * N] + (i == j ? ridge : 0);
        }
        for (int64_t c = 0; c < T; c++) {
            A[i + c * m] = f->Y[kept[i] + c * N];
        }
    }
    assert_true(host_factor(L, m));
    host_solve(L, m, A, T);
    for (int64_t k = 0; k < count; k++) {
        for (int64_t c = 0; c < T; c++) {
            double e = f->Y[S[k] + c * N];
            for (int64_t i = 0; i < m; i++) {
                e -= K[S[k] + kept[i] * N] * A[i + c * m];
            }
            ret[k + c * count] = e;
        }
    }
    mem_free(A);
    mem_free(L);
    mem_free(K);
}

static void test_every_ridge_is_a_solution(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &spec);
    struct ridge_path *p = path_of(&f);
    double A[N * T];
    for (int k = 0; k < 3; k++) {
        double *M = fixture_matrix(&f);
        for (int64_t i = 0; i < N; i++) {
            M[i + i * N] += ridges[k];
        }
        for (int refine = 0; refine < 2; refine++) {
            assert_true(ridge_path_defined(p, ridges[k]));
            must(ridge_path_solve(p, ridges[k], refine, A, &err));
            assert_true(host_residual(&f, M, A) <= 1e-11);
        }
        mem_free(M);
    }
    ridge_path_free(p);
    fixture_deinit(&f);
}

static void test_leave_one_out(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &spec);
    struct ridge_path *p = path_of(&f);
    double A[N * T], diagonals[3 * N], missed[T];
    must(ridge_path_diagonals(p, ridges, 3, diagonals, &err));
    for (int k = 0; k < 3; k++) {
        must(ridge_path_solve(p, ridges[k], false, A, &err));
        for (int64_t i = 0; i < N; i++) {
            refit_without(&f, ridges[k], &i, 1, missed);
            for (int64_t c = 0; c < T; c++) {
                assert_near(A[i + c * N] / diagonals[i + k * N], missed[c], 1e-9);
            }
        }
    }
    ridge_path_free(p);
    fixture_deinit(&f);
}

static void test_leave_a_fold_out(void **state)
{
    struct fixture f;
    fixture_init(&f, *state, &spec);
    struct ridge_path *p = path_of(&f);
    const int64_t folds[][9] = {{5, 0, 36, 17, 3, 4, 9, 21, 30}, {12}};
    const int64_t counts[] = {9, 1};
    double A[N * T], expected[9 * T], missed[9 * T];
    for (int k = 0; k < 3; k++) {
        must(ridge_path_solve(p, ridges[k], false, A, &err));
        for (int s = 0; s < 2; s++) {
            refit_without(&f, ridges[k], folds[s], counts[s], expected);
            must(ridge_path_fold(p, ridges[k], folds[s], counts[s], A, missed, &err));
            assert_all_close(missed, expected, counts[s] * T, 1e-8, 1e-9);
        }
    }
    ridge_path_free(p);
    fixture_deinit(&f);
}

/* A singular matrix is no matrix of ours without a ridge, nor with one below rounding error. */
static void test_definiteness(void **state)
{
    struct fixture f;
    struct fixture_spec doubled = spec;
    doubled.copies = 5;
    fixture_init(&f, *state, &doubled);
    struct ridge_path *p = path_of(&f);
    assert_false(ridge_path_defined(p, 0));
    assert_false(ridge_path_defined(p, 1e-15));
    assert_true(ridge_path_defined(p, 1e-10));
    ridge_path_free(p);
    fixture_deinit(&f);

    struct fixture_spec indefinite = spec;
    indefinite.kernel = KERNEL_SIGMOID;
    fixture_init(&f, *state, &indefinite);
    p = path_of(&f);
    assert_false(ridge_path_defined(p, 1e-3));
    assert_true(ridge_path_defined(p, 1e3));
    ridge_path_free(p);
    fixture_deinit(&f);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)

TEST_MAIN(on_device(test_every_ridge_is_a_solution), on_device(test_leave_one_out),
          on_device(test_leave_a_fold_out), on_device(test_definiteness))
