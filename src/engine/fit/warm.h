/*
 * Coefficients of an earlier model as a start for a new problem. A training row takes those of the
 * model's center with the same features: both are compared bit by bit after the row was
 * standardised exactly as the center was, in the model's own precision, so that no tolerance is
 * needed and none can be wrong. A row that occurs several times takes the centers that are equal
 * to it one after the other, in their order. Rows without a center start at 0.
 *
 * The model computes target_mean + target_scale * k'a in the targets' own units, so coefficients
 * are multiplied by the ratio of the two scales.
 *
 * Cost: m + n hashes of d numbers; memory: two integers a center.
 */
#pragma once

#include "engine/data/fit_data.h"
#include "engine/model/model.h"

/* For the training rows which[0 .. count-1], or all count = n of them when it is NULL. ret[count,
 * t] column-major, all of it set; *ret_found: rows that have a center. -ERR_INVALID at
 * "#/warm_start" where features, task, targets or classes are not the model's. */
int warm_start(const struct model *m, const struct fit_data *data, const int64_t *which,
               int64_t count, double *ret, int64_t *ret_found, struct err *err);
