/*
 * A strict pull reader over a complete JSON text (RFC 8259): no allocation for numbers, so that a
 * prediction body goes straight into floats. json.c builds its trees with it.
 *
 * The text is borrowed and need not end in a NUL. Refused: what RFC 8259 refuses, a byte order
 * mark, numbers beyond the range of a double, strings that are not UTF-8, \u0000, lone surrogates,
 * and nesting beyond JSON_MAX_DEPTH (json.h). Duplicate keys are left to the caller.
 *
 * Invariant: after jsonread_next has returned an error, every later call returns the same error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum jsonread_token {
    JSONREAD_END, /* the one value is complete and only white space followed */
    JSONREAD_OBJECT_BEGIN,
    JSONREAD_OBJECT_END,
    JSONREAD_ARRAY_BEGIN,
    JSONREAD_ARRAY_END,
    JSONREAD_KEY,    /* str / str_len */
    JSONREAD_STRING, /* str / str_len, escapes resolved, NUL-terminated */
    JSONREAD_NUMBER, /* number, always finite */
    JSONREAD_BOOL,   /* boolean */
    JSONREAD_NULL
};

struct jsonread; /* opaque, one per text */

int jsonread_new(const char *text, size_t len, struct jsonread **ret, struct err *err);
struct jsonread *jsonread_free(struct jsonread *r);

/* The next token (>= 0, enum jsonread_token) or -ERR_PARSE / -ERR_NO_MEMORY. */
int jsonread_next(struct jsonread *r, struct err *err);

/*
 * The numbers that follow in the array whose '[', or whose last value, was the last token: up to
 * `max` of them go to to[], faster than one by one. *ret_count is how many. Returns the token that
 * ended them, as jsonread_next does: JSONREAD_ARRAY_END, a value that is no number, or, where there
 * are more than max, the JSONREAD_NUMBER after them. On an error *ret_count numbers were read.
 */
int jsonread_numbers(struct jsonread *r, double *to, int64_t max, int64_t *ret_count,
                     struct err *err);

/*
 * Arrays of `columns` numbers each that follow in the array whose '[', or whose last value, was the
 * last token: up to `max` of them go to to[], row by row, and are read as if token by token.
 * Returns how many. What follows then, be it another row, is the next token: only rows are taken
 * that are whole and plain, and none where the reader has failed.
 */
int64_t jsonread_rows(struct jsonread *r, double *to, int64_t columns, int64_t max);

/* Bytes of the text up to the end of the last token. */
size_t jsonread_offset(const struct jsonread *r);

/* The value of the last token. The string belongs to the reader until the next call; it holds no
 * NUL but its last, as \u0000 is refused. ret_len may be NULL. */
const char *jsonread_str(const struct jsonread *r, size_t *ret_len);
double jsonread_number(const struct jsonread *r);
bool jsonread_bool(const struct jsonread *r);

/* Skips the value whose first token was just returned (or, after a key, the value that follows). */
int jsonread_skip(struct jsonread *r, struct err *err);

/* 1-based position of the last token, for error texts; the column counts bytes. */
void jsonread_position(const struct jsonread *r, int64_t *ret_line, int64_t *ret_column);
