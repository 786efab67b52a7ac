/* Which rows train and which test. Both lists are in ascending order. */
#pragma once

#include <stdint.h>

#include "engine/data/columns.h"
#include "wire/dataset.h"
#include "wire/spec.h"

struct split {
    int64_t n;      /* training rows, >= 1 */
    int64_t *train; /* [n]; in the memory of `test` */
    int64_t m;      /* test rows, of the training data or of the test data set */
    int64_t *test;  /* [m] */
};
void split_deinit(struct split *s);

/*
 * fraction: round(fraction * rows) test rows, but at least one when the fraction is above 0 and at
 * most rows - 1, the first ones of a permutation drawn from the seed. mask: rows where the column
 * is 1 test, where it is 0 train; other values are refused. dataset: every row of `train_data`
 * trains and every row of `test_data` tests.
 */
int split_make(const struct job_spec *spec, const struct columns *columns,
               const struct dataset *train_data, const struct dataset *test_data, struct split *ret,
               struct err *err);
