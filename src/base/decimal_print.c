/*
 * The shortest digits of a double, after Giulietti, The Schubfach way to render doubles (2020).
 *
 * v = c * 2^q lies in the interval of all reals that round to v, from (c - 1/2) * 2^q to
 * (c + 1/2) * 2^q (its lower half is half as long below a power of two); the ends belong to it
 * where c is even. With 10^k <= the length of the interval < 10^(k+1) it holds at least one
 * multiple of 10^k and at most one of 10^(k+1): the latter is the shortest, else the closer of the
 * multiples of 10^k around v. All is done in units of 10^k / 4, rounded to odd, so that comparisons
 * of the rounded values are those of the exact ones.
 */
#include <endian.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/decimal.h"
#include "base/decimal_powers.h"

__extension__ typedef unsigned __int128 u128;

enum {
    SIGNIFICAND_BITS = 52, /* stored ones */
    EXPONENT_BIAS = 1075,  /* of c * 2^q with an integer c */
    MAX_DIGITS = 17,
    LARGEST_PLAIN = 16, /* digits before the point in a number without exponent ... */
    SMALLEST_PLAIN = -3 /* ... and zeros behind it, negative */
};

static const uint64_t hidden_bit = UINT64_C(1) << SIGNIFICAND_BITS;

/* digits * 10^exponent */
struct shortest {
    uint64_t digits;
    int exponent;
};

/* floor(log10(2^e)), and of 3/4 * 2^e. */
static inline int log10_of_power(int e, bool three_quarters)
{
    return (e * 1262611 - (three_quarters ? 524031 : 0)) >> 22;
}

/* floor(power * c / 2^128), with the lowest bit set where something was cut off. */
static inline uint64_t round_to_odd(const struct decimal_power *power, uint64_t c)
{
    const u128 low = (u128)power->low * c;
    const u128 upper = (u128)power->high * c + (uint64_t)(low >> 64);
    return (uint64_t)(upper >> 64) | ((uint64_t)upper > 1);
}

static struct shortest find_shortest(uint64_t c, int q, bool lower_is_closer)
{
    const bool closed = c % 2 == 0;
    const int k = log10_of_power(q, lower_is_closer);
    const int shift = q + decimal_log2(-k) + 1;
    const struct decimal_power *power = &decimal_powers[-k - DECIMAL_POWER_FIRST];
    const uint64_t v = round_to_odd(power, (4 * c) << shift);
    const uint64_t low = round_to_odd(power, (4 * c - 2 + lower_is_closer) << shift) + !closed;
    const uint64_t high = round_to_odd(power, (4 * c + 2) << shift) - !closed;
    const uint64_t s = v / 4;
    if (s >= 10) {
        const uint64_t tens = s / 10;
        const bool below = low <= 40 * tens;
        const bool above = 40 * tens + 40 <= high;
        if (below != above) {
            return (struct shortest){tens + above, k + 1};
        }
    }
    const bool below = low <= 4 * s;
    const bool above = 4 * s + 4 <= high;
    if (below != above) {
        return (struct shortest){s + above, k};
    }
    const bool up = v > 4 * s + 2 || (v == 4 * s + 2 && s % 2 == 1);
    return (struct shortest){s + up, k};
}

static struct shortest without_zeros(struct shortest d)
{
    while (d.digits % 100000000 == 0) {
        d.digits /= 100000000;
        d.exponent += 8;
    }
    while (d.digits % 10 == 0) {
        d.digits /= 10;
        d.exponent++;
    }
    return d;
}

/* 0 < |v| */
static struct shortest shortest_of(uint64_t bits)
{
    const uint64_t stored = bits & (hidden_bit - 1);
    const int biased = (int)(bits >> SIGNIFICAND_BITS) & 0x7FF;
    const uint64_t c = biased > 0 ? stored | hidden_bit : stored;
    const int q = (biased > 0 ? biased : 1) - EXPONENT_BIAS;
    if (q <= 0 && q > -SIGNIFICAND_BITS - 1 && c << (64 + q - 1) << 1 == 0) {
        return without_zeros((struct shortest){c >> -q, 0}); /* an integer of up to 53 bits */
    }
    return without_zeros(find_shortest(c, q, stored == 0 && biased > 1));
}

/* ---- text ---- */

/* Two digits at a time. */
static inline char *put_pair(char *to, unsigned pair)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "68697071727374757677787980818283848586878889909192939495969798"
        "99";
    memcpy(to, pairs + (size_t)2 * pair, 2);
    return to + 2;
}

static void put_eight(char *to, unsigned v)
{
    const unsigned upper = v / 10000, lower = v % 10000;
    to = put_pair(to, upper / 100);
    to = put_pair(to, upper % 100);
    to = put_pair(to, lower / 100);
    put_pair(to, lower % 100);
}

/* The digits of v, at least one; returns how many. */
static int put_digits(uint64_t v, char ret[MAX_DIGITS])
{
    char text[24];
    char *from = text + 16;
    put_eight(text + 16, (unsigned)(v % 100000000));
    if (v >= 100000000) {
        put_eight(text + 8, (unsigned)(v / 100000000 % 100000000));
        from = text + 8;
    }
    if (v >= UINT64_C(10000000000000000)) {
        put_eight(text, (unsigned)(v / UINT64_C(10000000000000000)));
        from = text;
    }
    while (*from == '0' && from < text + 23) {
        from++;
    }
    const int count = (int)(text + sizeof(text) - from);
    memcpy(ret, from, (size_t)count);
    return count;
}

static size_t put_exponent(int exponent, char *to)
{
    char *const start = to;
    *to++ = 'e';
    *to++ = exponent < 0 ? '-' : '+';
    const unsigned magnitude = (unsigned)(exponent < 0 ? -exponent : exponent);
    if (magnitude >= 100) {
        *to++ = (char)('0' + magnitude / 100);
    }
    return (size_t)(put_pair(to, magnitude % 100) - start);
}

/* digits[0..count) with the point behind the first `point` of them, which may be more than there
 * are, or less than none. */
static size_t put_plain(const char *digits, int count, int point, char *to)
{
    if (point <= 0) {
        memcpy(to, "0.000", 5);
        memcpy(to + 2 - point, digits, (size_t)count);
        return (size_t)(2 - point + count);
    }
    if (count <= point) {
        memcpy(to, digits, (size_t)count);
        memset(to + count, '0', (size_t)(point - count));
        return (size_t)point;
    }
    memcpy(to, digits, (size_t)point);
    to[point] = '.';
    memcpy(to + point + 1, digits + point, (size_t)(count - point));
    return (size_t)count + 1;
}

static size_t put_scientific(const char *digits, int count, int point, char *to)
{
    size_t len = 1;
    to[0] = digits[0];
    if (count > 1) {
        to[1] = '.';
        memcpy(to + 2, digits + 1, (size_t)count - 1);
        len = (size_t)count + 1;
    }
    return len + put_exponent(point - 1, to + len);
}

static size_t print_any(double v, char ret[DECIMAL_PRINT_MAX])
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    const size_t sign = bits >> 63;
    ret[0] = '-';
    if (v == 0.0) {
        ret[sign] = '0';
        return sign + 1;
    }
    const struct shortest d = shortest_of(bits);
    char digits[MAX_DIGITS];
    const int count = put_digits(d.digits, digits);
    const int point = count + d.exponent;
    const bool plain = point >= SMALLEST_PLAIN && point <= LARGEST_PLAIN;
    return sign + (plain ? put_plain : put_scientific)(digits, count, point, ret + sign);
}

/* ---- numbers of few digits ---- */

/*
 * |v| = n / 10^PLACES to the nearest double, with n < 10^15. As every decimal of up to 15 digits
 * comes back through a double, no two of them are read as the same one: n without its last zeros is
 * the shortest there is, and the only one of its length. n / 10^PLACES rounds once, since both are
 * integers that a double holds, so the division proves it; the product only guesses n.
 */
enum { PLACES = 8 };
static const double ten_to_places = 1e8;
static const double below_whole = 1e7;
static const int64_t least_plain = 10000; /* 10^SMALLEST_PLAIN and a digit: below has exponents */

/* Eight digits of v, the first in the lowest byte: pairs of four, of two, of one. */
static inline uint64_t split_eight(uint32_t v)
{
    const uint64_t fours = v / 10000 | (uint64_t)(v % 10000) << 32;
    const uint64_t hundreds = (fours * 10486 >> 20) & UINT64_C(0x0000007F0000007F);
    const uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    const uint64_t tens = (twos * 103 >> 10) & UINT64_C(0x000F000F000F000F);
    return tens | (twos - 10 * tens) << 8;
}

/* Eight digits as text. */
static inline void store_eight(char *to, uint64_t digits)
{
    const uint64_t text = htole64(digits + UINT64_C(0x3030303030303030));
    memcpy(to, &text, sizeof(text));
}

/* v < 10^8 without zeros in front; writes eight bytes. Returns its end. */
static inline char *put_whole(uint32_t v, char *to)
{
    if (v < 10) { /* most numbers that are predicted */
        *to = (char)('0' + v);
        return to + 1;
    }
    const uint64_t digits = split_eight(v);
    const unsigned zeros = (unsigned)__builtin_ctzll(digits) / 8;
    store_eight(to, digits >> 8 * zeros);
    return to + 8 - zeros;
}

/* Returns the length, or 0 where v is no such number. Writes at most DECIMAL_PRINT_MAX bytes. */
static inline size_t print_short(double v, char ret[DECIMAL_PRINT_MAX])
{
    const double magnitude = fabs(v);
    if (!(magnitude < below_whole)) {
        return 0;
    }
    const int64_t n = (int64_t)(magnitude * ten_to_places + 0.5);
    if ((double)n / ten_to_places != magnitude || (n < least_plain && n > 0)) {
        return 0;
    }
    const uint64_t fraction = split_eight((uint32_t)(n % 100000000));
    const unsigned places = 8 - (unsigned)__builtin_clzll(fraction | 1) / 8;
    char *to = ret;
    *to = '-';
    to = put_whole((uint32_t)(n / 100000000), to + (signbit(v) != 0));
    *to = '.';
    store_eight(to + 1, fraction);
    to += fraction != 0 ? 1 + places : 0;
    return (size_t)(to - ret);
}

size_t decimal_print(double v, char ret[DECIMAL_PRINT_MAX])
{
    const size_t len = print_short(v, ret);
    return len > 0 ? len : print_any(v, ret);
}

size_t decimal_print_list(const double *v, int64_t count, char *ret)
{
    char *to = ret;
    for (int64_t i = 0; i < count; i++) {
        size_t len = print_short(v[i], to);
        if (len == 0 && isfinite(v[i])) {
            len = print_any(v[i], to);
        } else if (len == 0) {
            memcpy(to, "null", len = 4);
        }
        to[len] = ',';
        to += len + 1;
    }
    return count > 0 ? (size_t)(to - ret) - 1 : 0;
}
