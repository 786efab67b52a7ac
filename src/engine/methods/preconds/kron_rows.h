/* Which place of a grid each row has: S, n x G, of precond_kronecker.c. Vectors are float64 and in
 * the backend's memory. */
#pragma once

#include "engine/backend.h"

struct kron_rows {
    int64_t n, places;
    int64_t *place; /* [n] of row i */
    int64_t *count; /* [places] rows there */
    /* The first rows of all places, then the second ones, .. : rows, and their places. Round k is
     * first[k] .. first[k + 1] - 1. */
    int64_t *order, *target, *first;
    int64_t rounds;
};

int kron_rows_init(struct kron_rows *s, const struct grid_axes *axes, const struct rows *X,
                   struct err *err);
/* X [G, t] <- S' N; N is n x t, and `scratch` as large; ones [t]. */
int kron_rows_spread(const struct kron_rows *s, struct backend *be, const double *ones,
                     const struct mat *N, const struct mat *scratch, const struct mat *X,
                     struct err *err);
/* N <- S X. */
int kron_rows_gather(const struct kron_rows *s, struct backend *be, const struct mat *X,
                     const struct mat *N, struct err *err);
void kron_rows_deinit(struct kron_rows *s);
