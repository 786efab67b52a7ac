#include "ingest/ingest_numeral.h"

#include <string.h>

/* Longer numbers are not rewritten, and are none then. */
#define NUMERAL_MAX 1000
/* Longer ones are not looked at: nobody groups the digits of such a number. */
#define GROUPED_MAX 64

int ingest_decimal_parse(const char *name, bool *ret_comma, struct err *err)
{
    const bool comma = strcmp(name, "comma") == 0;
    if (!comma && strcmp(name, "point") != 0) {
        return err_set(err, ERR_INVALID, INGEST_DECIMAL_RULES);
    }
    *ret_comma = comma;
    return 0;
}

/* text with its only comma as a point; false: it has none, more, or points. */
static bool point_for_comma(const char *text, size_t len, char ret[NUMERAL_MAX])
{
    const char *comma = memchr(text, ',', len);
    if (comma == NULL || len > NUMERAL_MAX || memchr(text, '.', len) != NULL) {
        return false;
    }
    memcpy(ret, text, len);
    ret[comma - text] = '.';
    return memchr(ret, ',', len) == NULL;
}

enum ingest_number ingest_numeral_read(const char *text, size_t len, bool comma, double *ret)
{
    char copy[NUMERAL_MAX];
    if (!comma || (memchr(text, ',', len) == NULL && memchr(text, '.', len) == NULL)) {
        return ingest_number_read(text, len, ret);
    }
    return point_for_comma(text, len, copy) ? ingest_number_read(copy, len, ret)
                                            : INGEST_NUMBER_TEXT;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t count_digits(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && is_digit(text[n])) {
        n++;
    }
    return n;
}

/* ---- thousands ---- */

/* Bytes of what may stand between thousands: a sign, or a space of one to three bytes. */
static size_t separator_at(const char *text, size_t len)
{
    static const char *const known[] = {",",           ".", " ", "'", "\xc2\xa0", "\xe2\x80\xaf",
                                        "\xe2\x80\x99"};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        const size_t size = strlen(known[i]);
        if (size <= len && memcmp(text, known[i], size) == 0) {
            return size;
        }
    }
    return 0;
}

/* Behind digits that are grouped by three at least once, always by the same sign; else 0. */
static size_t grouped_digits(const char *text, size_t len, size_t *ret_first)
{
    const size_t first = count_digits(text, len);
    const size_t size = separator_at(text + first, len - first);
    size_t at = first;
    while (size > 0 && at + size + 3 <= len && memcmp(text + at, text + first, size) == 0 &&
           count_digits(text + at + size, len - at - size) == 3) {
        at += size + 3;
    }
    *ret_first = first;
    return first > 0 && first <= 3 && at > first ? at : 0;
}

static enum ingest_numeral grouped(const char *text, size_t len)
{
    size_t first = 0;
    const size_t sign = len > 0 && (*text == '-' || *text == '+');
    text += sign;
    len -= sign;
    const size_t end = grouped_digits(text, len, &first);
    if (end == 0) {
        return INGEST_NUMERAL_NONE;
    }
    const bool spaced = text[first] != ',' && text[first] != '.';
    const bool fraction = end < len && (text[end] == ',' || text[end] == '.') &&
                          text[end] != text[first] &&
                          count_digits(text + end + 1, len - end - 1) == len - end - 1;
    if (end < len && !fraction) {
        return INGEST_NUMERAL_NONE;
    }
    return spaced ? INGEST_NUMERAL_SPACED : INGEST_NUMERAL_GROUPED;
}

/* ---- dates ---- */

/* Digits, a sign, digits, the same sign, digits: of a year in front (2024-01-31) or behind
 * (31.1.2024, 1/31/24). What follows a year in front is a time. */
static bool is_date(const char *text, size_t len)
{
    const size_t a = count_digits(text, len);
    if (a == 0 || a > 4 || a == 3 || a >= len || strchr("-/.", text[a]) == NULL) {
        return false;
    }
    const size_t b = count_digits(text + a + 1, len - a - 1), second = a + 1 + b;
    if (b == 0 || b > 2 || second >= len || text[second] != text[a]) {
        return false;
    }
    const size_t c = count_digits(text + second + 1, len - second - 1), end = second + 1 + c;
    if (a == 4) {
        return (c == 1 || c == 2) && (end == len || text[end] == 'T' || text[end] == ' ');
    }
    return (c == 2 || c == 4) && (end == len || text[end] == ' ');
}

enum ingest_numeral ingest_numeral_of(const char *text, size_t len, bool comma)
{
    double ignored;
    if (len == 0 || len > GROUPED_MAX) {
        return INGEST_NUMERAL_NONE;
    }
    if (is_date(text, len)) {
        return INGEST_NUMERAL_DATE;
    }
    return ingest_numeral_read(text, len, !comma, &ignored) == INGEST_NUMBER_OK
               ? INGEST_NUMERAL_OTHER
               : grouped(text, len);
}

const char *ingest_numeral_fault(enum ingest_numeral numeral, bool comma)
{
    switch (numeral) {
    case INGEST_NUMERAL_OTHER:
        return comma ? "has a decimal point, and decimal=comma says that numbers have a comma"
                     : "has a decimal comma, or one between thousands; numbers take a point, or "
                       "with decimal=comma (krr: --decimal comma) a comma, and semicolons or tabs "
                       "between cells";
    case INGEST_NUMERAL_GROUPED:
    case INGEST_NUMERAL_SPACED:
        return "has signs between its thousands; numbers are written without";
    case INGEST_NUMERAL_DATE:
        return "is a date; make a number of it, such as the days since another date or the month";
    case INGEST_NUMERAL_NONE:
        break;
    }
    return NULL;
}
