#include "wire/names.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    return j;
}

static void test_read_and_write(void **state)
{
    (void)state;
    struct json *j cleanup_json = parse("{\"x\":[\"b\",\"a\",\"\"],\"none\":[]}");
    char **names = NULL;
    int64_t count = 0;
    assert_int_equal(names_read(j, "x", 1, 3, &names, &count, NULL), 0);
    assert_int_equal(count, 3);
    assert_string_equal(names[1], "a");
    struct json *out cleanup_json = json_new_object();
    names_write(out, "y", names, count);
    char *text cleanup_mem = json_print(out);
    assert_string_equal(text, "{\"y\":[\"b\",\"a\",\"\"]}");
    names = names_free(names, count);
    assert_int_equal(names_read(j, "none", 0, 3, &names, &count, NULL), 0);
    assert_int_equal(count, 0);
    assert_null(names);
}

static void test_refused(void **state)
{
    (void)state;
    struct json *j cleanup_json = parse("{\"x\":[\"a\",\"b\",3],\"s\":\"a\"}");
    char **names = NULL;
    int64_t count = 0;
    struct err err;
    assert_int_equal(names_read(j, "x", 1, 3, &names, &count, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/x/2");
    assert_int_equal(names_read(j, "x", 1, 2, &names, &count, &err), -ERR_INVALID);
    assert_contains(err.detail, "1 to 2");
    assert_int_equal(names_read(j, "x", 4, 9, &names, &count, &err), -ERR_INVALID);
    assert_int_equal(names_read(j, "s", 1, 2, &names, &count, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/s");
    assert_int_equal(names_read(j, "absent", 0, 2, &names, &count, &err), -ERR_INVALID);
    assert_null(names);
}

static void test_distinct(void **state)
{
    (void)state;
    char *twice[] = {"b", "c", "a", "c"};
    char *empty[] = {"b", "", "a"};
    struct err err;
    assert_int_equal(names_check_distinct(twice, 3, "x", &err), 0);
    assert_int_equal(names_check_distinct(twice, 4, "x", &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/x/3");
    assert_contains(err.detail, "\"c\"");
    assert_int_equal(names_check_distinct(empty, 3, "x", &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/x/1");
    assert_int_equal(names_check_distinct(NULL, 0, "x", &err), 0);
}

static void test_index(void **state)
{
    (void)state;
    enum { COUNT = 257 };
    char text[COUNT][8];
    char *names[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(text[i], sizeof(text[i]), "c%d", (i * 100) % COUNT);
        names[i] = text[i];
    }
    struct name_index index cleanup_name_index = {0};
    assert_int_equal(name_index_init(&index, names, COUNT, NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(name_index_find(&index, names[i]), i);
    }
    assert_int_equal(name_index_find(&index, "c257"), -1);
    assert_int_equal(name_index_find(&index, ""), -1);
    assert_int_equal(name_index_find(&index, "z"), -1);
}

TEST_MAIN(cmocka_unit_test(test_read_and_write), cmocka_unit_test(test_refused),
          cmocka_unit_test(test_distinct), cmocka_unit_test(test_index))
