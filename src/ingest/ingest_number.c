#include "ingest/ingest_number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/decimal.h"

/* Numbers without a digit before or behind their point are rewritten in a buffer of this size;
 * longer ones are no numbers. Nobody prints a thousand digits that way. */
#define REWRITE_MAX 1000

static inline bool is_digit(char c)
{
    return (unsigned)(c - '0') < 10;
}

static size_t count_digits(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && is_digit(text[n])) {
        n++;
    }
    return n;
}

/* ".5" -> "0.5", "5." -> "5", "5.e3" -> "5e3", in front of decimal_scan, which takes JSON's
 * numbers only. Without sign. */
static bool read_bare_point(const char *text, size_t len, double *ret)
{
    size_t whole = count_digits(text, len);
    if (whole == len || text[whole] != '.' || len > REWRITE_MAX) {
        return false;
    }
    size_t fraction = count_digits(text + whole + 1, len - whole - 1);
    if ((whole == 0) == (fraction == 0)) {
        return false; // "." alone, or a point between digits, which is nothing for this function.
    }
    char copy[REWRITE_MAX + 1];
    size_t used = 0;
    if (whole == 0) {
        copy[used++] = '0';
        memcpy(copy + used, text, len);
        used += len;
    } else {
        memcpy(copy, text, whole);
        memcpy(copy + whole, text + whole + 1, len - whole - 1);
        used = len - 1;
    }
    return decimal_scan(copy, used, ret) == used;
}

static bool read_unsigned(const char *text, size_t len, double *ret)
{
    if (len == 0 || *text == '-' || *text == '+') {
        return false;
    }
    while (len > 1 && text[0] == '0' && is_digit(text[1])) {
        text++;
        len--;
    }
    return decimal_scan(text, len, ret) == len || read_bare_point(text, len, ret);
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

enum ingest_number ingest_number_read(const char *text, size_t len, double *ret)
{
    bool sign = len > 0 && (*text == '-' || *text == '+');
    bool negative = sign && *text == '-';
    text += sign;
    len -= sign;
    double v = 0;
    if (read_unsigned(text, len, &v)) {
        if (!isfinite(v)) {
            return INGEST_NUMBER_NOT_FINITE;
        }
        *ret = negative ? -v : v;
        return INGEST_NUMBER_OK;
    }
    if (is_word(text, len, "nan") || is_word(text, len, "inf") || is_word(text, len, "infinity")) {
        return INGEST_NUMBER_NOT_FINITE;
    }
    bool hex = len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    return hex ? INGEST_NUMBER_HEX : INGEST_NUMBER_TEXT;
}
