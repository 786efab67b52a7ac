/*
 * How far a recursive residual R has drifted from the true one, Y - (K + ridge I) B, where K is the
 * matrix of the problem's exact points: estimated from rows drawn once from the seed without
 * replacement,
 *
 *     |D_j|^2 ~ n / rows sum_{i drawn} D_ij^2,   D = Y - (K + ridge I) B - R.
 *
 * A thirty-second of the rows, at least 256 and at most 2,048, or all where there are fewer: what a
 * product in float64 costs is divided by as much (or by half of it, since no value is used twice).
 * A few rows that hold most of the drift can be missed, so whoever asks must be able to stand that.
 */
#pragma once

#include "engine/solver.h"

struct drift {
    const struct problem *p; /* borrowed; exact is not NULL */
    int64_t rows;
    int64_t *index;  /* [rows] */
    double *numbers; /* [2 t] */
    struct mat S, T; /* rows x t of the problem's dtype */
};

int drift_init(struct drift *d, const struct problem *p, struct err *err);
void drift_deinit(struct drift *d); /* accepts zeroed and half-built ones */

/* ret[t]: estimates of |D_j|. */
int drift_estimate(struct drift *d, const struct mat *B, const struct mat *R, double *ret,
                   struct err *err);

/* ret[t]: estimates of |V_j - (K + ridge I) P_j|, the error of the product V. */
int drift_of_product(struct drift *d, const struct mat *P, const struct mat *V, double *ret,
                     struct err *err);
