/* Solver `cholesky` with its factor in float32: what refinement must make of it, when it gives way
 * to float64, and what "auto" takes. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

static const struct solve_limits patient = {
    .tolerance = 1e-10, .max_iterations = 100000, .time_budget_s = INFINITY};

struct heard {
    char text[512];
    int count;
};

static void hear(void *context, const char *level, const char *text)
{
    struct heard *h = context;
    assert_string_equal(level, "warning");
    snprintf(h->text, sizeof(h->text), "%s", text);
    h->count++;
}

static double still(void *context)
{
    (void)context;
    return 0;
}

/* Solves with the factor asked for ("auto" included); *ret_bytes: high-water mark of the solve. */
static struct solve_outcome solve_with(struct fixture *f, const char *factor,
                                       const struct solve_limits *limits, struct heard *heard,
                                       int64_t *ret_bytes)
{
    struct solver_options options = options_make("cholesky", NULL, limits->tolerance);
    char text[64];
    snprintf(text, sizeof(text), "{\"factor\":\"%s\",\"block_size\":64}", factor);
    struct json *j = NULL;
    must(json_parse(text, strlen(text), &j, &err));
    must(param_read(options.params.defs, j, NULL, &options.params, &err));
    json_free(j);
    *heard = (struct heard){.count = 0};
    const struct solve_control control = {.context = heard, .now = still, .message = hear};
    struct solve_outcome out = {.reason = REASON_NONE};
    const int64_t before = f->be->bytes;
    f->be->peak_bytes = before;
    must(solve_run(solver_find("cholesky"), &f->problem, &options, limits, &control, NULL,
                   &f->kernel, &f->host, &f->A, &out, &err));
    assert_int_equal(f->be->bytes, before);
    *ret_bytes = f->be->peak_bytes - before;
    return out;
}

/* A ridge above and one far below float32's rounding error, several targets, kernels smooth and
 * rough: always the residual that was asked for, without a float64 matrix. */
static void test_refined_to_the_tolerance(void **state)
{
    const struct solve_limits limits = {
        .tolerance = 1e-8, .max_iterations = 1000, .time_budget_s = INFINITY};
    const double lambdas[] = {1e-4, 1e-6, 1e-8};
    const enum kernel_id kernels[] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 3; i++) {
            struct fixture f;
            const struct fixture_spec spec = {.kernel = kernels[k],
                                              .points = DTYPE_F64,
                                              .vectors = DTYPE_F64,
                                              .n = 500,
                                              .d = 3,
                                              .t = 3,
                                              .lambda = lambdas[i],
                                              .seed = 5};
            fixture_init(&f, *state, &spec);
            double *M = fixture_matrix(&f);
            struct heard heard;
            int64_t bytes;
            const struct solve_outcome out = solve_with(&f, "float32", &limits, &heard, &bytes);
            double *A = device_get(*state, &f.A);
            assert_int_equal(out.reason, REASON_CONVERGED);
            assert_true(host_residual(&f, M, A) <= 1.01e-8);
            assert_int_equal(heard.count, 0);
            assert_true(out.iterations > 1);
            assert_true(bytes < 7 * f.n * f.n);
            mem_free(A);
            mem_free(M);
            fixture_deinit(&f);
        }
    }
}

/* A matrix that float32 cannot even rank: the float64 factor takes over, and says so once. */
static void test_gives_way_to_float64(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 400,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = 1e-12};
    fixture_init(&f, *state, &spec);
    const struct solve_limits limits = {
        .tolerance = 1e-4, .max_iterations = 1000, .time_budget_s = INFINITY};
    struct heard heard;
    int64_t bytes;
    struct solve_outcome out = solve_with(&f, "float32", &limits, &heard, &bytes);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_true(out.relative_residual <= 1.01e-4);
    assert_int_equal(heard.count, 1);
    assert_contains(heard.text, "factorising in float64");
    fixture_deinit(&f);
}

/* In mixed precision each factor reaches what float32 kernel values alone would not. */
static void test_mixed_precision(void **state)
{
    static const char *const factors[] = {"float32", "float64", "auto"};
    const struct fixture_spec spec = {.kernel = KERNEL_MATERN32,
                                      .points = DTYPE_F32,
                                      .vectors = DTYPE_F64,
                                      .n = 100,
                                      .d = 1,
                                      .t = 2,
                                      .lambda = 1e-6};
    const struct solve_limits limits = {
        .tolerance = 1e-9, .max_iterations = 1000, .time_budget_s = INFINITY};
    for (int k = 0; k < 3; k++) {
        struct fixture f;
        fixture_init(&f, *state, &spec);
        struct heard heard;
        int64_t bytes;
        const struct solve_outcome out = solve_with(&f, factors[k], &limits, &heard, &bytes);
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_true(out.relative_residual <= 1.01e-9);
        fixture_deinit(&f);
    }
}

static const struct backend_ops *real_ops;

static bool no_vectors;

/* No float64 matrix of all pairs, and no more vectors once that is said. */
static int new_but_no_square(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols,
                             struct mat *ret, struct err *err)
{
    if (no_vectors && cols == 1 && rows > 100) {
        return err_no_memory(err);
    }
    return dtype == DTYPE_F64 && rows == cols && rows > 100
               ? err_no_memory(err)
               : real_ops->mat_new(be, dtype, rows, cols, ret, err);
}

/* Steps until the float64 factor takes over; the report of that step is *at. */
static int step_to_the_change(const struct solver_ops *o, struct solver *s, struct step_report *at)
{
    struct err why;
    int r = 0;
    bool usable = false;
    for (int k = 0; r == 0 && at->note == NULL && k < 10000; k++) {
        usable = at->usable;
        r = o->step(s, at, &why);
    }
    assert_true(usable);
    assert_non_null(at->note);
    return r;
}

/* The residual of what can be had by now. */
static double residual_now(struct fixture *f, const struct solver_ops *o, struct solver *s,
                           const double *M)
{
    double *A = host_zeros(f->n);
    must(o->coef(s, &f->A, &err));
    must(real_ops->mat_get(f->be, &f->A, A, f->n, &err));
    const double residual = host_residual(f, M, A);
    mem_free(A);
    return residual;
}

/* Through the change to the float64 factor, for which there is room or none. */
static void check_change(struct fixture *f, const struct solver_options *options, const double *M,
                         const struct backend_ops *ops)
{
    const struct solver_ops *o = solver_find("cholesky");
    const int64_t bytes = f->be->bytes;
    const bool fits = ops == real_ops;
    struct solver *s = NULL;
    struct step_report at = {.fraction = 0}, again;
    f->be->ops = ops;
    must(o->setup(&f->problem, options, &s, &err));
    const int r = step_to_the_change(o, s, &at);
    assert_int_equal(r, fits ? 0 : REASON_STAGNATED);
    assert_true(at.usable);
    must(fits ? 0 : o->step(s, &again, &err) - REASON_STAGNATED);
    const double rough = residual_now(f, o, s, M);
    assert_true(rough < 1e-6);
    struct err why;
    int end = r;
    for (int k = 0; end == 0 && k < 10000; k++) {
        end = o->step(s, &at, &why);
        assert_true(at.usable);
    }
    const double last = residual_now(f, o, s, M);
    assert_true(fits ? last < 1e-6 : last == rough);
    o->teardown(s);
    f->be->ops = real_ops;
    assert_int_equal(f->be->bytes, bytes);
}

/* Without room for a vector either, from where there is something to be had. */
static void check_without_vectors(struct fixture *f, const struct solver_options *options,
                                  const double *M, const struct backend_ops *poor)
{
    const struct solver_ops *o = solver_find("cholesky");
    struct solver *s = NULL;
    struct step_report at = {.fraction = 0};
    f->be->ops = poor;
    must(o->setup(&f->problem, options, &s, &err));
    int end = 0;
    for (int k = 0; end == 0 && k < 10000; k++) {
        struct err why;
        no_vectors = at.usable;
        end = o->step(s, &at, &why);
    }
    no_vectors = false;
    assert_true(end > 0 && at.usable && at.note == NULL);
    assert_true(residual_now(f, o, s, M) < 1e-6);
    o->teardown(s);
    f->be->ops = real_ops;
}

/* What was refined can be had until the float64 factor's answer is there, and when it never comes.
 */
static void test_keeps_what_was_refined(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 400,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = 1e-8};
    fixture_init(&f, *state, &spec);
    struct solver_options options = options_make("cholesky", NULL, 1e-17);
    options_set(&options, "{\"factor\":\"float32\",\"block_size\":64}");
    double *M = fixture_matrix(&f);
    real_ops = f.be->ops;
    struct backend_ops poor = *real_ops;
    poor.mat_new = new_but_no_square;
    check_change(&f, &options, M, &poor);
    check_change(&f, &options, M, real_ops);
    check_without_vectors(&f, &options, M, &poor);
    mem_free(M);
    fixture_deinit(&f);
}

/* So is it where float64 has no factor: a ridge below rounding, and targets that are smooth. */
static void test_keeps_what_has_no_float64_factor(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 700,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-17};
    fixture_init(&f, *state, &spec);
    double *M = fixture_matrix(&f);
    for (int64_t i = 0; i < f.n; i++) {
        f.Y[i] = M[i] + M[i + f.n * (f.n / 2)];
    }
    must(f.be->ops->mat_put(f.be, f.Y, f.n, &f.problem.Y, &err));
    struct heard heard;
    int64_t bytes;
    const struct solve_outcome out = solve_with(&f, "float32", &patient, &heard, &bytes);
    assert_int_equal(out.reason, REASON_STAGNATED);
    assert_true(out.model && out.relative_residual < 0.1);
    mem_free(M);
    fixture_deinit(&f);
}

/* An indefinite matrix is told as such whatever the factor. */
static void test_indefinite(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_SIGMOID,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 80,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = 1e-9};
    fixture_init(&f, *state, &spec);
    struct heard heard;
    int64_t bytes;
    const struct solve_outcome out = solve_with(&f, "float32", &patient, &heard, &bytes);
    assert_int_equal(out.reason, REASON_NOT_POSITIVE_DEFINITE);
    assert_int_equal(heard.count, 1);
    fixture_deinit(&f);
}

/* float32 vectors with a float64 factor: at least as good as a float32 one. */
static void test_wider_than_the_vectors(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F32,
                                      .vectors = DTYPE_F32,
                                      .n = 300,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-4};
    fixture_init(&f, *state, &spec);
    struct heard heard;
    int64_t narrow, wide;
    const struct solve_outcome a = solve_with(&f, "float32", &patient, &heard, &narrow);
    const struct solve_outcome b = solve_with(&f, "float64", &patient, &heard, &wide);
    assert_true(b.relative_residual < 2 * a.relative_residual);
    assert_true(b.relative_residual < 1e-4);
    assert_true(wide > narrow + 3 * f.n * f.n);
    fixture_deinit(&f);
}

static int64_t bytes_of_auto(struct backend *be, int64_t n, double lambda)
{
    struct fixture f;
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = n,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = lambda};
    fixture_init(&f, be, &spec);
    struct heard heard;
    int64_t bytes;
    const struct solve_limits limits = {
        .tolerance = 1e-6, .max_iterations = 1000, .time_budget_s = INFINITY};
    const struct solve_outcome out = solve_with(&f, "auto", &limits, &heard, &bytes);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_true(out.relative_residual <= 1.01e-8);
    assert_int_equal(heard.count, 0);
    fixture_deinit(&f);
    return bytes;
}

/* The rule, seen by the memory that it takes: a row less, or a ridge below 2^-23, is float64. */
static void test_auto(void **state)
{
    const double above = 1.01 * (double)FLT_EPSILON;
    assert_true(bytes_of_auto(*state, 4096, above) < INT64_C(5) * 4096 * 4096);
    assert_true(bytes_of_auto(*state, 4095, above) > INT64_C(8) * 4095 * 4095);
    assert_true(bytes_of_auto(*state, 4096, 0.99 * (double)FLT_EPSILON) > INT64_C(8) * 4096 * 4096);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)

TEST_MAIN(on_device(test_refined_to_the_tolerance), on_device(test_gives_way_to_float64),
          on_device(test_mixed_precision), on_device(test_keeps_what_was_refined),
          on_device(test_keeps_what_has_no_float64_factor), on_device(test_indefinite),
          on_device(test_wider_than_the_vectors), on_device(test_auto))
