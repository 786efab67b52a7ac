/*
 * What the parts of the CSV reader share: ingest_csv.c (rows from bytes), ingest_csv_header.c (the
 * first row), ingest_csv_cell.c (cells, and what a column is).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ingest/ingest_table.h"

struct csv_cell {
    char *text; /* trimmed, NUL-terminated */
    size_t len;
    int64_t line;
};

/* One of the first two rows, kept until the header is decided. */
struct csv_row {
    struct csv_cell *cell;
    int64_t count, capacity;
    int64_t line;
};

/* What the readings of a file have found of a column's kind. */
struct csv_kind {
    char *show; /* its first text, as ingest_show has it; owned; NULL: none */
    int64_t line;
    bool below;      /* the text stands below other cells */
    bool open;       /* its cells so far are missing */
    bool waits;      /* its cells so far are numbers that are none, like nan */
    int64_t numbers; /* distinct ones among its texts */
    struct err
        *fault; /* of its first number that is none; it holds where there is no text; owned */
    int64_t fault_line;
};

/* A column is one of text wherever its text stands. Where the first reading finds that below other
 * cells, a second one knows it from the start: texts keep what was written. */
struct csv_kinds {
    struct csv_kind *column; /* [width] */
    int64_t width;
    bool looks; /* rows are only looked at: the file is read again, or refused at its end */
    bool known; /* it is the second reading */
};

struct csv_table {
    struct ingest_table *t;
    char delimiter;
    struct csv_row held[2];
    int held_rows;
    bool begun; /* the columns are known */
    bool header;
    int64_t width;
    double *row;             /* [width] */
    struct csv_kinds *kinds; /* borrowed */
};

/* Line 17, column 3 ("age"): … at #/line/17/column/3. */
int csv_cell_error(const struct csv_table *c, int64_t line, int64_t column, enum err_code code,
                   struct err *err, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* Room for the columns, before the first cell of the first reading. */
int csv_kinds_init(struct csv_kinds *kinds, int64_t width, struct err *err);
void csv_kinds_deinit(struct csv_kinds *kinds);

/* When all rows were looked at: the first number that is none, of a column without text. */
int csv_kinds_check(const struct csv_kinds *kinds, struct err *err);

bool csv_is_text(const struct csv_table *c, const struct csv_cell *cell);
/* Whether the cell says that a value is missing, and may. */
bool csv_is_missing(const struct csv_table *c, const struct csv_cell *cell);

/* One cell of a data row into c->row. */
int csv_read_cell(struct csv_table *c, int64_t line, int64_t column, const struct csv_cell *cell,
                  struct err *err);

/* Makes a column one of text where the first data row, or an earlier reading, says so and the
 * options allow it. */
int csv_choose_kind(struct csv_table *c, int64_t column, const struct csv_cell *cell,
                    struct err *err);

/* Whether the first row is a header: as the upload says, where it does. */
bool csv_choose_header(const struct csv_table *c, const struct csv_row *second);

/* The names, from the first row where it is a header. */
int csv_make_names(const struct csv_table *c, char **names, struct err *err);

/* When all rows were read: what speaks against the header, where it is a guess. */
int csv_warn_header(const struct csv_table *c, struct err *err);

/* When all rows were read: a column without a name that numbers the rows. */
int csv_warn_row_numbers(const struct csv_table *c, struct err *err);
