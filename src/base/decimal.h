/*
 * Decimal text to double and back, correctly rounded (nearest, ties to even), whatever the locale.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Reads the JSON number (RFC 8259, section 6) that s[0..len) starts with:
 *     -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
 * Returns its length in bytes, or 0 where no such number stands or it breaks off ("-", "1.",
 * "1e"). *ret_value is an infinity where the number is beyond the range of a double; numbers
 * below the smallest double become zero of their sign. Linear in the length of the text and without
 * allocation, also for numbers of a million digits.
 */
size_t decimal_scan(const char *s, size_t len, double *ret_value);

/* The number that s[0..len) is, as decimal_scan reads it, to the nearest float instead, rounded
 * once; an infinity beyond their range. Slow. */
float decimal_single(const char *s, size_t len);

/*
 * decimal_scan for a list: up to `max` numbers, the first at s, with a comma and any number of
 * blanks between two. A number is taken where it is finite and a comma or a ']' follows at once;
 * the first that is not ends the list, as the ']' does. *ret_count numbers are in to[], which has
 * room for max. Returns the bytes up to the end of the last number, 0 where there is none.
 */
size_t decimal_scan_list(const char *s, size_t len, int64_t max, double *to, int64_t *ret_count);

/* "-2.2250738585072014e-308" */
enum { DECIMAL_PRINT_MAX = 24 };

/*
 * Writes the shortest number that decimal_scan reads back to the same bits (the closest to v of
 * those, "-0" for minus zero) and returns its length; no NUL follows. v is finite. Powers from
 * 10^-4 up to below 10^16 are written out, others get an exponent of two or three digits: 0.0001,
 * 1e-05, 1000000000000000, 1e+16.
 */
size_t decimal_print(double v, char ret[DECIMAL_PRINT_MAX]);

/* A list of `count` of them with commas between, null for what is not finite, in ret[0..count *
 * (DECIMAL_PRINT_MAX + 1)). Returns its length; what is behind it in ret is undefined. */
size_t decimal_print_list(const double *v, int64_t count, char *ret);
