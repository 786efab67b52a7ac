#include "ingest/ingest_task.h"

#include "support/assert.h"

/* The task for a target of `rows` rows, row i holding first + step * (i % distinct). */
static int decide(enum task wanted, double first, double step, int64_t distinct, int64_t rows,
                  int64_t targets, struct err *err)
{
    struct ingest_values v;
    assert_int_equal(ingest_values_init(&v, INGEST_MAX_CLASSES, err), 0);
    for (int64_t i = 0; i < rows; i++) {
        ingest_values_add(&v, first + step * (double)(i % distinct));
    }
    const struct ingest_target target = {.name = "y", .values = &v};
    enum task task = TASK_AUTO;
    bool guessed = false;
    const int r = ingest_decide_task(wanted, &target, targets, &task, &guessed, err);
    ingest_values_deinit(&v);
    return r < 0 ? r : (task == TASK_REGRESSION ? 1 : 2) + (guessed ? 2 : 0);
}

enum { REGRESSION = 1, CLASSES = 2, GUESSED_NUMBERS = 3, GUESSED = 4 };

static void test_auto(void **state)
{
    (void)state;
    struct err err = {.code = ERR_OK};
    assert_int_equal(decide(TASK_AUTO, 0, 1, 2, 4, 1, &err), CLASSES);
    assert_int_equal(decide(TASK_AUTO, 0, 1, 2, 3, 1, &err), REGRESSION);
    assert_int_equal(decide(TASK_AUTO, -1, 2, 2, 100, 1, &err), CLASSES);
    assert_int_equal(decide(TASK_AUTO, 0.5, 1, 2, 100, 1, &err), REGRESSION);
    assert_int_equal(decide(TASK_AUTO, 0, 1, 26, 26 * 20, 1, &err), GUESSED_NUMBERS);
    assert_int_equal(decide(TASK_AUTO, 0, 1, 26, 26 * 20 - 1, 1, &err), REGRESSION);
    assert_int_equal(decide(TASK_AUTO, -3, 1, 7, 1000, 1, &err), GUESSED);
    assert_int_equal(decide(TASK_AUTO, 0, 2, 26, 1000, 1, &err), REGRESSION);
    assert_int_equal(decide(TASK_AUTO, 0, 1, 10, 200, 1, &err), GUESSED);
    assert_int_equal(decide(TASK_AUTO, 0, 1, 11, 220, 1, &err), GUESSED_NUMBERS);
    assert_int_equal(decide(TASK_AUTO, 1, 1, 100, 5000, 1, &err), GUESSED_NUMBERS);
    assert_int_equal(decide(TASK_AUTO, 1, 1, 101, 5000, 1, &err), REGRESSION);
    assert_int_equal(decide(TASK_AUTO, 0, 1, 2000, 50000, 1, &err), REGRESSION);
    assert_int_equal(decide(TASK_AUTO, 3, 1, 1, 100, 1, &err), REGRESSION);
    assert_int_equal(decide(TASK_AUTO, 0, 1, 2, 100, 2, &err), REGRESSION);
}

static void test_named(void **state)
{
    (void)state;
    struct err err = {.code = ERR_OK};
    assert_int_equal(decide(TASK_REGRESSION, 0, 1, 2, 100, 1, &err), REGRESSION);
    assert_int_equal(decide(TASK_CLASSIFICATION, 0.5, 0.25, 3, 9, 1, &err), CLASSES);
    assert_int_equal(decide(TASK_CLASSIFICATION, 0, 3, 1000, 1000, 1, &err), CLASSES);
    assert_int_equal(decide(TASK_CLASSIFICATION, 0, 3, 1001, 1001, 1, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/task");
    assert_contains(err.detail, "more than 1000 distinct values");
    assert_int_equal(decide(TASK_CLASSIFICATION, 0, 1, 1, 10, 1, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/target");
    assert_contains(err.detail, "one class only");
    assert_int_equal(decide(TASK_CLASSIFICATION, 0, 1, 2, 10, 3, &err), -ERR_INVALID);
    assert_contains(err.detail, "one target column; 3 were given");
}

static void test_values(void **state)
{
    (void)state;
    struct ingest_values v;
    assert_int_equal(ingest_values_init(&v, 3, NULL), 0);
    ingest_values_add(&v, 5);
    ingest_values_add(&v, -0.0);
    ingest_values_add(&v, 0);
    ingest_values_add(&v, 5);
    assert_int_equal(v.count, 2);
    assert_true(v.integral);
    assert_same_bits(v.value[0], 0.0);
    assert_int_equal(ingest_values_find(&v, 5), 1);
    assert_int_equal(ingest_values_find(&v, 4), -1);
    ingest_values_add(&v, -2.5);
    assert_false(v.integral);
    assert_false(v.many);
    assert_int_equal(ingest_values_find(&v, 5), 2);
    ingest_values_add(&v, 9);
    assert_true(v.many);
    assert_int_equal(v.count, 3);
    assert_int_equal(v.rows, 6);
    ingest_values_deinit(&v);
}

TEST_MAIN(cmocka_unit_test(test_auto), cmocka_unit_test(test_named), cmocka_unit_test(test_values))
