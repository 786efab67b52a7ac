/*
 * What the readers of the formats hand over, and how it becomes a data set file.
 *
 * A reader calls ingest_table_begin once it knows the columns, ingest_table_rows for every row, and
 * ingest_file ends with ingest_table_finish. In between the rows lie in a temporary data set file
 * as "raw" numbers: a text cell as the number of its label. Finishing decides the task. Usually the
 * file only gets its header then; where classes are recoded, text columns spread into 0/1 columns,
 * or the header is long, it is copied once more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ingest/ingest.h"
#include "ingest/ingest_column.h"
#include "ingest/ingest_labels.h"
#include "ingest/ingest_missing.h"
#include "ingest/ingest_task.h"
#include "ingest/ingest_writer.h"

/* Below this many rows, what does not repeat, or repeats throughout, is no surprise. */
#define INGEST_FEW_ROWS 10

struct ingest_table {
    const struct ingest_options *options; /* borrowed */
    const char *output_path;              /* borrowed */

    int64_t columns;
    char **names;                  /* [columns], owned */
    struct ingest_labels **labels; /* [columns], owned; NULL for a column of numbers */
    int64_t feature_labels;        /* of all columns that are no targets */
    bool *is_target;               /* [columns] */
    bool *is_ignored;              /* [columns] left out at the end */
    int64_t ignored;               /* columns that are */
    struct ingest_column *column;  /* [columns] what the rows so far say */
    enum dtype dtype;

    struct ingest_gap *gap;  /* [columns]; NULL: no value may be missing */
    int64_t dropped, filled; /* rows that were left out, values that are to be filled in */

    int64_t targets;
    int64_t *target;              /* [targets], columns in the order of options->targets */
    struct ingest_values *values; /* [targets] */

    struct ingest_writer writer;

    int64_t warnings;
    char **warning_texts; /* owned */
};

void ingest_table_init(struct ingest_table *t, const struct ingest_options *options,
                       const char *output_path);
void ingest_table_deinit(struct ingest_table *t);
/* As if nothing had been read. */
void ingest_table_reset(struct ingest_table *t);

/*
 * Takes over names[columns] (also on failure), which must be unique. The last usual_targets
 * columns are the targets when the options name none, without those that are ignored; where that
 * leaves none, it is the last column that stays. At least one column must be a feature.
 */
int ingest_table_begin(struct ingest_table *t, char **names, int64_t columns, int64_t usual_targets,
                       enum dtype dtype, struct err *err);

/* For a reader that knows how many rows will come: whether there is room for all of them. */
int ingest_table_expect(const struct ingest_table *t, int64_t rows, struct err *err);

/* Turns a column into one of text before its first row. */
int ingest_table_make_text(struct ingest_table *t, int64_t column, struct err *err);

/* rows[count, columns], finite, or NaN where a value is missing and the options take that; a
 * label's number in a column of text, anything in one that is ignored. */
int ingest_table_rows(struct ingest_table *t, const double *rows, int64_t count, struct err *err);

int ingest_table_warn(struct ingest_table *t, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Warns of columns that are seldom meant, when all rows are there. */
int ingest_table_warn_columns(struct ingest_table *t, struct err *err);

/* Publishes the data set at output_path. */
int ingest_table_finish(struct ingest_table *t, struct dataset_info *ret, struct err *err);

/* The smaller of the option and what a data set file can hold. */
int64_t ingest_max_columns(const struct ingest_options *options);

/* 0 when all differ; 1 with the places of two equal names; -ERR_NO_MEMORY. */
int ingest_names_unique(char *const *names, int64_t count, int64_t *ret_first, int64_t *ret_second,
                        struct err *err);
/* "prefix" + (first + i) for i = 0 … count-1 into names. */
int ingest_names_number(char **names, const char *prefix, int64_t first, int64_t count,
                        struct err *err);
