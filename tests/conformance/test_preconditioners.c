/* Every preconditioner against dense algebra on the host, and randomly pivoted Cholesky against the
 * law of its pivots. */
#include <math.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"
#include "engine/precond_pivoted.h"

static int open_device(void **state)
{
    *state = device_open(2);
    return 0;
}

/* Thousands of tiny problems: waking a second thread would cost more than the work. */
static int open_device_single(void **state)
{
    *state = device_open(1);
    return 0;
}

static int close_device(void **state)
{
    device_close(*state);
    return 0;
}

/* The defaults with this rank and block size; 0: auto. */
static struct param_set params_make(const char *name, int64_t rank, int64_t block)
{
    const struct method_def *def = catalog_find(CATALOG_PRECONDITIONERS, name);
    cleanup_json struct json *j = json_new_object();
    if (rank > 0) {
        json_set_int(j, "rank", rank);
    }
    if (block > 0) {
        json_set_int(j, "block_size", block);
    }
    struct param_set set;
    must(param_read(def->params, j, NULL, &set, &err));
    return set;
}

static struct precond *precond_make(const struct fixture *f, const char *name, int64_t rank,
                                    int64_t block)
{
    const struct precond_ops *ops = precond_find(name);
    const struct param_set params = params_make(name, rank, block);
    struct precond *m = NULL;
    must(ops->setup(&f->problem, &params, &m, &err));
    int r = 0;
    double fraction = 0;
    for (int i = 0; r == 0 && i < 10000; i++) {
        const double before = fraction;
        r = ops->build(m, &fraction, NULL);
        assert_true(fraction >= before && fraction <= 1);
    }
    assert_int_equal(r, 1);
    assert_close(fraction, 1.0, 0);
    assert_int_equal(ops->build(m, &fraction, NULL), 1);
    return m;
}

static struct fixture_spec spec_of(enum kernel_id kernel, int64_t n, double lambda)
{
    return (struct fixture_spec){.kernel = kernel,
                                 .points = DTYPE_F64,
                                 .vectors = DTYPE_F64,
                                 .n = n,
                                 .d = 3,
                                 .t = 2,
                                 .lambda = lambda,
                                 .seed = 1};
}

/* At full rank F F' = K, so that P^-1 is the inverse of the whole matrix. */
static void test_full_rank_is_the_inverse(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    const struct fixture_spec spec = spec_of(KERNEL_LAPLACIAN, 80, 1e-4);
    fixture_init(&f, be, &spec);
    struct precond *m = precond_make(&f, "rpcholesky", 80, 0);
    assert_int_equal(precond_find("rpcholesky")->rank(m), 80);
    must(precond_find("rpcholesky")->apply(m, &f.problem.Y, &f.A, &err));
    double *A = device_get(be, &f.A), *M = fixture_matrix(&f);
    assert_true(host_residual(&f, M, A) < 1e-9);
    mem_free(M);
    mem_free(A);
    precond_find("rpcholesky")->teardown(m);
    fixture_deinit(&f);
}

/* The pivots determine the approximation: P = K(:,S) K(S,S)^-1 K(S,:) + ridge I. */
static void test_is_the_nystrom_approximation(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    const struct fixture_spec spec = spec_of(KERNEL_MATERN32, 60, 1e-3);
    fixture_init(&f, be, &spec);
    struct precond *m = precond_make(&f, "rpcholesky", 15, 4);
    must(precond_find("rpcholesky")->apply(m, &f.problem.Y, &f.A, &err));
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
    precond_find("rpcholesky")->teardown(m);
    fixture_deinit(&f);
}

/* P^-1 is symmetric and positive definite in every precision: x'P^-1 y = y'P^-1 x, x'P^-1 x > 0. */
static void test_symmetric_and_positive(void **state)
{
    struct backend *be = *state;
    for (const struct precond_ops *const *ops = precond_list(); *ops != NULL; ops++) {
        for (int32_t dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
            struct fixture f;
            struct fixture_spec spec = spec_of(KERNEL_GAUSSIAN, 100, 1e-3);
            spec.points = spec.vectors = (enum dtype)dtype;
            fixture_init(&f, be, &spec);
            struct precond *m = precond_make(&f, (*ops)->name, 0, 0);
            must((*ops)->apply(m, &f.problem.Y, &f.A, &err));
            double *Z = device_get(be, &f.A);
            double xy = 0, yx = 0, xx = 0, yy = 0;
            for (int64_t i = 0; i < f.n; i++) {
                xy += f.Y[i] * Z[i + f.n];
                yx += f.Y[i + f.n] * Z[i];
                xx += f.Y[i] * Z[i];
                yy += f.Y[i + f.n] * Z[i + f.n];
            }
            assert_true(xx > 0 && yy > 0);
            assert_near(xy, yx, (dtype == DTYPE_F32 ? 1e-4 : 1e-12) * sqrt(xx * yy));
            mem_free(Z);
            (*ops)->teardown(m);
            fixture_deinit(&f);
        }
    }
}

/* A matrix of rank 4 (three features and a constant) is finished after 4 pivots, whatever was asked
 * for, and duplicates are never chosen twice. */
static void test_ends_early_when_exhausted(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    struct fixture_spec spec = spec_of(KERNEL_LINEAR, 120, 1e-3);
    spec.copies = 50;
    fixture_init(&f, be, &spec);
    struct precond *m = precond_make(&f, "rpcholesky", 100, 10);
    assert_int_equal(precond_find("rpcholesky")->rank(m), 4);
    must(precond_find("rpcholesky")->apply(m, &f.problem.Y, &f.A, &err));
    double *A = device_get(be, &f.A), *M = fixture_matrix(&f);
    assert_true(host_residual(&f, M, A) < 1e-9);
    mem_free(M);
    mem_free(A);
    precond_find("rpcholesky")->teardown(m);
    fixture_deinit(&f);
}

/* Without a ridge P stays definite. */
static void test_zero_ridge(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    const struct fixture_spec spec = spec_of(KERNEL_LAPLACIAN, 50, 0);
    fixture_init(&f, be, &spec);
    struct precond *m = precond_make(&f, "rpcholesky", 20, 0);
    must(precond_find("rpcholesky")->apply(m, &f.problem.Y, &f.A, &err));
    double *Z = device_get(be, &f.A), yz = 0;
    for (int64_t i = 0; i < f.n; i++) {
        yz += f.Y[i] * Z[i];
    }
    assert_true(isfinite(yz) && yz > 0);
    mem_free(Z);
    precond_find("rpcholesky")->teardown(m);
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
    struct fixture_spec spec = spec_of(KERNEL_POLYNOMIAL, N, 1e-6);
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

#define on_device(test) cmocka_unit_test_setup_teardown(test, open_device, close_device)

TEST_MAIN(on_device(test_full_rank_is_the_inverse), on_device(test_is_the_nystrom_approximation),
          on_device(test_symmetric_and_positive), on_device(test_ends_early_when_exhausted),
          on_device(test_zero_ridge),
          cmocka_unit_test_setup_teardown(test_law_of_the_pivots, open_device_single, close_device))
