/*
 * Powers of ten in 128 bits, for decimal.c and decimal_print.c. tools/make-powers writes the table
 * while building.
 *
 *     10^q <= (high * 2^64 + low) * 2^(decimal_log2(q) - 127) < 10^q + 2^(decimal_log2(q) - 127)
 *
 * with the top bit of `high` set. It is 10^q exactly for 0 <= q <= DECIMAL_POWER_EXACT.
 */
#pragma once

#include <stdint.h>

struct decimal_power {
    uint64_t high, low;
};

/* Down to the smallest a 64-bit significand needs for reading, up to the largest for printing. */
enum { DECIMAL_POWER_FIRST = -342, DECIMAL_POWER_LAST = 324, DECIMAL_POWER_EXACT = 55 };

extern const struct decimal_power
    decimal_powers[DECIMAL_POWER_LAST - DECIMAL_POWER_FIRST + 1]; /* of 10^(FIRST + i) */

/* floor(log2(10^q)), for the q of the table and somewhat beyond. */
static inline int decimal_log2(int q)
{
    return (q * 1741647) >> 19;
}
