/*
 * Points on a grid (Bartels, Hennig, "Conjugate gradients for kernel machines", section 4.2): of
 * every feature few values occur, though not every place of the grid need have a point, and some
 * may have several.
 *
 * On a regular one the values of a feature are origin + k step, k = 0 .. size - 1. A kernel of the
 * distance depends on differences of places alone there, so that a product with its matrix is a
 * convolution. On any other the matrix of a kernel that is a product over the features is a
 * Kronecker product of one small matrix for each of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/mat.h"

enum { GRID_DIMS = 6 };

/* dims = 0: the points lie on none. */
struct grid {
    int dims; /* features that vary, in their order */
    int64_t feature[GRID_DIMS], size[GRID_DIMS];
    double origin[GRID_DIMS], step[GRID_DIMS]; /* of a regular one */
    bool kronecker; /* products go by a matrix for each feature, steps are any */
    bool scattered; /* points lie anywhere between the places of a regular one */
    double share;   /* of the time of a product without it, about; what products by it take */
};

/* All places, as a number that no grid is too large for. */
static inline double grid_places(const struct grid *g)
{
    double places = 1.0;
    for (int k = 0; k < g->dims; k++) {
        places *= (double)g->size[k];
    }
    return places;
}

/* The grid of the first `features` columns of all sets together, of at most `most` places.
 * Coordinates may be off by four roundings of the largest, and by 1e-8 (float32: 1e-4) at most. */
int grid_find(const struct rows *sets, int count, int64_t features, int64_t most, struct grid *ret,
              struct err *err);

/* Where row i stands among extent[0] x .. x extent[dims - 1] places, the last dimension's side by
 * side. */
int64_t grid_place(const struct grid *g, const struct rows *X, int64_t i, const int64_t *extent);

/* Any grid: the values of each feature that varies, ascending. Freed by grid_axes_deinit. */
struct grid_axes {
    int dims; /* 0: as of struct grid, or there are too many places */
    int64_t feature[GRID_DIMS], size[GRID_DIMS], places;
    double *values[GRID_DIMS]; /* [size] */
};

/* The values of the first `features` columns of all sets together, where that makes at most `most`
 * places. Sets of the less exact type must have the same values, to its rounding. */
int grid_find_axes(const struct rows *sets, int count, int64_t features, int64_t most,
                   struct grid_axes *ret, struct err *err);
/* Where row i stands among all places, the last dimension's side by side. */
int64_t grid_axes_place(const struct grid_axes *g, const struct rows *X, int64_t i);
void grid_axes_deinit(struct grid_axes *g);
