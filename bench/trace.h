/* What a solve reported at every step, one JSON object a line:
 *   {"phase","iteration","seconds","cpu_seconds","relative_residual","rmse","accuracy"}
 * as in wire/progress.h: the residual is the iteration's own, null while it is unknown; rmse and
 * accuracy are those of the last evaluation on the test rows, null before the first. seconds and
 * cpu_seconds (all threads) count from trace_open. Building steps of a preconditioner or a
 * factorisation are lines too, with iteration 0. */
#pragma once

#include <stdio.h>

#include "base/err.h"
#include "wire/progress.h"

struct trace {
    FILE *file; /* NULL: nothing is kept */
    double began, cpu_began;
    int failure; /* errno of the first write that failed, or 0 */
};

/* path NULL: a trace that keeps nothing. */
int trace_open(const char *path, struct trace *ret, struct err *err);
void trace_step(struct trace *t, const struct progress *p);
/* Says whether every line arrived. */
int trace_close(struct trace *t, struct err *err);
