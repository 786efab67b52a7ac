#include "plan/machine.h"

#include <string.h>

#include "support/assert.h"

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    const struct plan_machine m = {
        .own_memory = true,
        .threads = 3,
        .device_bytes = 5000000000,
        .base_bytes = 70000000,
        .rates = {.values_f32 = 1e9,
                  .values_f64 = 2e9,
                  .near_f32 = 1.5e9,
                  .near_f64 = 2.5e9,
                  .multiply_adds_f32 = 3e9,
                  .multiply_adds_f64 = 4e9,
                  .bytes = 5e9},
    };
    struct json *hello = json_new_object();
    plan_machine_write(&m, hello);
    struct plan_machine read = plan_machine_unknown();
    plan_machine_read(hello, &read);
    json_free(hello);
    assert_int_equal(read.threads, 3);
    assert_true(read.own_memory);
    assert_int_equal(read.device_bytes, 5000000000);
    assert_int_equal(read.base_bytes, 70000000);
    assert_memory_equal(&read.rates, &m.rates, sizeof(m.rates));
}

static void test_what_a_job_left_is_read(void **state)
{
    (void)state;
    struct plan_machine m = plan_machine_unknown(), read = m;
    m.rates.bytes = 7e9;
    struct json *done = json_new_object();
    plan_machine_write_left(&m, m.base_bytes + 5000, done);
    plan_machine_read_left(done, &read);
    assert_int_equal(read.left_bytes, 5000);
    assert_true(read.rates.bytes == 7e9);
    json_free(done);
    done = json_new_object();
    plan_machine_write_left(&m, m.base_bytes - 1, done); /* the system took pages back */
    plan_machine_read_left(done, &read);
    assert_int_equal(read.left_bytes, 0);
    json_free(done);
}

/* What a worker says is not trusted further than its type and sign. */
static void test_nonsense_changes_nothing(void **state)
{
    (void)state;
    static const char text[] = "{\"threads\":\"many\",\"base_bytes\":-1,\"device_bytes\":null,"
                               "\"rates\":{\"bytes_per_s\":-3,\"kernel_values_float32_per_s\":[]}}";
    struct json *hello = NULL;
    assert_int_equal(json_parse(text, strlen(text), &hello, NULL), 0);
    const struct plan_machine before = plan_machine_unknown();
    struct plan_machine read = before;
    plan_machine_read(hello, &read);
    json_free(hello);
    assert_int_equal(read.threads, before.threads);
    assert_int_equal(read.base_bytes, before.base_bytes);
    assert_false(read.own_memory);
    assert_true(read.rates.bytes == 0 && read.rates.values_f32 == 0);
}

static void test_without_rates(void **state)
{
    (void)state;
    const struct plan_machine m = plan_machine_unknown();
    struct json *hello = json_new_object();
    plan_machine_write(&m, hello);
    assert_int_equal(json_type(json_get(hello, "rates")), JSON_NULL);
    assert_int_equal(json_type(json_get(hello, "device_bytes")), JSON_NULL);
    struct plan_machine read = plan_machine_unknown();
    plan_machine_read(hello, &read);
    json_free(hello);
    assert_true(read.rates.bytes == 0);
}

TEST_MAIN(cmocka_unit_test(test_what_is_written_is_read),
          cmocka_unit_test(test_what_a_job_left_is_read),
          cmocka_unit_test(test_nonsense_changes_nothing), cmocka_unit_test(test_without_rates))
