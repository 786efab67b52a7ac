/* Arrays of texts of a fixed width. */
#include <string.h>

#include "base/utf8.h"
#include "ingest/ingest_array.h"

bool ingest_array_text_type(struct ingest_array *a, const char *text, size_t len)
{
    const bool wide = len > 2 && text[1] == 'U' && (*text == '<' || *text == '>');
    const bool bytes = len > 2 && text[1] == 'S' && *text == '|';
    size_t width = 0;
    for (size_t i = 2; i < len && width <= INGEST_TEXT_WIDTH_MAX; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        width = 10 * width + (size_t)(text[i] - '0');
    }
    width *= wide ? 4 : 1;
    if ((!wide && !bytes) || width == 0 || width > INGEST_TEXT_WIDTH_MAX) {
        return false;
    }
    a->element = NULL;
    a->size = width;
    a->wide = wide;
    a->swap = *text == '>';
    return true;
}

static uint32_t character_at(const struct ingest_array *a, const unsigned char *p)
{
    uint32_t c;
    memcpy(&c, p, sizeof(c));
    return a->swap ? __builtin_bswap32(c) : c;
}

/* Bytes without the zeros at the end. */
static size_t length_of(const struct ingest_array *a, const unsigned char *p)
{
    const size_t step = a->wide ? 4 : 1;
    size_t len = a->size;
    while (len > 0 && (a->wide ? character_at(a, p + len - step) == 0 : p[len - step] == 0)) {
        len -= step;
    }
    return len;
}

int ingest_array_text(const struct ingest_array *a, int64_t row, struct buf *ret, struct err *err)
{
    const int64_t place = a->fortran ? row : row * a->columns;
    const unsigned char *p = a->data + (size_t)place * a->size;
    const size_t len = length_of(a, p);
    buf_clear(ret);
    if (!a->wide) {
        buf_add(ret, p, len);
    }
    for (size_t i = 0; a->wide && i < len; i += 4) {
        char utf8[4];
        const size_t bytes = utf8_put(character_at(a, p + i), utf8);
        if (bytes == 0) {
            return ingest_array_error(a, row, 0, err, "the text is no Unicode");
        }
        buf_add(ret, utf8, bytes);
    }
    return ret->failed ? err_no_memory(err) : 0;
}
