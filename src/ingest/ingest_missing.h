/*
 * Values that a table lacks, and what becomes of them (adr/0079). Which cells say so: missing.h.
 *
 * Where the options take them, readers hand a missing value over as NaN. Rows are left out as they
 * go by; what is to be filled in is known at the end, and written when the rows are copied
 * (ingest_finish.c). Until then they are NaN in the temporary file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ingest/ingest.h"

struct ingest_table;

/* How a client has missing values taken, for sentences. */
#define INGEST_TAKE_MISSING                                                                        \
    "missing=drop (krr: --missing drop) leaves out rows that lack a value, missing=fill fills it " \
    "in"

#define INGEST_TAKE_TARGETS                                                                        \
    "missing=drop and missing=fill (krr: --missing) leave out rows without a target"
#define INGEST_NAN_ADVICE " Where NaN marks a missing value, " INGEST_TAKE_MISSING "."

/* What the indicator of a column is called, behind the column's name. */
#define INGEST_INDICATOR "_missing"

/* What is kept of a column where values may be missing. */
struct ingest_gap {
    int64_t present;       /* values in all rows read */
    int64_t kept;          /* in those that stay */
    long double sum, rest; /* of these: their sum, and what was lost in rounding it */
    bool *used;            /* [INGEST_MAX_CLASSES] text: labels in rows that stay; owned */
    int64_t *number;       /* text: labels without those that are in none; NULL: all are; owned */
};

/* Whether missing values are filled in. */
static inline bool ingest_fills(enum ingest_missing rule)
{
    return rule == INGEST_MISSING_FILL || rule == INGEST_MISSING_INDICATE;
}

/* Whether a column has an indicator: behind all columns, in their order. When all rows are there.
 */
bool ingest_gap_indicated(const struct ingest_table *t, int64_t column);

/* Makes t->gap where the options take missing values, and its part of a column that became one of
 * text. */
int ingest_gaps_init(struct ingest_table *t, struct err *err);
int ingest_gap_make_text(struct ingest_table *t, int64_t column, struct err *err);
void ingest_gaps_deinit(struct ingest_table *t);

/* Takes note of the next row; false: it is to be left out. */
bool ingest_gaps_add(struct ingest_table *t, const double *row);

/* When all rows are there: refuses columns without a value, forgets labels that are in no row that
 * stays, and warns of what was done. */
int ingest_gaps_finish(struct ingest_table *t, struct err *err);

/* The number of a raw label among those that are left. */
int64_t ingest_gap_label(const struct ingest_table *t, int64_t column, double raw);

/* The mean of what is there in a column of numbers, as the file's type has it. */
double ingest_gap_mean(const struct ingest_table *t, int64_t column);
