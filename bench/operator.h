/*
 * krr-bench operator: the time of one product with the kernel matrix, next to what this machine
 * could do at most (limit.h, limit_device.h), and its error against float64.
 *
 * Points are standard normal, weights too; the same seed gives the same numbers. One product runs
 * untimed first. The error of a row is |y - y64| / sum_j |k(x,z_j)| |v_j|, y64 by kernel_eval; the
 * largest of the sampled rows is reported.
 */
#pragma once

#include "base/json.h"
#include "bench/device_ceiling.h"
#include "bench/options.h"
#include "engine/backend.h"

/* *ret is the report, to be freed by the caller. The limit and the ceilings are those of the
 * processor, or of a GPU by `measure_device`; null on a GPU where that is NULL, and on several. */
int operator_run(struct backend *be, const struct operator_options *o,
                 device_ceiling_fn *measure_device, struct json **ret, struct err *err);
