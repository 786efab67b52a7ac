/* krr-bench solve: one training order from data to certified residual, timed. */
#pragma once

#include "base/json.h"
#include "bench/options.h"
#include "engine/backend.h"

/* *ret is the report, to be freed by the caller: the `result` object of a job, and
 * seconds_to_tolerance (null unless converged) and what machine_to_json tells. */
int solve_run_order(struct backend *be, const struct solve_bench_options *o, struct json **ret,
                    struct err *err);
