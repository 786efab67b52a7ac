/*
 * The matrix K of all G places of a grid (engine/grid.h), of a kernel that is a product over the
 * features: K = Q diag(values) Q', Q = Q_1 x Q_2 x ... (Kronecker) of the eigenvectors of one small
 * matrix for each of them. Vectors over the places have a number for each place in the order of
 * grid_axes_place.
 */
#pragma once

#include "engine/grid.h"
#include "engine/kernel.h"
#include "engine/mat.h"

struct kron_basis {
    struct backend *be;
    const struct kernel *kernel; /* borrowed */
    struct grid_axes axes;
    int next;                       /* axis that is decomposed next */
    double *values;                 /* [G] of K, not below 0; once all are */
    struct mat Q[GRID_DIMS], other; /* other: [G], float64 */
};

/* Of rows on the host; axes.dims = 0: they lie on no grid of at most `most` places. */
int kron_basis_find(struct kron_basis *b, struct backend *be, const struct kernel *kernel,
                    const struct rows *rows, int64_t most, struct err *err);
/* The next axis. 1: all are done. */
int kron_basis_build(struct kron_basis *b, struct err *err);
/* Every column of X [G, t] <- Q X, or Q' X; X has ld = G. */
int kron_basis_multiply(struct kron_basis *b, bool transposed, const struct mat *X,
                        struct err *err);
void kron_basis_deinit(struct kron_basis *b);
