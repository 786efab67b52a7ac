/*
 * What a job keeps of its test rows for people to look at: truth and prediction of a sample of
 * bounded size, drawn uniformly by the job's seed and in random order, so that its beginning is a
 * sample as well.
 */
#pragma once

#include "base/json.h"
#include "engine/fit/fit.h"

#define TESTED_ROWS_MAX 1000
#define TESTED_VALUES_MAX 20000 /* predictions; fewer rows where there are many targets */
#define TESTED_TARGETS_MAX 64   /* that have metrics of their own in a job's result */

/*
 * {task, targets: [names], classes: [labels] or null, test_rows: all there are, rows: [place in the
 * data set], truth: […], predictions: […]}; an item of the last two is a number, an array of them
 * where there are several targets, or a class's label. A prediction beyond the range of a double is
 * null.
 */
int tested_sample(const struct tested_rows *all, uint64_t seed, struct json **ret, struct err *err);

/* [{target: name, smape, rmse, mae, r2}, …] of the first targets, at most TESTED_TARGETS_MAX, in
 * their order: a job's metrics are those of all of them together. JSON's null for a single target
 * and for classes. */
int tested_targets(const struct tested_rows *all, struct json **ret, struct err *err);
