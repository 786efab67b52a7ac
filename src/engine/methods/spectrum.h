/*
 * Ends of the spectrum of a small symmetric float64 matrix on a backend, by vector iterations: the
 * largest eigenvalue by powering, from below, the smallest by inverse iteration, from above.
 */
#pragma once

#include "engine/backend.h"

enum { SPECTRUM_POWERS = 30, SPECTRUM_INVERSES = 6 };

/* From a normal vector of the stream RNG_POWER; SPECTRUM_POWERS products with A. 0 for A = 0. */
int spectrum_largest(struct backend *be, const struct mat *A, uint64_t seed, double *ret,
                     struct err *err);

/* A is positive semidefinite. L, of its shape, becomes its Cholesky factor; z, one column, has the
 * vector to begin with, and becomes the eigenvector. 0 where rounding hides the eigenvalue. */
int spectrum_smallest(struct backend *be, const struct mat *A, const struct mat *L,
                      const struct mat *z, double *ret, struct err *err);
