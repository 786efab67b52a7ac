/*
 * How much memory is left on a backend, asked before a large array is allocated: Linux grants more
 * than it has and kills the process later, and a refusal with a sentence is better than a lost
 * worker.
 */
#pragma once

#include <stdint.h>

#include "engine/backend.h"

/* Bytes still free on the backend; INT64_MAX when it does not know. */
int64_t memory_available_on(struct backend *be);

/* -ERR_NO_MEMORY, naming `what` and both sizes, when the matrix cannot fit on the backend. */
int memory_check_matrix(struct backend *be, int64_t rows, int64_t cols, enum dtype dtype,
                        const char *what, struct err *err);

/* The same for two matrices that are alive together. */
int memory_check_pair(struct backend *be, int64_t rows, int64_t cols, enum dtype dtype,
                      int64_t more_rows, int64_t more_cols, enum dtype more_dtype, const char *what,
                      struct err *err);
