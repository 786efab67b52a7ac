/* The rank of a low-rank preconditioner for a problem, by the rule of plan/rules.h with what is
 * free on its backend; an iteration that goes on keeps the one that it had, where there is room. */
#pragma once

#include "engine/solver.h"
#include "plan/rules.h"

int64_t precond_rank_choose(const struct problem *p, enum rank_source source,
                            const struct param_value *rank);
