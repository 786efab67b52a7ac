/* What only the tests ask of the preconditioner. */
#pragma once

#include <stdint.h>

struct precond;

/* The pivots so far, in the order they were accepted; they live as long as the preconditioner. */
const int64_t *precond_rpcholesky_pivots(const struct precond *m, int64_t *ret_count);
