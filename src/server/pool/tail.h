/*
 * What a worker writes to its standard error: passed on to the daemon's log line by line, and the
 * end of it kept, for who asks why the worker died.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

#define TAIL_BYTES 8192      /* kept at most; a longer line is passed on in pieces */
#define TAIL_LINES 20        /* told at most */
#define TAIL_LINE_BYTES 400u /* told of a line */

struct tail {
    char text[TAIL_BYTES]; /* the last `len` bytes, the first `told` of which have been passed on */
    size_t len, told;
};

/* Whole lines go to fd, in one write as long as they are short. */
void tail_add(struct tail *t, const char *data, size_t size, int fd);
void tail_end(struct tail *t, int fd); /* nothing follows: what is left is a line, too */

/* The last lines that are not empty, oldest first, as strings of the array: printable ASCII, any
 * other byte is '?'. */
void tail_lines(const struct tail *t, struct json *to_array);
