/*
 * Products with the matrix of a function whose spectrum ends, between points of few features that
 * lie anywhere: the non-uniform fast Fourier transform (Dutt, Rokhlin 1993; windows of Kaiser and
 * Bessel; Kunis, Potts, Steidl 2006). Each weight is spread over the places of a torus
 * (cpu/grid/torus.h) around its point, by a window; these are multiplied by the spectrum of the
 * function, divided twice by that of the window; and each sum is gathered from the places around
 * its point. n points take n w^d operations for windows of w places, and G log G for G places.
 *
 * Errors are 1e-13 (float32: 1e-9) of the largest |K| |v| of a row at most, beside what of the
 * function or its spectrum is left out.
 */
#pragma once

#include "cpu/grid/torus.h"

enum { CLOUD_DIMS = 3 };

/* What sets of points of one type share. */
struct cloud {
    struct torus torus; /* grid: the places of points' windows */
    struct window window;
    enum dtype dtype;
    double beta;       /* the window's shape */
    int64_t blocks[2]; /* along the first two axes */
};

/* The points of one set in the order of their places, block by block: what two blocks of one color
 * spread over has no place in common. */
struct cloud_order {
    int64_t *row;   /* [n] */
    int64_t *first; /* [blocks + 1] */
};

/* What the points of several sets lie between; dims = 0: none varies, or more than CLOUD_DIMS. */
struct cloud_ranges {
    int dims;
    int64_t feature[CLOUD_DIMS];
    double least[CLOUD_DIMS], most[CLOUD_DIMS];
};
struct cloud_ranges cloud_ranges(struct points *const *sets, int count, enum dtype dtype);

/* A spectrum must end at pi / CLOUD_OVERSAMPLED radians a place. */
#define CLOUD_OVERSAMPLED 1.25

/* Distances are in the points' units (cpu.h). */
struct cloud_layout {
    double step;   /* from a place to the next */
    double beyond; /* the function is lost from there on */
    double zone;   /* places in which distances turn where the torus is shorter than that wants, by
                      cloud_prepare's function; 0: it must not be */
    int64_t most;  /* places */
};

/* torus.grid.dims = 0: that takes more places. */
void cloud_lay(struct cloud *c, const struct cloud_ranges *r, enum dtype dtype,
               const struct cloud_layout *l, const struct backend *be);
/* What spreading a number and gathering one take, in kernel values. */
double cloud_point_cost(enum dtype dtype, int dims);
/* For a gaussian of so many places. */
int cloud_prepare_gaussian(struct cloud *c, double sigma, struct err *err);
/* For any function whose spectrum ends; numbers: room for [places] complex ones. */
int cloud_prepare(struct cloud *c, torus_function *f, const void *context, double *numbers,
                  struct err *err);
/* The order of a set, whose n times cloud_keys must be below 2^62. */
double cloud_keys(const struct cloud *c);
int cloud_sort(const struct cloud *c, const struct points *p, struct cloud_order *ret,
               struct err *err);
void cloud_order_deinit(struct cloud_order *o);
int64_t cloud_order_bytes(const struct cloud *c, int64_t n);
void cloud_deinit(struct cloud *c);

/* numbers [places] <- the column v, spread. */
void cloud_spread(const struct cloud *c, const struct tile_isa *isa, const struct points *q,
                  const struct cloud_order *o, const struct mat *v, double *numbers);
/* The column y <- b y + a times what points gather of numbers. */
void cloud_gather(const struct cloud *c, const struct tile_isa *isa, const struct points *p,
                  const struct cloud_order *o, double a, const double *numbers, double b,
                  const struct mat *y);
