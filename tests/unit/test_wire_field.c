#include "wire/field.h"

#include <string.h>

#include "base/utf8.h"
#include "support/assert.h"

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    return j;
}

static void test_pointers(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(field_error(&err, "a/b~c", FIELD_WHOLE, "No %d.", 1), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/a~1b~0c");
    assert_string_equal(err.detail, "No 1.");
    field_error(&err, "x", 17, "No.");
    assert_string_equal(err.pointer, "#/x/17");
    assert_int_equal(field_error(NULL, "x", 0, "No."), -ERR_INVALID);
}

static void test_found(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *text;
    } cases[] = {
        {"null", "found null."},           {"false", "found false."},   {"0.5", "found 0.5."},
        {"\"a\\nb\"", "found \"a\\nb\"."}, {"[1,2]", "an array of 2."}, {"{}", "found an object."},
    };
    struct err err;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json *j cleanup_json = parse(cases[i].json);
        field_wrong(&err, "x", FIELD_WHOLE, j, "a %s", "thing");
        assert_contains(err.detail, "Expected a thing; ");
        assert_contains(err.detail, cases[i].text);
    }
    field_wrong(&err, "x", FIELD_WHOLE, NULL, "y");
    assert_contains(err.detail, "found nothing.");
}

/* Long keys and values, of characters that must not be cut in half. */
static void test_long_text(void **state)
{
    (void)state;
    char text[4 * 3000 + 8];
    size_t len = 0;
    text[len++] = '"';
    for (int i = 0; i < 3000; i++) {
        memcpy(text + len, "\xE2\x82\xAC", 3);
        len += 3;
    }
    memcpy(text + len, "\"", 2);
    struct json *j cleanup_json = parse(text);
    struct err err;
    field_wrong(&err, json_string(j), 5, j, "%s", json_string(j));
    for (const char *s = err.detail; *s != '\0';) {
        const size_t step = utf8_step(s, strlen(s));
        assert_true(step > 0);
        s += step;
    }
    assert_true(strlen(err.pointer) < sizeof(err.pointer));
}

static void test_count(void **state)
{
    (void)state;
    int64_t n = -7;
    static const char *const bad[] = {"-1",  "1.5",  "9007199254740994", "1e300", "\"1\"", "null",
                                      "[1]", "-0.5", "9.3e18",           NULL};
    for (const char *const *text = bad; *text != NULL; text++) {
        struct json *j cleanup_json = parse(*text);
        assert_false(field_count(j, &n));
    }
    assert_int_equal(n, -7);
    struct json *j cleanup_json = parse("9007199254740991");
    assert_true(field_count(j, &n));
    assert_true(n == 9007199254740991);
    assert_false(field_count(NULL, &n));
}

static void test_object_and_text(void **state)
{
    (void)state;
    struct json *j cleanup_json = parse("{\"o\":{},\"n\":1,\"e\":\"\",\"s\":\"x\"}");
    const struct json *o = NULL;
    const char *s = NULL;
    struct err err;
    assert_int_equal(field_object(j, "o", &o, &err), 0);
    assert_ptr_equal(o, json_get(j, "o"));
    assert_int_equal(field_object(j, "absent", &o, &err), 0);
    assert_null(o);
    assert_int_equal(field_object(j, "n", &o, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/n");
    assert_int_equal(field_text(j, "s", &s, &err), 0);
    assert_string_equal(s, "x");
    assert_int_equal(field_text(j, "e", &s, &err), -ERR_INVALID);
    assert_int_equal(field_text(j, "absent", &s, &err), -ERR_INVALID);
    assert_string_equal(s, "x");
}

TEST_MAIN(cmocka_unit_test(test_pointers), cmocka_unit_test(test_found),
          cmocka_unit_test(test_long_text), cmocka_unit_test(test_count),
          cmocka_unit_test(test_object_and_text))
