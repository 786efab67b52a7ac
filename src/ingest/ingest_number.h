/*
 * Numbers in text, strictly: the whole text is one decimal number
 *
 *     [+-] ( digits [ . [digits] ] | . digits ) [ (e|E) [+-] digits ]
 *
 * with the nearest double as its value (ties to even, base/decimal.h). A text too small for a
 * double is 0 or a denormal number. Blanks around it are the caller's business.
 */
#pragma once

#include <stddef.h>

enum ingest_number {
    INGEST_NUMBER_OK,
    INGEST_NUMBER_TEXT,       /* no number at all */
    INGEST_NUMBER_NOT_FINITE, /* nan, inf, infinity with an optional sign, or beyond 1.8e308 */
    INGEST_NUMBER_HEX         /* 0x…, which other readers would take for a number */
};

/* *ret is set for INGEST_NUMBER_OK only. */
enum ingest_number ingest_number_read(const char *text, size_t len, double *ret);
