/* The pivots of preconditioners that have them: what they determine, where they end, and their
 * laws. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/precond_fixture.h"
#include "engine/methods/preconds/precond_pivoted.h"

static const char *const pivoted[] = {"rpcholesky", "nystrom_uniform", "cholesky_greedy", NULL};

/* The pivots determine the approximation: P = K(:,S) K(S,S)^-1 K(S,:) + ridge I. */
static void check_nystrom(struct backend *be, const char *name)
{
    struct fixture f;
    const struct fixture_spec spec = precond_spec(KERNEL_MATERN32, 60, 1e-3);
    fixture_init(&f, be, &spec);
    struct precond *m = precond_make(&f, name, 15, strcmp(name, "rpcholesky") == 0 ? 4 : 0);
    must(precond_find(name)->apply(m, &f.problem.Y, &f.A, &err));
    double *A = device_get(be, &f.A), *K = fixture_matrix(&f);
    int64_t k = 0;
    const int64_t n = f.n, *S = pivoted_pivots(m, &k);
    assert_int_equal(k, 15);
    for (int64_t i = 0; i < n; i++) {
        K[i + i * n] -= f.problem.ridge;
    }
    double *core = host_zeros(k * k), *W = host_zeros(k * n), *P = host_zeros(n * n);
    for (int64_t j = 0; j < k; j++) {
        for (int64_t i = 0; i < k; i++) {
            core[i + j * k] = K[S[i] + S[j] * n];
        }
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < k; i++) {
            W[i + j * k] = K[S[i] + j * n];
        }
    }
    assert_true(host_factor(core, k));
    host_solve(core, k, W, n); /* W = K(S,S)^-1 K(S,:) */
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t s = 0; s < k; s++) {
                P[i + j * n] += K[i + S[s] * n] * W[s + j * k];
            }
        }
        P[j + j * n] += f.problem.ridge;
    }
    assert_true(host_residual(&f, P, A) < 1e-9); /* P A = Y */
    mem_free(P);
    mem_free(W);
    mem_free(core);
    mem_free(K);
    mem_free(A);
    precond_find(name)->teardown(m);
    fixture_deinit(&f);
}

static void test_is_the_nystrom_approximation(void **state)
{
    for (const char *const *name = pivoted; *name != NULL; name++) {
        check_nystrom(*state, *name);
    }
}

/* In mixed precision kernel values have errors of float32: what is left of a matrix of rank 4 after
 * 4 pivots is noise, which is no pivot. */
static void test_noise_is_no_pivot(void **state)
{
    struct fixture f;
    struct fixture_spec spec = precond_spec(KERNEL_LINEAR, 120, 1e-3);
    spec.points = DTYPE_F32;
    fixture_init(&f, *state, &spec);
    for (const char *const *name = pivoted; *name != NULL; name++) {
        precondition(&f, *name, 100, 4);
    }
    fixture_deinit(&f);
}

/* Beside one row whose k(x, x) is 1e24 times that of others the pivots go on to the rank of the
 * kernel, 10 for squares of three features and a constant: each row is held to its own k(x, x). */
static void test_rank_beside_a_huge_row(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = precond_spec(KERNEL_POLYNOMIAL, 120, 1e-3);
    fixture_init(&f, *state, &spec);
    for (int64_t k = 0; k < f.d; k++) {
        f.X[17 * f.d + k] *= 1e6;
    }
    f.be->ops->points_free(f.be, f.points);
    must(f.be->ops->points_new(f.be, &f.kernel, DTYPE_F64, &f.host, &f.points, &err));
    f.problem.X = f.points;
    for (const char *const *name = pivoted; *name != NULL; name++) {
        const struct precond_ops *ops = precond_find(*name);
        struct precond *m = precond_make(&f, *name, 100, 0);
        assert_true(ops->rank(m) >= 10 && ops->rank(m) <= 15);
        ops->teardown(m);
    }
    fixture_deinit(&f);
}

/* ---- the law of the pivots ---- */

enum { N = 5, K = 3, RUNS = 3000, PATTERNS = N * N * N };

/* d <- the diagonal, and A <- A - A(:,s) A(s,:) / A(s,s). */
static void eliminate(double A[N * N], int s)
{
    double column[N];
    const double pivot = A[s + s * N];
    for (int i = 0; i < N; i++) {
        column[i] = A[i + s * N];
    }
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            A[i + j * N] -= column[i] * column[j] / pivot;
        }
    }
}

static void enumerate(const double *A, int depth, int code, double probability, double *ret)
{
    if (depth == K) {
        ret[code] = probability;
        return;
    }
    double trace = 0;
    for (int i = 0; i < N; i++) {
        trace += A[i + i * N];
    }
    for (int s = 0; s < N; s++) {
        const double share = A[s + s * N] / trace;
        if (share > 1e-12) {
            double rest[N * N];
            for (int i = 0; i < N * N; i++) {
                rest[i] = A[i];
            }
            eliminate(rest, s);
            enumerate(rest, depth + 1, code * N + s, probability * share, ret);
        }
    }
}

/* Pearson's statistic of the ordered pivots over RUNS seeds, and the number of patterns that can
 * occur, minus one. */
static double pivot_statistic(struct fixture *f, int64_t block, const double *law, int *ret_freedom)
{
    int64_t seen[PATTERNS] = {0};
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        f->problem.seed = seed;
        struct precond *m = precond_make(f, "rpcholesky", K, block);
        int64_t count = 0;
        const int64_t *S = pivoted_pivots(m, &count);
        assert_int_equal(count, K);
        seen[(S[0] * N + S[1]) * N + S[2]]++;
        precond_find("rpcholesky")->teardown(m);
    }
    double statistic = 0;
    *ret_freedom = -1;
    for (int c = 0; c < PATTERNS; c++) {
        const double expected = law[c] * RUNS;
        if (expected == 0) {
            assert_int_equal(seen[c], 0);
            continue;
        }
        statistic += ((double)seen[c] - expected) * ((double)seen[c] - expected) / expected;
        ++*ret_freedom;
    }
    return statistic;
}

/* One at a time, and in blocks with rejection: the same law, that of simple RPCholesky, whose
 * probabilities are enumerated here. The statistic has mean `freedom` and variance 2 freedom; four
 * deviations is about one seed in ten thousand, and the seeds are fixed. Blocks without rejection
 * fail this by far. */
static void test_law_of_the_pivots(void **state)
{
    struct fixture f;
    struct fixture_spec spec = precond_spec(KERNEL_POLYNOMIAL, N, 1e-6);
    spec.seed = 12;
    fixture_init(&f, *state, &spec);
    double *A = fixture_matrix(&f), law[PATTERNS] = {0}, sum = 0;
    for (int i = 0; i < N; i++) {
        A[i + i * N] -= f.problem.ridge;
    }
    enumerate(A, 0, 0, 1.0, law);
    for (int c = 0; c < PATTERNS; c++) {
        sum += law[c];
    }
    assert_close(sum, 1.0, 1e-12);
    const int64_t blocks[] = {1, 4, 10};
    for (int i = 0; i < 3; i++) {
        int freedom = 0;
        const double statistic = pivot_statistic(&f, blocks[i], law, &freedom);
        if (!(statistic < freedom + 4 * sqrt(2.0 * freedom))) {
            print_error("block %d: chi-square %g for %d degrees of freedom\n", (int)blocks[i],
                        statistic, freedom);
            fail();
        }
    }
    mem_free(A);
    fixture_deinit(&f);
}

/* The largest residual each time, by elimination of the whole matrix on the host. */
static void test_greedy_pivots(void **state)
{
    enum { COUNT = 100 };
    struct fixture f;
    const struct fixture_spec spec = precond_spec(KERNEL_MATERN32, 300, 0); /* K without a ridge */
    fixture_init(&f, *state, &spec);
    const int64_t n = f.n;
    double *A = fixture_matrix(&f), *column = host_zeros(n);
    struct precond *m = precond_make(&f, "cholesky_greedy", COUNT, 0);
    int64_t count = 0;
    const int64_t *S = pivoted_pivots(m, &count);
    assert_int_equal(count, COUNT);
    for (int64_t k = 0; k < COUNT; k++) {
        double largest = 0;
        for (int64_t i = 0; i < n; i++) {
            largest = fmax(largest, A[i + i * n]);
        }
        const double pivot = A[S[k] + S[k] * n];
        assert_near(pivot, largest, 1e-11); /* rows that tie but for rounding may swap */
        memcpy(column, A + S[k] * n, (size_t)n * sizeof(double));
        for (int64_t j = 0; j < n; j++) {
            for (int64_t i = 0; i < n; i++) {
                A[i + j * n] -= column[i] * column[j] / pivot;
            }
        }
    }
    precond_find("cholesky_greedy")->teardown(m);
    mem_free(column);
    mem_free(A);
    fixture_deinit(&f);
}

/* Each of the ten sets of three rows out of five equally often: Pearson's statistic with 9 degrees
 * of freedom, four deviations above its mean; the seeds are fixed. */
static void test_uniform_columns(void **state)
{
    enum { SETS = 10, DRAWS = 1000 };
    struct fixture f;
    const struct fixture_spec spec = precond_spec(KERNEL_LAPLACIAN, N, 1e-6);
    fixture_init(&f, *state, &spec);
    int64_t seen[1 << N] = {0};
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        f.problem.seed = seed;
        struct precond *m = precond_make(&f, "nystrom_uniform", K, 0);
        int64_t count = 0;
        const int64_t *S = pivoted_pivots(m, &count);
        assert_int_equal(count, K);
        seen[1 << S[0] | 1 << S[1] | 1 << S[2]]++;
        precond_find("nystrom_uniform")->teardown(m);
    }
    double statistic = 0;
    for (int set = 0; set < 1 << N; set++) {
        const double expected = __builtin_popcount((unsigned)set) == K ? DRAWS / SETS : 0;
        const double excess = (double)seen[set] - expected;
        assert_true(expected > 0 || seen[set] == 0);
        statistic += expected > 0 ? excess * excess / expected : 0;
    }
    assert_true(statistic < 9 + 4 * sqrt(18.0));
    fixture_deinit(&f);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)
/* Thousands of tiny problems: waking a second thread would cost more than the work. */
#define on_one_thread(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_is_the_nystrom_approximation), on_device(test_noise_is_no_pivot),
          on_device(test_rank_beside_a_huge_row), on_device(test_greedy_pivots),
          on_one_thread(test_law_of_the_pivots), on_one_thread(test_uniform_columns))
