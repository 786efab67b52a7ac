/* Every preconditioner against dense algebra on the host, and the pivots against their laws. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"
#include "engine/methods/preconds/precond_pivoted.h"

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

/* P^-1 Y of the fixture's targets into f->A; the rank must be as expected. */
static void precondition(struct fixture *f, const char *name, int64_t rank, int64_t expected)
{
    const struct precond_ops *ops = precond_find(name);
    struct precond *m = precond_make(f, name, rank, 0);
    assert_int_equal(ops->rank(m), expected);
    must(ops->apply(m, &f->problem.Y, &f->A, &err));
    ops->teardown(m);
}

static const char *const low_rank[] = {"rpcholesky", "nystrom_uniform", "nystrom_gaussian",
                                       "cholesky_greedy", NULL};
static const char *const pivoted[] = {"rpcholesky", "nystrom_uniform", "cholesky_greedy", NULL};

/* The lists above are the registry, but for what test_kronecker.c has. */
static void test_lists_are_complete(void **state)
{
    (void)state;
    int count = 0;
    for (const struct precond_ops *const *ops = precond_list(); *ops != NULL; ops++) {
        const char *name = (*ops)->name;
        count += strcmp(name, "none") != 0 && !precond_wants_grid(name);
    }
    for (const char *const *name = low_rank; *name != NULL; name++) {
        assert_non_null(precond_find(*name));
        count--;
    }
    assert_int_equal(count, 0);
}

/* At full rank F F' = K, so that P^-1 is the inverse of the whole matrix; a rank above n is n. */
static void test_full_rank_is_the_inverse(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    const struct fixture_spec spec = spec_of(KERNEL_LAPLACIAN, 80, 1e-4);
    fixture_init(&f, be, &spec);
    double *M = fixture_matrix(&f);
    for (const char *const *name = low_rank; *name != NULL; name++) {
        precondition(&f, *name, 200, 80);
        double *A = device_get(be, &f.A);
        assert_true(host_residual(&f, M, A) < 1e-9);
        mem_free(A);
    }
    mem_free(M);
    fixture_deinit(&f);
}

/* The pivots determine the approximation: P = K(:,S) K(S,S)^-1 K(S,:) + ridge I. */
static void check_nystrom(struct backend *be, const char *name)
{
    struct fixture f;
    const struct fixture_spec spec = spec_of(KERNEL_MATERN32, 60, 1e-3);
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

/* P^-1 is symmetric and positive definite in every precision: x'P^-1 y = y'P^-1 x, x'P^-1 x > 0. */
static void test_symmetric_and_positive(void **state)
{
    struct backend *be = *state;
    for (const struct precond_ops *const *ops = precond_list(); *ops != NULL; ops++) {
        const int32_t first = precond_wants_grid((*ops)->name) ? DTYPE_F64 + 1 : DTYPE_F32;
        for (int32_t dtype = first; dtype <= DTYPE_F64; dtype++) {
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
 * for, and duplicates are never chosen twice; a sketch has all its columns and is no worse. */
static void test_ends_early_when_exhausted(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    struct fixture_spec spec = spec_of(KERNEL_LINEAR, 120, 1e-3);
    spec.copies = 50;
    fixture_init(&f, be, &spec);
    double *M = fixture_matrix(&f);
    for (const char *const *name = low_rank; *name != NULL; name++) {
        precondition(&f, *name, 100, strcmp(*name, "nystrom_gaussian") == 0 ? 100 : 4);
        double *A = device_get(be, &f.A);
        assert_true(host_residual(&f, M, A) < 1e-9);
        mem_free(A);
    }
    mem_free(M);
    fixture_deinit(&f);
}

/* In mixed precision kernel values have errors of float32: what is left of a matrix of rank 4 after
 * 4 pivots is noise, which is no pivot. */
static void test_noise_is_no_pivot(void **state)
{
    struct fixture f;
    struct fixture_spec spec = spec_of(KERNEL_LINEAR, 120, 1e-3);
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
    const struct fixture_spec spec = spec_of(KERNEL_POLYNOMIAL, 120, 1e-3);
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

/* P must stay finite and definite: y'P^-1 y > 0 for each target, and at least |y|^2 / most, where
 * `most` is an upper bound of |P|, with much to spare. */
static void check_definite(struct fixture *f, struct precond *m, const char *name, double most)
{
    must(precond_find(name)->apply(m, &f->problem.Y, &f->A, &err));
    double *Z = device_get(f->be, &f->A);
    for (int64_t c = 0; c < f->t; c++) {
        double yy = 0, yz = 0;
        for (int64_t i = 0; i < f->n; i++) {
            yy += f->Y[i + c * f->n] * f->Y[i + c * f->n];
            yz += f->Y[i + c * f->n] * Z[i + c * f->n];
        }
        if (!(isfinite(yz) && yz > 0 && yz * most >= yy)) {
            print_error("%s, %s, n = %d, lambda = %g: y'P^-1 y = %g, |y|^2 / |P| = %g\n", name,
                        dtype_name(f->problem.dtype), (int)f->n, f->problem.ridge / (double)f->n,
                        yz, yy / most);
            fail();
        }
    }
    mem_free(Z);
}

/* Y <- M Y, each target of length 1. */
static void multiply_targets(struct fixture *f, const double *M)
{
    double *MY = host_zeros(f->n * f->t);
    for (int64_t c = 0; c < f->t; c++) {
        double squared = 0;
        for (int64_t j = 0; j < f->n; j++) {
            for (int64_t i = 0; i < f->n; i++) {
                MY[i + c * f->n] += M[i + j * f->n] * f->Y[j + c * f->n];
            }
        }
        for (int64_t i = 0; i < f->n; i++) {
            squared += MY[i + c * f->n] * MY[i + c * f->n];
        }
        for (int64_t i = 0; i < f->n; i++) {
            f->Y[i + c * f->n] = MY[i + c * f->n] / sqrt(squared);
        }
    }
    mem_free(MY);
    host_round(f->Y, f->n * f->t, f->problem.dtype);
    must(f->be->ops->mat_put(f->be, f->Y, f->n, &f->problem.Y, &err));
}

/* For Y, M Y and M^2 Y, which lie more and more in the directions of the largest eigenvalues: there
 * P^-1 y is a difference of which least is left, and its rounding errors are divided by the ridge.
 * |P| is at most the trace and a ridge, unless K is indefinite. */
static void check_targets(struct fixture *f, int64_t rank)
{
    struct precond *made[sizeof(low_rank) / sizeof(*low_rank)];
    double *M = fixture_matrix(f), most = 0;
    for (int64_t i = 0; i < f->n; i++) {
        most += 4 * fabs(M[i + i * f->n]);
    }
    most = f->kernel.id == KERNEL_SIGMOID ? INFINITY : most;
    for (int i = 0; low_rank[i] != NULL; i++) {
        made[i] = precond_make(f, low_rank[i], rank, 0);
    }
    for (int power = 0; power < 3; power++) {
        for (int i = 0; low_rank[i] != NULL; i++) {
            check_definite(f, made[i], low_rank[i], most);
        }
        multiply_targets(f, M);
    }
    for (int i = 0; low_rank[i] != NULL; i++) {
        precond_find(low_rank[i])->teardown(made[i]);
    }
    mem_free(M);
}

static void test_degenerate_problems(void **state)
{
    static const struct {
        enum kernel_id kernel;
        int64_t n, copies, rank;
        double lambda;
        uint64_t seeds;
    } cases[] = {
        {KERNEL_LAPLACIAN, 50, 0, 20, 0, 1}, /* no ridge */
        {KERNEL_GAUSSIAN, 60, 59, 30, 0, 1}, /* one point, and no ridge: K of rank 1 */
        {KERNEL_GAUSSIAN, 60, 59, 60, 1e-6, 1},
        {KERNEL_GAUSSIAN, 1, 0, 0, 1e-3, 1}, /* one row */
        {KERNEL_LINEAR, 1, 0, 7, 0, 20},     /* P^-1 y is y / P, and nothing but a difference */
        {KERNEL_GAUSSIAN, 90, 0, 500, 0, 1}, /* rank > n > the numerical rank */
        {KERNEL_GAUSSIAN, 90, 0, 500, 1e-9, 1},
        {KERNEL_GAUSSIAN, 90, 80, 90, 0, 1},  /* ten points, nine times each */
        {KERNEL_SIGMOID, 60, 0, 30, 1e-3, 1}, /* K is indefinite */
        {KERNEL_SIGMOID, 60, 0, 30, 0, 3},    /* and |F|^2 far above its trace */
    };
    static const enum dtype points[] = {DTYPE_F32, DTYPE_F32, DTYPE_F64};
    static const enum dtype vectors[] = {DTYPE_F32, DTYPE_F64, DTYPE_F64};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        for (uint64_t run = 0; run < 3 * cases[c].seeds; run++) {
            struct fixture f;
            struct fixture_spec spec = spec_of(cases[c].kernel, cases[c].n, cases[c].lambda);
            spec.points = points[run % 3];
            spec.vectors = vectors[run % 3];
            spec.copies = cases[c].copies;
            spec.seed = 1 + run / 3;
            fixture_init(&f, *state, &spec);
            check_targets(&f, cases[c].rank);
            fixture_deinit(&f);
        }
    }
}

/* K = 0 without a ridge: points at the origin and a linear kernel without a constant. */
static void test_zero_matrix(void **state)
{
    struct backend *be = *state;
    struct fixture f;
    const struct fixture_spec spec = spec_of(KERNEL_LINEAR, 30, 0);
    fixture_init(&f, be, &spec);
    memset(f.X, 0, (size_t)(f.n * f.d) * sizeof(double));
    f.kernel.coef0 = 0;
    be->ops->points_free(be, f.points);
    must(be->ops->points_new(be, &f.kernel, spec.points, &f.host, &f.points, &err));
    f.problem.X = f.points;
    for (const char *const *name = low_rank; *name != NULL; name++) {
        struct precond *m = precond_make(&f, *name, 10, 0);
        assert_int_equal(precond_find(*name)->rank(m), 0);
        check_definite(&f, m, *name, INFINITY);
        precond_find(*name)->teardown(m);
    }
    fixture_deinit(&f);
}

/* Conjugate gradients with a preconditioner of a sixth of the rank find the solution of the dense
 * system, and sooner than without one. */
static void check_pcg(struct backend *be, enum kernel_id kernel, enum dtype dtype, double tolerance)
{
    struct fixture f;
    struct fixture_spec spec = spec_of(kernel, 180, 1e-4);
    spec.points = spec.vectors = dtype;
    fixture_init(&f, be, &spec);
    double *M = fixture_matrix(&f);
    struct solver_options options = options_make("pcg", "none", tolerance);
    const struct solver_ops *pcg = solver_find("pcg");
    int64_t plain = 0;
    for (int i = -1; i < 0 || low_rank[i] != NULL; i++) {
        if (i >= 0) {
            options.precond = precond_find(low_rank[i]);
            options.precond_params = params_make(low_rank[i], 30, 0);
        }
        struct solver *s = NULL;
        struct step_report report = {.iteration = 0};
        must(pcg->setup(&f.problem, &options, &s, &err));
        int r = 0;
        while (r == 0 && report.iteration < 2000) {
            r = pcg->step(s, &report, NULL);
        }
        must(pcg->coef(s, &f.A, &err));
        double *A = device_get(be, &f.A);
        plain = i < 0 ? report.iteration : plain;
        if (r != REASON_CONVERGED || !(host_residual(&f, M, A) <= 2 * tolerance) ||
            report.iteration > plain) {
            print_error("%s, %s, %s: %d after %d iterations, residual %g\n", options.precond->name,
                        kernel_name(kernel), dtype_name(dtype), r, (int)report.iteration,
                        host_residual(&f, M, A));
            fail();
        }
        mem_free(A);
        pcg->teardown(s);
    }
    mem_free(M);
    fixture_deinit(&f);
}

static void test_pcg_finds_the_solution(void **state)
{
    static const enum kernel_id kernels[] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN_L1, KERNEL_MATERN52};
    for (int i = 0; i < 3; i++) {
        check_pcg(*state, kernels[i], DTYPE_F32, 1e-3);
        check_pcg(*state, kernels[i], DTYPE_F64, 1e-10);
    }
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

/* The largest residual each time, by elimination of the whole matrix on the host. */
static void test_greedy_pivots(void **state)
{
    enum { COUNT = 100 };
    struct fixture f;
    const struct fixture_spec spec = spec_of(KERNEL_MATERN32, 300, 0); /* K without a ridge */
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
    const struct fixture_spec spec = spec_of(KERNEL_LAPLACIAN, N, 1e-6);
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

static int64_t room_of_test;

static int64_t say_room(struct backend *be)
{
    (void)be;
    return room_of_test;
}

/* Room for F alone is refused before anything is built, naming the square matrices too. */
static void test_no_room_for_the_squares(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 60,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-3};
    fixture_init(&f, *state, &spec);
    struct err why;
    const struct backend_ops *real = f.be->ops;
    struct backend_ops ops = *real;
    ops.memory_available = say_room;
    const char *names[] = {"rpcholesky", "nystrom_gaussian"};
    for (int64_t k = 0; k < 2; k++) {
        const int64_t columns = (k + 1) * 50 * 60 * 8, squares = (k + 1) * 50 * 50 * 8;
        struct param_set params = {0};
        struct json *rank = NULL;
        must(json_parse("{\"rank\":50}", 11, &rank, &err));
        must(param_read(catalog_find(CATALOG_PRECONDITIONERS, names[k])->params, rank, NULL,
                        &params, &err));
        json_free(rank);
        const struct precond_ops *o = precond_find(names[k]);
        for (int fits = 0; fits < 2; fits++) {
            room_of_test = columns + squares - !fits;
            f.be->ops = &ops;
            struct precond *m = NULL;
            const int r = o->setup(&f.problem, &params, &m, &why);
            f.be->ops = real;
            assert_int_equal(r, fits ? 0 : -ERR_NO_MEMORY);
            o->teardown(m);
        }
        assert_contains(why.detail, k == 0 ? "50 x 50 one" : "50 x 100 one");
    }
    fixture_deinit(&f);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)
/* Thousands of tiny problems: waking a second thread would cost more than the work. */
#define on_one_thread(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_no_room_for_the_squares), cmocka_unit_test(test_lists_are_complete),
          on_device(test_full_rank_is_the_inverse), on_device(test_is_the_nystrom_approximation),
          on_device(test_symmetric_and_positive), on_device(test_ends_early_when_exhausted),
          on_device(test_noise_is_no_pivot), on_device(test_rank_beside_a_huge_row),
          on_device(test_degenerate_problems), on_device(test_zero_matrix),
          on_device(test_pcg_finds_the_solution), on_device(test_greedy_pivots),
          on_one_thread(test_law_of_the_pivots), on_one_thread(test_uniform_columns))
