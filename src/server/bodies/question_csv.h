/*
 * A prediction's CSV while it is being read: what question_csv.c (rows, cells) and
 * question_csv_header.c (the first row) share.
 */
#pragma once

#include "base/buf.h"
#include "server/bodies/columns.h"
#include "server/bodies/question.h"
#include "server/bodies/rows.h"

struct csv {
    const char *begin, *at, *end;
    const char *filled; /* up to there, lines without anything have one with something behind */
    int64_t line;       /* where `at` is */
    int64_t row_line, cell_line; /* where the current row and cell begin */
    char delimiter;
    struct buf cell; /* a quoted cell, its quotes resolved */
    struct rows rows;
    struct columns columns;
    struct column *column; /* [width] NULL: they are the features, in their order */
    int64_t width;         /* cells in a line */
    bool header;
    struct columns_rules rules;
    struct csv_form form;
};

struct cell {
    const char *text; /* trimmed; within the body, or in csv.cell */
    size_t len;
};

bool csv__at_line_end(const struct csv *c);
/* The cell at c->at, which is left at the delimiter or the end of the line. */
int csv__read_cell(struct csv *c, int64_t column, struct cell *ret, struct err *err);
/* Whether the cell says that its feature is missing, and that may be. */
bool csv__is_missing(const struct csv *c, const struct cell *cell);
/* A text in another encoding is neither a name nor a word, whatever it looks like. */
int csv__check_encoding(const struct csv *c, int64_t column, const struct cell *cell,
                        struct err *err);

/* Whether the row at c->at is a header: as the client says, where it does. */
int csv__choose_header(const struct csv *c, bool *ret, struct err *err);
/* Reads it: c->column, c->width. */
int csv__read_header(struct csv *c, struct err *err);
/* Without one: rows may leave out the features that tell what is missing. */
int csv__take_narrow(struct csv *c, struct err *err);
