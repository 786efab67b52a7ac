/*
 * Distinct points, as a selection gathers them, and what tells equal ones apart: fingerprints of
 * 128 bits, of which two different points of a job share one with a chance of about 1e-30.
 */
#pragma once

#include <stdbool.h>

#include "engine/centers.h"

/* Of d numbers; 0 and -0 are the same. */
struct fingerprint {
    uint64_t a, b;
};
struct fingerprint fingerprint_of(const void *point, int64_t d, enum dtype dtype);

/* Fingerprint -> a number >= 0. Memory: 24 bytes a slot, two to four slots an entry. */
struct point_table {
    struct fingerprint *prints; /* [slots] */
    int64_t *values;            /* [slots], -1: free */
    int64_t slots, count;
};
/* The value that is there already, or `value`, which is put there. Negative: -ERR_*. */
int64_t point_table_put(struct point_table *t, struct fingerprint f, int64_t value,
                        struct err *err);
void point_table_deinit(struct point_table *t); /* accepts a zeroed one */

struct center_set {
    int64_t d, m, room;
    enum dtype dtype;
    char *points;   /* [room, d] */
    int64_t *rows;  /* [room] */
    double *stands; /* [room]: how many training rows each stands for, as 1/A of paper 003 */
    struct point_table table;
};

void center_set_init(struct center_set *s, int64_t d, enum dtype dtype);
void center_set_deinit(struct center_set *s); /* accepts a zeroed one */
void center_set_clear(struct center_set *s);

/* 1: new. 0: the point is there already, and stands for so many rows more. Negative: -ERR_*. */
int center_set_add(struct center_set *s, const void *point, int64_t row, double stands,
                   struct err *err);
const void *center_set_point(const struct center_set *s, int64_t j);

/* What the set holds, as centers; the set is empty afterwards. `n` training rows, or 0: centers
 * without weights. Rows of -1: free points, in the order they came; else ascending by row. */
int center_set_take(struct center_set *s, int64_t n, struct centers *ret, struct err *err);

/* Refuses what no selector can work with: no rows, no features, a count below 0, or one of 0 unless
 * `own_count`. */
int center_task_check(const struct center_task *task, bool own_count, struct err *err);

/* The task with the lambda of leverage scores that the table names, if it does. */
struct center_task center_task_scored(const struct center_task *task,
                                      const struct param_set *params);

/* Ascending. */
void center_sort_rows(int64_t *rows, int64_t count);

/* min(count, rows). */
int64_t center_task_wanted(const struct center_task *task);
