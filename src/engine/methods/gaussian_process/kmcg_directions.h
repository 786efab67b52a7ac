/*
 * The directions of kernel machine conjugate gradients (solver_kmcg.c) alone, for another use than
 * its own mean: of a full problem of `n` points, by the parameters `directions` and `probes`.
 */
#pragma once

#include "engine/solver.h"

/* The solver `kmcg`, which ends (CONVERGED, BREAKDOWN) where the directions do: its `step` and
 * `load` give no other reasons, and its `save` takes them up once they are usable. It is torn down
 * by its own teardown. */
int kmcg_directions_begin(const struct problem *p, const struct solver_options *o,
                          struct solver **ret, struct err *err);
/* Whether `directions` allows no more. */
bool kmcg_directions_full(const struct solver *s);
/* S of the problem's type goes to the caller, who frees it; the solver can only be torn down
 * afterwards. The first *ret_count columns are the directions, at least one: of zeros where there
 * are none. */
struct mat kmcg_directions_take(struct solver *s, int64_t *ret_count);
