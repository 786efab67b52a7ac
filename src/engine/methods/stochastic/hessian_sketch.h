/*
 * Preconditioners P of a restricted problem from a sample of its rows, for the stochastic methods
 * (stochastic.h): S rows, drawn uniformly without replacement, stand for all n of them in
 *
 *     H = K_nm' K_nm + ridge K_mm  ~  H_S = (n/s) K_Sm' K_Sm + ridge K_mm,
 *
 * and a damping rho, which the caller chooses, stands for what they miss.
 *
 * Paper: Frangella, Rathore, Zhao, Udell, "PROMISE: Preconditioned stochastic optimization methods
 * by incorporating scalable curvature estimates", arXiv:2309.02014, the preconditioners SSN (rank =
 * m) and NySSN (rank < m).
 *
 *   rank = m   with K_mm = L L',  P = L (C + rho I) L',  C = (n/s) L^-1 K_Sm' K_Sm L^-T:
 *              the paper's subsampled Newton method in the variables L' B, where the regularization
 *              is ridge I; rho is at least the ridge. Cost of the building: s m kernel values and
 *              s m^2 + m^3/3 multiplications, m^3/2 more for each rho. Memory: m^2 float64, 3 m^2
 *              while rho is chosen.
 *   rank < m   P = F F' + rho I,  F F' the Nystrom approximation of (n/s) K_Sm' K_Sm from its
 *              product with r random columns; nothing of size m^2. rho is at least the r-th
 *              eigenvalue of F F'. Cost: s m kernel values, s m r and m r^2 multiplications.
 *              Memory: 3 m r float64.
 *
 * Deviations:
 *   - P^-1 v = (v - F (rho I + F'F)^-1 F'v) / rho, without the eigenvectors of F F'.
 *   - Omega is not orthonormalised, which leaves the approximation as it is but for rounding.
 *   - The shift against rounding is added to Omega' H Omega alone, not to H Omega: F F' is no
 * larger than without it, and nothing has to be taken off its eigenvalues.
 */
#pragma once

#include "engine/solver.h"

struct hessian_sketch {
    struct problem p;
    int64_t m, rows, rank; /* s, r */
    bool exact;            /* rank = m */
    int64_t *index;        /* [s], ascending */
    int64_t next;          /* rows summed up */
    int stage;
    double least;    /* the smallest rho worth a try, once it is built */
    double mean;     /* of the eigenvalues of C, or of F'F */
    double rho;      /* 0: none yet */
    struct mat L, C; /* exact: as above; C is lower */
    struct mat A;    /* exact: P = A A'; otherwise A A' = rho I + F'F */
    struct mat F;    /* m x r: the sketch, then F */
    struct mat omega;
    struct mat gram; /* F'F */
    struct mat T;    /* r x t */
    struct mat W;    /* m x t float64 */
};

/* 1 <= rank <= m, 1 <= rows <= n. The struct is zeroed; after a failure: deinit. */
int hessian_sketch_init(struct hessian_sketch *h, const struct problem *p, int64_t rows,
                        int64_t rank, struct err *err);
void hessian_sketch_deinit(struct hessian_sketch *h);

/* One piece. 1: complete, `least` is known. 0: call again. */
int hessian_sketch_build(struct hessian_sketch *h, double *ret_fraction, struct err *err);

/* Another rho > 0. */
int hessian_sketch_damp(struct hessian_sketch *h, double rho, struct err *err);

/* Gives back what only damp needs. */
void hessian_sketch_settle(struct hessian_sketch *h);

/* R <- P^-1 R in place, m x t or m x 1. */
int hessian_sketch_apply(struct hessian_sketch *h, const struct mat *R, struct err *err);
