/* Matern kernels as a sum of two (cpu/grid/split.h): the parts, and where each of them ends. */
#include <math.h>

#include "cpu/grid/split.h"
#include "support/assert.h"

enum { INTERVALS = 20000, SPLITS = 6 };

static const enum kernel_id kernels[] = {KERNEL_MATERN12, KERNEL_MATERN32, KERNEL_MATERN52};
#define KERNELS ((int)(sizeof kernels / sizeof kernels[0]))

/* Wide and narrow ones, for one to three features. */
static struct split split_of(int kernel, int i, double loss)
{
    static const double bandwidths[SPLITS] = {3.0, 0.7, 1.0, 0.2, 0.05, 0.01};
    return split_at(kernels[kernel], bandwidths[i], i % 3 + 1, 20.0, loss);
}

/* The mixture of gaussians itself, t = tau e^u. */
static double integral(const struct split *s, double r)
{
    const double nu = s->twice_nu / 2.0, tau = s->root_tau * s->root_tau;
    const double end = log(1000.0 / (s->a * s->a * tau) + 10.0), h = end / INTERVALS;
    double sum = 0.0;
    for (int i = 0; i <= INTERVALS; i++) {
        const double t = tau * exp(i * h), weight = i == 0 || i == INTERVALS ? 1 : i % 2 ? 4 : 2;
        sum += weight * pow(t, nu) * exp(-s->a * s->a * t - r * r / (4.0 * t));
    }
    return sum * h / 3.0 * pow(s->a, 2.0 * nu) / tgamma(nu);
}

static void test_parts(void **state)
{
    (void)state;
    for (int k = 0; k < KERNELS; k++) {
        for (int i = 0; i < SPLITS; i++) {
            const struct split s = split_of(k, i, 1e-12);
            for (double r = 0.0; r < 4.0; r = 1.7 * r + 0.01) {
                const double whole = kernel_of_distance(s.id, r / s.bandwidth);
                assert_true(fabs(split_far(&s, r) - integral(&s, r)) < 1e-12);
                assert_true(fabs(split_near(&s, r) + split_far(&s, r) - whole) < 1e-14);
            }
        }
    }
}

static void test_near_part_ends(void **state)
{
    (void)state;
    for (int k = 0; k < KERNELS; k++) {
        for (int i = 0; i < SPLITS; i++) {
            const double loss = i % 2 == 0 ? 1e-9 : 1e-14;
            const struct split s = split_of(k, i, loss);
            assert_true(s.reach == 0.0 || split_near(&s, 0.9 * s.reach) > loss);
            assert_true(split_near(&s, 1.001 * s.reach) <= 1.5 * loss);
            assert_true(kernel_of_distance(s.id, s.beyond / s.bandwidth) <= loss);
            assert_true(s.reach <= s.beyond);
        }
    }
}

/* 1/pi times the integral of the cosine transform of far, which is even, beyond the frequency: far
 * ends, so sums over points at equal distances are exact to rounding. */
static double spectrum_beyond(const struct split *s, double frequency)
{
    const double step = M_PI / (4.0 * frequency), width = frequency / 50.0;
    const int points = (int)(1.5 * s->beyond / step);
    double sum = 0.0;
    for (double w = frequency; w < 3.0 * frequency; w += width) {
        double at = 0.5 * split_far(s, 0.0);
        for (int i = 1; i <= points; i++) {
            at += split_far(s, i * step) * cos(w * i * step);
        }
        sum += 2.0 * step * at * width / M_PI;
    }
    return sum;
}

static void test_spectrum_ends(void **state)
{
    (void)state;
    for (int k = 0; k < KERNELS; k++) {
        for (int i = 0; i < SPLITS; i += 3) { /* one feature */
            const struct split s = split_of(k, i, 1e-9);
            assert_true(fabs(spectrum_beyond(&s, 20.0)) < 2e-9);
        }
        const struct split coarse = split_at(kernels[k], 1.0, 1, 20.0, 1e-3);
        assert_true(spectrum_beyond(&coarse, 10.0) > 1e-4); /* nor sooner */
    }
}

static void test_far_away(void **state)
{
    (void)state;
    for (int k = 0; k < KERNELS; k++) {
        for (int i = 0; i < SPLITS; i++) {
            const struct split s = split_of(k, i, 1e-14);
            assert_true(split_far(&s, 1e100) == 0.0 && split_near(&s, 1e100) == 0.0);
        }
    }
}

static void test_kernels(void **state)
{
    (void)state;
    assert_true(split_exists(KERNEL_MATERN32, 3) && split_exists(KERNEL_LAPLACIAN, 2));
    assert_true(split_exists(KERNEL_LAPLACIAN_L1, 1) && !split_exists(KERNEL_LAPLACIAN_L1, 2));
    assert_false(split_exists(KERNEL_GAUSSIAN, 1) || split_exists(KERNEL_LINEAR, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),         cmocka_unit_test(test_near_part_ends),
        cmocka_unit_test(test_spectrum_ends), cmocka_unit_test(test_far_away),
        cmocka_unit_test(test_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
