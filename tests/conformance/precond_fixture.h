/* Preconditioners of a fixture's problem. */
#pragma once

#include "conformance/solve_fixture.h"

/* The defaults with this rank and block size; 0: auto. */
struct param_set precond_params_make(const char *name, int64_t rank, int64_t block);
/* Built; the caller tears it down. */
struct precond *precond_make(const struct fixture *f, const char *name, int64_t rank,
                             int64_t block);
/* P^-1 Y of the fixture's targets into f->A; the rank must be as expected. */
void precondition(struct fixture *f, const char *name, int64_t rank, int64_t expected);

/* Three features, two targets, float64. */
struct fixture_spec precond_spec(enum kernel_id kernel, int64_t n, double lambda);
