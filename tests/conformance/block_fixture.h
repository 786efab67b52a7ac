/* Block methods in all their variants, solved with and stepped through. */
#pragma once

#include "conformance/solve_fixture.h"

struct block_variant {
    const char *solver;
    const char *params; /* JSON */
};

enum { BLOCK_VARIANTS = 17 };
extern const struct block_variant block_variants[BLOCK_VARIANTS];

struct solver_options block_options(const struct block_variant *v, double tolerance);
/* Solves in at most so many steps. */
struct solve_outcome block_run(struct fixture *f, const struct block_variant *v, double tolerance,
                               int64_t steps);

/* A solver made anew, with the state `from` unless that is NULL, after so many iterations. */
struct solver *block_advance(struct fixture *f, const struct block_variant *v,
                             const struct state *from, int64_t until);
/* Its coefficients; the caller frees. */
double *block_coefficients(struct fixture *f, const struct block_variant *v, struct solver *s);
