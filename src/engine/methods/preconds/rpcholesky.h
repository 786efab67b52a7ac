/* The rule of randomly pivoted Cholesky (precond_rpcholesky.c), for whoever wants its pivots. */
#pragma once

#include "engine/methods/preconds/precond_pivoted.h"
#include "wire/param.h"

/* As in struct pivot_rule. */
int64_t rpcholesky_propose(struct pivoted *m);
void rpcholesky_choose(struct pivoted *m, int64_t wanted);

/* The block size for k pivots, from the parameter's value. */
int64_t rpcholesky_block(int64_t k, const struct param_value *v);
