#include "support/mutate.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/assert.h"

static const char *const pieces[] = {"-1",
                                     "0",
                                     "1e308",
                                     "1e999",
                                     "9223372036854775808",
                                     "18446744073709551616",
                                     "0.5",
                                     "-0",
                                     "null",
                                     "true",
                                     "{}",
                                     "[]",
                                     "\"\"",
                                     "\"x\"",
                                     "auto",
                                     ",",
                                     ":",
                                     "[",
                                     "{",
                                     "}",
                                     "]",
                                     "\"",
                                     "\\u0000",
                                     "\\",
                                     "\xFF",
                                     "\xE2",
                                     " ",
                                     "\n",
                                     "4294967296",
                                     "99999999",
                                     "\"a\":1"};

static size_t below(struct rng *r, size_t n)
{
    return n == 0 ? 0 : (size_t)rng_below(r, (int64_t)n);
}

static void splice(struct buf *b, size_t at, size_t remove, const char *put, size_t put_len)
{
    struct buf out = BUF_INIT;
    buf_add(&out, b->data, at);
    buf_add(&out, put, put_len);
    buf_add(&out, b->data + at + remove, b->len - at - remove);
    buf_deinit(b);
    *b = out;
}

static void damage(struct rng *r, struct buf *b)
{
    const size_t at = below(r, b->len);
    size_t span = 1 + below(r, 8);
    span = span < b->len - at ? span : b->len - at;
    const char *piece = pieces[below(r, sizeof(pieces) / sizeof(pieces[0]))];
    char range[8];
    memcpy(range, b->data + at, span);
    switch (below(r, 5)) {
    case 0:
        b->data[at] = (char)(b->data[at] ^ (1 << below(r, 8)));
        break;
    case 1:
        splice(b, at, span, "", 0);
        break;
    case 2:
        splice(b, at, 0, range, span);
        break;
    case 3:
        splice(b, at, 0, piece, strlen(piece));
        break;
    default:
        splice(b, at, span, piece, strlen(piece));
        break;
    }
}

char *mutate(struct rng *r, const char *data, size_t len, size_t *ret_len)
{
    struct buf b cleanup_buf = BUF_INIT;
    buf_add(&b, data, len);
    for (size_t n = 1 + below(r, 4); n > 0 && b.len > 0; n--) {
        damage(r, &b);
    }
    assert_false(b.failed);
    char *copy = mem_alloc(b.len > 0 ? b.len : 1);
    assert_non_null(copy);
    memcpy(copy, b.data, b.len);
    *ret_len = b.len;
    return copy;
}
