#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

static bool is_continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

/* The bytes of a character that begins with `first`; 0 where none does. */
static size_t length_of(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    return first >= 0xC2 && first <= 0xDF   ? 2
           : first >= 0xE0 && first <= 0xEF ? 3
           : first >= 0xF0 && first <= 0xF4 ? 4
                                            : 0;
}

/* RFC 3629, section 4: the range of the second byte depends on the first. */
static bool second_byte_fits(unsigned char first, unsigned char second)
{
    switch (first) {
    case 0xE0:
        return second >= 0xA0 && second <= 0xBF;
    case 0xED:
        return second >= 0x80 && second <= 0x9F;
    case 0xF0:
        return second >= 0x90 && second <= 0xBF;
    case 0xF4:
        return second >= 0x80 && second <= 0x8F;
    default:
        return is_continuation(second);
    }
}

size_t utf8_step(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    if (len == 0) {
        return 0;
    }
    const size_t need = length_of(u[0]);
    if (need <= 1) {
        return need;
    }
    if (need > len || !second_byte_fits(u[0], u[1])) {
        return 0;
    }
    for (size_t i = 2; i < need; i++) {
        if (!is_continuation(u[i])) {
            return 0;
        }
    }
    return need;
}

size_t utf8_marks(const char *s, size_t len)
{
    size_t at = 0;
    while (len - at >= 3 && memcmp(s + at, "\xEF\xBB\xBF", 3) == 0) {
        at += 3;
    }
    return at;
}

size_t utf8_fit(const char *s, size_t len, size_t max)
{
    if (len <= max) {
        return len;
    }
    /* A character that the cut would split begins at most three bytes before it. */
    for (size_t back = 1; back <= 3 && back <= max; back++) {
        const size_t step = utf8_step(s + max - back, len - (max - back));
        if (step > 0) {
            return step > back ? max - back : max;
        }
    }
    return max;
}

/* The bytes at s[0..len) that begin a character whose other bytes do not follow, or 0. */
static size_t part_of_character(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    if (length_of(u[0]) <= 1) {
        return 0;
    }
    size_t n = len > 1 && second_byte_fits(u[0], u[1]) ? 2 : 1;
    while (n > 1 && n < len && is_continuation(u[n])) {
        n++;
    }
    return n;
}

void utf8_mend(char *s)
{
    const size_t len = strlen(s);
    size_t kept = 0;
    for (size_t at = 0; at < len;) {
        size_t step = utf8_step(s + at, len - at);
        const size_t part = step == 0 ? part_of_character(s + at, len - at) : 0;
        step = step == 0 && part == 0 ? 1 : step;
        memmove(s + kept, s + at, step);
        kept += step;
        at += step + part;
    }
    s[kept] = '\0';
}

static char continuation(uint32_t c, int shift)
{
    return (char)(0x80 | (c >> shift & 0x3F));
}

size_t utf8_put(uint32_t c, char ret[4])
{
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
        return 0;
    }
    const size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    ret[0] = (char)(first[len] | c >> 6 * (len - 1));
    for (size_t i = 1; i < len; i++) {
        ret[i] = continuation(c, 6 * (int)(len - 1 - i));
    }
    return len;
}
