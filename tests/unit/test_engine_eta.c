#include "engine/solve/eta.h"

#include <math.h>

#include "support/assert.h"

static struct eta make(double tolerance, int64_t max_iterations, double budget_s)
{
    const struct eta_limits limits = {tolerance, max_iterations, budget_s};
    const struct eta_plan plan = {.setup_s = 20.0, .finish_s = 3.0};
    struct eta e;
    eta_init(&e, &limits, &plan);
    return e;
}

static struct eta without_plan(void)
{
    const struct eta_limits limits = {1e-6, 1000, INFINITY};
    const struct eta_plan none = eta_plan_none();
    struct eta e;
    eta_init(&e, &limits, &none);
    return e;
}

/* `count` iterations of of_one_s after begin_s; each takes the residual times `by`. */
static void iterate(struct eta *e, int64_t count, double by, double of_one_s, double begin_s)
{
    for (int64_t i = 1; i <= count; i++) {
        eta_iterated(e, i, pow(by, (double)i), begin_s + of_one_s * (double)i);
    }
}

static void test_too_early(void **state)
{
    (void)state;
    struct eta e = make(1e-6, 1000, INFINITY);
    assert_true(isnan(eta_iterating(&e, 5.0)));
    iterate(&e, 4, 0.5, 10.0, 0.0);
    assert_true(isnan(eta_iterating(&e, 40.0))); /* three steps between four iterations */
    e = make(1e-6, 1000, INFINITY);
    iterate(&e, 40, 0.9, 0.02, 0.0);
    assert_true(isnan(eta_iterating(&e, 0.8))); /* under a second */
    iterate(&e, 60, 0.9, 0.02, 0.0);
    assert_true(!isnan(eta_iterating(&e, 1.2)));
}

static void test_pace_to_the_tolerance(void **state)
{
    (void)state;
    struct eta e = make(1e-6, 1000, INFINITY);
    iterate(&e, 20, 0.5, 2.0, 7.0);
    /* 0.5^i = 1e-6 at i = 19.93: nothing is left but the finish. */
    assert_close(eta_iterating(&e, 47.0), 3.0, 1e-9);
    e = make(1e-6, 1000, INFINITY);
    iterate(&e, 10, 0.5, 2.0, 7.0);
    assert_close(eta_iterating(&e, 27.0), 3.0 + 2.0 * (log(1e6) / log(2.0) - 10.0), 1e-9);
}

static void test_the_last_half_counts(void **state)
{
    (void)state;
    struct eta e = make(1e-9, 100000, INFINITY);
    double residual = 1.0, seconds = 0.0;
    for (int64_t i = 1; i <= 300; i++) {
        residual *= i <= 100 ? 0.9 : 0.99;
        seconds += i <= 100 ? 1.0 : 0.1;
        eta_iterated(&e, i, residual, seconds);
    }
    const double left = log(residual / 1e-9) / -log(0.99);
    assert_close(eta_iterating(&e, seconds), 3.0 + 0.1 * left, 1e-6);
}

static void test_the_limit_of_iterations(void **state)
{
    (void)state;
    struct eta e = make(1e-12, 50, INFINITY);
    iterate(&e, 30, 0.999, 2.0, 0.0);
    assert_close(eta_iterating(&e, 60.0), 3.0 + 2.0 * 20.0, 1e-9);
}

static void test_a_residual_that_says_nothing(void **state)
{
    (void)state;
    struct eta e = make(1e-6, 1000, INFINITY);
    iterate(&e, 30, 1.01, 1.0, 0.0);
    assert_true(isnan(eta_iterating(&e, 30.0)));
    e = make(1e-6, 1000, INFINITY);
    iterate(&e, 30, 1.0, 1.0, 0.0);
    assert_true(isnan(eta_iterating(&e, 30.0)));
    e = make(1e-6, 1000, INFINITY);
    iterate(&e, 30, NAN, 1.0, 0.0);
    assert_true(isnan(eta_iterating(&e, 30.0)));
    iterate(&e, 30, 0.0, 1.0, 0.0);
    assert_true(isnan(eta_iterating(&e, 30.0)));
}

static void test_budget(void **state)
{
    (void)state;
    struct eta e = make(1e-6, 1000, 12.0);
    iterate(&e, 10, 0.99, 1.0, 0.0);
    assert_close(eta_iterating(&e, 10.0), 2.0, 1e-9);
    assert_true(isnan(eta_iterating(&e, 12.0)));
    assert_true(isnan(eta_iterating(&e, 15.0)));
    assert_close(eta_direct(&e, 2.0, 2.0, 0.1), 10.0, 1e-9);
    assert_close(eta_direct(&e, 0.5, 0.0, 0.0), 11.5, 1e-9); /* the plan says more than that */
    assert_true(isnan(eta_direct(&e, 13.0, 2.0, 0.5)));
    assert_true(isnan(eta_finishing(&e, 12.5, 0.1)));
    assert_close(eta_finishing(&e, 11.0, 1.0), 1.0, 1e-9);
}

static void test_direct(void **state)
{
    (void)state;
    struct eta e = make(1e-6, 1000, INFINITY);
    assert_close(eta_direct(&e, 4.0, 0.5, 0.5), 16.0 + 3.0, 1e-9); /* too early: the plan */
    assert_close(eta_direct(&e, 4.0, 3.0, 0.01), 16.0 + 3.0, 1e-9);
    assert_close(eta_direct(&e, 9.0, 8.0, 0.25), 24.0 + 3.0, 1e-9);
    assert_true(isnan(eta_direct(&e, 21.0, 0.1, 0.0))); /* and the plan was wrong */
    const struct eta bare = without_plan();
    assert_true(isnan(eta_direct(&bare, 4.0, 3.0, 0.01)));
    assert_close(eta_direct(&bare, 9.0, 8.0, 0.25), 24.0, 1e-9);
}

static void test_finishing(void **state)
{
    (void)state;
    const struct eta e = make(1e-6, 1000, INFINITY), bare = without_plan();
    assert_close(eta_finishing(&e, 50.0, 1.0), 2.0, 1e-9);
    assert_true(isnan(eta_finishing(&e, 50.0, 3.5)));
    assert_true(isnan(eta_finishing(&bare, 50.0, 0.0)));
}

TEST_MAIN(cmocka_unit_test(test_too_early), cmocka_unit_test(test_pace_to_the_tolerance),
          cmocka_unit_test(test_the_last_half_counts),
          cmocka_unit_test(test_the_limit_of_iterations),
          cmocka_unit_test(test_a_residual_that_says_nothing), cmocka_unit_test(test_budget),
          cmocka_unit_test(test_direct), cmocka_unit_test(test_finishing))
