#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

static bool is_continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
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
    if (u[0] < 0x80) {
        return 1;
    }
    const size_t need = u[0] >= 0xC2 && u[0] <= 0xDF   ? 2
                        : u[0] >= 0xE0 && u[0] <= 0xEF ? 3
                        : u[0] >= 0xF0 && u[0] <= 0xF4 ? 4
                                                       : 0;
    if (need == 0 || need > len || !second_byte_fits(u[0], u[1])) {
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
