/*
 * Valid texts, damaged at random: the reader never crashes (the sanitizers watch), agrees with the
 * tree builder, and what it accepts prints to a text that reads back as the same tree.
 */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonread.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"

enum { ITERATIONS = 20000 };

static const char *const seeds[] = {
    "{\"dataset\":\"ds_01\",\"kernel\":{\"name\":\"laplacian\",\"bandwidth\":\"median\"}}",
    "[0,-0,1,-1,0.5,1e10,1E-10,1.25e+300,123456789012345678901234567890,2.2250738585072014e-308]",
    "{\"a\":[],\"b\":{},\"c\":[[[]]],\"d\":{\"e\":{\"f\":{}}},\"\":null}",
    "[\"\",\"plain\",\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"]",
    "[\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\", true , false\n,null\t]\r\n",
    "  {\"x\" : [1.0, 2.0, 3.0],\n   \"y\" : [true, false],\n   \"z\" : \"end\"}  ",
    "\"only a string\"",
    "-12.5e-3",
};
enum { SEEDS = sizeof(seeds) / sizeof(seeds[0]) };

static size_t pick(struct rng *r, size_t n)
{
    return (size_t)rng_below(r, (int64_t)n);
}

/* Replaces text[at..at+drop) by a piece; a piece of text itself must be copied first. */
static void splice(struct buf *text, size_t at, size_t drop, const char *piece, size_t len)
{
    cleanup_buf struct buf result = BUF_INIT;
    buf_add(&result, text->data, at);
    buf_add(&result, piece, len);
    buf_add(&result, text->data + at + drop, text->len - at - drop);
    const struct buf old = *text;
    *text = result;
    result = old;
}

/* One damage: a changed, lost or doubled piece, a piece of another text, or a telling token. */
static void mutate(struct buf *text, struct rng *r)
{
    static const char *const tokens[] = {
        "{",    "}",    "[",      "]",        ",",       ":",       "\"",          "\\", "-",
        "0",    ".",    "e",      "1e999",    "\\u0000", "\\ud800", " ",           "\n", "null",
        "\xFF", "\x01", "\"a\":", "[[[[[[[[", "/",       "NaN",     "\xED\xA0\x80"};
    const size_t at = pick(r, text->len + 1);
    const size_t left = text->len - at;
    const size_t span = left == 0 ? 0 : 1 + pick(r, left < 8 ? left : 8);
    const char *other = seeds[pick(r, SEEDS)];
    const size_t from = pick(r, strlen(other));
    const char *token = tokens[pick(r, sizeof(tokens) / sizeof(tokens[0]))];
    const char byte = (char)pick(r, 256);
    switch (pick(r, 6)) {
    case 0:
        splice(text, at, left > 0, &byte, 1);
        break;
    case 1:
        splice(text, at, span, "", 0);
        break;
    case 2: {
        cleanup_mem char *copy = mem_dup(text->data + at, span);
        splice(text, at, 0, copy, span);
        break;
    }
    case 3:
        splice(text, at, span, other + from, pick(r, strlen(other) - from + 1));
        break;
    case 4:
        splice(text, at, 0, token, strlen(token));
        break;
    default:
        splice(text, at, span, token, strlen(token));
        break;
    }
}

static bool same(const struct json *a, const struct json *b)
{
    if (json_type(a) != json_type(b)) {
        return false;
    }
    const double x = json_number(a);
    const double y = json_number(b);
    if (memcmp(&x, &y, sizeof(x)) != 0 || json_bool(a) != json_bool(b)) {
        return false;
    }
    if (json_type(a) == JSON_STRING && strcmp(json_string(a), json_string(b)) != 0) {
        return false;
    }
    const struct json *p = json_first(a);
    const struct json *q = json_first(b);
    for (; p != NULL && q != NULL; p = json_next(p), q = json_next(q)) {
        const bool keys = json_type(a) == JSON_OBJECT;
        if ((keys && strcmp(json_key(p), json_key(q)) != 0) || !same(p, q)) {
            return false;
        }
    }
    return p == NULL && q == NULL;
}

static int read_tokens(const char *text, size_t len)
{
    struct jsonread *r = NULL;
    assert_int_equal(jsonread_new(text, len, &r, NULL), 0);
    int token;
    do {
        token = jsonread_next(r, NULL);
    } while (token > 0);
    jsonread_free(r);
    return token;
}

static void check_accepted(const struct json *j)
{
    cleanup_mem char *text = json_print(j);
    struct json *again = NULL;
    assert_int_equal(json_parse(text, strlen(text), &again, NULL), 0);
    cleanup_mem char *twice = json_print(again);
    assert_true(same(j, again));
    assert_string_equal(text, twice);
    json_free(again);
}

/* Returns whether the text was accepted. The copy has no byte to spare, for the sanitizers. */
static bool check_text(const struct buf *text)
{
    cleanup_mem char *exact = mem_dup(text->data, text->len);
    struct json *j = NULL;
    struct err err = {.detail = ""};
    const int rc = json_parse(exact, text->len, &j, &err);
    const int token = read_tokens(exact, text->len);
    if (rc == 0) {
        assert_int_equal(token, JSONREAD_END);
        check_accepted(j);
        json_free(j);
        return true;
    }
    assert_int_equal(rc, -ERR_PARSE);
    assert_contains(err.detail, "Line ");
    if (token != -ERR_PARSE) { /* the stream does not look for duplicates */
        assert_contains(err.detail, "twice");
    }
    return false;
}

static void test_seeds_are_valid(void **state)
{
    (void)state;
    for (size_t i = 0; i < SEEDS; i++) {
        cleanup_buf struct buf text = BUF_INIT;
        buf_str(&text, seeds[i]);
        assert_true(check_text(&text));
    }
}

static void test_mutations(void **state)
{
    (void)state;
    struct rng r = rng_new(20260131, RNG_TEST);
    int accepted = 0;
    for (int i = 0; i < ITERATIONS; i++) {
        cleanup_buf struct buf text = BUF_INIT;
        buf_str(&text, seeds[pick(&r, SEEDS)]);
        for (size_t damages = 1 + pick(&r, 3); damages > 0; damages--) {
            mutate(&text, &r);
        }
        accepted += check_text(&text);
    }
    /* Both outcomes must be common, or the test would look at one side only. */
    assert_in_range(accepted, ITERATIONS / 50, ITERATIONS / 2);
}

TEST_MAIN(cmocka_unit_test(test_seeds_are_valid), cmocka_unit_test(test_mutations))
