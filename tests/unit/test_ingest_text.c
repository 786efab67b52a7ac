#include "ingest/ingest_text.h"

#include <string.h>

#include "base/rng.h"
#include "support/assert.h"

static void check_show(const char *text, size_t len, const char *expected)
{
    char show[INGEST_SHOW_SIZE];
    assert_string_equal(ingest_show(text, len, show), expected);
}

static void test_show(void **state)
{
    (void)state;
    check_show("", 0, "\"\"");
    check_show("abc", 3, "\"abc\"");
    check_show("a\"b\\c", 5, "\"a\\x22b\\x5cc\"");
    check_show("a\tb\0c\x7f", 6, "\"a\\x09b\\x00c\\x7f\"");
    check_show("\xc3\xa9\xff\xc2\x85", 5, "\"\xc3\xa9\\xff\\xc2\\x85\"");
}

/* However long and wild the text is, the result is short, quoted and free of control characters. */
static void test_show_bounds(void **state)
{
    (void)state;
    struct rng r = rng_new(1, RNG_TEST);
    for (int i = 0; i < 20000; i++) {
        char text[200];
        const size_t len = (size_t)rng_below(&r, sizeof(text));
        for (size_t k = 0; k < len; k++) {
            text[k] = (char)(rng_below(&r, 2) == 0 ? rng_below(&r, 256) : 'a');
        }
        char show[INGEST_SHOW_SIZE];
        memset(show, 'Z', sizeof(show));
        ingest_show(text, len, show);
        const size_t n = strlen(show);
        assert_true(n >= 2 && n < sizeof(show));
        assert_true(show[0] == '"' && show[n - 1] == '"');
        for (size_t k = 0; k < n; k++) {
            assert_true((unsigned char)show[k] >= 0x20);
        }
    }
    char show[INGEST_SHOW_SIZE];
    char longer[100];
    memset(longer, 'a', sizeof(longer));
    assert_contains(ingest_show(longer, sizeof(longer), show), "aaa\xe2\x80\xa6\"");
}

static void test_names(void **state)
{
    (void)state;
    char longest[INGEST_NAME_MAX + 1];
    memset(longest, 'n', sizeof(longest));
    assert_null(ingest_name_fault("a", 1));
    assert_null(ingest_name_fault("\xc3\xa9", 2));
    assert_null(ingest_name_fault(longest, INGEST_NAME_MAX));
    assert_contains(ingest_name_fault(longest, sizeof(longest)), "longer than 256");
    assert_contains(ingest_name_fault("", 0), "empty");
    assert_contains(ingest_name_fault("a\0b", 3), "NUL");
    assert_contains(ingest_name_fault("a\xff", 2), "UTF-8");
}

static void test_trim(void **state)
{
    (void)state;
    static const char text[] = " \t a b \r\n";
    size_t len = sizeof(text) - 1;
    const char *p = ingest_trim(text, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(p, "a b", 3);
    len = 2;
    ingest_trim(text, &len);
    assert_int_equal(len, 0);
}

static void check_delimiter(const char *line, bool begins, char expected, bool ends)
{
    bool quoted = begins;
    assert_int_equal(ingest_delimiter(line, strlen(line), true, &quoted), expected);
    assert_true(expected == ',' || quoted == ends);
}

static void test_delimiter(void **state)
{
    (void)state;
    check_delimiter("a;b\tc,d", false, ',', false);
    check_delimiter("a\tb;c\n1,2", false, ';', false);
    check_delimiter("a\tb\rc;d", false, '\t', false);
    check_delimiter("\"a,\"\"\n;b\";c\n", false, ';', false);
    check_delimiter("\"a,\n", false, 0, true);
    check_delimiter("b,\";c\n", true, ';', false);
    check_delimiter("a;\"b\nc\";d,e\n", false, ';', true);
    check_delimiter("a b\n", false, 0, false);
    check_delimiter("", true, 0, true);
}

TEST_MAIN(cmocka_unit_test(test_show), cmocka_unit_test(test_show_bounds),
          cmocka_unit_test(test_names), cmocka_unit_test(test_trim),
          cmocka_unit_test(test_delimiter))
