#include "base/buf.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

static void test_appending(void **state)
{
    (void)state;
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "ab");
    buf_char(&b, 'c');
    buf_add(&b, "d\0e", 3);
    buf_printf(&b, "%d-%s", 42, "x");
    buf_add(&b, NULL, 0);
    assert_int_equal(b.len, 10);
    assert_memory_equal(b.data, "abcd\0e42-x", 11);
    assert_false(b.failed);
}

/* Every length around the powers of two keeps its NUL. */
static void test_growth(void **state)
{
    (void)state;
    cleanup_buf struct buf b = BUF_INIT;
    for (size_t i = 0; i < 5000; i++) {
        buf_char(&b, (char)('a' + i % 26));
        assert_int_equal(b.data[b.len], '\0');
        assert_true(b.cap > b.len);
    }
    for (size_t i = 0; i < 5000; i++) {
        assert_int_equal(b.data[i], 'a' + i % 26);
    }
    for (size_t len = 0; len < 300; len++) {
        buf_clear(&b);
        buf_printf(&b, "%*s", (int)len, "");
        assert_int_equal(strlen(b.data), len);
    }
}

static void test_consume(void **state)
{
    (void)state;
    cleanup_buf struct buf b = BUF_INIT;
    buf_consume(&b, 5);
    assert_int_equal(b.len, 0);
    buf_str(&b, "abcdef");
    buf_consume(&b, 0);
    buf_consume(&b, 2);
    assert_string_equal(b.data, "cdef");
    buf_consume(&b, 4);
    assert_string_equal(b.data, "");
    buf_str(&b, "x");
    buf_consume(&b, 99);
    assert_int_equal(b.len, 0);
}

static void test_take(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    char *s = buf_take(&b);
    assert_string_equal(s, "");
    mem_free(s);
    buf_str(&b, "text");
    s = buf_take(&b);
    assert_string_equal(s, "text");
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    mem_free(s);
}

static void test_failure_is_sticky(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    buf_str(&b, "first");
    mem_fail_nth(1);
    for (int i = 0; i < 100; i++) {
        buf_str(&b, "0123456789");
    }
    assert_true(b.failed);
    assert_true(b.len < 64);
    const size_t len = b.len;
    buf_str(&b, "x");
    buf_printf(&b, "%d", 1);
    buf_json_string(&b, "x");
    buf_json_number(&b, 0.1);
    buf_consume(&b, 1);
    assert_int_equal(b.len, len);
    assert_null(buf_take(&b));
    assert_false(b.failed);
    buf_str(&b, "works again");
    assert_string_equal(b.data, "works again");
    buf_deinit(&b);
}

static void test_impossible_length(void **state)
{
    (void)state;
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "x");
    buf_add(&b, "y", SIZE_MAX);
    assert_true(b.failed);
    buf_clear(&b);
    buf_add(&b, "y", SIZE_MAX / 2);
    assert_true(b.failed);
    buf_clear(&b);
    buf_str(&b, "z");
    assert_string_equal(b.data, "z");
}

static void check_string(const char *s, const char *expected)
{
    cleanup_buf struct buf b = BUF_INIT;
    buf_json_string(&b, s);
    assert_string_equal(b.data, expected);
}

static void test_json_strings(void **state)
{
    (void)state;
    check_string("", "\"\"");
    check_string("plain /text", "\"plain /text\"");
    check_string("a\"b\\c", "\"a\\\"b\\\\c\"");
    check_string("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
    check_string("\x01\x1f\x7f", "\"\\u0001\\u001f\x7f\"");
    check_string("gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80", "\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80\"");
    check_string("\xFF", "\"\xEF\xBF\xBD\"");
    check_string("a\xC3", "\"a\xEF\xBF\xBD\"");
    check_string("\xC0\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_string("\xE2\x82z", "\"\xEF\xBF\xBD\xEF\xBF\xBDz\"");
}

static void check_number(double v, const char *expected)
{
    cleanup_buf struct buf b = BUF_INIT;
    buf_json_number(&b, v);
    assert_string_equal(b.data, expected);
}

static void test_json_numbers(void **state)
{
    (void)state;
    check_number(0.0, "0");
    check_number(-0.0, "-0");
    check_number(1.0, "1");
    check_number(-17.0, "-17");
    check_number(0.1, "0.1");
    check_number(1e6, "1000000");
    check_number(1e15, "1000000000000000");
    check_number(9007199254740992.0, "9007199254740992");
    check_number(-9007199254740992.0, "-9007199254740992");
    check_number(9007199254740994.0, "9007199254740994");
    check_number(1e22, "1e+22");
    check_number(0.1 + 0.2, "0.30000000000000004");
    check_number(1.0 / 3.0, "0.3333333333333333");
    check_number(NAN, "null");
    check_number(INFINITY, "null");
    check_number(-INFINITY, "null");
}

static void test_json_numbers_read_back(void **state)
{
    (void)state;
    const double values[] = {DBL_MAX, -DBL_MAX,         DBL_MIN, DBL_TRUE_MIN,     DBL_EPSILON,
                             0.1,     2.0 / 3.0,        1e-7,    123456.789,       1e300 / 3.0,
                             1e-300,  9007199254740996, 5e-5,    1.0 + DBL_EPSILON};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        cleanup_buf struct buf b = BUF_INIT;
        buf_json_number(&b, values[i]);
        assert_same_bits(strtod(b.data, NULL), values[i]);
    }
}

/* Skipped where no locale with a decimal comma is installed. */
static void test_json_number_ignores_locale(void **state)
{
    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        skip();
    }
    check_number(0.5, "0.5");
    check_number(-1.25e-9, "-1.25e-09");
    setlocale(LC_NUMERIC, "C");
}

TEST_MAIN(cmocka_unit_test(test_appending), cmocka_unit_test(test_growth),
          cmocka_unit_test(test_consume), cmocka_unit_test(test_take),
          cmocka_unit_test(test_failure_is_sticky), cmocka_unit_test(test_impossible_length),
          cmocka_unit_test(test_json_strings), cmocka_unit_test(test_json_numbers),
          cmocka_unit_test(test_json_numbers_read_back),
          cmocka_unit_test(test_json_number_ignores_locale))
