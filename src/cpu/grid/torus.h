/*
 * The matrix of a kernel of the distance between all places of a regular grid (engine/grid.h) is
 * Toeplitz in every dimension; on a torus of at least twice the extent, less one, it is circulant,
 * so that Fourier transforms make it diagonal: weights are transformed, multiplied by the kernel's
 * spectrum and transformed back, two right-hand sides at a time, as real and imaginary part. All of
 * that in float64, in G log G operations for a torus of G places.
 */
#pragma once

#include "cpu/cpu.h"
#include "engine/grid.h"

struct fft;
struct fft_loops;

struct torus {
    struct grid grid;
    int64_t extent[GRID_DIMS], places;
    const struct fft_loops *loops;
    struct fft *fft[GRID_DIMS];
    double *spectrum; /* [places], divided by their number */
    double *scratch;  /* [threads] times what loops want */
    int threads;
    int64_t longest, bytes;
};

/* Of that grid; memory comes with torus_prepare. */
void torus_measure(struct torus *t, const struct grid *g, const struct backend *be);
/* The same, so many places (fft_length) along each axis, the grid's at least. */
void torus_lay(struct torus *t, const struct grid *g, const int64_t *extent,
               const struct backend *be);
/* What two vectors take, in kernel values. */
double torus_cost(const struct torus *t);
/* For the kernel of points; numbers: room for [places] complex ones. */
int torus_prepare(struct torus *t, const struct points *p, double *numbers, struct err *err);
/* In its place, for any function of the way between two places, so many steps [dims] along each
 * axis, the shorter way around. */
typedef double torus_function(const void *context, const int64_t *steps);
int torus_prepare_function(struct torus *t, torus_function *f, const void *context, double *numbers,
                           struct err *err);
/* In its place, for a spectrum that is a product over the axes, [extent] each. */
int torus_prepare_product(struct torus *t, double *const axes[GRID_DIMS], struct err *err);
/* The spectrum times such a product. */
void torus_weigh(struct torus *t, double *const axes[GRID_DIMS]);
/* numbers, [places] complex and 0 outside of the grid, times the matrix, in place; what is outside
 * of the grid is of no use. */
void torus_multiply(const struct torus *t, double *numbers);
void torus_deinit(struct torus *t);
