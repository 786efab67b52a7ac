#include "base/decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/assert.h"

/* How many random numbers a test takes; KRRD_TEST_DRAWS in the environment asks for more. */
static int64_t draws(int64_t usual)
{
    const char *text = getenv("KRRD_TEST_DRAWS");
    return text == NULL ? usual : strtoll(text, NULL, 10);
}

static double from_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static void print(double v, char ret[DECIMAL_PRINT_MAX + 1])
{
    memset(ret, '#', DECIMAL_PRINT_MAX + 1);
    const size_t len = decimal_print(v, ret);
    assert_in_range(len, 1, DECIMAL_PRINT_MAX);
    assert_int_equal(ret[DECIMAL_PRINT_MAX], '#');
    ret[len] = '\0';
}

static void check_text(double v, const char *expected)
{
    char text[DECIMAL_PRINT_MAX + 1];
    print(v, text);
    assert_string_equal(text, expected);
}

static void test_forms(void **state)
{
    (void)state;
    check_text(0.0, "0");
    check_text(-0.0, "-0");
    check_text(1.0, "1");
    check_text(-1.0, "-1");
    check_text(10.0, "10");
    check_text(0.1, "0.1");
    check_text(-0.001, "-0.001");
    check_text(0.0001, "0.0001");
    check_text(0.00012345, "0.00012345");
    check_text(0.00001, "1e-05");
    check_text(1.5e-7, "1.5e-07");
    check_text(123456.75, "123456.75");
    check_text(1e15, "1000000000000000");
    check_text(9007199254740993.0, "9007199254740992");
    check_text(9999999999999998.0, "9999999999999998");
    check_text(1e16, "1e+16");
    check_text(1.2345678901234567e16, "1.2345678901234568e+16");
    check_text(1e22, "1e+22");
    check_text(1e23, "1e+23");
    check_text(1e100, "1e+100");
    check_text(-DBL_MIN, "-2.2250738585072014e-308");
    check_text(DBL_MAX, "1.7976931348623157e+308");
    check_text(from_bits(1), "5e-324");
    check_text(from_bits(2), "1e-323");
    check_text(from_bits(3), "1.5e-323");
    check_text(0.1 + 0.2, "0.30000000000000004");
    check_text(2.0 / 3.0, "0.6666666666666666");
    check_text(5e-324 * 9007199254740992.0, "4.450147717014403e-308");
}

/* The digits of a number's text, without point, zeros in front and exponent. */
static int count_digits(const char *text)
{
    int count = 0, zeros = 0;
    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text >= '0' && *text <= '9' && (count > 0 || *text != '0')) {
            count++;
            zeros = *text == '0' ? zeros + 1 : 0;
        }
    }
    return count - zeros;
}

/* Read back by the C library to the same bits, with no digit too many, and the closest of as many
 * digits. */
static void check_shortest(double v)
{
    char text[DECIMAL_PRINT_MAX + 1], other[64];
    print(v, text);
    assert_same_bits(strtod(text, NULL), v);
    double back = 0.0;
    assert_int_equal(decimal_scan(text, strlen(text), &back), strlen(text));
    assert_same_bits(back, v);
    const int digits = count_digits(text);
    if (digits > 1) {
        snprintf(other, sizeof(other), "%.*e", digits - 2, v);
        if (strtod(other, NULL) == v) {
            print_error("%s has more digits than %s\n", text, other);
            fail();
        }
    }
    snprintf(other, sizeof(other), "%.*e", digits > 0 ? digits - 1 : 0, v);
    if (strtod(other, NULL) == v) {
        char ours[64];
        snprintf(ours, sizeof(ours), "%.*e", digits > 0 ? digits - 1 : 0, strtod(text, NULL));
        assert_string_equal(ours, other);
    }
}

static void test_random_bits(void **state)
{
    (void)state;
    struct rng r = rng_new(1, RNG_TEST);
    for (int64_t i = draws(100000); i > 0; i--) {
        const double v = from_bits(rng_u64(&r));
        if (isfinite(v)) {
            check_shortest(v);
        }
    }
}

/* Numbers as predictions are: around 1, of few and of many digits. */
static void test_common_numbers(void **state)
{
    (void)state;
    struct rng r = rng_new(2, RNG_TEST);
    for (int64_t i = draws(50000); i > 0; i--) {
        const double unit = (double)(int64_t)rng_u64(&r) * 0x1p-63;
        check_shortest(unit);
        check_shortest(unit * 1000.0);
        char text[32];
        snprintf(text, sizeof(text), "%.*f", (int)rng_below(&r, 7), unit * 1e4);
        check_shortest(strtod(text, NULL));
        check_shortest((double)((int64_t)rng_u64(&r) >> rng_below(&r, 64)));
    }
}

/* Every power of two, where the interval is lopsided, every power of ten, and their neighbours. */
static void test_powers(void **state)
{
    (void)state;
    for (int e = -1074; e <= 1023; e++) {
        const double v = ldexp(1.0, e);
        check_shortest(v);
        check_shortest(nextafter(v, 0.0));
        check_shortest(nextafter(v, INFINITY));
    }
    for (int e = -323; e <= 308; e++) {
        char text[16];
        snprintf(text, sizeof(text), "1e%d", e);
        const double v = strtod(text, NULL);
        check_shortest(v);
        check_shortest(nextafter(v, 0.0));
        check_shortest(-nextafter(v, INFINITY));
    }
}

static void test_denormal_numbers(void **state)
{
    (void)state;
    struct rng r = rng_new(3, RNG_TEST);
    for (uint64_t bits = 1; bits < 2000; bits++) {
        check_shortest(from_bits(bits));
    }
    for (int64_t i = draws(20000); i > 0; i--) {
        check_shortest(from_bits(rng_u64(&r) >> (12 + rng_below(&r, 50))));
    }
}

/* n / 10^places, as a text gives it. */
static double decimal(int64_t n, int places)
{
    char text[64];
    snprintf(text, sizeof(text), "%llde-%d", (long long)n, places);
    return strtod(text, NULL);
}

static void check_around(double v)
{
    check_shortest(v);
    check_shortest(-nextafter(v, 0.0));
    check_shortest(nextafter(v, INFINITY));
}

/* All numbers of up to four digits and nine decimals, and those at the borders of what is printed
 * without a search for the shortest digits. */
static void test_few_digits(void **state)
{
    (void)state;
    struct rng r = rng_new(4, RNG_TEST);
    for (int places = 0; places <= 9; places++) {
        for (int64_t n = 0; n < 10000; n++) {
            check_shortest(decimal(n, places));
        }
        for (int64_t ten = 10; ten <= INT64_C(10000000000000000); ten *= 10) {
            for (int64_t n = ten - 3; n <= ten + 3; n++) {
                check_around(decimal(n, places));
            }
            for (int64_t i = draws(10000) / 200; i > 0; i--) {
                check_around(decimal(rng_below(&r, ten), places));
            }
        }
    }
    check_text(9999999.99999999, "9999999.99999999");
    check_text(-10000000.00000001, "-10000000.00000001");
    check_text(0.00010001, "0.00010001");
    check_text(0.00009999, "9.999e-05");
    check_text(1e-8, "1e-08");
    check_text(-1234567.00000001, "-1234567.00000001");
}

/* Single-precision numbers of every exponent, as a model of that precision has them. */
static void test_float32(void **state)
{
    (void)state;
    const uint32_t step = (uint32_t)(UINT32_MAX / (uint64_t)draws(60000)) | 1;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        const uint32_t b = (uint32_t)bits;
        float v;
        memcpy(&v, &b, sizeof(v));
        if (isfinite(v)) {
            check_shortest(v);
        }
    }
}

static void test_list(void **state)
{
    (void)state;
    const double v[] = {5.1, -0.0, NAN, 0.1 + 0.2, -INFINITY, 1e300, -DBL_MIN};
    const int64_t count = sizeof(v) / sizeof(v[0]);
    char text[sizeof(v) / sizeof(v[0]) * (DECIMAL_PRINT_MAX + 1)];
    const size_t len = decimal_print_list(v, count, text);
    assert_in_range(len, 1, sizeof(text) - 1);
    text[len] = '\0';
    assert_string_equal(text, "5.1,-0,null,0.30000000000000004,null,1e+300,"
                              "-2.2250738585072014e-308");
    assert_int_equal(decimal_print_list(v, 0, text), 0);
}

TEST_MAIN(cmocka_unit_test(test_few_digits), cmocka_unit_test(test_float32),
          cmocka_unit_test(test_list), cmocka_unit_test(test_forms),
          cmocka_unit_test(test_random_bits), cmocka_unit_test(test_common_numbers),
          cmocka_unit_test(test_powers), cmocka_unit_test(test_denormal_numbers))
