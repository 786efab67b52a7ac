#include "base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/mem.h"
#include "base/utf8.h"

enum {
    FIRST_CAPACITY = 64,
    PIECE = 64 /* numbers that room is made for at once */
};

void buf_deinit(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf)BUF_INIT;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data != NULL) {
        b->data[0] = '\0';
    }
}

/* Makes room for `more` bytes and the NUL behind them. */
static bool reserve(struct buf *b, size_t more)
{
    if (b->failed) {
        return false;
    }
    if (b->cap > b->len && b->cap - b->len > more) {
        return true;
    }
    size_t cap = b->cap < FIRST_CAPACITY ? FIRST_CAPACITY : b->cap;
    while (cap <= SIZE_MAX / 2 && cap - b->len <= more) {
        cap *= 2;
    }
    char *data = cap - b->len > more ? mem_regrow(b->data, cap, 1) : NULL;
    if (data == NULL) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    if (!reserve(b, len)) {
        return;
    }
    if (len > 0) {
        memcpy(b->data + b->len, data, len);
    }
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int need = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (need < 0) {
        b->failed = true;
    }
    if (need < 0 || !reserve(b, (size_t)need)) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(b->data + b->len, (size_t)need + 1, fmt, args);
    va_end(args);
    b->len += (size_t)need;
}

/* One character that may not stand in a JSON string as it is. */
static void add_escape(struct buf *b, unsigned char c)
{
    static const char short_forms[] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r',
                                       ['\t'] = 't', ['"'] = '"',  ['\\'] = '\\'};
    if (short_forms[c] != '\0') {
        const char two[] = {'\\', short_forms[c]};
        buf_add(b, two, sizeof(two));
    } else {
        buf_printf(b, "\\u%04x", c);
    }
}

void buf_json_string(struct buf *b, const char *s)
{
    const size_t len = strlen(s);
    size_t done = 0; /* s[0..done) is written */
    buf_char(b, '"');
    for (size_t at = 0; at < len;) {
        const unsigned char c = (unsigned char)s[at];
        const size_t step = utf8_step(s + at, len - at);
        if (step > 0 && c >= 0x20 && c != '"' && c != '\\') {
            at += step;
            continue;
        }
        buf_add(b, s + done, at - done);
        if (step == 0) {
            buf_str(b, "\xEF\xBF\xBD");
        } else {
            add_escape(b, c);
        }
        done = ++at;
    }
    buf_add(b, s + done, len - done);
    buf_char(b, '"');
}

void buf_json_number(struct buf *b, double v)
{
    if (!isfinite(v)) {
        buf_str(b, "null");
    } else if (reserve(b, DECIMAL_PRINT_MAX)) {
        b->len += decimal_print(v, b->data + b->len);
        b->data[b->len] = '\0';
    }
}

void buf_json_numbers(struct buf *b, const double *v, int64_t count)
{
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t piece = count - i < PIECE ? count - i : PIECE;
        if (!reserve(b, 1 + (size_t)piece * (DECIMAL_PRINT_MAX + 1))) {
            return;
        }
        if (i > 0) {
            b->data[b->len++] = ',';
        }
        b->len += decimal_print_list(v + i, piece, b->data + b->len);
        b->data[b->len] = '\0';
    }
}

void buf_json_pointer(struct buf *b, const char *key)
{
    buf_char(b, '/');
    for (const char *c = key; *c != '\0'; c++) {
        if (*c == '~') {
            buf_str(b, "~0");
        } else if (*c == '/') {
            buf_str(b, "~1");
        } else {
            buf_char(b, *c);
        }
    }
}

void buf_consume(struct buf *b, size_t n)
{
    if (b->failed || b->len == 0) {
        return;
    }
    const size_t drop = n < b->len ? n : b->len;
    memmove(b->data, b->data + drop, b->len - drop + 1);
    b->len -= drop;
}

char *buf_take(struct buf *b)
{
    reserve(b, 0);
    char *s = b->failed ? NULL : b->data;
    if (s != NULL) {
        s[b->len] = '\0';
        b->data = NULL;
    }
    buf_deinit(b);
    return s;
}
