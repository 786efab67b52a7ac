/*
 * Test metrics from predictions and truth. Matrices are column-major [n, t] with leading dimension
 * n. Definitions in wire/progress.h.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "wire/progress.h"

/* smape, rmse, mae, r2 in the targets' own units. r2 of a target that is constant on the test rows
 * is not defined, and then neither is the mean. Right for numbers of any size (squares.h); infinite
 * where a metric itself is too large for a double. n = 0: all NaN. */
struct metrics metrics_regression(const double *predicted, const double *truth, int64_t n,
                                  int64_t t);

/* accuracy of the first largest score; auc for t = 2 from the difference of the scores. truth holds
 * classes 0 .. t-1. */
int metrics_classification(const double *scores, const int64_t *truth, int64_t n, int64_t t,
                           struct metrics *ret, struct err *err);

/* The probability that a positive has a larger score than a negative, ties counting one half
 * (Mann-Whitney by mid-ranks). NaN without a positive or without a negative. */
int metrics_auc(const double *score, const int64_t *positive, int64_t n, double *ret,
                struct err *err);
