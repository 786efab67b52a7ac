/*
 * krr-bench operator: the time of one product with the kernel matrix, next to what this machine
 * could do at most (limit.h), and its error against float64.
 *
 * Points are standard normal, weights too; the same seed gives the same numbers. One product runs
 * untimed first. The error of a row is |y - y64| / sum_j |k(x,z_j)| |v_j|, y64 by kernel_eval; the
 * largest of the sampled rows is reported.
 */
#pragma once

#include "base/json.h"
#include "bench/options.h"
#include "engine/backend.h"

/* *ret is the report, to be freed by the caller. The limit and the ceilings are null on devices
 * that have no CPU's instruction set. */
int operator_run(struct backend *be, const struct operator_options *o, struct json **ret,
                 struct err *err);
