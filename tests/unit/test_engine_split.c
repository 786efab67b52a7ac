#include "engine/data/split.h"

#include "engine_fixture.h"

static int split(const char *fields, const struct dataset *ds, const struct dataset *test,
                 struct split *ret, struct err *err)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct columns c;
    assert_int_equal(columns_resolve(spec, &ds->info, &c, err), 0);
    const int r = split_make(spec, &c, ds, test, ret, err);
    columns_deinit(&c);
    job_spec_free(spec);
    return r;
}

static struct dataset *numbered(int64_t rows)
{
    double *values = mem_zarray((size_t)rows, 3 * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        values[3 * i] = (double)i;
        values[3 * i + 1] = (double)(i % 4 == 0);
        values[3 * i + 2] = (double)i;
    }
    struct dataset *ds = fixture_dataset(values, rows, 3, 0);
    mem_free(values);
    return ds;
}

/* Every row once, in ascending order on either side. */
static void check_partition(const struct split *s, int64_t rows)
{
    assert_int_equal(s->n + s->m, rows);
    int64_t a = 0, b = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (a < s->n && s->train[a] == i) {
            a++;
        } else {
            assert_true(b < s->m && s->test[b] == i);
            b++;
        }
    }
}

static void test_fraction(void **state)
{
    (void)state;
    struct dataset *ds = numbered(103);
    struct split s, again, other;
    assert_int_equal(split("", ds, ds, &s, NULL), 0);
    assert_int_equal(s.m, 21); /* round(0.2 * 103) */
    check_partition(&s, 103);
    assert_int_equal(split("", ds, ds, &again, NULL), 0);
    assert_memory_equal(s.test, again.test, 21 * sizeof(int64_t));
    assert_int_equal(split("'seed':1", ds, ds, &other, NULL), 0);
    assert_memory_not_equal(s.test, other.test, 21 * sizeof(int64_t));
    check_partition(&other, 103);
    split_deinit(&s);
    split_deinit(&again);
    split_deinit(&other);
    fixture_dataset_free(ds);
}

static void test_fraction_at_the_edges(void **state)
{
    (void)state;
    const struct {
        int64_t rows;
        const char *fields;
        int64_t m;
    } cases[] = {{2, "'test':{'fraction':0.01}", 1},
                 {2, "'test':{'fraction':0.99}", 1},
                 {1, "'test':{'fraction':0.5}", 0},
                 {50, "'test':{'fraction':0}", 0}};
    for (int i = 0; i < 4; i++) {
        struct dataset *ds = numbered(cases[i].rows);
        struct split s;
        assert_int_equal(split(cases[i].fields, ds, ds, &s, NULL), 0);
        assert_int_equal(s.m, cases[i].m);
        check_partition(&s, cases[i].rows);
        split_deinit(&s);
        fixture_dataset_free(ds);
    }
}

static void test_mask(void **state)
{
    (void)state;
    struct dataset *ds = numbered(10);
    struct split s;
    assert_int_equal(split("'test':{'mask':'x1'}", ds, ds, &s, NULL), 0);
    check_partition(&s, 10);
    assert_int_equal(s.m, 3);
    assert_int_equal(s.test[1], 4);
    split_deinit(&s);
    fixture_dataset_free(ds);
}

static void test_bad_masks(void **state)
{
    (void)state;
    double values[] = {1, 0, 1, 2, 0.5, 2, 3, 1, 3};
    struct dataset *ds = fixture_dataset(values, 3, 3, 0);
    struct err err;
    struct split s;
    assert_int_equal(split("'test':{'mask':'x1'}", ds, ds, &s, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/test/mask");
    assert_contains(err.detail, "0.5 in row 2");
    fixture_dataset_free(ds);

    values[1] = values[4] = 1;
    ds = fixture_dataset(values, 3, 3, 0);
    assert_int_equal(split("'test':{'mask':'x1'}", ds, ds, &s, &err), -ERR_INVALID);
    assert_contains(err.detail, "none is left");
    fixture_dataset_free(ds);
}

static void test_data_set(void **state)
{
    (void)state;
    struct dataset *ds = numbered(7), *test = numbered(4);
    struct split s;
    const char *fields = "'test':{'dataset':'ds_01HZXW5GQ0ABCDEFGHJKMNPQRT'}";
    assert_int_equal(split(fields, ds, test, &s, NULL), 0);
    assert_int_equal(s.n, 7);
    assert_int_equal(s.m, 4);
    assert_int_equal(s.train[6], 6);
    assert_int_equal(s.test[3], 3);
    split_deinit(&s);
    fixture_dataset_free(ds);
    fixture_dataset_free(test);
}

TEST_MAIN(cmocka_unit_test(test_fraction), cmocka_unit_test(test_fraction_at_the_edges),
          cmocka_unit_test(test_mask), cmocka_unit_test(test_bad_masks),
          cmocka_unit_test(test_data_set))
