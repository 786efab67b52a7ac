/*
 * What becomes of the columns of a table when all rows are there (ingest_finish.c), and whether
 * that can be.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ingest/ingest_table.h"

/* What becomes of a raw column: it is copied, or recoded, or spread. */
struct plan_column {
    int64_t *rank; /* text: place of a label number among the sorted labels; owned */
    bool classes;  /* numbers become class numbers */
    int64_t width; /* columns in the output; 0: it is ignored */
    int64_t place; /* the first of them */
    double fill;   /* for a number that is missing; NaN: there is none */
};

struct plan {
    int64_t raw_columns;
    int64_t *indicated; /* [indicators] raw columns that have one, behind all others; owned */
    int64_t indicators;
    struct plan_column *column; /* [raw_columns] */
    bool changes;               /* the rows cannot stay as they are */
    bool spread;                /* there are columns of words that become 0/1 columns */
};

/* Whether one-hot encoding makes 0/1 columns of it. */
static inline bool ingest_plan_spreads(const struct plan_column *c)
{
    return c->width > 0 && c->rank != NULL && !c->classes;
}

/* Limits on columns and size hold for what comes out, and all names must differ and tell what they
 * were made of. */
int ingest_plan_check(const struct plan *p, const struct ingest_table *t,
                      const struct dataset_info *info, struct err *err);
