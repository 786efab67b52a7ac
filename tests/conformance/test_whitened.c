/* The whitened residual of restricted models: what it is, and what solvers make of it where the
 * plain one is below the tolerance and the solution far. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"
#include "engine/solve/certify.h"

enum { CENTERS = 60 };

/* Points that lie evenly, with deviation 1, in place of normal ones. */
static void spread(struct restricted_fixture *f)
{
    for (int64_t i = 0; i < f->n; i++) {
        f->X[i] = sqrt(3.0) * erf(f->X[i] / sqrt(2.0));
    }
    for (int64_t j = 0; j < f->m; j++) {
        f->Z[j] = sqrt(3.0) * erf(f->Z[j] / sqrt(2.0));
    }
    restricted_move_centers(f);
}

/* So near to each other that the kernel is all ones but for by^2, and targets without a mean, so
 * that K_nm' Y is as small. */
static void move_together(struct restricted_fixture *f, double by)
{
    double mean = 0;
    for (int64_t i = 0; i < f->n; i++) {
        f->X[i] *= by;
        mean += f->Y[i] / (double)f->n;
    }
    for (int64_t i = 0; i < f->n; i++) {
        f->Y[i] -= mean;
    }
    for (int64_t j = 0; j < f->m; j++) {
        f->Z[j] *= by;
    }
    restricted_move_centers(f);
}

/* A smooth function of one feature with noise, and so little regularization that the solution takes
 * eigenvalues of K_mm which are a millionth of the largest. */
static void smooth_init(struct restricted_fixture *f, struct backend *be)
{
    struct restricted_spec spec = restricted_ordinary();
    spec.n = 600;
    spec.m = CENTERS;
    spec.d = spec.t = 1;
    spec.lambda = 1e-8;
    spec.tile_rows = 0;
    restricted_init(f, be, &spec);
    spread(f);
    for (int64_t i = 0; i < f->n; i++) { /* Y is noise of deviation 1 */
        f->Y[i] = sin(5 * f->X[i]) + 0.1 * f->Y[i];
    }
}

/* What the driver said. */
struct heard {
    int warnings;
    char text[640];
};

static double stopped_clock(void *context)
{
    (void)context;
    return 0;
}

static void hear(void *context, const char *level, const char *text)
{
    struct heard *h = context;
    h->warnings += strcmp(level, "warning") == 0;
    snprintf(h->text, sizeof(h->text), "%s", text);
}

static struct solve_outcome solve(struct restricted_fixture *f, const struct solver_ops *ops,
                                  int64_t max_iterations, struct heard *ret)
{
    const struct solve_limits limits = {
        .tolerance = 1e-6, .max_iterations = max_iterations, .time_budget_s = INFINITY};
    const struct solver_options options = options_make(ops->name, NULL, limits.tolerance);
    const struct solve_control control = {.context = ret, .now = stopped_clock, .message = hear};
    struct solve_outcome out = {.reason = REASON_NONE};
    *ret = (struct heard){0};
    must(solve_run(ops, &f->problem, &options, &limits, &control, NULL, NULL, NULL, &f->A, &out,
                   &err));
    return out;
}

/* What `direct` comes to: normal equations on the host, whose smallest eigenvalues are below
 * rounding, do not. The caller frees. */
static double *reference(struct restricted_fixture *f)
{
    struct heard heard;
    const struct solve_outcome out = solve(f, solver_find("direct"), 10, &heard);
    assert_true(out.reason == REASON_CONVERGED && out.whitened_residual < 1e-7);
    return device_get(f->be, &f->A);
}

/* Of predictions for the training rows, from those of B: root mean square, relative. */
static double error_of(struct restricted_fixture *f, const double *B)
{
    double *A = device_get(f->be, &f->A), *K = restricted_kernel(f), off = 0, all = 0;
    for (int64_t i = 0; i < f->n; i++) {
        double a = 0, b = 0;
        for (int64_t j = 0; j < f->m; j++) {
            a += K[i + j * f->n] * A[j];
            b += K[i + j * f->n] * B[j];
        }
        off += (a - b) * (a - b);
        all += b * b;
    }
    mem_free(A);
    mem_free(K);
    return sqrt(off / all);
}

/* ---- the number ---- */

/* b' C for columns of m numbers. */
static double product(const double *b, const double *c, int64_t m)
{
    double sum = 0;
    for (int64_t i = 0; i < m; i++) {
        sum += b[i] * c[i];
    }
    return sum;
}

/* |L^-1 x|^2 = x' K_mm^-1 x. */
static double whitened_square(const double *L, const double *x, int64_t m)
{
    double *y = mem_dup(x, (size_t)m * sizeof(double));
    host_solve(L, m, y, 1);
    const double square = product(x, y, m);
    mem_free(y);
    return square;
}

struct host {
    double *K, *core, *L; /* [n, m], [m, m], and its factor */
    double *rhs, *R;      /* [m] of a target */
};

/* R = H a - K'y, rhs = K'y. */
static void host_residuals(const struct restricted_fixture *f, const double *a, const double *y,
                           struct host *h)
{
    double *u = host_zeros(f->n);
    for (int64_t i = 0; i < f->n; i++) {
        u[i] = -y[i];
        for (int64_t j = 0; j < f->m; j++) {
            u[i] += h->K[i + j * f->n] * a[j];
        }
    }
    for (int64_t j = 0; j < f->m; j++) {
        const double *column = h->K + j * f->n;
        h->rhs[j] = product(column, y, f->n);
        h->R[j] =
            product(column, u, f->n) + f->problem.ridge * product(h->core + j * f->m, a, f->m);
    }
    mem_free(u);
}

static struct host host_init(const struct restricted_fixture *f)
{
    const int64_t m = f->m;
    struct host h = {.K = restricted_kernel(f),
                     .core = host_zeros(m * m),
                     .rhs = host_zeros(m),
                     .R = host_zeros(m)};
    for (int64_t i = 0; i < m * m; i++) {
        h.core[i] = kernel_eval(&f->kernel, f->Z + i % m * f->d, f->Z + i / m * f->d);
    }
    h.L = mem_dup(h.core, (size_t)(m * m) * sizeof(double));
    assert_true(host_factor(h.L, m));
    return h;
}

static void host_deinit(struct host *h)
{
    double *const all[] = {h->K, h->core, h->L, h->rhs, h->R};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        mem_free(all[i]);
    }
}

/* |a - b|_H / |b|_H. */
static double host_distance(const struct restricted_fixture *f, const struct host *h,
                            const double *a, const double *b)
{
    double *none = host_zeros(f->n), *e = host_zeros(f->m);
    struct host to = *h;
    to.R = host_zeros(f->m);
    to.rhs = host_zeros(f->m);
    for (int64_t j = 0; j < f->m; j++) {
        e[j] = a[j] - b[j];
    }
    host_residuals(f, e, none, &to);
    const double far = product(e, to.R, f->m);
    host_residuals(f, b, none, &to);
    const double whole = product(b, to.R, f->m);
    double *const all[] = {none, e, to.R, to.rhs};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        mem_free(all[i]);
    }
    return sqrt(far / whole);
}

/* Coefficients near the solution, of a K_mm that is far from singular. */
static void test_value(void **state)
{
    struct restricted_fixture f;
    const struct restricted_spec spec = restricted_ordinary();
    restricted_init(&f, *state, &spec);
    double *B = restricted_solution(&f), *A = mem_dup(B, (size_t)(f.m * f.t) * sizeof(double));
    A[3] += 1e-3;
    must(f.be->ops->mat_put(f.be, A, f.m, &f.A, &err));
    struct certificate found;
    must(certify_restricted(&f.problem, &f.A, NULL, &found, &err));
    struct host h = host_init(&f);
    host_residuals(&f, A, f.Y, &h); /* the other target is solved */
    const double rr = whitened_square(h.L, h.R, f.m), yy = whitened_square(h.L, h.rhs, f.m);
    assert_close(found.whitened, sqrt(rr / yy), 1e-6);
    assert_close(found.distance, sqrt(rr / (f.problem.ridge * product(A, h.rhs, f.m))), 1e-6);
    assert_true(host_distance(&f, &h, A, B) <= found.distance);
    host_deinit(&h);
    mem_free(A);
    mem_free(B);
    restricted_deinit(&f);
}

/* Zeros are as far from the solution as it is from them, or farther. */
static void test_zeros(void **state)
{
    struct restricted_fixture f;
    const struct restricted_spec spec = restricted_ordinary();
    restricted_init(&f, *state, &spec);
    double *zeros = host_zeros(f.m * f.t);
    must(f.be->ops->mat_put(f.be, zeros, f.m, &f.A, &err));
    struct certificate found;
    must(certify_restricted(&f.problem, &f.A, NULL, &found, &err));
    assert_close(found.whitened, 1.0, 1e-12);
    assert_true(found.distance >= 1.0);
    f.problem.ridge = 0; /* bounds nothing */
    must(certify_restricted(&f.problem, &f.A, NULL, &found, &err));
    assert_close(found.whitened, 1.0, 1e-12);
    assert_true(isnan(found.distance));
    mem_free(zeros);
    restricted_deinit(&f);
}

/* A kernel matrix without a factor has none; the residual is certified all the same. */
static void test_not_measured(void **state)
{
    struct restricted_fixture f;
    struct restricted_spec spec = restricted_ordinary();
    spec.kernel = KERNEL_SIGMOID;
    restricted_init(&f, *state, &spec);
    const struct kernel indefinite = {.id = KERNEL_SIGMOID, .d = f.d, .gamma = 3.0, .coef0 = -1.0};
    struct points *core = NULL;
    must(f.be->ops->points_new(f.be, &indefinite, DTYPE_F64, &f.host_centers, &core, &err));
    f.restricted.core = core;
    double *zeros = host_zeros(f.m * f.t);
    must(f.be->ops->mat_put(f.be, zeros, f.m, &f.A, &err));
    struct certificate found;
    must(certify_restricted(&f.problem, &f.A, NULL, &found, &err));
    assert_close(found.residual, 1.0, 1e-12);
    assert_true(isnan(found.whitened) && isnan(found.distance));
    mem_free(zeros);
    f.be->ops->points_free(f.be, core);
    restricted_deinit(&f);
}

/* ---- what becomes of it ---- */

/* A solver ends close to B, with no more than these whitened residual and error, and nobody is
 * warned. */
static void check_arrival(struct restricted_fixture *f, const char *solver, const double *B,
                          double whitened, double most)
{
    struct heard heard;
    const struct solve_outcome out = solve(f, solver_find(solver), 1000, &heard);
    const double error = error_of(f, B);
    if (out.reason != REASON_CONVERGED || !(out.whitened_residual <= whitened) || !(error < most) ||
        heard.warnings > 0) {
        print_error("%s: %s, residuals %g and %g, error %g; %s\n", solver, reason_name(out.reason),
                    out.relative_residual, out.whitened_residual, error, heard.text);
        fail();
    }
}

/* Solvers that iterate in whitened variables, or have what stands for them, are close. */
static void test_those_that_arrive(void **state)
{
    static const char *const names[] = {"falkon", "krill", "inducing"};
    struct restricted_fixture f;
    smooth_init(&f, *state);
    double *B = reference(&f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        check_arrival(&f, names[i], B, 1e-5, 1e-3);
    }
    mem_free(B);
    restricted_deinit(&f);
}

/* cg is below the tolerance long before it is anywhere near, and goes on. */
static void test_cg_goes_on(void **state)
{
    struct restricted_fixture f;
    smooth_init(&f, *state);
    double *B = reference(&f);
    check_arrival(&f, "cg", B, 1e-4, 0.01);
    mem_free(B);
    restricted_deinit(&f);
}

/* One that cannot go on hands its model out with a warning; one whose limits end it before it is
 * there has not converged. */
static void test_those_that_do_not(void **state)
{
    struct restricted_fixture f;
    smooth_init(&f, *state);
    double *B = reference(&f);
    struct solver_ops plain = *solver_find("cg");
    plain.deepen = NULL;
    struct heard heard;
    const struct solve_outcome out = solve(&f, &plain, 1000, &heard);
    assert_int_equal(out.reason, REASON_CONVERGED);
    assert_true(out.relative_residual <= 1e-6 && out.whitened_residual > 1e-5);
    assert_true(error_of(&f, B) > 0.1); /* what the warning is for */
    assert_int_equal(heard.warnings, 1);
    assert_non_null(strstr(heard.text, "whitened"));
    assert_non_null(strstr(heard.text, "tolerance"));
    const struct solve_outcome less = solve(&f, solver_find("cg"), out.iterations, &heard);
    assert_int_equal(less.reason, REASON_ITERATION_LIMIT);
    assert_int_equal(less.iterations, out.iterations);
    assert_true(less.whitened_residual == out.whitened_residual);
    assert_int_equal(heard.warnings, 1);
    mem_free(B);
    restricted_deinit(&f);
}

/* What a limit cuts short after an iteration or two has a larger plain residual than zeros and is
 * far better than they are: it is handed out, and nobody is told that it is no better. */
static void test_cut_short(void **state)
{
    struct restricted_fixture f;
    smooth_init(&f, *state);
    double *B = reference(&f);
    double residual = 0, last = 1;
    for (int64_t k = 1; k <= 3; k++) {
        struct heard heard;
        const struct solve_outcome out = solve(&f, solver_find("falkon"), k, &heard);
        const double error = error_of(&f, B);
        assert_int_equal(out.reason, REASON_ITERATION_LIMIT);
        assert_true(error < last);
        assert_int_equal(heard.warnings, 1); /* of a residual above .1 */
        assert_int_equal(strstr(heard.text, "zeros") != NULL, out.whitened_residual >= 1);
        residual = fmax(residual, out.relative_residual);
        last = error;
    }
    assert_true(residual > 1 && last < 0.2);
    mem_free(B);
    restricted_deinit(&f);
}

/* So it is with what ends by itself, at the limits of the precision. */
static void test_stagnated(void **state)
{
    static const char *const names[] = {"falkon", "krill"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct restricted_fixture f;
        smooth_init(&f, *state);
        move_together(&f, 1e-3);
        f.problem.ridge = 1e-14 * (double)f.n;
        struct heard heard;
        const struct solve_outcome out = solve(&f, solver_find(names[i]), 1000, &heard);
        assert_int_equal(out.reason, REASON_STAGNATED);
        assert_true(out.model && out.relative_residual > 1 && out.whitened_residual < 0.5);
        assert_int_equal(heard.warnings, 1);
        assert_null(strstr(heard.text, "zeros"));
        restricted_deinit(&f);
    }
}

/* ---- the solver itself ---- */

static struct solver *begin(struct restricted_fixture *f)
{
    const struct solver_options options = options_make("cg", NULL, 1e-6);
    struct solver *s = NULL;
    must(solver_find("cg")->setup(&f->problem, &options, &s, &err));
    return s;
}

static int steps_to_end(struct solver *s, struct step_report *at)
{
    int r = 0;
    for (int k = 0; r == 0 && k < 1000; k++) {
        struct err err = {0};
        r = solver_find("cg")->step(s, at, &err);
    }
    return r;
}

/* A checkpoint knows how far down the solver was sent. */
static void test_resumed(void **state)
{
    struct restricted_fixture f;
    smooth_init(&f, *state);
    const struct solver_ops *ops = solver_find("cg");
    struct solver *first = begin(&f), *second = begin(&f);
    struct step_report at = {0}, again = {0};
    assert_int_equal(steps_to_end(first, &at), REASON_CONVERGED);
    must(ops->deepen(first, &err));
    struct state *saved = state_new();
    must(ops->save(first, saved, &err));
    struct state *read = state_through_file(saved);
    must(ops->load(second, read, &err));
    const int64_t before = at.iteration;
    const int ended = steps_to_end(first, &at);
    assert_int_equal(steps_to_end(second, &again), ended);
    assert_true(at.iteration > before && at.relative_residual <= 1e-7);
    assert_int_equal(again.iteration, at.iteration);
    assert_true(again.relative_residual == at.relative_residual);
    state_free(read);
    state_free(saved);
    ops->teardown(first);
    ops->teardown(second);
    restricted_deinit(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_value), TEST(test_zeros), TEST(test_not_measured), TEST(test_those_that_arrive),
          TEST(test_cg_goes_on), TEST(test_cut_short), TEST(test_stagnated),
          TEST(test_those_that_do_not), TEST(test_resumed))
