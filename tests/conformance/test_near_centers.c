/* Centers in pairs so near to each other that K_mm is all but singular in float64: its factor must
 * not have more of a jitter than it takes, for that is a part of what is solved. */
#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"

enum { PAIRS = 30, CENTERS = 2 * PAIRS, ROWS = 400 };

static const double apart = 3e-6;

/* The second half of the centers beside the first one. */
static void pair_up(struct restricted_fixture *f)
{
    for (int64_t i = 0; i < PAIRS * f->d; i++) {
        f->Z[PAIRS * f->d + i] = f->Z[i] + (i % 2 == 0 ? apart : -apart);
    }
    restricted_move_centers(f);
}

static void pairs_init(struct restricted_fixture *f, struct backend *be, double lambda)
{
    struct restricted_spec spec = restricted_ordinary();
    spec.kernel = KERNEL_MATERN52;
    spec.n = ROWS;
    spec.m = CENTERS;
    spec.d = 2;
    spec.t = 1;
    spec.lambda = lambda;
    restricted_init(f, be, &spec);
    pair_up(f);
}

/* ---- the solution in long double ---- */

static long double matern52(const struct restricted_fixture *f, const double *x, const double *z)
{
    long double sum = 0;
    for (int64_t k = 0; k < f->d; k++) {
        const long double e = ((long double)x[k] - z[k]) / f->kernel.bandwidth;
        sum += e * e;
    }
    const long double r = sqrtl(5.0L * sum);
    return (1.0L + r + r * r / 3.0L) * expl(-r);
}

static void factor(long double *A, int64_t m)
{
    for (int64_t j = 0; j < m; j++) {
        for (int64_t i = j; i < m; i++) {
            long double sum = A[i + j * m];
            for (int64_t k = 0; k < j; k++) {
                sum -= A[i + k * m] * A[j + k * m];
            }
            assert_true(i != j || sum > 0);
            A[i + j * m] = i == j ? sqrtl(sum) : sum / A[j + j * m];
        }
    }
}

/* b <- L^-1 b, and b <- L^-T b. */
static void forward(const long double *L, int64_t m, long double *b)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t k = 0; k < i; k++) {
            b[i] -= L[i + k * m] * b[k];
        }
        b[i] /= L[i + i * m];
    }
}

static void backward(const long double *L, int64_t m, long double *b)
{
    for (int64_t i = m - 1; i >= 0; i--) {
        for (int64_t k = i + 1; k < m; k++) {
            b[i] -= L[k + i * m] * b[k];
        }
        b[i] /= L[i + i * m];
    }
}

/* With K_mm = L L' and S = K_nm L^-T: H = S'S + ridge I, and the predictions S H^-1 S'Y. */
struct exact {
    long double L[CENTERS * CENTERS], H[CENTERS * CENTERS], S[ROWS][CENTERS], u[CENTERS];
};

static void sum_up(const struct restricted_fixture *f, struct exact *e)
{
    for (int64_t i = 0; i < CENTERS; i++) {
        e->H[i + i * CENTERS] = f->problem.ridge;
    }
    for (int64_t row = 0; row < ROWS; row++) {
        long double *s = e->S[row];
        for (int64_t j = 0; j < CENTERS; j++) {
            s[j] = matern52(f, f->X + row * f->d, f->Z + j * f->d);
        }
        forward(e->L, CENTERS, s);
        for (int64_t i = 0; i < CENTERS * CENTERS; i++) {
            e->H[i] += s[i % CENTERS] * s[i / CENTERS];
        }
        for (int64_t j = 0; j < CENTERS; j++) {
            e->u[j] += s[j] * f->Y[row];
        }
    }
}

/* [n] */
static double *exact_predictions(const struct restricted_fixture *f)
{
    struct exact *e = mem_zalloc(sizeof(*e));
    double *p = host_zeros(ROWS);
    for (int64_t i = 0; i < CENTERS * CENTERS; i++) {
        e->L[i] = matern52(f, f->Z + i % CENTERS * f->d, f->Z + i / CENTERS * f->d);
    }
    factor(e->L, CENTERS);
    sum_up(f, e);
    factor(e->H, CENTERS);
    forward(e->H, CENTERS, e->u);
    backward(e->H, CENTERS, e->u);
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t j = 0; j < CENTERS; j++) {
            p[row] += (double)(e->S[row][j] * e->u[j]);
        }
    }
    mem_free(e);
    return p;
}

/* The largest difference of K_nm A and p, relative to the largest of p. */
static double far_off(const struct restricted_fixture *f, const double *p)
{
    double *A = device_get(f->be, &f->A), largest = 0, scale = 0;
    for (int64_t row = 0; row < ROWS; row++) {
        long double sum = 0;
        for (int64_t j = 0; j < CENTERS; j++) {
            sum += A[j] * matern52(f, f->X + row * f->d, f->Z + j * f->d);
        }
        largest = fmax(largest, fabs((double)sum - p[row]));
        scale = fmax(scale, fabs(p[row]));
    }
    mem_free(A);
    return largest / scale;
}

static void test_pairs(void **state)
{
    static const char *const solvers[] = {"direct", "inducing", "falkon", "krill"};
    static const double lambdas[] = {1e-5, 1e-7};
    const struct solve_limits limits = {
        .tolerance = 1e-7, .max_iterations = 1000, .time_budget_s = INFINITY};
    if (LDBL_EPSILON >= DBL_EPSILON) {
        skip();
    }
    for (size_t i = 0; i < 8; i++) {
        struct restricted_fixture f;
        pairs_init(&f, *state, lambdas[i % 2]);
        double *p = exact_predictions(&f);
        const struct solve_outcome out = restricted_solve(&f, solvers[i / 2], &limits);
        const double far = far_off(&f, p);
        if (!(far < 2e-3)) {
            fail_msg("%s, lambda %g: %s after %d iterations, off by %g", solvers[i / 2],
                     lambdas[i % 2], reason_name(out.reason), (int)out.iterations, far);
        }
        mem_free(p);
        restricted_deinit(&f);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_pairs))
