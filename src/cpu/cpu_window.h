/*
 * Products with a gaussian's matrix between points of few features that lie anywhere: the
 * non-uniform fast Fourier transform (Dutt, Rokhlin 1993; windows of Kaiser and Bessel) as a fast
 * Gauss transform (Kunis, Potts, Steidl 2006). Each weight is spread over the places of a torus
 * (cpu_torus.h) around its point, by a window; these are multiplied by the spectrum of the
 * gaussian, divided twice by that of the window; and each sum is gathered from the places around
 * its point. n points take n w^d operations for windows of w places, and G log G for G places.
 *
 * A gaussian's spectrum ends where its values are below what is lost anyway, so places can be .3
 * (float32: .4) bandwidths apart, and the torus need be no longer than the points and some eight
 * (six) bandwidths. Errors are 1e-13 (1e-9) of the largest |K| |v| of a row at most.
 */
#pragma once

#include "cpu/cpu_torus.h"

enum { CLOUD_DIMS = 3 };

/* What sets of points of one type share. */
struct cloud {
    struct torus torus; /* grid: the places of points' windows */
    struct window window;
    enum dtype dtype;
    double sigma, beta; /* the bandwidth in places, the window's shape */
    int64_t blocks[2];  /* along the first two axes */
};

/* The points of one set in the order of their places, block by block: what two blocks of one color
 * spread over has no place in common. */
struct cloud_order {
    int64_t *row;   /* [n] */
    int64_t *first; /* [blocks + 1] */
};

/* Around all sets of the type, of the kernel's points (cpu.h); torus.grid.dims = 0: the kernel is
 * no gaussian, more features vary than CLOUD_DIMS, or more than `most` places would be needed. */
void cloud_measure(struct cloud *c, struct points *const *sets, int count, enum dtype dtype,
                   int64_t most, int threads);
/* What spreading a number and gathering one take, in kernel values. */
double cloud_point_cost(const struct cloud *c);
int cloud_prepare(struct cloud *c, struct err *err);
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
