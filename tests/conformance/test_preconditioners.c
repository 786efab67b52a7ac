/* Every preconditioner against dense algebra on the host. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/precond_fixture.h"

static const char *const low_rank[] = {"rpcholesky", "nystrom_uniform", "nystrom_gaussian",
                                       "cholesky_greedy", NULL};

/* The list above is the registry, but for what test_kronecker.c has. */
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
    const struct fixture_spec spec = precond_spec(KERNEL_LAPLACIAN, 80, 1e-4);
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

/* P^-1 is symmetric and positive definite in every precision: x'P^-1 y = y'P^-1 x, x'P^-1 x > 0. */
static void test_symmetric_and_positive(void **state)
{
    struct backend *be = *state;
    for (const struct precond_ops *const *ops = precond_list(); *ops != NULL; ops++) {
        const int32_t first = precond_wants_grid((*ops)->name) ? DTYPE_F64 + 1 : DTYPE_F32;
        for (int32_t dtype = first; dtype <= DTYPE_F64; dtype++) {
            struct fixture f;
            struct fixture_spec spec = precond_spec(KERNEL_GAUSSIAN, 100, 1e-3);
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
    struct fixture_spec spec = precond_spec(KERNEL_LINEAR, 120, 1e-3);
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
            struct fixture_spec spec = precond_spec(cases[c].kernel, cases[c].n, cases[c].lambda);
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
    const struct fixture_spec spec = precond_spec(KERNEL_LINEAR, 30, 0);
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
    struct fixture_spec spec = precond_spec(kernel, 180, 1e-4);
    spec.points = spec.vectors = dtype;
    fixture_init(&f, be, &spec);
    double *M = fixture_matrix(&f);
    struct solver_options options = options_make("pcg", "none", tolerance);
    const struct solver_ops *pcg = solver_find("pcg");
    int64_t plain = 0;
    for (int i = -1; i < 0 || low_rank[i] != NULL; i++) {
        if (i >= 0) {
            options.precond = precond_find(low_rank[i]);
            options.precond_params = precond_params_make(low_rank[i], 30, 0);
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

TEST_MAIN(on_device(test_no_room_for_the_squares), cmocka_unit_test(test_lists_are_complete),
          on_device(test_full_rank_is_the_inverse), on_device(test_symmetric_and_positive),
          on_device(test_ends_early_when_exhausted), on_device(test_degenerate_problems),
          on_device(test_zero_matrix), on_device(test_pcg_finds_the_solution))
