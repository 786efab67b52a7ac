/*
 * The physical lines of a text file, one after another, in bounded memory. A line ends with LF,
 * CR LF or a lone CR; the last one may lack its end. Lines are counted from 1.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A longer line is refused: memory is bounded by it, and no sane row comes near. */
#define INGEST_LINE_MAX ((size_t)64 << 20)

struct ingest_lines {
    int fd; /* borrowed */
    char *buffer;
    size_t capacity, begin, end; /* unread bytes are buffer[begin..end) */
    size_t limit;                /* INGEST_LINE_MAX; smaller in tests */
    bool at_end;
    char saved; /* the byte that the current line's NUL replaced */
    int64_t line;
};

/* From the first byte of fd on; rewind begins again there. */
int ingest_lines_init(struct ingest_lines *l, int fd, struct err *err);
int ingest_lines_rewind(struct ingest_lines *l, struct err *err);
void ingest_lines_deinit(struct ingest_lines *l);

/*
 * The next line with its line end, NUL-terminated, valid until the next call; l->line is its
 * number. Returns 0, or 1 at the end of the file. Refused: lines longer than the limit, NUL bytes.
 */
int ingest_lines_next(struct ingest_lines *l, char **ret, size_t *ret_len, struct err *err);

/* Fills *err: "Line 17: …" at "#/line/17". Returns -code. */
int ingest_line_error(struct err *err, enum err_code code, int64_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
