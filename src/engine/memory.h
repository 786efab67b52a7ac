/*
 * How much memory is left, asked before a large array is allocated: Linux grants more than it has
 * and kills the process later, and a refusal with a sentence is better than a lost worker.
 */
#pragma once

#include <stdint.h>

#include "engine/backend.h"

/* Bytes this process may still take on the host: what the kernel calls available, or less where a
 * control group (version 1 or 2) or the process's own limits (ulimit -v, -d) say so. INT64_MAX
 * where none can be read. */
int64_t memory_available(void);

/* Bytes still free on the backend; INT64_MAX when it does not know. */
int64_t memory_available_on(struct backend *be);

/* Bytes that kept kernel values may take: `asked`, but at most half of what is free, since vectors
 * and preconditioners need some too. asked < 0 leaves it to us: a quarter of what is free, or
 * nothing when that is not known. */
int64_t memory_cache_budget(struct backend *be, int64_t asked);

/* The process's high-water mark of resident memory, and a fresh start for it, so that each job of a
 * long-lived worker has its own. Where the mark cannot be set back it stays that of the process. */
void memory_peak_reset(void);
int64_t memory_peak_bytes(void);

/* Bytes of a rows x cols matrix, or INT64_MAX when the product overflows. */
int64_t memory_matrix_bytes(int64_t rows, int64_t cols, enum dtype dtype);

/* -ERR_NO_MEMORY, naming `what` and both sizes, when the matrix cannot fit on the backend. */
int memory_check_matrix(struct backend *be, int64_t rows, int64_t cols, enum dtype dtype,
                        const char *what, struct err *err);

/* The same for two matrices that are alive together. */
int memory_check_pair(struct backend *be, int64_t rows, int64_t cols, enum dtype dtype,
                      int64_t more_rows, int64_t more_cols, enum dtype more_dtype, const char *what,
                      struct err *err);
