/*
 * Rows whose steps eigenpro_span.h shortens: a list of few, by row.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct eigenpro_far {
    int64_t *rows;  /* [count] ascending */
    double *shares; /* [count] of a step, in (0, 1) */
    int64_t count, room;
};

/* Of a row after all those before. */
int eigenpro_far_add(struct eigenpro_far *f, int64_t row, double share, struct err *err);
/* 1 of rows that are not there. */
double eigenpro_far_share(const struct eigenpro_far *f, int64_t row);
void eigenpro_far_deinit(struct eigenpro_far *f);

/* Of `count` numbers, which get sorted: the largest; or where that is more than four times what 19
 * in 20 do not exceed, and more than four times `least`: the larger one of these two, unless it is
 * 0. */
double eigenpro_far_ceiling(double *numbers, int64_t count, double least);
