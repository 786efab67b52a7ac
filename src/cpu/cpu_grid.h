/*
 * Products of all points of one set with all of another where both lie on one regular grid
 * (engine/grid.h), in G log G operations for a grid of G places. The matrix of all places is
 * Toeplitz in every dimension; on a torus of at least twice the extent, less one, it is circulant,
 * so that Fourier transforms make it diagonal. Weights are spread over the places, transformed,
 * multiplied by the kernel's spectrum and transformed back, two right-hand sides at a time, as real
 * and imaginary part. All of that in float64.
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
