/* What makes targets likely, against the formula written out with a factorisation by hand. */
#include "engine/choose/relevance.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine_fixture.h"

enum { N = 60, D = 3, T = 2 };

struct points_of_it {
    double X[D][N], Y[T][N];
};

/* The second feature does not matter. */
static void draw(struct points_of_it *p)
{
    struct rng rng = rng_new(11, RNG_TEST);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < D; j++) {
            p->X[j][i] = rng_normal(&rng);
        }
        p->Y[0][i] = sin(2 * p->X[0][i]) + 0.3 * p->X[2][i] + 0.05 * rng_normal(&rng);
        p->Y[1][i] = 40 * cos(p->X[2][i]) + 2 * rng_normal(&rng);
    }
}

/* The lower triangle of K + ridge I, row by row. */
static void fill(const struct points_of_it *p, enum kernel_id id, const double *bandwidths,
                 double ridge, double *C)
{
    const struct kernel k = {.id = id, .d = D, .bandwidths = bandwidths};
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) {
            const double x[D] = {p->X[0][i], p->X[1][i], p->X[2][i]};
            const double z[D] = {p->X[0][j], p->X[1][j], p->X[2][j]};
            C[i * N + j] = kernel_eval(&k, x, z) + (i == j ? ridge : 0);
        }
    }
}

/* In place; ln |C|. */
static double factorise(double *C)
{
    double log_det = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = C[i * N + j];
            for (int k = 0; k < j; k++) {
                sum -= C[i * N + k] * C[j * N + k];
            }
            C[i * N + j] = i == j ? sqrt(sum) : sum / C[j * N + j];
        }
        log_det += 2 * log(C[i * N + i]);
    }
    return log_det;
}

static double misfit(const double *L, const double *y)
{
    double a[N], sum = 0;
    for (int i = 0; i < N; i++) {
        a[i] = y[i];
        for (int k = 0; k < i; k++) {
            a[i] -= L[i * N + k] * a[k];
        }
        a[i] /= L[i * N + i];
        sum += a[i] * a[i];
    }
    return sum;
}

static double cost_at(const struct points_of_it *p, enum kernel_id id, const double *bandwidths,
                      double ridge)
{
    static double C[N * N];
    fill(p, id, bandwidths, ridge, C);
    double ret = factorise(C) / (2 * N);
    for (int j = 0; j < T; j++) {
        ret += log(misfit(C, p->Y[j]) / N) / (2 * T);
    }
    return ret;
}

/* `context` counts the steps that are left. */
static int go_on(void *context, struct err *err)
{
    (void)err;
    return --*(int *)context < 0;
}

static double learn(const struct points_of_it *p, enum kernel_id id, int steps, double *bandwidths,
                    double *ridge)
{
    struct backend *be = fixture_backend();
    const struct relevance_task task = {.be = be,
                                        .kernel = id,
                                        .n = N,
                                        .d = D,
                                        .t = T,
                                        .X = p->X[0],
                                        .Y = p->Y[0],
                                        .go_on = go_on,
                                        .context = &steps};
    double cost;
    assert_int_equal(relevance_learn(&task, bandwidths, ridge, &cost, NULL), 0);
    assert_int_equal(be->bytes, 0);
    backend_close(be);
    return cost;
}

static const enum kernel_id kernels[] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN, KERNEL_LAPLACIAN_L1,
                                         KERNEL_MATERN12, KERNEL_MATERN32,  KERNEL_MATERN52};
enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]) };

/* After one look it is where it began; after two, a first step down the slope of each parameter,
 * which differences of the formula tell the sign of. */
static void test_cost_and_slopes(void **state)
{
    (void)state;
    struct points_of_it p;
    draw(&p);
    for (int i = 0; i < KERNELS; i++) {
        const double begun[D] = {1.5, 2.0, 3.0}, ridge = 0.02, h = 1e-4, first = exp(0.2);
        double b[D + 1] = {1.5, 2.0, 3.0, 0.02};
        const double before = cost_at(&p, kernels[i], begun, ridge);
        assert_close(learn(&p, kernels[i], 1, b, &b[D]), before, 1e-10);
        assert_close(b[0], begun[0], 1e-12);
        const double after = learn(&p, kernels[i], 2, b, &b[D]);
        assert_true(after < before);
        assert_close(after, cost_at(&p, kernels[i], b, b[D]), 1e-10);
        for (int j = 0; j <= D; j++) {
            double up[D + 1] = {1.5, 2.0, 3.0, 0.02}, from = up[j];
            up[j] *= 1 + h;
            const bool falls = cost_at(&p, kernels[i], up, up[D]) < before;
            assert_close(b[j], falls ? from * first : from / first, 1e-12);
        }
    }
}

static void test_it_finds_what_matters(void **state)
{
    (void)state;
    struct points_of_it p;
    draw(&p);
    for (int i = 0; i < KERNELS; i++) {
        double b[D] = {1.5, 1.5, 1.5}, ridge = 0.1;
        const double before = cost_at(&p, kernels[i], b, ridge);
        const double after = learn(&p, kernels[i], 1000, b, &ridge);
        assert_true(after < before - 0.1 && b[1] > 3 * b[0] && b[1] > 3 * b[2]);
        assert_close(after, cost_at(&p, kernels[i], b, ridge), 1e-8);
    }
}

/* A target of zeros has no amplitude: it changes nothing, and alone teaches nothing. */
static void test_zero_targets(void **state)
{
    (void)state;
    struct points_of_it p;
    draw(&p);
    memset(p.Y[1], 0, sizeof(p.Y[1]));
    double b[D] = {1.5, 1.5, 1.5}, ridge = 0.1;
    assert_true(isfinite(learn(&p, KERNEL_GAUSSIAN, 20, b, &ridge)) && b[1] > b[0]);
    memset(p.Y[0], 0, sizeof(p.Y[0]));
    double same[D] = {1.5, 1.5, 1.5};
    ridge = 0.1;
    assert_true(isinf(learn(&p, KERNEL_GAUSSIAN, 20, same, &ridge)));
    assert_close(same[0], 1.5, 1e-12);
}

TEST_MAIN(cmocka_unit_test(test_cost_and_slopes), cmocka_unit_test(test_it_finds_what_matters),
          cmocka_unit_test(test_zero_targets))
