#include "ingest/ingest_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/assert.h"

static void check(const char *text, enum ingest_number kind, double expected)
{
    double v = -77;
    if (ingest_number_read(text, strlen(text), &v) != kind) {
        print_error("\"%s\" is not of kind %d\n", text, kind);
        fail();
    }
    assert_same_bits(v, kind == INGEST_NUMBER_OK ? expected : -77);
}

static void test_numbers(void **state)
{
    (void)state;
    check("0", INGEST_NUMBER_OK, 0.0);
    check("-0", INGEST_NUMBER_OK, -0.0);
    check("+1", INGEST_NUMBER_OK, 1);
    check("-1.25", INGEST_NUMBER_OK, -1.25);
    check("007.50", INGEST_NUMBER_OK, 7.5);
    check(".5", INGEST_NUMBER_OK, 0.5);
    check("-.5e1", INGEST_NUMBER_OK, -5);
    check("5.", INGEST_NUMBER_OK, 5);
    check("+5.e3", INGEST_NUMBER_OK, 5000);
    check("1E-3", INGEST_NUMBER_OK, 0.001);
    check("1e+3", INGEST_NUMBER_OK, 1000);
    check("123456789012345678901234567890", INGEST_NUMBER_OK, 123456789012345678901234567890.0);
    check("0.1", INGEST_NUMBER_OK, 0.1);
    check("2.2250738585072014e-308", INGEST_NUMBER_OK, 2.2250738585072014e-308);
    check("1.7976931348623157e308", INGEST_NUMBER_OK, 1.7976931348623157e308);
    check("1e-999", INGEST_NUMBER_OK, 0.0);
    check("0e999999999999999999999", INGEST_NUMBER_OK, 0.0);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const text[] = {
        "",    "-",  "+",  ".",  "e5",  "1e",   "1e+", "1 2", "1,5",  "1_0",  "--1", "+-1", "1.2.3",
        "abc", "1a", " 1", "1 ", "0b1", "1e5.", ".e5", "-.",  "nano", "info", "0x",  "true"};
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        check(text[i], INGEST_NUMBER_TEXT, 0);
    }
    static const char *const not_finite[] = {"nan",
                                             "NaN",
                                             "-nan",
                                             "inf",
                                             "+Inf",
                                             "-INF",
                                             "Infinity",
                                             "1e999",
                                             "-1e309",
                                             ".1e400",
                                             "1.e9999999999999999999999",
                                             "1.8e308"};
    for (size_t i = 0; i < sizeof(not_finite) / sizeof(not_finite[0]); i++) {
        check(not_finite[i], INGEST_NUMBER_NOT_FINITE, 0);
    }
    check("0x10", INGEST_NUMBER_HEX, 0);
    check("-0X1p3", INGEST_NUMBER_HEX, 0);
}

/* One character beyond what is rewritten is refused, not truncated. */
static void test_long(void **state)
{
    (void)state;
    char text[1100];
    double v = 0;
    memset(text, '0', sizeof(text));
    text[sizeof(text) - 1] = '7';
    assert_int_equal(ingest_number_read(text, sizeof(text), &v), INGEST_NUMBER_OK);
    assert_same_bits(v, 7);
    memset(text, '1', sizeof(text));
    text[0] = '.';
    assert_int_equal(ingest_number_read(text, 1000, &v), INGEST_NUMBER_OK);
    assert_close(v, 1.0 / 9, 1e-15);
    assert_int_equal(ingest_number_read(text, 1001, &v), INGEST_NUMBER_TEXT);
}

/* Seventeen digits give every double back, and the C library agrees on other lengths. */
static void test_against_strtod(void **state)
{
    (void)state;
    struct rng r = rng_new(5, RNG_TEST);
    for (int i = 0; i < 20000; i++) {
        const double x = rng_normal(&r) * pow(10, (double)(rng_below(&r, 60) - 30));
        char text[64];
        snprintf(text, sizeof(text), "%.*g", (int)(1 + rng_below(&r, 20)), x);
        double v = 0;
        assert_int_equal(ingest_number_read(text, strlen(text), &v), INGEST_NUMBER_OK);
        assert_same_bits(v, strtod(text, NULL));
    }
}

TEST_MAIN(cmocka_unit_test(test_numbers), cmocka_unit_test(test_refused),
          cmocka_unit_test(test_long), cmocka_unit_test(test_against_strtod))
