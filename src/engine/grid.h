/*
 * Points on a regular grid: of every feature the values are origin + k step, k = 0 .. size - 1,
 * though not every place of the grid need have a point, and some may have several. A kernel of the
 * distance depends on differences of places alone there, so that a product with its matrix is a
 * convolution (Bartels, Hennig, "Conjugate gradients for kernel machines", section 4.2).
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "engine/mat.h"

enum { GRID_DIMS = 6 };

/* dims = 0: the points lie on none. */
struct grid {
    int dims; /* features that vary, in their order */
    int64_t feature[GRID_DIMS], size[GRID_DIMS];
    double origin[GRID_DIMS], step[GRID_DIMS];
};

/* The grid of the first `features` columns of all sets together, of at most `most` places.
 * Coordinates may be off by four roundings of their type, at the size of the largest. */
int grid_find(const struct rows *sets, int count, int64_t features, int64_t most, struct grid *ret,
              struct err *err);

/* Where row i stands among extent[0] x .. x extent[dims - 1] places, the last dimension's side by
 * side. */
int64_t grid_place(const struct grid *g, const struct rows *X, int64_t i, const int64_t *extent);
