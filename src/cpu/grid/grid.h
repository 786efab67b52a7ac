/*
 * Products of all points of one set with all of another where both lie on one grid
 * (engine/grid.h): weights are spread over its places, these multiplied with the matrix between
 * all of them, and what rows want is gathered. A regular grid goes by Fourier transforms
 * (cpu/grid/torus.h), any grid, for kernels that are products over the features, by a small matrix
 * for each of these (cpu/grid/kronecker.h), whichever takes less. All of that in float64.
 *
 * What is lost is of the size of the float64 rounding of |K| |v|, of all rows together: a row that
 * is far from all that counts has its product by differences of larger numbers. Bits depend on the
 * shapes alone.
 */
#pragma once

#include "cpu/cpu.h"

/* Whether the product of the two goes by their grid. */
bool grid_applies(const struct view *P, const struct view *Q);
int grid_product(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
                 double b, const struct mat *Y, struct err *err);
/* Of cpu__points_free. */
void grid_forget(struct backend *be, struct points *p);
