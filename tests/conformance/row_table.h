/* Rows in memory as a source, and selections of centers from them. Failures end the test. */
#pragma once

#include "conformance/device.h"
#include "engine/centers.h"

struct table {
    struct row_source source;
    char *X;           /* [n, d] of the source's type */
    int64_t reads;     /* calls so far */
    int64_t rows_read; /* rows so far */
    int64_t fail_at;   /* the call that fails; -1: none */
};

/* From float64 numbers, which are given away. */
struct table *table_new(double *x, int64_t n, int64_t d, enum dtype dtype);
void table_free(struct table *t);
double table_at(const struct table *t, int64_t i, int64_t j);
int table_compare_rows(const void *a, const void *b); /* int64_t, for bsearch */

/* All steps of a selection with parameters as JSON text, NULL: the defaults. Allocation `fail_nth`
 * of it fails, 0: none. Checks the fractions. Negative where a step failed. */
int table_select(const struct center_task *task, const char *name, const char *json,
                 int64_t fail_nth, struct centers *ret, struct err *err);
