/* The median rule for bandwidths. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/mat.h"

/*
 * The median of the distances (l1 or Euclidean) between all pairs of at most 1,000 rows drawn from
 * the seed (fewer for many features, so that at most about 2e9 differences are taken). When more
 * than half of the distances are 0, the median of the others; when all are, or there is one row, 1,
 * and *ret_degenerate is set. For an even number of distances the lower one of the middle pair.
 */
int bandwidth_median(const struct rows *X, bool l1, uint64_t seed, double *ret,
                     bool *ret_degenerate, struct err *err);
