/*
 * What a target column holds, and the task that follows from it.
 *
 * The rule for TASK_AUTO, for one target of n rows with k distinct values:
 *
 *   text                                        classification
 *   numbers, all integral, k = 2, n >= 4        classification
 *   numbers, all integral, 2 < k <= 10,
 *       max - min + 1 = k (no gap), n >= 20 k   classification, with a warning that says so
 *   the same with 10 < k <= 100                 regression, with a warning that says so
 *   anything else, and several targets          regression
 *
 * Class numbers go without gaps and come up often; counts, prices and minutes have gaps in their
 * tails. But ages and small counts have none: numbers of many values are amounts more often than
 * kinds, and as classes they lose their order. Whoever knows better names the task.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/dataset.h"

/* Classes a classification target may have, and categories of a text feature. */
#define INGEST_MAX_CLASSES 1000

#define INGEST_AUTO_MAX_CLASSES 10
#define INGEST_AUTO_DOUBTFUL 100 /* values up to which numbers might be classes */
#define INGEST_AUTO_ROWS_PER_CLASS 20

/* The distinct values of one column. */
struct ingest_values {
    int64_t rows;
    bool integral; /* every value so far is a whole number */
    bool many;     /* more than `capacity` distinct values; `value` is no longer complete */
    int64_t count;
    int64_t capacity;
    double *value; /* [count], ascending, room for `capacity` */
    int64_t last;  /* where the last one was found */
};

int ingest_values_init(struct ingest_values *v, int64_t capacity, struct err *err);
void ingest_values_deinit(struct ingest_values *v);
void ingest_values_add(struct ingest_values *v, double value); /* finite; -0 counts as 0 */
/* The place of a value that was added, or -1. */
int64_t ingest_values_find(const struct ingest_values *v, double value);

/* What the choice of the task looks at. */
struct ingest_target {
    bool text; /* the values are label numbers */
    const char *name;
    const struct ingest_values *values;
};

/* Turns `wanted` into regression or classification. -ERR_INVALID when the targets do not allow
 * classes; text where regression is wanted has been refused by the reader, which knows the line.
 * *ret_guessed: numbers with more than two values might be either. */
int ingest_decide_task(enum task wanted, const struct ingest_target *first, int64_t target_count,
                       enum task *ret, bool *ret_guessed, struct err *err);
