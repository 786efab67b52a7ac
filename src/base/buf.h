/*
 * A growing byte buffer. After an allocation failure `failed` is set and every later call does
 * nothing until buf_clear, so a chain of appends needs one check at its end. data is NUL-terminated
 * whenever it is not NULL (the NUL is not counted in len).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;
    size_t len;
    size_t cap;
    bool failed;
};

#define BUF_INIT                                                                                   \
    {                                                                                              \
        .data = NULL                                                                               \
    }

void buf_deinit(struct buf *b);
void buf_clear(struct buf *b); /* len = 0, failed = false; keeps the memory */
void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Quoted and escaped; invalid UTF-8 -> U+FFFD. */
void buf_json_string(struct buf *b, const char *s);
/* The shortest text that reads back (decimal.h); null if not finite. */
void buf_json_number(struct buf *b, double v);
void buf_json_numbers(struct buf *b, const double *v, int64_t count); /* with commas between */
void buf_json_pointer(struct buf *b, const char *key); /* "/key", escaped as in RFC 6901 */
void buf_consume(struct buf *b, size_t n);             /* drops the first n bytes */
char *buf_take(struct buf *b); /* the string, ownership to the caller; NULL if failed */

#define cleanup_buf __attribute__((cleanup(buf_deinit)))
