/* krr-bench centers: the selection of a training order's centers, timed, and how close the leverage
 * scores are that they give. */
#pragma once

#include "base/json.h"
#include "bench/options.h"
#include "engine/backend.h"

/* *ret is the report, to be freed by the caller; see bench/README.md. */
int centers_run_order(struct backend *be, const struct centers_bench_options *o, struct json **ret,
                      struct err *err);
