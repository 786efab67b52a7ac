/*
 * Decimal text to double, correctly rounded (nearest, ties to even), whatever the locale. Linear
 * in the length of the text and without allocation, also for numbers of a million digits.
 */
#pragma once

#include <stddef.h>

/*
 * Reads the JSON number (RFC 8259, section 6) that s[0..len) starts with:
 *     -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
 * Returns its length in bytes, or 0 where no such number stands or it breaks off ("-", "1.",
 * "1e"). *ret_value is an infinity where the number is beyond the range of a double; numbers
 * below the smallest double become zero of their sign.
 */
size_t decimal_scan(const char *s, size_t len, double *ret_value);
