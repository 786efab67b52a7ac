/*
 * Column means and deviations of the training rows, in float64 by two passes: mean = sum x / n,
 * scale = sqrt(sum (x - mean)^2 / n) (the population's). A constant column gets scale 1, so that it
 * becomes 0 and a value that differs from it later stays finite. Squares neither under- nor
 * overflow.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/mat.h"
#include "wire/dataset.h"

/* Of the columns `columns[0..d)` over the rows `rows[0..n)`, n >= 1. */
void standardize_columns(const struct dataset *ds, const int64_t *rows, int64_t n,
                         const int64_t *columns, int64_t d, double *ret_mean, double *ret_scale);

/* Origins for points of which distances alone count: `mean`, that of the columns, but where it lies
 * outside the middle four fifths of a sample of the rows, because few of them lie far out, the
 * sample's median. Beside a mean that they drag away, all others would lose the digits by which
 * they differ. */
int standardize_origin(const struct dataset *ds, const int64_t *rows, int64_t n,
                       const int64_t *columns, int64_t d, double *mean, struct err *err);

/* Of n numbers, each asked for several times. Returns true when all are equal. */
struct sequence {
    double (*at)(const void *context, int64_t i);
    const void *context;
    int64_t n;
};
bool standardize_sequence(const struct sequence *x, double *ret_mean, double *ret_scale);
bool standardize_vector(const double *x, int64_t n, double *ret_mean, double *ret_scale);

/* X(i,j) = (value - mean[j]) / scale[j] as [n, d] row-major of `dtype`; memory for the caller to
 * free. A column DATASET_ZERO (wire/dataset_match.h) has the value 0. */
int standardize_gather(const struct dataset *ds, const int64_t *rows, int64_t n,
                       const int64_t *columns, int64_t d, const double *mean, const double *scale,
                       enum dtype dtype, void **ret, struct err *err);

/* -ERR_INVALID: a feature of that name has values that `dtype` does not hold. */
int standardize_refuse(const char *name, enum dtype dtype, struct err *err);

/* One raw row into X(i,:), by exactly the same arithmetic. */
void standardize_row(const double *raw, int64_t d, const double *mean, const double *scale,
                     enum dtype dtype, void *X, int64_t i);
