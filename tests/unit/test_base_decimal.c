#include "base/decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"

/* How many random numbers a test takes; KRRD_TEST_DRAWS in the environment asks for more. */
static int64_t draws(int64_t usual)
{
    const char *text = getenv("KRRD_TEST_DRAWS");
    return text == NULL ? usual : strtoll(text, NULL, 10);
}

/* The whole text is a number, with the bits that strtod finds. */
static void check_like_strtod(const char *text)
{
    double value = NAN;
    const size_t len = decimal_scan(text, strlen(text), &value);
    const double expected = strtod(text, NULL);
    if (len != strlen(text) || memcmp(&value, &expected, sizeof(value)) != 0) {
        print_error("%.200s -> %.17g of %zu bytes, expected %.17g\n", text, value, len, expected);
        fail();
    }
}

static void test_grammar(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
        {"0", 1},     {"-0", 2},     {"00", 1},   {"01", 1},       {"10", 2},   {"1.5", 3},
        {"1.", 0},    {".5", 0},     {"-.5", 0},  {"+1", 0},       {"-", 0},    {"", 0},
        {"--1", 0},   {"1e5", 3},    {"1E5", 3},  {"1e+5", 4},     {"1e-5", 4}, {"1e", 0},
        {"1e+", 0},   {"1e-", 0},    {"1.e5", 0}, {"0x10", 1},     {"1_0", 1},  {"1,5", 1},
        {"1.5.5", 3}, {"1e5.5", 3},  {"nan", 0},  {"Infinity", 0}, {" 1", 0},   {"1 ", 1},
        {"0.0", 3},   {"-0.0e0", 6}, {"1e05", 4}, {"1e00", 4},     {"0e", 0},   {"0.", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double value = 0.0;
        const size_t len = decimal_scan(cases[i].text, strlen(cases[i].text), &value);
        if (len != cases[i].len) {
            print_error("\"%s\": %zu bytes, expected %zu\n", cases[i].text, len, cases[i].len);
            fail();
        }
    }
}

/* Nothing behind the given length is looked at. */
static void test_length_is_a_limit(void **state)
{
    (void)state;
    double value = 0.0;
    assert_int_equal(decimal_scan("12345", 3, &value), 3);
    assert_same_bits(value, 123.0);
    assert_int_equal(decimal_scan("1.5", 2, &value), 0);
    assert_int_equal(decimal_scan("1e5", 2, &value), 0);
    assert_int_equal(decimal_scan("-1", 1, &value), 0);
    assert_int_equal(decimal_scan("1", 0, &value), 0);
    assert_int_equal(decimal_scan(NULL, 0, &value), 0);
}

static const char *const edge_texts[] = {
    "0",
    "-0",
    "0.0",
    "-0.0e99",
    "0e999999999999999999999",
    "1",
    "-1",
    "0.1",
    "0.3",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9007199254740994",
    "9007199254740995",
    "-9007199254740993",
    "9007199254740992.5",
    "9007199254740993.5",
    "18446744073709551615",
    "18446744073709551616",
    "9999999999999999999",
    "99999999999999999999",
    "1e19",
    "1e20",
    "1e-19",
    "1e-20",
    "1e22",
    "1e23",
    "1e-22",
    "8.5e22",
    "123456789012345e22",
    "9999999999999999999e19",
    "9999999999999999999e-19",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "2.2250738585072014e-308",
    "2.2250738585072011e-308",
    "2.2250738585072012e-308",
    "4.9406564584124654e-324",
    "2.4703282292062327e-324",
    "2.4703282292062328e-324",
    "1e-323",
    "1e-330",
    "1e-331",
    "1e-332",
    "1e-99999",
    "0.000000000000000000000000000001e30",
    "1000000000000000000000e-21",
    "1e308",
    "10e307",
    "0.1e309",
    "3.4028236692093846e38",
    "6.631236846766476e-316",
};

static void test_edges(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(edge_texts) / sizeof(edge_texts[0]); i++) {
        check_like_strtod(edge_texts[i]);
    }
}

/* The longest texts that a rounding can hang on: exact midpoints between tiny doubles. Half of
 * (2k + 1) * 2^-1074, by school division of its 1074 decimals. */
static void test_longest_midpoints(void **state)
{
    (void)state;
    struct rng r = rng_new(5, RNG_TEST);
    for (int i = 0; i < 40; i++) {
        const double odd = (double)(rng_u64(&r) >> 11 | 1);
        char text[1100];
        snprintf(text, sizeof(text), "%.1074f", ldexp(odd, -1074));
        int rest = 0;
        for (char *c = text + 2; *c != '\0'; c++) {
            const int ten = 10 * rest + (*c - '0');
            *c = (char)('0' + ten / 2);
            rest = ten % 2;
        }
        const size_t len = strlen(text);
        memcpy(text + len, "5", 2); /* the number ended in 5, so its half ends in 25 or 75 */
        check_like_strtod(text);
        memcpy(text + len, "51", 3);
        check_like_strtod(text);
        memcpy(text + len, "49", 3);
        check_like_strtod(text);
    }
}

static void test_beyond_the_range(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1e309",        "1e310", "1e999", "1.7976931348623159e308", "1e99999999999999999999999999",
        "123456789e301"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        double value = 0.0;
        assert_int_equal(decimal_scan(texts[i], strlen(texts[i]), &value), strlen(texts[i]));
        assert_true(isinf(value) && value > 0);
        char negative[64];
        snprintf(negative, sizeof(negative), "-%s", texts[i]);
        decimal_scan(negative, strlen(negative), &value);
        assert_true(isinf(value) && value < 0);
    }
    double value = 1.0;
    decimal_scan("-1e-99999999999999999999999999", 30, &value);
    assert_same_bits(value, -0.0);
}

/* A digit far behind a tie between two doubles still decides. */
static void test_far_digit_breaks_a_tie(void **state)
{
    (void)state;
    char text[2100];
    for (int zeros = 0; zeros < 2000; zeros = 3 * zeros / 2 + 1) {
        memset(text, '0', sizeof(text));
        memcpy(text, "9007199254740993.", 17);
        text[17 + zeros] = '\0';
        if (zeros > 0) {
            check_like_strtod(text);
        }
        text[17 + zeros] = '1';
        text[18 + zeros] = '\0';
        check_like_strtod(text);
        double value = 0.0;
        decimal_scan(text, strlen(text), &value);
        assert_same_bits(value, 9007199254740994.0);
    }
}

static void test_digits_around_the_kept_ones(void **state)
{
    (void)state;
    struct rng r = rng_new(1, RNG_TEST);
    char text[1200];
    for (int digits = 1; digits < 1000; digits += digits < 40 || digits > 760 ? 1 : 37) {
        for (int point = 0; point < digits; point += 1 + digits / 3) {
            int at = 0;
            for (int i = 0; i < digits; i++) {
                if (i == point) {
                    text[at++] = i == 0 ? '0' : '.';
                    text[at] = '.';
                    at += i == 0;
                }
                text[at++] = (char)('0' + (i == 0 ? 1 + rng_below(&r, 9) : rng_below(&r, 10)));
            }
            snprintf(text + at, sizeof(text) - (size_t)at, "e%d",
                     (int)rng_below(&r, 500) - 250 - digits / 2);
            check_like_strtod(text);
        }
    }
}

/* "0.000...1e1000001" and its mirror image: a million digits, and the value is 1. */
static void test_a_million_digits(void **state)
{
    (void)state;
    const size_t zeros = 1000000;
    cleanup_mem char *text = mem_alloc(zeros + 64);
    memcpy(text, "0.", 2);
    memset(text + 2, '0', zeros);
    snprintf(text + 2 + zeros, 62, "1e1000001");
    double value = 0.0;
    assert_int_equal(decimal_scan(text, strlen(text), &value), strlen(text));
    assert_same_bits(value, 1.0);

    text[0] = '1';
    memset(text + 1, '0', zeros);
    snprintf(text + 1 + zeros, 62, "e-1000000");
    assert_int_equal(decimal_scan(text, strlen(text), &value), strlen(text));
    assert_same_bits(value, 1.0);

    memset(text, '7', zeros);
    text[zeros] = '\0';
    assert_int_equal(decimal_scan(text, zeros, &value), zeros);
    assert_true(isinf(value));
    text[1] = '.';
    assert_int_equal(decimal_scan(text, zeros, &value), zeros);
    assert_same_bits(value, 7.0 + 7.0 / 9.0);

    memcpy(text, "1e", 2);
    memset(text + 2, '0', zeros);
    text[2 + zeros] = '2';
    assert_int_equal(decimal_scan(text, zeros + 3, &value), zeros + 3);
    assert_same_bits(value, 100.0);
}

/* Any double, printed with 17 digits, comes back. */
static void test_random_doubles(void **state)
{
    (void)state;
    struct rng r = rng_new(2, RNG_TEST);
    for (int64_t i = draws(30000); i > 0; i--) {
        const uint64_t bits = rng_u64(&r);
        double v;
        memcpy(&v, &bits, sizeof(v));
        if (isfinite(v)) {
            char text[64];
            snprintf(text, sizeof(text), "%.*g", 15 + (int)rng_below(&r, 5), v);
            check_like_strtod(text);
        }
    }
}

/* Texts as data files hold them: up to 22 digits, small exponents. They take the fast paths. */
static void test_random_texts(void **state)
{
    (void)state;
    struct rng r = rng_new(3, RNG_TEST);
    for (int64_t i = draws(60000); i > 0; i--) {
        char text[64];
        const int digits = 1 + (int)rng_below(&r, 22);
        size_t at = 0;
        for (int d = 0; d < digits; d++) {
            text[at++] = (char)('0' + (d == 0 ? 1 + rng_below(&r, 9) : rng_below(&r, 10)));
            if (d == 0 && digits > 1) {
                text[at++] = '.';
            }
        }
        snprintf(text + at, sizeof(text) - at, "e%d", (int)rng_below(&r, 61) - 30);
        check_like_strtod(text);
    }
}

/* Midpoints between neighbouring doubles, which must go to the even one, and one off them. */
static void test_midpoints(void **state)
{
    (void)state;
    struct rng r = rng_new(4, RNG_TEST);
    for (int64_t i = draws(20000); i > 0; i--) {
        const uint64_t odd = ((UINT64_C(1) << 53 | rng_u64(&r) >> 11) << 1) | 1; /* 55 bits */
        const uint64_t n = odd - 1 + (uint64_t)rng_below(&r, 3);
        char text[64];
        snprintf(text, sizeof(text), "%llu%s", (unsigned long long)n,
                 rng_below(&r, 2) == 0 ? ".0" : "e0");
        check_like_strtod(text);
    }
}

/* How long the number is that the text starts with, by its grammar. */
static size_t number_length(const char *text)
{
    const char *const digits = "0123456789";
    const char *at = text + (*text == '-');
    const size_t whole = *at == '0' ? 1 : strspn(at, digits);
    at += whole;
    if (whole > 0 && *at == '.') {
        const size_t places = strspn(at + 1, digits);
        at = places > 0 ? at + 1 + places : NULL;
    }
    if (whole > 0 && at != NULL && (*at == 'e' || *at == 'E')) {
        at += 1 + (at[1] == '-' || at[1] == '+');
        const size_t exponent = strspn(at, digits);
        at = exponent > 0 ? at + exponent : NULL;
    }
    return whole > 0 && at != NULL ? (size_t)(at - text) : 0;
}

/* Whether much or nothing follows the text, the number at its start is the same. */
static void check_start(const char *text)
{
    char number[64] = "";
    const size_t len = number_length(text);
    memcpy(number, text, len);
    const double expected = strtod(number, NULL);
    const size_t least = len > 0 ? len : strlen(text);
    for (size_t most = strlen(text); most >= least; most--) {
        double value = expected;
        const size_t used = decimal_scan(text, most, &value);
        if (used != len || (len > 0 && memcmp(&value, &expected, sizeof(value)) != 0)) {
            print_error("%zu bytes of \"%s\" -> %.17g of %zu bytes, expected %.17g of %zu\n", most,
                        text, value, used, expected, len);
            fail();
        }
    }
}

/* Every text of up to five characters, before what may follow a number and more. */
static void test_every_short_text(void **state)
{
    (void)state;
    static const char alphabet[] = "-.e019";
    static const char *const behind[] = {",5.1,-3.25,100,0.125]", "]},{\"a\":1.5}, 12345",
                                         " , 1,2,3,4,5,6,7,8,9,10", "000001234567,123456789",
                                         "1.234567890123456,2.5"};
    const int letters = (int)sizeof(alphabet) - 1;
    for (int length = 1, count = letters; length <= 5; length++, count *= letters) {
        for (int i = 0; i < count; i++) {
            char text[64];
            for (int k = 0, rest = i; k < length; k++, rest /= letters) {
                text[k] = alphabet[rest % letters];
            }
            for (size_t b = 0; b < sizeof(behind) / sizeof(behind[0]); b++) {
                snprintf(text + length, sizeof(text) - (size_t)length, "%s", behind[b]);
                check_start(text);
            }
        }
    }
}

/* As many digits before the point and behind it as fit into 20, with something behind them. */
static void test_every_length(void **state)
{
    (void)state;
    struct rng r = rng_new(6, RNG_TEST);
    for (int64_t i = draws(30000) / 300; i > 0; i--) {
        for (int whole = 1; whole <= 18; whole++) {
            for (int places = 0; places <= 20 - whole; places++) {
                char text[64];
                int at = 0;
                text[at] = '-';
                at += rng_below(&r, 2) == 0;
                for (int k = 0; k < whole + places; k++) {
                    if (k == whole) {
                        text[at++] = '.';
                    }
                    const bool nine = i % 7 == 0, first = k == 0 && whole > 1;
                    text[at++] = (char)(nine ? '9' : '0' + first + rng_below(&r, 10 - first));
                }
                snprintf(text + at, sizeof(text) - (size_t)at, "%s",
                         rng_below(&r, 2) == 0 ? ",1.5,2.5,3.5,4.5" : "]");
                check_start(text);
            }
        }
    }
}

static void test_lists(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t count;
        size_t len;
    } cases[] = {
        {"1,2,3]", 3, 5},
        {"1.5, -2.5,  1234567.12345678]", 3, 28},
        {"5.1,3.5,1.4,0.2],[4.9,3.0,1.4,0.2]", 4, 15},
        {"5.1,3.5,x,0.2,1,1,1,1,1,1]", 2, 7},
        {"5.1,3.5 ,1,1,1,1,1,1,1,1]", 1, 3},
        {"1e5,1.25e-1,0.1,0.1,0.1,1}", 5, 23},
        {"1,1e999,0.1,0.1,0.1,0.1]", 1, 1},
        {"1,01,0.1,0.1,0.1,0.1,0.1]", 1, 1},
        {"1,-,0.1,0.1,0.1,0.1,0.1]", 1, 1},
        {"1,2,", 2, 3},
        {"1,2", 1, 1},
        {"1", 0, 0},
        {"", 0, 0},
        {"]", 0, 0},
        {"1,2,3,4,5,6,7,8,9,10]", 8, 15},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double to[9] = {[8] = 42.0};
        int64_t count = -1;
        const char *text = cases[i].text;
        assert_int_equal(decimal_scan_list(text, strlen(text), 8, to, &count), cases[i].len);
        assert_int_equal(count, cases[i].count);
        for (int64_t k = 0; k < count; k++) {
            char *end = NULL;
            assert_same_bits(to[k], strtod(text, &end));
            text = end + 1;
        }
        assert_same_bits(to[8], 42.0);
    }
}

/* Single-precision numbers of every exponent, as their printers write them. */
static void test_float32_texts(void **state)
{
    (void)state;
    const uint32_t step = (uint32_t)(UINT32_MAX / (uint64_t)draws(60000)) | 1;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        const uint32_t b = (uint32_t)bits;
        float v;
        memcpy(&v, &b, sizeof(v));
        if (isfinite(v)) {
            char text[64];
            snprintf(text, sizeof(text), "%.*g", 6 + (int)(b % 4), (double)v);
            check_like_strtod(text);
            snprintf(text, sizeof(text), "%.9f", (double)fmodf(v, 1000.0F));
            check_like_strtod(text);
        }
    }
}

/* ---- to single precision ---- */

static void check_like_strtof(const char *text)
{
    const float value = decimal_single(text, strlen(text));
    const float expected = strtof(text, NULL);
    if (memcmp(&value, &expected, sizeof(value)) != 0) {
        print_error("%.200s -> %.9g, expected %.9g\n", text, value, expected);
        fail();
    }
}

/* Between two floats, and a little above and below: through double all three come to the same. */
static void test_midpoints_of_floats(void **state)
{
    (void)state;
    struct rng r = rng_new(9, RNG_TEST);
    for (int64_t i = 0; i < draws(20000); i++) {
        const uint32_t bits = (uint32_t)rng_u64(&r) & 0x7FFFFFFF;
        float f;
        memcpy(&f, &bits, sizeof(f));
        if (!isfinite(f)) {
            continue;
        }
        const double middle = ((double)f + (double)nextafterf(f, INFINITY)) / 2.0;
        char text[256];
        snprintf(text, sizeof(text), "%s%.160e", i % 2 == 0 ? "" : "-",
                 isfinite(middle) ? middle : (double)FLT_MAX);
        check_like_strtof(text);
        char *last = strchr(text, 'e') - 1;
        *last = '1';
        check_like_strtof(text);
        while (*last == '1' || *last == '0') {
            *last = '9';
            last -= last[-1] == '.' ? 2 : 1;
        }
        (*last)--;
        check_like_strtof(text);
    }
}

static void test_edges_of_floats(void **state)
{
    (void)state;
    static const char *const texts[] = {"16777217",
                                        "16777217.000000000000000001",
                                        "16777216.999999999999999999",
                                        "3.4028235677973366e38",
                                        "340282356779733661637539395458142568447",
                                        "340282356779733661637539395458142568448",
                                        "1e39",
                                        "-1e400",
                                        "7.006492321624085e-46",
                                        "7.00649232162408535461864791644958065640130970938258e-46",
                                        "0.0",
                                        "-0",
                                        "1e-400",
                                        "0.1E1",
                                        "12e+2",
                                        "1.17549435e-38"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check_like_strtof(texts[i]);
    }
    for (size_t i = 0; i < sizeof(edge_texts) / sizeof(edge_texts[0]); i++) {
        check_like_strtof(edge_texts[i]);
    }
}

TEST_MAIN(cmocka_unit_test(test_every_short_text), cmocka_unit_test(test_every_length),
          cmocka_unit_test(test_lists), cmocka_unit_test(test_float32_texts),
          cmocka_unit_test(test_grammar), cmocka_unit_test(test_length_is_a_limit),
          cmocka_unit_test(test_edges), cmocka_unit_test(test_longest_midpoints),
          cmocka_unit_test(test_beyond_the_range), cmocka_unit_test(test_far_digit_breaks_a_tie),
          cmocka_unit_test(test_digits_around_the_kept_ones),
          cmocka_unit_test(test_a_million_digits), cmocka_unit_test(test_random_doubles),
          cmocka_unit_test(test_random_texts), cmocka_unit_test(test_midpoints),
          cmocka_unit_test(test_midpoints_of_floats), cmocka_unit_test(test_edges_of_floats))
