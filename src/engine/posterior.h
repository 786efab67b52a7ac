/*
 * The posterior of a gaussian process of finite rank: what a solver finds beside the mean.
 *
 * Prior f_j ~ GP(0, s_j^2 q), observations y_j = f_j(X) + noise of variance s_j^2 ridge / w_i in
 * row i, where the kernel q has rank p,
 *
 *     q(x, x') = k(x, Z) S S' k(Z, x'),      S (m x p) with S' K_mm S = I.
 *
 * With R = K_nm S and G = R'WR (p x p), all of
 *
 *     mean       k(x, Z) S a_j,                              a_j = (G + ridge I)^-1 R'W y_j
 *     variance   s_j^2 (k(x,x) - |V' k(Z, x)|^2),            V = S (I - ridge (G + ridge I)^-1)^1/2
 *     evidence   ln N(y_j; 0, s_j^2 (R R' + ridge W^-1))
 *
 * follow from S, G and a few sums. The variance has the exact k(x,x) in place of q(x,x) (as DTC
 * has), so that it grows back to the prior's far from all data. From the eigenvectors G = Q T Q',
 * V = S Q (T / (T + ridge))^1/2: no digits are lost in a difference, and none is negative.
 *
 * Bartels, Hennig: Conjugate gradients for kernel machines, JMLR 21 (2020), equations 4 to 8 and 14
 * to 16; Quinonero-Candela, Rasmussen, JMLR 6 (2005) for DTC and FITC; Titsias, AISTATS 2009, for
 * the bound on the evidence.
 */
#pragma once

#include "engine/backend.h"

struct posterior {
    int64_t m, p, t;
    double *factor;      /* V [m, p] row-major; NULL: there is no posterior */
    double *amplitude;   /* [t] s_j^2, of targets as the solver had them */
    double ridge;        /* noise has variance s_j^2 ridge */
    double log_evidence; /* sum over targets; NaN where a target is 0 in every row */
};
void posterior_deinit(struct posterior *p); /* accepts a zeroed one, and makes it one */

/* What it follows from. */
struct posterior_sums {
    int64_t n, t;
    double ridge;         /* > 0 */
    const struct mat *S;  /* m x p, p >= 1, of any type */
    const struct mat *G;  /* p x p float64, its lower triangle */
    const double *misfit; /* [t] ridge y'(R R' + ridge W^-1)^-1 y, that is,
                             |W^1/2 (y - R a)|^2 + ridge |a|^2 */
    double log_weights;   /* sum_i ln w_i */
    double left_out;      /* trace(K - R R') where the evidence is to be Titsias's bound, else 0 */
    double amplitude;     /* s^2 of every target; NaN: the most likely */
    const double *exact;  /* [t] the misfit under k itself, ridge y'(K + ridge I)^-1 y, where it is
                             known: the likeliest s^2 is by it, misfit / (n ridge); NULL: by q's.
                             The evidence is of q's own likeliest in either case. */
};
/* m p numbers on the host, p^2 on the backend, and for a moment three times as many as
 * POSTERIOR_ROWS rows of V have. -ERR_INVALID at "#/regularization" where ridge is not positive. */
#define POSTERIOR_ROWS 4096
int posterior_make(struct backend *be, const struct posterior_sums *sums, struct posterior *ret,
                   struct err *err);
