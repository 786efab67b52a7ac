/*
 * Numbers as people and spreadsheets write them: with a decimal comma where the client says so; and
 * what is none here, but was one to its writer, for sentences that say so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "ingest/ingest_number.h"

/* "point": 1.5, "comma": 1,5. */
int ingest_decimal_parse(const char *name, bool *ret_comma, struct err *err);
#define INGEST_DECIMAL_RULES "The decimal sign is point or comma."

/* As ingest_number_read; with a comma in place of the point, which is then no number's. */
enum ingest_number ingest_numeral_read(const char *text, size_t len, bool comma, double *ret);

enum ingest_numeral {
    INGEST_NUMERAL_NONE,
    INGEST_NUMERAL_OTHER,   /* a number with the other decimal sign */
    INGEST_NUMERAL_GROUPED, /* with points or commas between thousands */
    INGEST_NUMERAL_SPACED,  /* with spaces or apostrophes there */
    INGEST_NUMERAL_DATE
};

/* What a text is that ingest_numeral_read takes for no number. */
enum ingest_numeral ingest_numeral_of(const char *text, size_t len, bool comma);

/* Whether it was meant as a number, whatever else stands in its column. */
static inline bool ingest_numeral_meant(enum ingest_numeral numeral)
{
    return numeral == INGEST_NUMERAL_OTHER || numeral == INGEST_NUMERAL_GROUPED;
}

/* What is wrong with it and what to do, behind the text: "has a decimal comma; …"; NULL for none.
 */
const char *ingest_numeral_fault(enum ingest_numeral numeral, bool comma);
