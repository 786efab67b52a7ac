/*
 * Numbers of up to 19 digits are w * 10^q with w in 64 bits. Small ones take one operation of
 * doubles; the others w times a power of ten of 128 bits, which leaves the value in an interval so
 * narrow that it nearly always decides the rounding (after Lemire, Number parsing at a gigabyte per
 * second, 2021; where it does not decide, an exact way follows).
 *
 * Short numbers, which are what people and data files write, come first: their digits are taken out
 * of one or two words of eight characters, without a branch or a loop on how many there are.
 */
#include "base/decimal.h"

#include <endian.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal_powers.h"

__extension__ typedef unsigned __int128 u128;

enum {
    /* Every number of 19 digits fits into 64 bits. */
    SHORT_DIGITS = 19,
    /* No double and no midpoint between two doubles has more than 767 significant digits, so one
     * further digit that says "and something more" decides every rounding. */
    LONG_DIGITS = 768,
    /* Exponents are clamped here: far beyond any length of text that fits into memory, so that
     * "0.000...1e1000" comes out right, and far from the limits of int64_t. */
    EXPONENT_DIGITS = 17,
    /* Powers of ten up to 10^22 are doubles. */
    DOUBLE_POWER = 22,
    /* Of a double: bits of the significand, and the exponent of the smallest normal one. */
    BITS = 53,
    LEAST_NORMAL = -1022
};

/* 2^53: integers up to here are doubles. */
static const uint64_t exact_integers = UINT64_C(1) << 53;

static inline bool is_digit(const char *at, const char *end)
{
    return at < end && (unsigned char)(*at - '0') < 10;
}

/* ---- digits ---- */

/* "00000000", and what turns eight digits into their values. */
static const uint64_t eight_zeros = UINT64_C(0x3030303030303030);

/* Eight characters, the first in the lowest byte. */
static inline uint64_t load_eight(const char *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof(v));
    return le64toh(v);
}

/* A digit is 0x30 to 0x39: the upper half of the byte is 3, also after adding 6. */
static inline bool are_digits(uint64_t v)
{
    const uint64_t upper = UINT64_C(0xF0F0F0F0F0F0F0F0);
    return ((v & upper) | (((v + UINT64_C(0x0606060606060606)) & upper) >> 4)) ==
           UINT64_C(0x3333333333333333);
}

/* Eight digits as their values, the first in the lowest byte: pairs, then pairs of pairs. */
static inline uint64_t eight_value(uint64_t v)
{
    v = (v * 10 + (v >> 8)) & UINT64_C(0x00FF00FF00FF00FF);
    v = (v * 100 + (v >> 16)) & UINT64_C(0x0000FFFF0000FFFF);
    return (v * 10000 + (v >> 32)) & UINT64_C(0xFFFFFFFF);
}

/* Appends the digits at `at` to *w, modulo 2^64. Returns their end. */
static inline const char *take_digits(const char *at, const char *end, uint64_t *w)
{
    uint64_t value = *w;
    while (end - at >= 8) {
        const uint64_t eight = load_eight(at);
        if (!are_digits(eight)) {
            break;
        }
        value = value * UINT64_C(100000000) + eight_value(eight ^ eight_zeros);
        at += 8;
    }
    for (; is_digit(at, end); at++) {
        value = 10 * value + (uint64_t)(*at - '0');
    }
    *w = value;
    return at;
}

/* The exponent part, `at` being behind its "e", is added to *exponent. Returns the end, or NULL
 * without a digit. */
static const char *take_exponent(const char *at, const char *end, int64_t *exponent)
{
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) {
        at++;
    }
    if (!is_digit(at, end)) {
        return NULL;
    }
    int64_t value = 0;
    int digits = 0;
    for (; is_digit(at, end); at++) {
        if (digits < EXPONENT_DIGITS) {
            value = 10 * value + (*at - '0');
            digits += value > 0;
        }
    }
    *exponent += negative ? -value : value;
    return at;
}

/* ---- w * 10^q ---- */

/* significand * 2^exponent, the significand having `keep` bits, or one more by rounding up. */
static double assemble(uint64_t significand, int exponent)
{
    /* The leading bit of a normal number adds the one to the exponent that is missing here. */
    const uint64_t biased = exponent < LEAST_NORMAL ? 0 : (uint64_t)(exponent - LEAST_NORMAL);
    const uint64_t bits = (biased << (BITS - 1)) + significand;
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/*
 * w * 10^q to the nearest double, 0 < w; false where the interval leaves it open. With the power in
 * 128 bits, rounded up, the product P of 192 bits is at most w too large: the true value lies
 * between P - w and P. It is cut behind the bit after the last that is kept; if the rest R of P is
 * at least w, both ends agree on all bits before the cut, and the value is not on the cut.
 */
static bool scale(uint64_t w, int64_t q, double *ret)
{
    if (q < DECIMAL_POWER_FIRST) {
        *ret = 0.0; /* below 2^64 * 10^-343 */
        return true;
    }
    if (q > 308) {
        *ret = INFINITY;
        return true;
    }
    const struct decimal_power *power = &decimal_powers[q - DECIMAL_POWER_FIRST];
    const int zeros = __builtin_clzll(w);
    w <<= zeros;
    const u128 low = (u128)w * power->low;
    const u128 upper = (u128)w * power->high + (uint64_t)(low >> 64);
    const uint64_t high = (uint64_t)(upper >> 64);
    const int lead = 62 + (int)(high >> 63); /* the leading bit of high */
    const int exponent = lead + 1 - zeros + decimal_log2((int)q);
    const int keep = exponent >= LEAST_NORMAL ? BITS : BITS - (LEAST_NORMAL - exponent);
    if (keep < 1) {
        return false;
    }
    const int cut = lead - keep;
    const bool rest_above = (high & ((UINT64_C(1) << cut) - 1)) != 0 || (uint64_t)upper != 0;
    const bool exact = q >= 0 && q <= DECIMAL_POWER_EXACT;
    if (!exact && !rest_above && (uint64_t)low < w) {
        return false;
    }
    const uint64_t kept = high >> cut; /* and the bit that decides */
    const bool above_half = rest_above || (uint64_t)low != 0;
    const bool up = (kept & 1) != 0 && (above_half || (kept & 2) != 0);
    *ret = exponent > 1023 ? INFINITY : assemble((kept >> 1) + up, exponent);
    return true;
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

/* Texts for strtod and strtof: digits and an exponent, and no decimal point, so that they do not
 * depend on the locale. */
enum { LONG_TEXT = LONG_DIGITS + 32 };

/* Writes s[0..len), a number without its sign, so. `exponent` belongs to a significand of
 * SHORT_DIGITS digits, or of all where there are fewer. Numbers that no double is close to are
 * written as such that come to the same. */
static void write_long(const char *s, size_t len, int64_t exponent, char ret[LONG_TEXT])
{
    size_t digits = 0;
    bool more = false;
    for (size_t at = 0; at < len && s[at] != 'e' && s[at] != 'E'; at++) {
        if (s[at] == '.' || (s[at] == '0' && digits == 0)) {
            continue;
        }
        if (digits < LONG_DIGITS) {
            ret[digits++] = s[at];
        } else {
            more = more || s[at] != '0';
        }
    }
    if (digits > SHORT_DIGITS) {
        exponent -= (int64_t)digits - SHORT_DIGITS;
    }
    if (more) {
        ret[digits++] = '1';
        exponent -= 1;
    }
    const int64_t magnitude = exponent + (int64_t)digits; /* the number is below 10^magnitude */
    if (digits == 0 || magnitude < -330) {
        memcpy(ret, "0", 2);
    } else if (magnitude > 310) {
        memcpy(ret, "1e999", 6);
    } else {
        snprintf(ret + digits, LONG_TEXT - digits, "e%lld", (long long)exponent);
    }
}

/* The general case. */
static double convert_long(const char *s, size_t len, int64_t exponent)
{
    char text[LONG_TEXT];
    write_long(s, len, exponent, text);
    return strtod(text, NULL);
}

static double convert(uint64_t w, int64_t q, const char *s, size_t len)
{
    static const double doubles[DOUBLE_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (w <= exact_integers && q >= -DOUBLE_POWER && q <= DOUBLE_POWER) {
        return q < 0 ? (double)w / doubles[-q] : (double)w * doubles[q]; /* rounds once */
    }
    double v = 0.0;
    if (w == 0 || scale(w, q, &v)) {
        return v;
    }
    return q < 0 && q >= -MAX_POWER ? divide(w, (int)-q) : convert_long(s, len, q);
}

/* ---- numbers of many digits ---- */

/* value = significand * 10^exponent, plus a little more if truncated. */
struct decimal {
    uint64_t significand;
    int digits; /* of the significand, without leading zeros */
    int64_t exponent;
    bool truncated;
};

static void add_digit(struct decimal *d, unsigned digit, bool fraction)
{
    if (d->digits < SHORT_DIGITS) {
        d->significand = 10 * d->significand + digit;
        d->digits += d->significand > 0;
        d->exponent -= fraction;
    } else {
        d->truncated = d->truncated || digit > 0;
        d->exponent += !fraction;
    }
}

/* s[0..len) is the number without its sign, `exponent` what stands behind its "e". */
static struct decimal take_many(const char *s, size_t len, int64_t exponent)
{
    struct decimal d = {.exponent = exponent};
    bool fraction = false;
    for (size_t at = 0; at < len && s[at] != 'e' && s[at] != 'E'; at++) {
        if (s[at] == '.') {
            fraction = true;
        } else {
            add_digit(&d, (unsigned)(s[at] - '0'), fraction);
        }
    }
    return d;
}

static double convert_many(const char *s, size_t len, int64_t exponent)
{
    const struct decimal d = take_many(s, len, exponent);
    if (!d.truncated) {
        return convert(d.significand, d.exponent, s, len);
    }
    double below, above;
    const bool decided = scale(d.significand, d.exponent, &below) &&
                         scale(d.significand + 1, d.exponent, &above) && below == above;
    return decided ? below : convert_long(s, len, d.exponent);
}

float decimal_single(const char *s, size_t len)
{
    const bool negative = len > 0 && *s == '-';
    const char *const first = s + negative, *const end = s + len;
    char text[LONG_TEXT];
    int64_t exponent = 0;
    size_t plain = 0;
    while (first + plain < end && (first[plain] | 0x20) != 'e') {
        plain++;
    }
    if (first + plain < end) {
        take_exponent(first + plain + 1, end, &exponent);
    }
    const struct decimal d = take_many(first, plain, exponent);
    write_long(first, plain, d.exponent, text);
    const float magnitude = strtof(text, NULL);
    return negative ? -magnitude : magnitude;
}

static inline double with_sign(double magnitude, bool negative)
{
    uint64_t bits;
    memcpy(&bits, &magnitude, sizeof(bits));
    bits |= (uint64_t)negative << 63;
    memcpy(&magnitude, &bits, sizeof(bits));
    return magnitude;
}

static size_t scan_any(const char *s, size_t len, double *ret_value)
{
    const char *const end = s + len;
    const bool negative = len > 0 && *s == '-';
    const char *const first = s + negative;
    if (!is_digit(first, end)) {
        return 0;
    }
    uint64_t w = 0;
    const char *at = *first == '0' ? first + 1 : take_digits(first, end, &w);
    int64_t digits = at - first;
    int64_t exponent = 0;
    if (at < end && *at == '.') {
        const char *const fraction = at + 1;
        at = take_digits(fraction, end, &w);
        exponent = fraction - at;
        digits -= exponent;
        if (exponent == 0) {
            return 0;
        }
    }
    const int64_t places = exponent;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at = take_exponent(at + 1, end, &exponent);
        if (at == NULL) {
            return 0;
        }
    }
    const size_t used = (size_t)(at - first);
    const double magnitude = digits <= SHORT_DIGITS ? convert(w, exponent, first, used)
                                                    : convert_many(first, used, exponent - places);
    *ret_value = with_sign(magnitude, negative);
    return used + negative;
}

/* ---- short numbers ---- */

enum {
    /* Digits behind the point. With seven before it they make an integer that a double holds, and
     * so does this power of ten. */
    SHORT_PLACES = 8,
    SHORT_BYTES = 16 /* that scan_short looks at */
};

static const uint64_t low_bits = UINT64_C(0x7F7F7F7F7F7F7F7F);

/* The top bit of each byte that is no digit, of eight from which eight_zeros was taken. */
static inline uint64_t mark_others(uint64_t v)
{
    return (((v & low_bits) + UINT64_C(0x7676767676767676)) | v) & ~low_bits;
}

/* The top bit of each byte that is the point, of the same. */
static inline uint64_t mark_points(uint64_t v)
{
    const uint64_t differs = v ^ UINT64_C(0x1E1E1E1E1E1E1E1E); /* '.' ^ '0' */
    return ~(((differs & low_bits) + low_bits) | differs) & ~low_bits;
}

static inline unsigned first_marked(uint64_t marks)
{
    return (unsigned)__builtin_ctzll(marks) / 8;
}

/* The first `count` <= 7 of eight bytes, as the last ones behind zeros. */
static inline uint64_t last_of(uint64_t v, unsigned count)
{
    return v << 8 << 8 * (7 - count);
}

/* digits / 10^places with its sign; rounds once. */
static inline double short_value(uint64_t digits, unsigned places, bool negative)
{
    static const double tens[SHORT_PLACES + 1] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
    return with_sign((double)(int64_t)digits / tens[places], negative);
}

/* A digit stands at the first of `whole` places, and no zero before others. */
static inline bool is_whole(uint64_t first, unsigned whole)
{
    return whole == 1 || (whole > 1 && (first & 0xFF) != 0);
}

/* The number ends in the first eight characters, before the first of `ends`. */
static inline size_t scan_one_word(uint64_t first, unsigned sign, uint64_t others, uint64_t ends,
                                   double *ret_value)
{
    const unsigned length = first_marked(ends), stop = first_marked(others);
    const unsigned whole = stop - sign, point = stop != length;
    const unsigned places = length - stop - point;
    const uint64_t points = others & ((ends & -ends) - 1);
    if (!is_whole(first, whole) || places < point || (points & (points - 1)) != 0) {
        return 0;
    }
    const uint64_t digits =
        last_of(first, whole) >> 8 * places | last_of(first >> 8 * (whole + point), places);
    *ret_value = short_value(eight_value(digits), places, sign);
    return length;
}

/* The number ends in the eight characters at s + 8; of the first eight one is the point. */
static inline size_t scan_two_words(const char *s, uint64_t first, unsigned sign, uint64_t points,
                                    double *ret_value)
{
    const uint64_t ends = mark_others(load_eight(s + 8) ^ eight_zeros);
    if (ends == 0 || points == 0 || (points & (points - 1)) != 0) {
        return 0;
    }
    const unsigned length = 8 + first_marked(ends), stop = first_marked(points);
    const unsigned whole = stop - sign, places = length - stop - 1;
    if (!is_whole(first, whole) || places - 1 >= SHORT_PLACES) {
        return 0;
    }
    const uint64_t fraction = load_eight(s + stop + 1) ^ eight_zeros;
    const uint64_t digits = eight_value(last_of(first, whole)) * powers[places] +
                            eight_value(fraction << 8 * (8 - places));
    *ret_value = short_value(digits, places, sign);
    return length;
}

/* SHORT_BYTES are readable at s. Returns the length of the short number there, without the exponent
 * that may follow, or 0 where it is longer or none. */
static inline size_t scan_short(const char *s, double *ret_value)
{
    const uint64_t text = load_eight(s) ^ eight_zeros;
    const unsigned sign = *s == '-';
    const uint64_t others = mark_others(text) & ~((uint64_t)sign << 7);
    const uint64_t points = mark_points(text);
    const uint64_t ends = others & ~points;
    const uint64_t first = text >> 8 * sign;
    return ends != 0 ? scan_one_word(first, sign, others, ends, ret_value)
                     : scan_two_words(s, first, sign, points, ret_value);
}

size_t decimal_scan(const char *s, size_t len, double *ret_value)
{
    const size_t used = len >= SHORT_BYTES ? scan_short(s, ret_value) : 0;
    return used > 0 && (s[used] | 0x20) != 'e' ? used : scan_any(s, len, ret_value);
}

size_t decimal_scan_list(const char *s, size_t len, int64_t max, double *to, int64_t *ret_count)
{
    const char *const end = s + len;
    const char *at = s, *done = s; /* behind the last number that was taken */
    int64_t count = 0;
    while (count < max) {
        size_t used = end - at >= SHORT_BYTES ? scan_short(at, to + count) : 0;
        if (used == 0 || (at[used] != ',' && at[used] != ']')) {
            used = scan_any(at, (size_t)(end - at), to + count);
            if (used == 0 || at + used == end || !isfinite(to[count]) ||
                (at[used] != ',' && at[used] != ']')) {
                break;
            }
        }
        at += used;
        done = at;
        count++;
        if (*at == ']') {
            break;
        }
        for (at++; at < end && *at == ' '; at++) {
        }
    }
    *ret_count = count;
    return (size_t)(done - s);
}
