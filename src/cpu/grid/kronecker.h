/*
 * The matrix of a kernel that is a product over the features, between all places of a grid
 * (engine/grid.h): K_1 x K_2 x ... (Kronecker), one small matrix for each feature. A vector is
 * multiplied with it axis by axis, in G (s_1 + s_2 + ...) multiplications for G = s_1 s_2 ...
 * places, by OpenBLAS in float64.
 */
#pragma once

#include "cpu/cpu.h"
#include "engine/grid.h"

struct kronecker {
    struct grid_axes axes;
    double *factors[GRID_DIMS]; /* [size][size] */
    double *other;              /* [2 places] */
    int64_t bytes;
};

/* Of sets of the kernel's points (cpu.h); axes.dims = 0: there is none of at most `most` places. */
int kronecker_find(const struct rows *sets, int count, int64_t features, int64_t most,
                   struct kronecker *ret, struct err *err);
/* What a vector takes, in kernel values. */
double kronecker_cost(const struct kronecker *k);
int kronecker_prepare(struct kronecker *k, const struct points *p, struct err *err);
/* numbers [columns][places], at most two, times the matrix, in place. */
int kronecker_multiply(const struct kronecker *k, struct backend *be, double *numbers,
                       int64_t columns, struct err *err);
void kronecker_deinit(struct kronecker *k);
