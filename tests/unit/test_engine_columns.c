#include "engine/data/columns.h"

#include "engine_fixture.h"

static const double values[] = {1, 2, 3, 0, /**/ 4, 5, 6, 1, /**/ 7, 8, 9, 2};

static int resolve(const char *fields, const struct dataset *ds, struct columns *ret,
                   struct err *err)
{
    struct job_spec *spec = fixture_spec_read(fields);
    const int r = columns_resolve(spec, &ds->info, ret, err);
    job_spec_free(spec);
    return r;
}

static void test_defaults(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 3, 4, 0);
    struct columns c;
    assert_int_equal(resolve("'test':{'mask':'x1'}", ds, &c, NULL), 0);
    assert_int_equal(c.task, TASK_REGRESSION);
    assert_int_equal(c.d, 2);
    assert_int_equal(c.features[0], 0);
    assert_int_equal(c.features[1], 2);
    assert_int_equal(c.mask, 1);
    assert_int_equal(c.target[0], 3);
    assert_close(columns_target(&c, ds, 2, 0), 2.0, 0);
    columns_deinit(&c);
    fixture_dataset_free(ds);
}

static void test_named_in_any_order(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 3, 4, 0);
    struct columns c;
    assert_int_equal(resolve("'target':['x2','x0'],'features':['x3','x1']", ds, &c, NULL), 0);
    assert_int_equal(c.targets, 2);
    assert_int_equal(c.target[0], 2);
    assert_int_equal(c.target[1], 0);
    assert_int_equal(c.features[0], 3);
    assert_close(columns_target(&c, ds, 1, 1), 4.0, 0);
    columns_deinit(&c);
    fixture_dataset_free(ds);
}

/* Of the default targets x2 and x3, the one that is not predicted is no feature either, unless it
 * is named; a job with another target sees both as features. */
static void test_siblings(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 3, 4, 0);
    const int64_t pair[] = {2, 3};
    int64_t *const own = ds->info.target_columns;
    ds->info.targets = 2;
    ds->info.target_columns = (int64_t *)(uintptr_t)pair;
    struct columns c;
    assert_int_equal(resolve("'target':'x3'", ds, &c, NULL), 0);
    assert_int_equal(c.d, 2);
    assert_int_equal(c.features[1], 1);
    columns_deinit(&c);
    assert_int_equal(resolve("'target':'x3','features':['x0','x2']", ds, &c, NULL), 0);
    assert_int_equal(c.d, 2);
    assert_int_equal(c.features[1], 2);
    columns_deinit(&c);
    assert_int_equal(resolve("'target':'x0'", ds, &c, NULL), 0);
    assert_int_equal(c.d, 3);
    columns_deinit(&c);
    ds->info.targets = 1;
    ds->info.target_columns = own;
    fixture_dataset_free(ds);
}

static void test_missing_column(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 3, 4, 0);
    struct columns c;
    struct err err;
    assert_int_equal(resolve("'features':['x0','zz']", ds, &c, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/features");
    assert_contains(err.detail, "zz");
    fixture_dataset_free(ds);
}

static void test_classes(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 3, 4, 3);
    struct columns c;
    assert_int_equal(resolve("", ds, &c, NULL), 0);
    assert_int_equal(c.task, TASK_CLASSIFICATION);
    assert_int_equal(c.classes, 3);
    assert_string_equal(c.labels[2], "c2");
    columns_deinit(&c);
    /* Another target of the same data set holds plain numbers. */
    assert_int_equal(resolve("'target':'x0'", ds, &c, NULL), 0);
    assert_int_equal(c.task, TASK_REGRESSION);
    columns_deinit(&c);
    fixture_dataset_free(ds);
}

/* Regression on class labels takes the numbers they are, not their codes. */
static void test_regression_on_labels(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 3, 4, 3);
    struct columns c;
    struct err err;
    assert_int_equal(resolve("'task':'regression'", ds, &c, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/task");
    assert_contains(err.detail, "c0");
    fixture_rename(&ds->info.class_labels[0], "-1");
    fixture_rename(&ds->info.class_labels[1], "2.5");
    fixture_rename(&ds->info.class_labels[2], "10");
    assert_int_equal(resolve("'task':'regression'", ds, &c, NULL), 0);
    assert_close(columns_target(&c, ds, 0, 0), -1.0, 0);
    assert_close(columns_target(&c, ds, 1, 0), 2.5, 0);
    columns_deinit(&c);
    fixture_dataset_free(ds);
}

/* As an upload reads numbers, and not as strtod does. */
static void test_labels_that_are_numbers(void **state)
{
    (void)state;
    static const char *const no_number[] = {"nan", "inf", "-infinity", "0x1f", "1e999", "",
                                            "-",   "1e",  "1 ",        " 1",   "1,5",   "nan(1)"};
    struct dataset *ds = fixture_dataset(values, 3, 4, 3);
    struct columns c;
    struct err err;
    fixture_rename(&ds->info.class_labels[0], "+1");
    fixture_rename(&ds->info.class_labels[1], ".5");
    fixture_rename(&ds->info.class_labels[2], "007e-1");
    assert_int_equal(resolve("'task':'regression'", ds, &c, NULL), 0);
    assert_close(c.meaning[0], 1.0, 0);
    assert_close(c.meaning[1], 0.5, 0);
    assert_close(c.meaning[2], 0.7, 0);
    columns_deinit(&c);
    for (size_t i = 0; i < sizeof(no_number) / sizeof(no_number[0]); i++) {
        fixture_rename(&ds->info.class_labels[1], no_number[i]);
        assert_int_equal(resolve("'task':'regression'", ds, &c, &err), -ERR_INVALID);
        assert_contains(err.detail, "is not a number");
    }
    fixture_dataset_free(ds);
}

/* Columns of another data set are found by name, classes by label. */
static void test_match(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 3, 4, 3);
    struct dataset *other = fixture_dataset(values, 3, 4, 3);
    fixture_rename(&other->info.column_names[0], "x2");
    fixture_rename(&other->info.column_names[2], "x0");
    fixture_rename(&other->info.class_labels[0], "c1");
    fixture_rename(&other->info.class_labels[1], "new");
    struct columns c, m;
    assert_int_equal(resolve("", ds, &c, NULL), 0);
    assert_int_equal(columns_match(&c, &ds->info, &other->info, &m, NULL), 0);
    assert_int_equal(m.features[0], 2);
    assert_int_equal(m.features[2], 0);
    assert_close(columns_target(&m, other, 0, 0), 1.0, 0);
    assert_close(columns_target(&m, other, 1, 0), -1.0, 0);
    assert_close(columns_target(&m, other, 2, 0), 2.0, 0);
    columns_deinit(&m);

    fixture_rename(&other->info.column_names[1], "y");
    struct err err;
    assert_int_equal(columns_match(&c, &ds->info, &other->info, &m, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/test/dataset");
    assert_contains(err.detail, "\"x1\"");
    columns_deinit(&c);
    fixture_dataset_free(ds);
    fixture_dataset_free(other);
}

static void test_match_refuses_numbers_for_classes(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 3, 4, 3);
    struct dataset *other = fixture_dataset(values, 3, 4, 0);
    struct columns c, m;
    struct err err;
    assert_int_equal(resolve("", ds, &c, NULL), 0);
    assert_int_equal(columns_match(&c, &ds->info, &other->info, &m, &err), -ERR_INVALID);
    assert_contains(err.detail, "not classes");
    columns_deinit(&c);
    fixture_dataset_free(ds);
    fixture_dataset_free(other);
}

TEST_MAIN(cmocka_unit_test(test_defaults), cmocka_unit_test(test_named_in_any_order),
          cmocka_unit_test(test_siblings), cmocka_unit_test(test_missing_column),
          cmocka_unit_test(test_classes), cmocka_unit_test(test_regression_on_labels),
          cmocka_unit_test(test_labels_that_are_numbers), cmocka_unit_test(test_match),
          cmocka_unit_test(test_match_refuses_numbers_for_classes))
