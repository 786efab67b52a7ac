#include "base/json.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/assert.h"

static struct json *parsed(const char *text)
{
    struct json *j = NULL;
    struct err err = {.detail = ""};
    if (json_parse(text, strlen(text), &j, &err) != 0) {
        print_error("refused: %.200s\n%s\n", text, err.detail);
        fail();
    }
    return j;
}

/* Refused at the pointer, with the part in the sentence. */
static void refuses(const char *text, const char *pointer, const char *part)
{
    struct json *j = (struct json *)&j;
    struct err err = {.detail = ""};
    assert_int_equal(json_parse(text, strlen(text), &j, &err), -ERR_PARSE);
    assert_ptr_equal(j, &j); /* outputs stay untouched on failure */
    assert_string_equal(err.pointer, pointer);
    assert_contains(err.detail, part);
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), -ERR_PARSE);
}

static void prints(const struct json *j, const char *expected)
{
    cleanup_mem char *text = json_print(j);
    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void test_reading(void **state)
{
    (void)state;
    cleanup_json struct json *j =
        parsed("{\"s\":\"x\",\"n\":-1.5,\"t\":true,\"f\":false,\"z\":null,\"a\":[1,2,3],\"o\":{}}");
    assert_int_equal(json_type(j), JSON_OBJECT);
    assert_int_equal(json_size(j), 7);
    assert_string_equal(json_string(json_get(j, "s")), "x");
    assert_same_bits(json_number(json_get(j, "n")), -1.5);
    assert_true(json_bool(json_get(j, "t")));
    assert_false(json_bool(json_get(j, "f")));
    assert_int_equal(json_type(json_get(j, "f")), JSON_BOOL);
    assert_int_equal(json_type(json_get(j, "z")), JSON_NULL);
    assert_int_equal(json_type(json_get(j, "o")), JSON_OBJECT);
    assert_null(json_first(json_get(j, "o")));
    const struct json *array = json_get(j, "a");
    assert_int_equal(json_type(array), JSON_ARRAY);
    double expected = 1.0;
    for (const struct json *e = json_first(array); e != NULL; e = json_next(e)) {
        assert_null(json_key(e));
        assert_same_bits(json_number(e), expected++);
    }
    assert_string_equal(json_key(json_first(j)), "s");
    assert_null(json_key(j));
}

/* Values of nodes of another type, and of no node at all. */
static void test_wrong_types_give_nothing(void **state)
{
    (void)state;
    cleanup_json struct json *j = parsed("{\"s\":\"x\",\"n\":1,\"a\":[]}");
    assert_null(json_get(j, "S"));
    assert_null(json_get(json_get(j, "a"), "s"));
    assert_null(json_string(json_get(j, "n")));
    assert_same_bits(json_number(json_get(j, "s")), 0.0);
    assert_false(json_bool(json_get(j, "n")));
    assert_null(json_get(NULL, "s"));
    assert_null(json_first(NULL));
    assert_null(json_next(NULL));
    assert_null(json_key(NULL));
    assert_null(json_string(NULL));
    assert_false(json_bool(NULL));
    assert_same_bits(json_number(NULL), 0.0);
    assert_int_equal(json_size(NULL), 0);
    assert_int_equal(json_type(NULL), JSON_NULL);
    assert_null(json_free(NULL));
    assert_null(json_copy(NULL));
    assert_null(json_print(NULL));
    assert_false(json_ok(NULL));
}

static void test_errors_point(void **state)
{
    (void)state;
    refuses("", "", "Line 1, column 1");
    refuses("{\"a\":{\"b\":[1,2,{\"c\":1e999}]}}", "#/a/b/2/c", "too large");
    refuses("[[],[1,\n  x]]", "#/1/1", "Line 2, column 3");
    refuses("{\"a/b\":{\"~\":nul}}", "#/a~1b/~0", "a value");
    refuses("{\"a\":1,\"b\" 2}", "", "colon");
    refuses("{\"a\":[1]] ", "", "a comma or '}'");
    refuses("[1] []", "", "nothing more");
}

static void test_duplicate_keys(void **state)
{
    (void)state;
    refuses("{\"a\":1,\"a\":1}", "#/a", "Line 1, column 8: the key \"a\" stands twice");
    refuses("{\"x\":{\"k\":1,\n \"l\":2,\n \"k\":3}}", "#/x/k", "Line 3, column 2");
    refuses("[{\"a\":1},{\"\":1,\"b\":2,\"\":3}]", "#/1/", "the key \"\"");
    refuses("{\"a\":1,\"\\u0061\":2}", "#/a", "\"a\"");
    /* The same key on different levels and in neighbours is no duplicate. */
    cleanup_json struct json *j = parsed("{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":2}]}");
    assert_int_equal(json_size(j), 2);
    cleanup_json struct json *close = parsed("{\"a\":1,\"aa\":2,\"A\":3,\"\":4}");
    assert_int_equal(json_size(close), 4);
}

/* A long key is cut in the sentence, between two characters. */
static void test_long_duplicate_key(void **state)
{
    (void)state;
    cleanup_buf struct buf text = BUF_INIT;
    cleanup_buf struct buf key = BUF_INIT;
    for (int i = 0; i < 500; i++) {
        buf_str(&key, "\xE2\x82\xAC");
    }
    buf_printf(&text, "{\"%s\":1,\"%s\":2}", key.data, key.data);
    struct json *j = NULL;
    struct err err;
    assert_int_equal(json_parse(text.data, text.len, &j, &err), -ERR_PARSE);
    assert_contains(err.detail, "\xE2\x82\xAC\" stands twice");
}

static void append_key(struct buf *b, int i)
{
    buf_printf(b, "%s\"some common beginning %d\":0", i == 0 ? "" : ",", i);
}

/* A million keys, without and with one duplicate: with quadratic work the test would time out. */
static void test_a_million_keys(void **state)
{
    (void)state;
    const int n = 1000000;
    cleanup_buf struct buf text = BUF_INIT;
    buf_char(&text, '{');
    for (int i = 0; i < n; i++) {
        append_key(&text, i);
    }
    buf_char(&text, '}');
    cleanup_json struct json *j = parsed(text.data);
    assert_int_equal(json_size(j), n);
    text.data[text.len - 1] = ',';
    buf_str(&text, "\"some common beginning 777\":1}");
    struct json *none = NULL;
    struct err err;
    assert_int_equal(json_parse(text.data, text.len, &none, &err), -ERR_PARSE);
    assert_string_equal(err.pointer, "#/some common beginning 777");
}

static void test_long_arrays(void **state)
{
    (void)state;
    cleanup_buf struct buf text = BUF_INIT;
    const int n = 200000;
    for (int i = 0; i < n; i++) {
        buf_str(&text, i == 0 ? "[0" : ",[]");
    }
    buf_char(&text, ']');
    cleanup_json struct json *j = parsed(text.data);
    assert_int_equal(json_size(j), n);
    prints(j, text.data);
}

static void test_printing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "12",
        "-0.5",
        "1e+300",
        "\"\"",
        "[]",
        "{}",
        "[1,[2,[3]],{}]",
        "{\"a\":{\"b\":[null]},\"c\":\"\\\"\\\\\\n\\u0001\"}",
        "\"\xF0\x9F\x98\x80/\x7f\"",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cleanup_json struct json *j = parsed(texts[i]);
        prints(j, texts[i]);
    }
    cleanup_json struct json *j =
        parsed(" { \"a\" : [ 1.50 , 100e-2, 1E3 ] , \"\\u0062\":\"\\/\"}");
    prints(j, "{\"a\":[1.5,1,1000],\"b\":\"/\"}");
}

static void test_numbers_survive(void **state)
{
    (void)state;
    const double values[] = {DBL_MAX, DBL_MIN, DBL_TRUE_MIN, 0.1 + 0.2,         1.0 / 3.0,
                             -0.0,    1e22,    1e23,         9007199254740993.0};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        cleanup_json struct json *j = json_new_number(values[i]);
        cleanup_mem char *text = json_print(j);
        cleanup_json struct json *again = parsed(text);
        assert_same_bits(json_number(again), values[i]);
    }
}

static void test_building(void **state)
{
    (void)state;
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "s", "x");
    json_set_string(j, "none", NULL);
    json_set_number(j, "n", 2.5);
    json_set_number(j, "nan", NAN);
    json_set_int(j, "i", INT64_C(9007199254740992));
    json_set_bool(j, "b", true);
    struct json *a = json_set_array(j, "a");
    json_push(a, json_new_number(1.0));
    json_push(a, json_new_null());
    json_push(a, json_new_bool(false));
    json_set_number(json_set_object(j, "o"), "inf", INFINITY);
    assert_true(json_ok(j));
    prints(j, "{\"s\":\"x\",\"none\":null,\"n\":2.5,\"nan\":null,\"i\":9007199254740992,\"b\":true,"
              "\"a\":[1,null,false],\"o\":{\"inf\":null}}");
    json_set_string(j, "n", "again"); /* replaces, and moves to the end */
    json_remove(j, "none");
    json_remove(j, "nan");
    json_remove(j, "no such key");
    json_remove(j, "a");
    prints(j,
           "{\"s\":\"x\",\"i\":9007199254740992,\"b\":true,\"o\":{\"inf\":null},\"n\":\"again\"}");
}

/* Text that was printed before is printed again as it is, as a value or as members. */
static void test_texts(void **state)
{
    (void)state;
    cleanup_json struct json *j = json_new_object();
    json_set_int(j, "first", 1);
    json_add_members(j, "{}");
    json_add_members(j, "{\"a\":[1,2],\"b\":null}");
    json_set(j, "c", json_new_text("{\"d\":\"x\"}"));
    json_push(json_set_array(j, "e"), json_new_text("[]"));
    json_set_int(j, "first", 2);
    json_set(j, "c", json_new_text("true")); /* found behind the members */
    assert_null(json_get(j, "a"));
    assert_int_equal(json_type(json_get(j, "c")), JSON_NULL);
    cleanup_json struct json *copy = json_copy(j);
    static const char text[] = "{\"a\":[1,2],\"b\":null,\"e\":[[]],\"first\":2,\"c\":true}";
    prints(j, text);
    prints(copy, text);
    json_add_members(j, "");
    assert_false(json_ok(j));
    json_add_members(NULL, "{\"a\":1}");
}

static void test_copy(void **state)
{
    (void)state;
    const char *text = "{\"a\":[1,{\"b\":\"x\"},true,null],\"c\":-0}";
    cleanup_json struct json *j = parsed(text);
    cleanup_json struct json *copy = json_copy(j);
    json_set_string(j, "a", "changed");
    prints(copy, text);
    /* A copied child has no key until it is set somewhere. */
    struct json *part = json_copy(json_get(copy, "a"));
    assert_null(json_key(part));
    json_set(copy, "d", part);
    prints(copy, "{\"a\":[1,{\"b\":\"x\"},true,null],\"c\":-0,\"d\":[1,{\"b\":\"x\"},true,null]}");
}

/* Wrong parents take the child and free it; the memory checkers see a leak otherwise. */
static void test_parents_that_do_not_fit(void **state)
{
    (void)state;
    assert_null(json_set(NULL, "k", json_new_number(1.0)));
    assert_null(json_push(NULL, json_new_string("x")));
    assert_null(json_set_object(NULL, "k"));
    json_set_string(NULL, "k", "v");
    json_remove(NULL, "k");
    cleanup_json struct json *array = json_new_array();
    assert_null(json_set(array, "k", json_new_number(1.0)));
    assert_false(json_ok(array));
    cleanup_json struct json *object = json_new_object();
    assert_null(json_push(object, json_new_number(1.0)));
    assert_false(json_ok(object));
}

static void test_take(void **state)
{
    (void)state;
    cleanup_json struct json *j = parsed("{\"s\":\"x\",\"n\":1.5,\"i\":3,\"b\":true,\"z\":null,"
                                         "\"big\":9007199254740991,\"over\":9007199254740993,"
                                         "\"neg\":-9007199254740991,\"a/b\":[]}");
    struct err err;
    const char *s = "kept";
    bool b = false;
    double n = -1.0;
    int64_t i = -1;
    assert_int_equal(json_take_string(j, "absent", &s, &err), 0);
    assert_int_equal(json_take_bool(j, "absent", &b, &err), 0);
    assert_int_equal(json_take_number(j, "absent", &n, &err), 0);
    assert_int_equal(json_take_int(j, "absent", &i, &err), 0);
    assert_string_equal(s, "kept");
    assert_true(!b && n == -1.0 && i == -1);

    assert_int_equal(json_take_int(j, "n", &i, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/n");
    assert_contains(err.detail, "whole number");
    assert_int_equal(json_take_int(j, "over", &i, &err), -ERR_INVALID);
    assert_int_equal(json_take_int(j, "s", &i, &err), -ERR_INVALID);
    assert_int_equal(json_take_string(j, "z", &s, &err), -ERR_INVALID);
    assert_string_equal(err.detail, "\"z\" must be a string, but it is null.");
    assert_int_equal(json_take_bool(j, "a/b", &b, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/a~1b");
    assert_string_equal(err.detail, "\"a/b\" must be a boolean, but it is an array.");
    assert_int_equal(json_take_number(j, "b", &n, NULL), -ERR_INVALID);
    assert_string_equal(s, "kept");
    assert_true(!b && n == -1.0 && i == -1);

    assert_int_equal(json_take_string(j, "s", &s, &err), 0);
    assert_int_equal(json_take_bool(j, "b", &b, &err), 0);
    assert_int_equal(json_take_number(j, "n", &n, &err), 0);
    assert_string_equal(s, "x");
    assert_true(b && n == 1.5);
    assert_int_equal(json_take_int(j, "i", &i, &err), 0);
    assert_int_equal(i, 3);
    assert_int_equal(json_take_int(j, "big", &i, &err), 0);
    assert_true(i == INT64_C(9007199254740991));
    assert_int_equal(json_take_int(j, "neg", &i, &err), 0);
    assert_true(i == -INT64_C(9007199254740991));
}

static void test_any_number_is_an_integer(void **state)
{
    (void)state;
    const int64_t most = INT64_C(1) << 53;
    cleanup_json struct json *j =
        parsed("[3, -2.75, 9007199254740992, 1e19, -1e19, 1.7e308, -1.7e308, \"5\", null]");
    const int64_t expected[] = {3, -2, most, most, -most, most, -most, 0, 0};
    const struct json *at = json_first(j);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++, at = json_next(at)) {
        assert_true(json_int(at) == expected[i]);
    }
    assert_true(json_int(NULL) == 0);
}

static void test_only_keys(void **state)
{
    (void)state;
    cleanup_json struct json *j = parsed("{\"a\":1,\"b/c\":2,\"d\":3}");
    struct err err;
    assert_int_equal(json_only_keys(j, (const char *const[]){"d", "b/c", "a", NULL}, &err), 0);
    assert_int_equal(json_only_keys(j, (const char *const[]){"a", "d", NULL}, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/b~1c");
    assert_string_equal(err.detail, "The field \"b/c\" is not known here.");
    assert_int_equal(json_only_keys(j, (const char *const[]){NULL}, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/a");
    assert_int_equal(json_only_keys(NULL, (const char *const[]){NULL}, &err), 0);
}

static const char torture_text[] =
    "{\"a\":[1,\"two\",{\"three\":[true,null]}],\"b\":{\"c\":\"d\"}}";

/* Reading, copying and printing with each allocation failing in turn: an error, never a leak. */
static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    bool done = false;
    int failures = 0;
    for (int64_t n = 1; !done; n++) {
        struct json *j = NULL;
        struct err err;
        mem_fail_nth(n);
        const int rc = json_parse(torture_text, sizeof(torture_text) - 1, &j, &err);
        assert_true(rc == 0 || rc == -ERR_NO_MEMORY);
        struct json *copy = json_copy(j);
        char *text = json_print(copy);
        mem_fail_nth(0);
        done = text != NULL;
        failures += !done;
        if (done) {
            assert_string_equal(text, torture_text);
        }
        mem_free(text);
        json_free(copy);
        json_free(j);
    }
    assert_in_range(failures, 30, 100);
}

/* One check at the end of a chain of builders is enough, whatever failed. */
static void test_incomplete_trees_are_not_printed(void **state)
{
    (void)state;
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        mem_fail_nth(n);
        struct json *j = json_new_object();
        json_set_string(j, "a", "b");
        struct json *list = json_set_array(j, "list");
        json_push(list, json_new_number(1.0));
        json_set_int(json_push(list, json_new_object()), "i", 7);
        json_set_bool(j, "a", true);
        char *text = json_print(j);
        mem_fail_nth(0);
        done = text != NULL;
        if (done) {
            assert_string_equal(text, "{\"list\":[1,{\"i\":7}],\"a\":true}");
            assert_true(json_ok(j));
            assert_in_range(n, 10, 40);
        }
        mem_free(text);
        json_free(j);
    }
}

TEST_MAIN(cmocka_unit_test(test_reading), cmocka_unit_test(test_wrong_types_give_nothing),
          cmocka_unit_test(test_errors_point), cmocka_unit_test(test_duplicate_keys),
          cmocka_unit_test(test_long_duplicate_key), cmocka_unit_test(test_a_million_keys),
          cmocka_unit_test(test_long_arrays), cmocka_unit_test(test_printing),
          cmocka_unit_test(test_numbers_survive), cmocka_unit_test(test_building),
          cmocka_unit_test(test_copy), cmocka_unit_test(test_texts),
          cmocka_unit_test(test_parents_that_do_not_fit), cmocka_unit_test(test_take),
          cmocka_unit_test(test_any_number_is_an_integer), cmocka_unit_test(test_only_keys),
          cmocka_unit_test(test_every_allocation_fails_once),
          cmocka_unit_test(test_incomplete_trees_are_not_printed))
