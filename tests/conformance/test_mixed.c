/* pcg in mixed precision: products in float32, residuals that count in float64. It reaches what
 * float64 reaches, with float32 products while they help and float64 ones after that. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

static const struct fixture_spec smooth = {.kernel = KERNEL_GAUSSIAN,
                                           .points = DTYPE_F32,
                                           .vectors = DTYPE_F64,
                                           .n = 600,
                                           .d = 3,
                                           .t = 2,
                                           .lambda = 1e-7,
                                           .seed = 5};
static const double usual = 1e-6;

/* What a solve let the world know. */
struct witness {
    int widened, warnings;
    char warning[256];
    int64_t certified_at; /* the iteration of the first certificate; 0: none yet */
};

static int count_widened(void *context, struct err *err)
{
    (void)err;
    ((struct witness *)context)->widened++;
    return 0;
}

static void count_warnings(void *context, const char *level, const char *text)
{
    struct witness *w = context;
    if (strcmp(level, "warning") == 0) {
        w->warnings++;
        snprintf(w->warning, sizeof(w->warning), "%s", text);
    }
}

static void see_certificate(void *context, const struct progress *p)
{
    struct witness *w = context;
    if (w->certified_at == 0 && strcmp(p->phase, "certifying") == 0) {
        w->certified_at = p->iteration;
    }
}

static double stand_still(void *context)
{
    (void)context;
    return 0;
}

static int refusals;

static int count_refusals(struct solver *s, struct err *err)
{
    refusals++;
    return solver_find("pcg")->refuse(s, err);
}

static struct solve_outcome solve_within(struct fixture *f, const char *precond, double tolerance,
                                         int64_t max_iterations, struct witness *w)
{
    *w = (struct witness){0};
    f->problem.widened = count_widened;
    f->problem.widened_context = w;
    const struct solve_control control = {
        .context = w, .now = stand_still, .report = see_certificate, .message = count_warnings};
    const struct solver_options options = options_make("pcg", precond, tolerance);
    const struct solve_limits limits = {
        .tolerance = tolerance, .max_iterations = max_iterations, .time_budget_s = INFINITY};
    struct solver_ops pcg = *solver_find("pcg");
    pcg.refuse = count_refusals;
    refusals = 0;
    struct solve_outcome out;
    must(solve_run(&pcg, &f->problem, &options, &limits, &control, NULL, &f->kernel, &f->host,
                   &f->A, &out, &err));
    return out;
}

static struct solve_outcome solve(struct fixture *f, const char *precond, double tolerance,
                                  struct witness *w)
{
    return solve_within(f, precond, tolerance, 1000, w);
}

/* The problem in float64 from the start. */
static void make_exact(struct fixture *f)
{
    f->problem.X = f->exact;
    f->problem.points_dtype = DTYPE_F64;
    f->problem.exact = NULL;
}

/* Float32 kernel values alone do not reach the tolerance; refined they do, without one product in
 * float64 that is not for a residual. */
static void test_refinement(void **state)
{
    static const char *const preconds[] = {"rpcholesky", "nystrom_uniform", "nystrom_gaussian"};
    for (int k = 0; k < 3; k++) {
        struct fixture f;
        struct witness w;
        fixture_init(&f, *state, &smooth);
        f.problem.exact = NULL;
        struct solve_outcome out = solve(&f, preconds[k], usual, &w);
        assert_int_equal(out.reason, REASON_STAGNATED);
        assert_true(out.relative_residual > 3 * usual);

        f.problem.exact = f.exact;
        out = solve(&f, preconds[k], usual, &w);
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_true(out.relative_residual <= 1.01 * usual);
        assert_int_equal(w.widened, 0);
        assert_int_equal(w.warnings, 0);
        double *M = fixture_matrix(&f), *B = device_get(f.be, &f.A);
        const double there = host_residual(&f, M, B); /* float64 rounds, too, at 1e-12 or so */
        assert_true(fabs(there - out.relative_residual) <=
                    1e-4 * out.relative_residual + 1e-5 * usual);
        mem_free(B);
        mem_free(M);
        fixture_deinit(&f);
    }
}

/* With so small a ridge float32's errors are larger than it: the first product shows it, and all is
 * float64's from then on, to the bit; the user is told once. */
static void test_too_small_a_ridge(void **state)
{
    static const struct {
        double lambda;
        int64_t d, t;
        const char *precond;
    } cases[] = {
        {1e-9, 6, 1, "rpcholesky"},        {1e-10, 6, 1, "rpcholesky"}, {1e-10, 3, 2, "rpcholesky"},
        {1e-11, 3, 2, "nystrom_gaussian"}, {1e-12, 3, 2, "rpcholesky"},
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct fixture f;
        struct witness w;
        struct fixture_spec spec = smooth;
        spec.lambda = cases[k].lambda;
        spec.d = cases[k].d;
        spec.t = cases[k].t;
        fixture_init(&f, *state, &spec);
        const struct solve_outcome mixed = solve_within(&f, cases[k].precond, usual, 150, &w);
        assert_int_equal(w.widened, 1);
        assert_true(w.warnings >= 1);
        double *B = device_get(f.be, &f.A);

        make_exact(&f);
        const int told = w.warnings;
        const struct solve_outcome exact = solve_within(&f, cases[k].precond, usual, 150, &w);
        assert_int_equal(w.warnings, told - 1);
        assert_int_equal(mixed.reason, exact.reason);
        assert_int_equal(mixed.iterations, exact.iterations);
        double *expected = device_get(f.be, &f.A);
        assert_memory_equal(B, expected, (size_t)(f.n * f.t) * sizeof(double));
        mem_free(expected);
        mem_free(B);
        fixture_deinit(&f);
    }
}

/* Three rows far from all others, whose distances float32 gets wrong (here: they are moved), and of
 * which the sample has none. `apart` and `apart32` are their true distances and float32's. */
static void init_misled(struct fixture *f, struct backend *be, double lambda, double apart,
                        double apart32)
{
    struct fixture_spec spec = smooth;
    spec.n = 3000;
    spec.seed = 2;
    spec.t = 1;
    spec.lambda = lambda;
    fixture_init(f, be, &spec);
    double *X = mem_dup(f->X, (size_t)(f->n * f->d) * sizeof(double));
    for (int64_t k = 0; k < 3; k++) {
        f->X[(f->n - 1 - k) * f->d] = 100 + apart * (double)k;
        X[(f->n - 1 - k) * f->d] = 100 + apart32 * (double)k;
    }
    const struct rows moved = {.dtype = DTYPE_F64, .n = f->n, .d = f->d, .data = X};
    f->be->ops->points_free(f->be, f->points);
    f->be->ops->points_free(f->be, f->exact);
    must(f->be->ops->points_new(f->be, &f->kernel, DTYPE_F32, &moved, &f->points, &err));
    must(f->be->ops->points_new(f->be, &f->kernel, DTYPE_F64, &f->host, &f->exact, &err));
    f->problem.X = f->points;
    f->problem.exact = f->exact;
    mem_free(X);
}

/* The certificate sees what the sample missed, and the solve goes on until it is content, but not
 * beyond its iterations. */
static void test_refused_by_the_certificate(void **state)
{
    struct fixture f;
    struct witness w;
    init_misled(&f, *state, 1e-2, 1.0, 1.2);
    struct solve_outcome out = solve(&f, "none", 1e-5, &w);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_true(out.relative_residual <= 1.01 * 1e-5);
    assert_int_equal(refusals, 1);
    assert_true(w.certified_at > 0 && w.certified_at < out.iterations);

    const int64_t claimed = w.certified_at;
    out = solve_within(&f, "none", 1e-5, claimed, &w);
    assert_int_equal(out.reason, REASON_ITERATION_LIMIT);
    assert_int_equal(out.iterations, claimed);
    assert_true(out.relative_residual > 1.01 * 1e-5);
    assert_int_equal(refusals, 0);
    fixture_deinit(&f);
}

/* What the sample missed is more than refinement makes up for: float64 takes over on the way, and
 * the user is told once. */
static void test_fallback(void **state)
{
    struct fixture f;
    struct witness w;
    init_misled(&f, *state, 1e-4, 10.0, 0.0);
    struct solve_outcome out = solve(&f, "none", 1e-5, &w);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_true(out.relative_residual <= 1.01 * 1e-5);
    assert_int_equal(w.widened, 1);
    assert_int_equal(w.warnings, 1);
    assert_contains(w.warning, "goes on with float64");
    fixture_deinit(&f);
}

/* float32 overflows in the first product: float64 takes it from there. */
static void test_overflow(void **state)
{
    struct fixture f;
    struct witness w;
    struct fixture_spec spec = smooth;
    spec.kernel = KERNEL_POLYNOMIAL;
    spec.n = 60;
    spec.lambda = 1e80; /* as large as the values of the kernel */
    fixture_init(&f, *state, &spec);
    for (int64_t k = 0; k < f.n * f.d; k++) {
        f.X[k] *= 0x1p34;
    }
    f.kernel.degree = 4;
    f.be->ops->points_free(f.be, f.points);
    f.be->ops->points_free(f.be, f.exact);
    must(f.be->ops->points_new(f.be, &f.kernel, DTYPE_F32, &f.host, &f.points, &err));
    must(f.be->ops->points_new(f.be, &f.kernel, DTYPE_F64, &f.host, &f.exact, &err));
    f.problem.X = f.points;
    f.problem.exact = f.exact;
    const struct solve_outcome out = solve(&f, "none", usual, &w);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_int_equal(w.widened, 1);
    fixture_deinit(&f);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_refinement), on_device(test_too_small_a_ridge), on_device(test_fallback),
          on_device(test_refused_by_the_certificate), on_device(test_overflow))
