/* What tests of posteriors share: plain loops in float64, and what a solver has answered. */
#pragma once

#include "conformance/restricted_fixture.h"
#include "engine/posterior.h"

enum { TESTS = 9 };

static const double two_pi = 6.283185307179586477;

/* Below the caller frees what is returned. C (a x b) = A' B, of n rows. */
double *host_product(const double *A, int64_t a, const double *B, int64_t b, int64_t n);
/* Orthonormal columns that span K^i Y for i < steps, K n x n, Y n x t; *ret of them. */
double *host_krylov(int64_t n, int64_t t, const double *K, const double *Y, int steps,
                    int64_t *ret);
/* ln |L L'|, p x p. */
double host_log_det(const double *L, int64_t p);

/* TESTS points that are no rows, the last one far from all. */
double *posterior_points(int64_t d);
/* k(x,x) - |V'k|^2. */
double variance_of(const struct posterior *p, const double *k, double own);

struct answer {
    struct solve_outcome outcome;
    struct posterior posterior;
    double *A;
};
void answer_deinit(struct answer *a);
