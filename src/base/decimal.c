#include "base/decimal.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__extension__ typedef unsigned __int128 u128;

enum {
    /* Every number of 19 digits fits into 64 bits. */
    SHORT_DIGITS = 19,
    /* No double and no midpoint between two doubles has more than 767 significant digits, so one
     * further digit that says "and something more" decides every rounding. */
    LONG_DIGITS = 768,
    /* Exponents are clamped here: far beyond any length of text that fits into memory, so that
     * "0.000...1e1000" comes out right, and far from the limits of int64_t. */
    EXPONENT_DIGITS = 17
};

/* 2^53: integers up to here are doubles. */
static const uint64_t exact_integers = UINT64_C(1) << 53;

/* value = significand * 10^exponent, plus a little more if truncated. */
struct decimal {
    uint64_t significand;
    int digits; /* of the significand, without leading zeros */
    int64_t exponent;
    bool negative;
    bool truncated;
};

static bool is_digit(const char *s, size_t len, size_t at)
{
    return at < len && s[at] >= '0' && s[at] <= '9';
}

/* Takes digits from `at` on; each one of a fraction lowers the exponent. Returns the end. */
static size_t take_digits(struct decimal *d, const char *s, size_t len, size_t at, bool fraction)
{
    for (; is_digit(s, len, at); at++) {
        const unsigned digit = (unsigned)(s[at] - '0');
        if (d->digits < SHORT_DIGITS) {
            d->significand = 10 * d->significand + digit;
            d->digits += d->significand > 0;
            d->exponent -= fraction;
        } else {
            d->truncated = d->truncated || digit > 0;
            d->exponent += !fraction;
        }
    }
    return at;
}

/* The exponent part, `at` being behind its "e". Returns the end, or 0 without a digit. */
static size_t take_exponent(struct decimal *d, const char *s, size_t len, size_t at)
{
    const bool negative = at < len && s[at] == '-';
    if (at < len && (s[at] == '-' || s[at] == '+')) {
        at++;
    }
    if (!is_digit(s, len, at)) {
        return 0;
    }
    int64_t value = 0;
    int digits = 0;
    for (; is_digit(s, len, at); at++) {
        if (digits < EXPONENT_DIGITS) {
            value = 10 * value + (s[at] - '0');
            digits += value > 0;
        }
    }
    d->exponent += negative ? -value : value;
    return at;
}

static const uint64_t powers[] = {
    UINT64_C(1),
    UINT64_C(10),
    UINT64_C(100),
    UINT64_C(1000),
    UINT64_C(10000),
    UINT64_C(100000),
    UINT64_C(1000000),
    UINT64_C(10000000),
    UINT64_C(100000000),
    UINT64_C(1000000000),
    UINT64_C(10000000000),
    UINT64_C(100000000000),
    UINT64_C(1000000000000),
    UINT64_C(10000000000000),
    UINT64_C(100000000000000),
    UINT64_C(1000000000000000),
    UINT64_C(10000000000000000),
    UINT64_C(100000000000000000),
    UINT64_C(1000000000000000000),
    UINT64_C(10000000000000000000),
};
enum { MAX_POWER = 19 };

/*
 * n / 10^k for 0 < n and 0 <= k <= 19. Both are shifted so that their top bits are set; then the
 * quotient of n * 2^62 has 62 or 63 bits, nine more than a double, and fits into 64. A remainder
 * sets the lowest bit, which keeps the one rounding, that to double, correct.
 */
static double divide(uint64_t n, int k)
{
    const int n_shift = __builtin_clzll(n);
    const int d_shift = __builtin_clzll(powers[k]);
    const uint64_t divisor = powers[k] << d_shift;
    const u128 dividend = (u128)(n << n_shift) << 62;
    const uint64_t quotient = (uint64_t)(dividend / divisor);
    const uint64_t sticky = dividend % divisor != 0;
    return ldexp((double)(quotient | sticky), d_shift - n_shift - 62);
}

/* The general case: strtod on "<digits>e<exponent>", which has no decimal point and so does not
 * depend on the locale. s[0..len) is the number without its sign. */
static double convert_long(const char *s, size_t len, int64_t exponent)
{
    char text[LONG_DIGITS + 32];
    size_t digits = 0;
    bool more = false;
    for (size_t at = 0; at < len && s[at] != 'e' && s[at] != 'E'; at++) {
        if (s[at] == '.' || (s[at] == '0' && digits == 0)) {
            continue;
        }
        if (digits < LONG_DIGITS) {
            text[digits++] = s[at];
        } else {
            more = more || s[at] != '0';
        }
    }
    /* `exponent` belongs to a significand of SHORT_DIGITS digits, or of all where there are
     * fewer. */
    if (digits > SHORT_DIGITS) {
        exponent -= (int64_t)digits - SHORT_DIGITS;
    }
    if (more) {
        text[digits++] = '1';
        exponent -= 1;
    }
    const int64_t magnitude = exponent + (int64_t)digits; /* the number is below 10^magnitude */
    if (magnitude > 310) {
        return INFINITY;
    }
    if (magnitude < -330) {
        return 0.0;
    }
    snprintf(text + digits, sizeof(text) - digits, "e%lld", (long long)exponent);
    return strtod(text, NULL);
}

static double convert(const struct decimal *d, const char *s, size_t len)
{
    const uint64_t n = d->significand;
    const int64_t e = d->exponent;
    if (n == 0) {
        return 0.0;
    }
    if (d->truncated || e < -MAX_POWER || e > MAX_POWER) {
        return convert_long(s, len, e);
    }
    if (e >= 0) {
        return (double)((u128)n * powers[e]);
    }
    /* Powers of ten up to 10^22 are doubles, so one division of doubles rounds once. */
    return n <= exact_integers ? (double)n / (double)powers[-e] : divide(n, (int)-e);
}

size_t decimal_scan(const char *s, size_t len, double *ret_value)
{
    struct decimal d = {.negative = len > 0 && s[0] == '-'};
    const size_t first = d.negative;
    if (!is_digit(s, len, first)) {
        return 0;
    }
    size_t at = s[first] == '0' ? first + 1 : take_digits(&d, s, len, first, false);
    if (at < len && s[at] == '.') {
        if (!is_digit(s, len, at + 1)) {
            return 0;
        }
        at = take_digits(&d, s, len, at + 1, true);
    }
    if (at < len && (s[at] == 'e' || s[at] == 'E')) {
        at = take_exponent(&d, s, len, at + 1);
        if (at == 0) {
            return 0;
        }
    }
    const double magnitude = convert(&d, s + first, at - first);
    *ret_value = d.negative ? -magnitude : magnitude;
    return at;
}
