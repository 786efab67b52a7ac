/*
 * A prediction's JSON body while it is being read: what question_json.c (rows, the body) and
 * question_json_columns.c (columns, split tables) share.
 */
#pragma once

#include "base/buf.h"
#include "base/jsonread.h"
#include "server/bodies/rows.h"

struct reading {
    struct jsonread *r;
    struct rows rows;
    struct columns columns;
    bool by_name; /* columns is in use */
    struct columns_rules rules;
    bool whole;       /* rows of numbers have all features */
    const char *at;   /* pointer to where the rows stand: "#/instances" */
    const char *form; /* the member that has brought rows, or NULL */
    size_t len;       /* of the body */
    struct question *ret;
};

/* The value stands beside its column's name. */
enum { READING_NAMED = -1 };

/* "#/instances/3/x~1y" */
void reading_key_pointer(const struct reading *b, bool in_row, const char *key, struct buf *ret);
/* -ERR_INVALID at the row that is being read. */
int reading_bad_row(const struct reading *b, struct err *err, const char *what);

/* Makes columns ready. */
int reading_use_names(struct reading *b, struct err *err);
/* What the key just read names; `row` (from 1) may name each column once. */
int reading_take_name(struct reading *b, int64_t guess, int64_t row, bool in_row,
                      struct column *ret, struct err *err);
/* The value that begins with `token` (or an error of jsonread_next), into a row of features; `cell`
 * is its place where the row is an array, or READING_NAMED. */
int reading_take_value(struct reading *b, const struct column *column, int64_t cell, int token,
                       double *row, struct err *err);
/* The rows of the array whose '[' was read. */
int reading_rows(struct reading *b, bool records, struct err *err);

/* {"x0": [...], ...} whose '{' was read. */
int reading_columns(struct reading *b, struct err *err);
/* The value of "dataframe_split": {"columns": [...], "data": [...]}. */
int reading_split(struct reading *b, struct err *err);
