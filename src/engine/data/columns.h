/*
 * Which columns of a data set a job uses, and what its target values mean. Resolved once for the
 * training data; a separate test data set is matched to it by the columns' names and the classes'
 * labels.
 */
#pragma once

#include <stdint.h>

#include "wire/dataset.h"
#include "wire/spec.h"

struct columns {
    enum task task;    /* REGRESSION or CLASSIFICATION */
    int64_t d;         /* features */
    int64_t *features; /* [d] column indices */
    int64_t targets;   /* target columns: 1 for classification */
    int64_t *target;   /* [targets] column indices */
    int64_t mask;      /* column index, or -1 */
    int64_t classes;   /* 0 for regression */
    char **labels;     /* [classes], borrowed from the training data set */
    /* What a stored target value stands for, where the target column holds class codes: the class
     * of the training data (or -1: unknown there), or, in a regression, the number itself. NULL:
     * values stand for themselves. */
    double *meaning; /* [meanings] */
    int64_t meanings;
};

void columns_deinit(struct columns *c);

/* The columns of the training data set. The spec must fit it (job_spec_check_columns). The data set
 * must outlive *ret. */
int columns_resolve(const struct job_spec *spec, const struct dataset_info *info,
                    struct columns *ret, struct err *err);

/* The same columns in a test data set; DATASET_ZERO is among the features of *ret where a column is
 * 0 there (dataset_match.h). Columns that are missing are named in the error, which points at
 * #/test/dataset. */
int columns_match(const struct columns *c, const struct dataset_info *train,
                  const struct dataset_info *other, struct columns *ret, struct err *err);

/* Only the features, of the data set of the centers, into *ret [d], which the caller frees. */
int columns_match_centers(const struct columns *c, const struct dataset_info *train,
                          const struct dataset_info *other, int64_t **ret, struct err *err);

/* Target j of a row: a number, or the class 0 .. classes-1 of the training data, -1 for a class
 * that it does not have. */
double columns_target(const struct columns *c, const struct dataset *ds, int64_t row, int64_t j);
