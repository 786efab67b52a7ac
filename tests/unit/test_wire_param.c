#include "wire/param.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

static const char *const colors[] = {"red", "green", NULL};

static const struct param_def table[] = {
    {.key = "count", .type = PARAM_INT, .min = 1, .max = 20, .fallback = "3", .help = "A."},
    {.key = "rank",
     .type = PARAM_INT,
     .min = 1,
     .max = 1e5,
     .fallback = "\"auto\"",
     .allow_auto = true,
     .help = "B."},
    {.key = "tol",
     .type = PARAM_REAL,
     .min = 0,
     .max = 1,
     .min_exclusive = true,
     .fallback = "1e-6",
     .help = "C."},
    {.key = "free", .type = PARAM_REAL, .min = 0, .max = INFINITY, .fallback = "0.5", .help = "D."},
    {.key = "fast", .type = PARAM_BOOL, .fallback = "true", .help = "E."},
    {.key = "color",
     .type = PARAM_CHOICE,
     .choices = colors,
     .fallback = "\"green\"",
     .help = "F."},
    {.key = NULL},
};

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    return j;
}

static void test_defaults(void **state)
{
    (void)state;
    struct param_set set;
    assert_int_equal(param_read(table, NULL, NULL, &set, NULL), 0);
    assert_int_equal(param_int(&set, "count"), 3);
    assert_true(param_get(&set, "rank")->is_auto);
    assert_same_bits(param_real(&set, "tol"), 1e-6);
    assert_true(param_bool(&set, "fast"));
    assert_ptr_equal(param_choice(&set, "color"), colors[1]);
}

static void test_given(void **state)
{
    (void)state;
    static const char *const also[] = {"name", NULL};
    struct json *j cleanup_json = parse("{\"name\":[],\"count\":20,\"rank\":100000,\"tol\":1,"
                                        "\"free\":1e308,\"fast\":false,\"color\":\"red\"}");
    struct param_set set;
    assert_int_equal(param_read(table, j, also, &set, NULL), 0);
    assert_int_equal(param_int(&set, "count"), 20);
    assert_false(param_get(&set, "rank")->is_auto);
    assert_int_equal(param_int(&set, "rank"), 100000);
    assert_same_bits(param_real(&set, "tol"), 1);
    assert_same_bits(param_real(&set, "free"), 1e308);
    assert_false(param_bool(&set, "fast"));
    assert_string_equal(param_choice(&set, "color"), "red");
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *pointer;
        const char *detail;
    } cases[] = {
        {"{\"count\":0}", "#/count", "a whole number of at least 1 and at most 20; found 0."},
        {"{\"count\":21}", "#/count", "at most 20"},
        {"{\"count\":2.5}", "#/count", "whole number"},
        {"{\"count\":\"3\"}", "#/count", "found \"3\""},
        {"{\"count\":\"auto\"}", "#/count", "found \"auto\""},
        {"{\"count\":null}", "#/count", "found null"},
        {"{\"rank\":\"Auto\"}", "#/rank", "or \"auto\""},
        {"{\"tol\":0}", "#/tol", "a number greater than 0 and at most 1"},
        {"{\"tol\":1.0000001}", "#/tol", "at most 1"},
        {"{\"free\":-1e-300}", "#/free", "a number of at least 0;"},
        {"{\"fast\":1}", "#/fast", "true or false"},
        {"{\"color\":\"blue\"}", "#/color", "one of \"red\", \"green\""},
        {"{\"color\":0}", "#/color", "one of"},
        {"{\"other\":1}", "#/other", "other"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json *j cleanup_json = parse(cases[i].json);
        struct param_set set = {.defs = NULL};
        struct err err;
        assert_int_equal(param_read(table, j, NULL, &set, &err), -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].pointer);
        assert_contains(err.detail, cases[i].detail);
        assert_null(set.defs);
    }
}

static void test_no_table(void **state)
{
    (void)state;
    struct json *empty cleanup_json = parse("{}");
    struct json *full cleanup_json = parse("{\"a\":1}");
    struct param_set set;
    struct err err;
    assert_int_equal(param_read(NULL, empty, NULL, &set, &err), 0);
    assert_int_equal(param_read(NULL, full, NULL, &set, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/a");
    param_write(&set, empty);
    assert_int_equal(json_size(empty), 0);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{\"count\":7,\"tol\":0.1,\"fast\":false}",
        "{\"rank\":5,\"color\":\"red\",\"free\":0}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct json *j cleanup_json = parse(texts[i]);
        struct param_set first;
        struct param_set second;
        assert_int_equal(param_read(table, j, NULL, &first, NULL), 0);
        struct json *out cleanup_json = json_new_object();
        param_write(&first, out);
        assert_int_equal(json_size(out), 6);
        assert_int_equal(param_read(table, out, NULL, &second, NULL), 0);
        for (int k = 0; table[k].key != NULL; k++) {
            assert_int_equal(first.values[k].is_auto, second.values[k].is_auto);
            assert_same_bits(first.values[k].real, second.values[k].real);
            assert_ptr_equal(first.values[k].choice, second.values[k].choice);
        }
    }
}

static void test_describe(void **state)
{
    (void)state;
    struct json *list cleanup_json = param_describe(table);
    assert_int_equal(json_size(list), 6);
    const struct json *count = json_first(list);
    char *text cleanup_mem = json_print(count);
    assert_string_equal(text,
                        "{\"key\":\"count\",\"type\":\"integer\",\"minimum\":1,\"maximum\":20,"
                        "\"auto\":false,\"default\":3,\"help\":\"A.\"}");
    const struct json *tol = json_next(json_next(count));
    assert_non_null(json_get(tol, "exclusive_minimum"));
    assert_null(json_get(tol, "minimum"));
    const struct json *free_param = json_next(tol);
    assert_int_equal(json_type(json_get(free_param, "maximum")), JSON_NULL);
    const struct json *color = json_next(json_next(free_param));
    assert_int_equal(json_size(json_get(color, "choices")), 2);
    struct json *none cleanup_json = param_describe(NULL);
    assert_int_equal(json_type(none), JSON_ARRAY);
}

TEST_MAIN(cmocka_unit_test(test_defaults), cmocka_unit_test(test_given),
          cmocka_unit_test(test_refused), cmocka_unit_test(test_no_table),
          cmocka_unit_test(test_round_trip), cmocka_unit_test(test_describe))
