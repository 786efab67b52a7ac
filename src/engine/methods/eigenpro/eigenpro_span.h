/*
 * EigenPro's preconditioner inside the span of the centers, and the sizes of batch and step that go
 * with it: what EigenPro 3 and 4 share (eigenpro34.h).
 *
 * On the functions f = k(., Z) B with the norm of the kernel, the Hessian of
 * (sum_i f(x_i)^2 + ridge |f|^2) / n is estimated from s rows X_s and the span of c centers Z_c:
 *     K(Z_c,Z_c) = L L',  F = K(X_s,Z_c) L^-T,  F' F / s = V diag(lambda_i) V'.
 * psi_i = k(., Z_c) u_i, U = L^-T V, are orthonormal functions with the second moments lambda_i,
 * and P = I - sum_{i <= q} c_i psi_i psi_i',  c_i = 1 - r_i, r_i = ((lambda_q+1 + ridge / n) /
 * (lambda_i + ridge / n))^alpha, flattens the q largest. The authors' psi_i are combinations of
 * k(., x), x in X_s, in its place; then P and the projection onto the centers' span do not commute,
 * the fixed point of "precondition, then project" is not the least-squares solution wherever the
 * residual does not vanish, and the iteration need not be non-expansive in any norm. With psi_i in
 * the span both are settled, and no kernel values with X_s are needed after the building.
 *
 * Steps take eta / b times the residual of each row of a batch of b. With k' = k - sum c_i psi_i
 * psi_i (`projected`: with the kernel of the span, K(.,Z_c) (L L')^-1 K(Z_c,.), in place of k, for
 * c = m),
 *     beta    = max k'(x,x) + ridge / n over EIGENPRO_SPAN_PROBES rows T
 *     lambda1 = max(r_1 lambda_1, (lambda_max(k'(T,T)) - beta) / (|T| - 1)) + ridge / n
 *     m*      = beta / lambda1 + 1, the critical batch
 *     eta(b)  = b / beta for b < m*, 2 b / (beta + (b - 1) lambda1) beyond
 * as in eigenpro.h: non-expansive in the norm of P^-1 while (eta / b) lambda_max(k'(B,B)) <= 2.
 *
 * Whole. Where the subsample is all rows and c = m, the pairs are those of the problem, with no
 * errors to guard against: all are taken, and a batch of all rows, which is back in the span at its
 * end, has (r_1 lambda_1 + ridge / n) n for the largest eigenvalue exactly, so that eta(n) is
 * 0.95 * 2 / lambda1 and nothing is probed. The steps are Newton's but for alpha: a few epochs.
 * With half of the pairs and batches of n / 8, problems of 20 to 400 rows stagnated at residuals up
 * to 1e-2, since the slowest directions take beta / ridge epochs.
 *
 * Far rows. The slowest directions, those of the ridge, shrink by ridge / beta an epoch, and beta
 * is the largest k'(x,x). Real data have a few rows far from all centers, which P does not flatten:
 * of hflights with 4,000 centers the largest is 0.62, the median 0.0007, so that the few make the
 * steps of all a hundred times shorter than they need be. Where the largest is more than four times
 * the ceiling, the larger one of what 19 probes in 20 do not exceed and ridge / 8, rows beyond have
 * the share ceiling / k'(x,x) of a step, which is as far as each can go, and beta is the ceiling.
 * An epoch is then one on the problem in which these rows weigh less: nearly the same in the span
 * of the centers, which such rows have little to do with, and a preconditioner of the true one,
 * whose gradient every later epoch starts from (eigenpro34.h).
 *
 * q (auto): half of the c pairs, at most a tenth of s, at least 5. The published rules take few,
 * since theirs is a subsample of as many rows as centers and its small pairs are noise; with the
 * span's own moments over s = 5 c rows they are not. On 6,400 rows of letter with 1,000 centers the
 * residual after ten epochs is about a hundredth of that with q = 50 (gaussian) and a tenth
 * (laplacian). Pairs at rounding level, or below a tenth of ridge / n, do
 * not count: subsamples of low rank have no division by 0.
 *
 * Cost: s c values of the kernel, s c^2 + c^3 / 3 multiplications, an eigen-decomposition of c, and
 * as much again for the probes; where rows are far n c values and n c q multiplications to find
 * them. Memory: 2 c^2 while building, c q afterwards, float64, and 16 bytes a far row.
 */
#pragma once

#include "engine/methods/eigenpro/eigenpro_far.h"
#include "engine/methods/row_order.h"
#include "engine/solver.h"

enum { EIGENPRO_SPAN_PROBES = 2000 };

struct eigenpro_span_spec {
    const struct problem *p;
    struct row_order order; /* of the rows: X_s are the first s, T the last */
    int64_t s;              /* at most n */
    const int64_t *centers; /* [c] which, borrowed; NULL: the first c */
    int64_t c;
    const struct mat *L; /* the factor of K(Z_c,Z_c), borrowed; NULL: made here */
    int64_t q;           /* negative: auto */
    double alpha;
    bool projected; /* c = m */
    bool whole;     /* s = n, c = m, and batches are of all rows */
};

struct eigenpro_span;

/* The spec is copied. */
int eigenpro_span_new(const struct eigenpro_span_spec *spec, struct eigenpro_span **ret,
                      struct err *err);
struct eigenpro_span *eigenpro_span_free(struct eigenpro_span *e); /* NULL is fine */
/* 1: complete. 0: call again. Negative: -ERR_*. */
int eigenpro_span_step(struct eigenpro_span *e, double *ret_fraction, struct err *err);

/* When complete. */
const struct eigenpro_far *eigenpro_span_far(const struct eigenpro_span *e); /* rows and shares */
int64_t eigenpro_span_rank(const struct eigenpro_span *e);                   /* q, may be 0 */
struct mat eigenpro_span_vectors(const struct eigenpro_span *e);    /* U, c x q, of p->dtype */
const double *eigenpro_span_damping(const struct eigenpro_span *e); /* [q] c_i */
double eigenpro_span_beta(const struct eigenpro_span *e);
double eigenpro_span_lambda(const struct eigenpro_span *e);
double eigenpro_span_critical(const struct eigenpro_span *e);            /* m* */
double eigenpro_span_rate(const struct eigenpro_span *e, int64_t batch); /* eta(b) */
