#include "base/jsonread.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"
#include "support/mutate.h"

static struct jsonread *reader_of(const char *text)
{
    struct jsonread *r = NULL;
    assert_int_equal(jsonread_new(text, strlen(text), &r, NULL), 0);
    return r;
}

/* Reads to the end, or to the first error, whose text lands in *ret_err. */
static int read_all(const char *text, size_t len, struct err *ret_err)
{
    struct jsonread *r = NULL;
    assert_int_equal(jsonread_new(text, len, &r, NULL), 0);
    int token;
    do {
        token = jsonread_next(r, ret_err);
    } while (token > 0);
    struct err again;
    assert_int_equal(jsonread_next(r, &again), token); /* the end and an error both stay */
    if (token < 0) {
        assert_string_equal(again.detail, ret_err->detail);
    }
    jsonread_free(r);
    return token;
}

static void accepts(const char *text)
{
    struct err err = {.detail = ""};
    if (read_all(text, strlen(text), &err) != 0) {
        print_error("refused: %.200s\n%s\n", text, err.detail);
        fail();
    }
}

static void refuses_bytes(const char *text, size_t len, const char *part)
{
    struct err err = {.detail = ""};
    if (read_all(text, len, &err) != -ERR_PARSE) {
        print_error("accepted: %.200s\n", text);
        fail();
    }
    assert_int_equal(err.code, ERR_PARSE);
    assert_contains(err.detail, part);
}

static void refuses(const char *text, const char *part)
{
    refuses_bytes(text, strlen(text), part);
}

static void test_tokens_in_order(void **state)
{
    (void)state;
    struct jsonread *r = reader_of(" {\"a\" : [1, -2.5e3, \"x\\ty\"],\n \"b\":{}, \"c\":[ ],"
                                   "\"d\":true,\"e\":false,\"f\":null} ");
    static const enum jsonread_token expected[] = {
        JSONREAD_OBJECT_BEGIN, JSONREAD_KEY,        JSONREAD_ARRAY_BEGIN, JSONREAD_NUMBER,
        JSONREAD_NUMBER,       JSONREAD_STRING,     JSONREAD_ARRAY_END,   JSONREAD_KEY,
        JSONREAD_OBJECT_BEGIN, JSONREAD_OBJECT_END, JSONREAD_KEY,         JSONREAD_ARRAY_BEGIN,
        JSONREAD_ARRAY_END,    JSONREAD_KEY,        JSONREAD_BOOL,        JSONREAD_KEY,
        JSONREAD_BOOL,         JSONREAD_KEY,        JSONREAD_NULL,        JSONREAD_OBJECT_END,
        JSONREAD_END,          JSONREAD_END};
    size_t len;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(jsonread_next(r, NULL), expected[i]);
        switch (i) {
        case 1:
            assert_string_equal(jsonread_str(r, &len), "a");
            assert_int_equal(len, 1);
            break;
        case 4:
            assert_same_bits(jsonread_number(r), -2500.0);
            break;
        case 5:
            assert_string_equal(jsonread_str(r, NULL), "x\ty");
            break;
        case 14:
            assert_true(jsonread_bool(r));
            break;
        case 16:
            assert_false(jsonread_bool(r));
            break;
        default:
            break;
        }
    }
    jsonread_free(r);
}

static void test_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "1e-400",
        "1.5E+2",
        "\"\"",
        "true",
        "false",
        "null",
        "[]",
        "{}",
        " \t\r\n[ ] \n",
        "[[],[[]],{}]",
        "{\"\":\"\"}",
        "\"\x7f\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"",
        "\"\xF4\x8F\xBF\xBF\"",
        "\"\\uDBFF\\uDFFF\"",
        "\"\\uFFFF\"",
        "{\"a\":1,\"a\":2}",
        "[1.7976931348623157e308]",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        accepts(texts[i]);
    }
}

static void test_refused_structure(void **state)
{
    (void)state;
    refuses("", "the text ends where a value should stand");
    refuses(" \n ", "Line 2, column 2");
    refuses("[", "ends");
    refuses("{", "ends");
    refuses("[1", "a comma or ']'");
    refuses("[1,", "ends");
    refuses("[1,]", "found ']'");
    refuses("[,1]", "found ','");
    refuses("[1 2]", "a comma or ']', found '2'");
    refuses("[1}", "found '}'");
    refuses("{\"a\":1]", "a comma or '}', found ']'");
    refuses("{\"a\":1,}", "a key in double quotes, found '}'");
    refuses("{,}", "a key in double quotes or '}'");
    refuses("{\"a\"}", "a colon");
    refuses("{\"a\",1}", "a colon");
    refuses("{\"a\":}", "a value");
    refuses("{a:1}", "a key in double quotes");
    refuses("{1:1}", "a key in double quotes");
    refuses("{'a':1}", "a key in double quotes");
    refuses("]", "a value");
    refuses("1 2", "nothing more");
    refuses("{}{}", "nothing more");
    refuses("[]]", "nothing more");
    refuses("null,", "nothing more");
    refuses("// x\n1", "a value");
    refuses("[1/**/]", "found '/'");
    refuses("\xEF\xBB\xBF{}", "the byte 0xef");
    refuses("\f1", "the byte 0x0c");
    refuses("\xC2\xA0"
            "1",
            "the byte 0xc2");
}

static void test_refused_words(void **state)
{
    (void)state;
    static const char *const texts[] = {"tru",       "trUe", "True", "nul",      "nulL",
                                        "fals",      "NaN",  "nan",  "Infinity", "-Infinity",
                                        "undefined", "t",    "n",    "f"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        refuses(texts[i], "Line 1, column 1:");
    }
    refuses("truex", "nothing more");
    refuses("[nullx]", "found 'x'");
}

static void test_refused_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {"01",  "-01",   "00",   "1.",    ".5",   "+1",  "-",
                                        "1e",  "1e+",   "1.e1", "1.2.3", "1e5e", "--1", "0x10",
                                        "1_0", "1e5.5", "-a",   "1-2",   "1+1"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        refuses(texts[i], "Line 1, column");
        char in_array[32];
        snprintf(in_array, sizeof(in_array), "[1,%s]", texts[i]);
        refuses(in_array, "Line 1, column");
    }
    refuses("1e309", "too large");
    refuses("[-1e999]", "too large");
    refuses("1.7976931348623159e308", "too large");
    refuses("01", "form that JSON demands");
    refuses("1.", "complete number");
}

static void test_refused_strings(void **state)
{
    (void)state;
    refuses("\"abc", "ends inside a string");
    refuses("\"abc\\", "after a backslash");
    refuses("\"\\x41\"", "after a backslash, found 'x'");
    refuses("\"\\'\"", "after a backslash");
    refuses("\"a\nb\"", "control character 0x0a");
    refuses("\"\x1f\"", "control character 0x1f");
    refuses("\"\\u12\"", "hexadecimal digit, found '\"'");
    refuses("\"\\u12G4\"", "hexadecimal digit, found 'G'");
    refuses("\"\\u123", "ends");
    refuses("\"\\u0000\"", "\\u0000 is not allowed");
    refuses("{\"a\\u0000b\":1}", "\\u0000 is not allowed");
    refuses("\"\\ud800\"", "\\ud800 is half");
    refuses("\"\\udc00\"", "\\udc00 is half");
    refuses("\"\\ud800\\n\"", "half");
    refuses("\"\\ud800\\u0041\"", "half");
    refuses("\"\\ud800\\ud800\"", "half");
    refuses("\"\\ud800\\u", "half");
    refuses("\"\\ud800\\", "half");
    refuses("\"\x80\"", "UTF-8");
    refuses("\"\xC0\xAF\"", "UTF-8");
    refuses("\"\xED\xA0\x80\"", "UTF-8");
    refuses("\"\xF4\x90\x80\x80\"", "UTF-8");
    refuses("\"\xE2\x82", "UTF-8");
}

static void test_nul_bytes(void **state)
{
    (void)state;
    refuses_bytes("\0", 1, "the byte 0x00");
    refuses_bytes("1\0", 2, "the byte 0x00");
    refuses_bytes("[1\0]", 4, "the byte 0x00");
    refuses_bytes("[\0]", 3, "the byte 0x00");
    refuses_bytes("\"a\0b\"", 5, "control character 0x00");
    refuses_bytes("{\0}", 3, "the byte 0x00");
    refuses_bytes("{\"a\"\0:1}", 8, "the byte 0x00");
    refuses_bytes("\"\\\0\"", 4, "the byte 0x00");
    refuses_bytes("\"\\u00\0\"", 7, "the byte 0x00");
}

/* The text need not end in a NUL, and nothing behind its length is read. Under the address
 * sanitizer and valgrind the exact copy shows any byte too many. */
static void test_every_cut(void **state)
{
    (void)state;
    const char *text =
        "{\"k\\u00e9\\ud83d\\ude00\":[-12.5e+3,true,false,null,\"\xF0\x9F\x98\x80\"]}";
    const size_t whole = strlen(text);
    for (size_t len = 0; len <= whole; len++) {
        cleanup_mem char *copy = mem_dup(text, len);
        struct err err;
        assert_int_equal(read_all(copy, len, &err), len == whole ? 0 : -ERR_PARSE);
    }
}

static void test_depth_limit(void **state)
{
    (void)state;
    for (int depth = JSON_MAX_DEPTH - 1; depth <= JSON_MAX_DEPTH + 1; depth++) {
        cleanup_buf struct buf arrays = BUF_INIT;
        cleanup_buf struct buf objects = BUF_INIT;
        for (int i = 0; i < depth; i++) {
            buf_char(&arrays, '[');
            buf_str(&objects, i + 1 < depth ? "{\"a\":" : "{");
        }
        for (int i = 0; i < depth; i++) {
            buf_char(&arrays, ']');
            buf_char(&objects, '}');
        }
        if (depth <= JSON_MAX_DEPTH) {
            accepts(arrays.data);
            accepts(objects.data);
        } else {
            refuses(arrays.data, "nested more than 64 deep");
            refuses(objects.data, "nested more than 64 deep");
        }
    }
    cleanup_mem char *hostile = mem_alloc(1000000);
    memset(hostile, '[', 1000000);
    refuses_bytes(hostile, 1000000, "Line 1, column 65");
}

static void test_positions(void **state)
{
    (void)state;
    struct jsonread *r = reader_of("{\n  \"a\": [1,\r\n\t22\n]}");
    static const int64_t expected[][2] = {{1, 1}, {2, 3}, {2, 8}, {2, 9}, {3, 2}, {4, 1}, {4, 2}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(jsonread_next(r, NULL) > 0);
        int64_t line;
        int64_t column;
        jsonread_position(r, &line, &column);
        assert_int_equal(line, expected[i][0]);
        assert_int_equal(column, expected[i][1]);
    }
    jsonread_free(r);
    refuses("{\n\"a\":\n  1e999}", "Line 3, column 3:");
    refuses("[\"abc\x01\"]", "Line 1, column 6:");
}

static void test_skip(void **state)
{
    (void)state;
    struct jsonread *r = reader_of("{\"a\":{\"x\":[1,[2,{}]]},\"b\":7,\"c\":[],\"d\":\"s\"}");
    assert_int_equal(jsonread_next(r, NULL), JSONREAD_OBJECT_BEGIN);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(jsonread_next(r, NULL), JSONREAD_KEY);
        assert_int_equal(jsonread_str(r, NULL)[0], 'a' + i);
        if (i % 2 == 0) { /* by the key, or by the value's first token */
            assert_true(jsonread_next(r, NULL) > 0);
        }
        assert_int_equal(jsonread_skip(r, NULL), 0);
    }
    assert_int_equal(jsonread_next(r, NULL), JSONREAD_OBJECT_END);
    assert_int_equal(jsonread_skip(r, NULL), 0); /* nothing is left to skip */
    assert_int_equal(jsonread_next(r, NULL), JSONREAD_END);
    assert_int_equal(jsonread_skip(r, NULL), 0);
    jsonread_free(r);

    struct err err;
    r = reader_of("[[1,2,}]");
    assert_int_equal(jsonread_next(r, NULL), JSONREAD_ARRAY_BEGIN);
    assert_int_equal(jsonread_skip(r, &err), -ERR_PARSE);
    assert_contains(err.detail, "column 7");
    assert_int_equal(jsonread_skip(r, &err), -ERR_PARSE);
    assert_int_equal(jsonread_next(r, &err), -ERR_PARSE);
    jsonread_free(r);
    assert_null(jsonread_free(NULL));
}

static void test_no_memory(void **state)
{
    (void)state;
    struct jsonread *r = NULL;
    struct err err;
    mem_fail_nth(1);
    assert_int_equal(jsonread_new("1", 1, &r, &err), -ERR_NO_MEMORY);
    assert_null(r);
    r = reader_of("[\"text\",1]");
    assert_int_equal(jsonread_next(r, &err), JSONREAD_ARRAY_BEGIN);
    mem_fail_nth(1);
    assert_int_equal(jsonread_next(r, &err), -ERR_NO_MEMORY);
    assert_int_equal(jsonread_next(r, &err), -ERR_NO_MEMORY);
    assert_int_equal(err.code, ERR_NO_MEMORY);
    jsonread_free(r);
}

/* A prediction body goes straight into floats. */
static void test_numbers_take_no_memory(void **state)
{
    (void)state;
    struct jsonread *r = reader_of("[0.1,-2,3e5,1.23456789012345678901234567890e-7,0]");
    double sum = 0.0;
    mem_fail_nth(1);
    int token;
    while ((token = jsonread_next(r, NULL)) > 0) {
        sum += token == JSONREAD_NUMBER ? jsonread_number(r) : 0.0;
    }
    assert_int_equal(token, JSONREAD_END);
    mem_fail_nth(0);
    assert_close(sum, 299998.10000012347, 1e-15);
    jsonread_free(r);
}

static void tell_numbers(const double *v, int64_t count, struct buf *ret)
{
    for (int64_t i = 0; i < count; i++) {
        buf_printf(ret, "%d ", JSONREAD_NUMBER);
        buf_json_number(ret, v[i]);
    }
}

static void tell_end(struct jsonread *r, int token, const struct err *err, struct buf *ret)
{
    int64_t line, column;
    jsonread_position(r, &line, &column);
    buf_printf(ret, "%d %s %lld:%lld", token, err->detail, (long long)line, (long long)column);
}

/* How a text is read: up to `max` whole rows of `columns` numbers at a time wherever they may
 * stand, or (columns 0) up to `max` numbers, or (max < 0) token by token. */
struct way {
    int64_t columns, max;
};

static int take_numbers(struct jsonread *r, const struct way *w, struct buf *ret, struct err *err)
{
    double row[8];
    int64_t count = 0;
    const int token =
        w->max < 0 ? jsonread_next(r, err) : jsonread_numbers(r, row, w->max, &count, err);
    tell_numbers(row, count, ret);
    return token;
}

static void take_rows(struct jsonread *r, const struct way *w, struct buf *ret)
{
    double rows[32];
    const int64_t count = jsonread_rows(r, rows, w->columns, w->max);
    for (int64_t i = 0; i < count; i++) {
        buf_printf(ret, "%d ", JSONREAD_ARRAY_BEGIN);
        tell_numbers(rows + i * w->columns, w->columns, ret);
        buf_printf(ret, "%d ", JSONREAD_ARRAY_END);
    }
}

/* What follows the token; returns the token after that. */
static int take(struct jsonread *r, int token, const struct way *w, struct buf *ret,
                struct err *err)
{
    if (w->columns == 0) {
        return take_numbers(r, w, ret, err);
    }
    if (token != JSONREAD_KEY) {
        take_rows(r, w, ret);
    }
    return jsonread_next(r, err);
}

/* All that is seen goes to the buffer: kinds, numbers, and the error at the end. */
static void describe(const char *text, size_t len, struct way w, struct buf *ret)
{
    struct jsonread *r = NULL;
    struct err err = {.code = ERR_OK};
    assert_int_equal(jsonread_new(text, len, &r, NULL), 0);
    int token = jsonread_next(r, &err);
    while (token > 0) {
        buf_printf(ret, "%d ", token);
        if (token == JSONREAD_NUMBER) {
            buf_json_number(ret, jsonread_number(r));
        }
        token = take(r, token, &w, ret, &err);
    }
    if (w.columns > 0) {
        take_rows(r, &w, ret); /* there are none at the end */
    }
    tell_end(r, token, &err, ret);
    jsonread_free(r);
}

static void check_way(const char *text, size_t len, struct way w, const struct buf *expected)
{
    cleanup_buf struct buf rows = BUF_INIT;
    describe(text, len, w, &rows);
    assert_string_equal(rows.data, expected->data);
}

static void check_rows(const char *text, size_t len)
{
    cleanup_buf struct buf one_by_one = BUF_INIT;
    describe(text, len, (struct way){.max = -1}, &one_by_one);
    for (int64_t max = 0; max <= 8; max += max < 3 ? 1 : 5) {
        check_way(text, len, (struct way){.max = max}, &one_by_one);
    }
    for (int64_t columns = 1; columns <= 4; columns++) {
        for (int64_t max = 1; max <= 8; max += 3) {
            check_way(text, len, (struct way){columns, max}, &one_by_one);
        }
    }
}

/* They are taken at once, and are where tokens would be. */
static void test_whole_rows(void **state)
{
    (void)state;
    static const char text[] = "[[1,2],[3, 4],  [5,6],\n[7,8],[9]]";
    struct jsonread *r = reader_of(text);
    double rows[8];
    int64_t line, column;
    assert_int_equal(jsonread_rows(r, rows, 2, 4), 0); /* in no array yet */
    assert_int_equal(jsonread_next(r, NULL), JSONREAD_ARRAY_BEGIN);
    assert_int_equal(jsonread_rows(r, rows, 2, 4), 3);
    for (int i = 0; i < 6; i++) {
        assert_same_bits(rows[i], i + 1.0);
    }
    jsonread_position(r, &line, &column);
    assert_int_equal(line, 1);
    assert_int_equal(column, 21);
    assert_int_equal(jsonread_offset(r), 21);
    assert_int_equal(jsonread_next(r, NULL), JSONREAD_ARRAY_BEGIN);
    assert_int_equal(jsonread_skip(r, NULL), 0);
    assert_int_equal(jsonread_rows(r, rows, 2, 4), 0); /* not as wide */
    assert_int_equal(jsonread_rows(r, rows, 1, 4), 1);
    assert_same_bits(rows[0], 9.0);
    assert_int_equal(jsonread_next(r, NULL), JSONREAD_ARRAY_END);
    assert_int_equal(jsonread_next(r, NULL), JSONREAD_END);
    jsonread_free(r);
}

/* Rows of numbers are what the tokens are, in good texts and in damaged ones. */
static void test_numbers_by_rows(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[]",
        "[1]",
        "[1,2,3]",
        "[1, 2,  3 , 4\n,5]",
        "[ 1,2]",
        "[[1,2,3],[4,5,6],[],[7]]",
        "{\"a\": 1, \"rows\": [[0.5, -1e3], [1, null], [\"x\", 2], [true, {\"b\": [1, 2]}]]}",
        "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]",
        "[1.2345678901234567890123, 1e300, -0, 5e-324]",
        "[[5.1,3.5,1.4,0.2],[4.9,-3,1.40,0.25],[1234567.5,12345678.5,0.123456789,-0.0]]     ",
        "[12, 7.25, 0.125, 1e3, -4, 3.141593, -2.718282, 100, 1000000, 0.00001]             ",
        "5",
        "[1,2",
        "[1,",
        "[1,]",
        "[1 2]",
        "[01]",
        "[1,01]",
        "[1.]",
        "[1,2}",
        "[1,1e999]",
        "[1e999]",
        "[-]",
        "[1,2]3",
        "[1e5e5]",
        "[1,+2]",
        "[1,.5]",
        "[NaN]",
    };
    struct rng r = rng_new(1, RNG_TEST);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check_rows(texts[i], strlen(texts[i]));
        for (int k = 0; k < 300; k++) {
            size_t len = 0;
            char *damaged = mutate(&r, texts[i], strlen(texts[i]), &len);
            check_rows(damaged, len);
            mem_free(damaged);
        }
    }
}

TEST_MAIN(cmocka_unit_test(test_tokens_in_order), cmocka_unit_test(test_accepted),
          cmocka_unit_test(test_refused_structure), cmocka_unit_test(test_refused_words),
          cmocka_unit_test(test_refused_numbers), cmocka_unit_test(test_refused_strings),
          cmocka_unit_test(test_nul_bytes), cmocka_unit_test(test_every_cut),
          cmocka_unit_test(test_depth_limit), cmocka_unit_test(test_positions),
          cmocka_unit_test(test_skip), cmocka_unit_test(test_no_memory),
          cmocka_unit_test(test_numbers_take_no_memory), cmocka_unit_test(test_numbers_by_rows),
          cmocka_unit_test(test_whole_rows))
