/* How long the machine is measured while somebody waits for the end of a job. */
#include "worker/measure.h"

#include <time.h>

#include "engine_fixture.h"

/* Of a machine that is busy with other things: kernel products wait for a processor. */
struct busy_ops {
    struct backend_ops ops; /* first */
    const struct backend_ops *real;
    long wait_ns;
    int products;
};

static int slow_kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
                    double b, const struct mat *Y, struct err *err)
{
    struct busy_ops *busy = (struct busy_ops *)(uintptr_t)be->ops;
    nanosleep(&(struct timespec){.tv_nsec = busy->wait_ns}, NULL);
    busy->products++;
    return busy->real->kmv(be, P, Q, a, V, b, Y, err);
}

/* Of rates of which there is but a slow one, of bytes. *ret: products that were run. */
static int measure(long wait_ns, double limit_s, struct plan_rates *rates, int *ret)
{
    struct backend *be = fixture_backend();
    struct busy_ops busy = {.ops = *be->ops, .real = be->ops, .wait_ns = wait_ns};
    busy.ops.kmv = slow_kmv;
    be->ops = &busy.ops;
    *rates = (struct plan_rates){.bytes = 1.0};
    const int r = measure_again(be, limit_s, rates, NULL);
    *ret = busy.products;
    be->ops = busy.real;
    backend_close(be);
    return r;
}

/* Two precisions, near and far, the first of two runs not counted. */
enum { PRODUCTS_OF_A_TURN = 8 };

static void test_a_busy_machine_is_measured_once(void **state)
{
    (void)state;
    struct plan_rates rates;
    int products;
    assert_int_equal(measure(50000000, 0.1, &rates, &products), 1);
    assert_int_equal(products, PRODUCTS_OF_A_TURN);
    assert_true(rates.values_f32 > 0 && rates.values_f64 > 0 && rates.multiply_adds_f64 > 0);
    assert_true(rates.bytes == 1.0); /* there was no time for these */
}

static void test_in_time(void **state)
{
    (void)state;
    struct plan_rates rates;
    int products;
    assert_int_equal(measure(0, 600.0, &rates, &products), 1);
    assert_true(products > PRODUCTS_OF_A_TURN && products % PRODUCTS_OF_A_TURN == 0);
    assert_true(rates.values_f32 > 0 && rates.bytes > 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_busy_machine_is_measured_once),
        cmocka_unit_test(test_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
