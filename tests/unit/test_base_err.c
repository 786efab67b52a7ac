#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "support/assert.h"

static void test_codes_and_names(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_COUNT_; i++) {
        const enum err_code code = (enum err_code)i;
        assert_int_equal(err_from_name(err_name(code)), code);
        assert_true(strlen(err_sentence(code)) > 8);
        assert_int_equal(err_sentence(code)[strlen(err_sentence(code)) - 1], '.');
    }
    assert_string_equal(err_name(ERR_NOT_FOUND), "not_found");
    assert_string_equal(err_name((enum err_code)ERR_COUNT_), "internal_error");
    assert_string_equal(err_name((enum err_code) - 1), "internal_error");
    assert_string_equal(err_sentence((enum err_code)9999), err_sentence(ERR_INTERNAL));
    assert_int_equal(err_from_name("no such name"), ERR_INTERNAL);
    assert_int_equal(err_from_name(NULL), ERR_INTERNAL);
}

static void test_set_fills_and_returns(void **state)
{
    (void)state;
    struct err err = {.pointer = "#/old"};
    assert_int_equal(err_set(&err, ERR_CONFLICT, "Job %d runs.", 7), -ERR_CONFLICT);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_string_equal(err.pointer, "");
    assert_string_equal(err.detail, "Job 7 runs.");
    assert_int_equal(err_at(&err, ERR_INVALID, "#/a/0", "%s", "Bad."), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/a/0");
    assert_int_equal(err_at(&err, ERR_INVALID, NULL, "Bad."), -ERR_INVALID);
    assert_string_equal(err.pointer, "");
    assert_int_equal(err_set(NULL, ERR_IO, "Nobody listens."), -ERR_IO);
    assert_int_equal(err_at(NULL, ERR_IO, "#/x", "Nobody listens."), -ERR_IO);
    assert_int_equal(err_no_memory(NULL), -ERR_NO_MEMORY);
}

/* The arguments may be parts of the same struct err. */
static void test_set_from_itself(void **state)
{
    (void)state;
    struct err err;
    err_at(&err, ERR_INVALID, "#/x", "first");
    err_at(&err, ERR_INVALID, err.pointer, "again: %s", err.detail);
    assert_string_equal(err.detail, "again: first");
    assert_string_equal(err.pointer, "#/x");
}

static void test_long_texts_are_cut(void **state)
{
    (void)state;
    struct err err;
    char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    err_at(&err, ERR_INVALID, text, "%s", text);
    assert_int_equal(strlen(err.detail), sizeof(err.detail) - 1);
    assert_int_equal(strlen(err.pointer), sizeof(err.pointer) - 1);
    err_prefix(&err, "#/kernel");
    assert_int_equal(strlen(err.pointer), sizeof(err.pointer) - 1);
    assert_memory_equal(err.pointer, "#/kernelx", 9);

    /* A cut never splits a character, wherever it falls. */
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 4 < sizeof(text); i += 4) {
            memcpy(text + i, "\xF0\x9F\x98\x80", 4);
        }
        text[sizeof(text) - 8] = '\0';
        err_set(&err, ERR_INVALID, "%s", text);
        const size_t len = strlen(err.detail);
        assert_in_range(len, sizeof(err.detail) - 4, sizeof(err.detail) - 1);
        for (size_t at = 0; at < len;) {
            const size_t step = utf8_step(err.detail + at, len - at);
            assert_true(step > 0);
            at += step;
        }
    }
}

/* Nor do "%.64s" and a text within it. */
static void test_cut_arguments(void **state)
{
    (void)state;
    struct err err;
    err_set(&err, ERR_INVALID, "\"%.4s\" and \"%.6s\".", "x\xC3\xA9\xC3\xA9",
            "\xF0\x9F\x98\x80\xF0\x9F\x98\x80");
    assert_string_equal(err.detail, "\"x\xC3\xA9\" and \"\xF0\x9F\x98\x80\".");
    err_set(&err, ERR_INVALID, "%.2s%.3s", "\xE2\x82\xAC", "\xF0\x9F\x98\x80");
    assert_string_equal(err.detail, "");
}

static void test_prefix(void **state)
{
    (void)state;
    struct err err;
    err_at(&err, ERR_INVALID, "#/bandwidth", "Bad.");
    err_prefix(&err, "#/kernel");
    assert_string_equal(err.pointer, "#/kernel/bandwidth");
    err_prefix(&err, "#");
    assert_string_equal(err.pointer, "#/kernel/bandwidth");
    err_prefix(&err, "");
    assert_string_equal(err.pointer, "#/kernel/bandwidth");
    err_set(&err, ERR_INVALID, "Bad.");
    err_prefix(&err, "#/kernel");
    assert_string_equal(err.pointer, "#/kernel");
    err_prefix(NULL, "#/kernel");
}

static void test_errno(void **state)
{
    (void)state;
    struct err err;
    errno = ENOENT;
    assert_int_equal(err_errno(&err, "write the data set"), -ERR_IO);
    errno = ENOSPC;
    assert_int_equal(err_errno(&err, "write the data set"), -ERR_DISK_FULL);
    assert_string_equal(err.detail, "Could not write the data set: No space left on device.");
    errno = EROFS;
    assert_int_equal(err_errno(&err, "write the data set"), -ERR_READ_ONLY);
    errno = EMFILE;
    assert_int_equal(err_errno(&err, "write the data set"), -ERR_BUSY);
    errno = ENFILE;
    assert_int_equal(err_errno(&err, "write the data set"), -ERR_BUSY);
}

static void test_utf8_put(void **state)
{
    (void)state;
    char text[4];
    for (uint32_t c = 0; c <= 0x110000; c++) {
        const size_t len = utf8_put(c, text);
        const bool is_character = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
        assert_int_equal(len > 0, is_character);
        assert_int_equal(utf8_step(text, len), len);
    }
    assert_int_equal(utf8_put(0x20AC, text), 3);
    assert_memory_equal(text, "\xE2\x82\xAC", 3);
    assert_int_equal(utf8_put(0x1F642, text), 4);
    assert_memory_equal(text, "\xF0\x9F\x99\x82", 4);
}

static void test_utf8_step(void **state)
{
    (void)state;
    assert_int_equal(utf8_step("", 0), 0);
    assert_int_equal(utf8_step("", 1), 1); /* U+0000 */
    assert_int_equal(utf8_step("\x7F", 1), 1);
    assert_int_equal(utf8_step("\xC2\x80", 2), 2);
    assert_int_equal(utf8_step("\xC1\xBF", 2), 0); /* overlong */
    assert_int_equal(utf8_step("\xC2\x7F", 2), 0);
    assert_int_equal(utf8_step("\xC2", 1), 0);
    assert_int_equal(utf8_step("\x80", 1), 0);
    assert_int_equal(utf8_step("\xE0\xA0\x80", 3), 3);
    assert_int_equal(utf8_step("\xE0\x9F\xBF", 3), 0); /* overlong */
    assert_int_equal(utf8_step("\xED\x9F\xBF", 3), 3);
    assert_int_equal(utf8_step("\xED\xA0\x80", 3), 0); /* surrogate */
    assert_int_equal(utf8_step("\xEF\xBF\xBF", 3), 3);
    assert_int_equal(utf8_step("\xEF\xBF", 2), 0);
    assert_int_equal(utf8_step("\xEF\xBF\x41", 3), 0);
    assert_int_equal(utf8_step("\xF0\x90\x80\x80", 4), 4);
    assert_int_equal(utf8_step("\xF0\x8F\xBF\xBF", 4), 0); /* overlong */
    assert_int_equal(utf8_step("\xF4\x8F\xBF\xBF", 4), 4); /* U+10FFFF */
    assert_int_equal(utf8_step("\xF4\x90\x80\x80", 4), 0);
    assert_int_equal(utf8_step("\xF5\x80\x80\x80", 4), 0);
    assert_int_equal(utf8_step("\xFF", 1), 0);
}

static void test_utf8_fit(void **state)
{
    (void)state;
    const char *text = "a\xC3\xA9\xF0\x9F\x98\x80z"; /* 1 + 2 + 4 + 1 bytes */
    const size_t expected[] = {0, 1, 1, 3, 3, 3, 3, 7, 8, 8};
    for (size_t max = 0; max < 10; max++) {
        assert_int_equal(utf8_fit(text, 8, max), expected[max]);
    }
    assert_int_equal(utf8_fit("\x80\x80\x80\x80\x80", 5, 4), 4);
}

static void check_mended(const char *text, const char *expected)
{
    char copy[64];
    snprintf(copy, sizeof(copy), "%s", text);
    utf8_mend(copy);
    assert_string_equal(copy, expected);
}

static void test_utf8_mend(void **state)
{
    (void)state;
    check_mended("", "");
    check_mended("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z",
                 "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z");
    check_mended("a\xC3", "a");
    check_mended("\xC3\"\xE2\"\xE2\x82\"", "\"\"\"");
    check_mended("\xF0\"\xF0\x9F\"\xF0\x9F\x98\"", "\"\"\"");
    check_mended("\xC3\xC3\xA9", "\xC3\xA9");
    check_mended("\xE2\x82\xE2\x82\xAC", "\xE2\x82\xAC");
    check_mended("\xFF\x80\xC0", "\xFF\x80\xC0"); /* begins no character */
    check_mended("\xED\xA0\x80", "\xA0\x80");     /* half of a surrogate pair */
}

static void test_utf8_marks(void **state)
{
    (void)state;
    const char *text = "\xEF\xBB\xBF\xEF\xBB\xBF\xEF\xBBz";
    const size_t expected[] = {0, 0, 0, 3, 3, 3, 6, 6, 6, 6};
    for (size_t len = 0; len < 10; len++) {
        assert_int_equal(utf8_marks(text, len), expected[len]);
    }
    assert_int_equal(utf8_marks("x\xEF\xBB\xBF", 4), 0);
}

TEST_MAIN(cmocka_unit_test(test_codes_and_names), cmocka_unit_test(test_set_fills_and_returns),
          cmocka_unit_test(test_set_from_itself), cmocka_unit_test(test_long_texts_are_cut),
          cmocka_unit_test(test_cut_arguments), cmocka_unit_test(test_prefix),
          cmocka_unit_test(test_errno), cmocka_unit_test(test_utf8_put),
          cmocka_unit_test(test_utf8_step), cmocka_unit_test(test_utf8_fit),
          cmocka_unit_test(test_utf8_mend), cmocka_unit_test(test_utf8_marks))
