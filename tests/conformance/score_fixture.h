/* Rows whose leverage scores are known, and selections of centers from them. */
#pragma once

#include "conformance/row_table.h"

enum { N = 1200, D = 2 };
static const double lambda = 1e-3;

/* A dense cloud, where scores are small, and 60 rows spread widely, where they are near 1. */
struct scored {
    struct table *t;
    struct backend *be;
    struct kernel kernel;
    struct center_task task;
    double *exact; /* [N] */
};

struct scored scored_new(enum dtype dtype, int threads);
void scored_free(struct scored *w);

/* 1 - ridge [(K + ridge I)^-1]_ii by the backend's dense algebra, from float64 kernel values; the
 * caller frees. */
double *scored_exactly(const struct scored *w);
/* Their sum, by what w->exact holds. */
double scored_dimension(const struct scored *w);

struct centers scored_select(struct scored *w, const char *name, const char *json);
