/*
 * How krr shows things to people: tables, numbers, and a line of progress that is written over
 * where standard error is a terminal, and repeated every few seconds where it is not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/json.h"

#define SHOW_CELL 48

/* What a server says must not command the terminal: control characters (C0, DEL, C1) and bytes that
 * are not UTF-8 are shown as '?'. */

/* One line, of which the first SHOW_LINE bytes count, with its end. */
#define SHOW_LINE 4096
void show_line(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As it is, but where `to` is a terminal; there line feeds and tabs stay. false: writing failed. */
bool show_text(FILE *to, const char *text, size_t len);
/* One line of JSON, which holds control characters in strings alone: "\u009b". */
void show_json(const char *text);

/* "1.2 GB"; "1:02:03"; "0.0123": 4 digits, or all before the point up to a million, and those of
 * whole numbers; "-" where v is not finite. Into SHOW_CELL bytes. */
void show_bytes(double bytes, char ret[SHOW_CELL]);
void show_duration(double seconds, char ret[SHOW_CELL]);
/* What is left: "under 1 s", "12 s", "1:02"; "" where that is not known (NaN). */
void show_remaining(double seconds, char ret[SHOW_CELL]);
/* "1.5 G", of a count in a second; "-" where it is not finite. */
void show_rate(double v, char ret[SHOW_CELL]);
void show_number(double v, char ret[SHOW_CELL]);
/* obj[key] as show_number has it, "-" where there is none. */
void show_member(const struct json *obj, const char *key, char ret[SHOW_CELL]);

/* A table on standard output, in columns as wide as what they hold. Cells are copied. */
struct table {
    struct buf text; /* cells one after another, each with its NUL */
    int columns, cells;
};
void table_begin(struct table *t, int columns, const char *const *heads);
void table_cell(struct table *t, const char *text); /* NULL: "-" */
/* Prints and forgets; false on lack of memory. */
bool table_end(struct table *t);

struct meter {
    bool terminal, quiet;
    double last; /* monotonic seconds at which it was drawn; 0: never */
    int width;   /* of the line that stands there */
};
void meter_begin(struct meter *m, bool quiet);
/* fraction in 0..1 draws a bar, any other none. Calls that come too soon show nothing. */
void meter_show(struct meter *m, double fraction, const char *text);
/* A line that stays, above the meter. */
void meter_say(struct meter *m, const char *text);
/* Removes the line. */
void meter_end(struct meter *m);
