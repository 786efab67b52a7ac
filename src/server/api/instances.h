/* The body of a prediction: {"instances": [[…], …]}, read straight into a float64 matrix. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Every row must hold d finite numbers, and there must be at least one row. Errors point at the
 * row ("#/instances/3") or the number ("#/instances/3/0"); fields other than `instances` are
 * refused. *ret is float64 [*ret_rows, d] row-major (mem_free).
 */
int instances_read(const char *text, size_t len, int64_t d, double **ret, int64_t *ret_rows,
                   struct err *err);
