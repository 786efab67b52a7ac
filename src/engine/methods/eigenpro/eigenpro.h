/*
 * EigenPro's preconditioner from a subsample S of s rows, and the sizes of batch and step that go
 * with it: what EigenPro 2, 3 and 4 share.
 *
 * Papers: Ma, Belkin, "Kernel machines that adapt to GPUs for effective large batch training"
 * (EigenPro 2.0), arXiv:1806.06144; Abedsoltan, Belkin, Pandit, "Toward large kernel models",
 * arXiv:2302.02605, appendix C.
 *
 * The kernel is k~(i,j) = k(x_i, x_j) + ridge [i = j] on the training rows, with matrix
 * M = K + ridge I; ridge = 0 is the papers' case. With (lambda_i, e_i) the eigenpairs of M_S / s in
 * descending order and r_i = (lambda_q+1 / lambda_i)^alpha for i <= q, the preconditioned kernel is
 *     M' = M - M(:,S) W W' M(S,:),     W = [.. e_i sqrt(d_i / s) ..],  d_i = (1 - r_i) / lambda_i,
 * so that its eigenvalues over S are r_i lambda_i instead of lambda_i: flat at the level of
 * lambda_q+1, slightly rising for alpha < 1 since the subsample's vectors are not quite those of
 * all rows. The ridge is part of the kernel here because W W' must stay below M^-1 (r_i > 0 gives
 * that): with K in place of M in this formula the preconditioned operator is not self-adjoint and
 * may have negative eigenvalues once the ridge exceeds s lambda_q.
 *
 *     lambda1' = lambda_1 / scale,  scale = (lambda_1 / lambda_q+1)^alpha:  the largest of M' / n
 *     beta     = max_i M'_ii
 *     m*       = beta / lambda1' + 1:  the critical batch, beyond which larger ones waste work
 *     eta(b)   = b / beta for b < m*;  2 b / (beta + (b - 1) lambda1') for m* <= b < n;
 *                0.95 * 2 / lambda1' for b = n >= m*;  a step subtracts eta / b times the residual
 *
 * Choice of q (auto): q = #{i : (lambda_i / kappa)^-alpha < max_m} - 1, at least 5, with
 * max_m = min(max(s / 5, m_max), s) and m_max the caller's bound on batches, of at most
 * EIGENPRO_PAIRS pairs.
 *
 * Deviations from the published code:
 *   - kappa = max M_ii makes the rule independent of the kernel's scale (theirs assumes 1).
 *   - pairs with values at rounding level, or below a tenth of the ridge, where flattening gains
 *     nothing, are not counted: rank-deficient subsamples (duplicate rows, linear kernels) have no
 *     division by 0.
 *   - where S is all rows the pairs are exact, and all sound ones are used: the rule guards against
 *     the subsample's errors, and there are none.
 *   - beta is the largest exact diagonal entry of M' over EIGENPRO_PROBES rows T, from outside of
 * the subsample as far as there are any. The authors' is 1 - sum_i e_i^2 over the subsample
 *     (TensorFlow), which leaves the eigenvalues out and is near 1, or max k(x,x) (PyTorch).
 *   - lambda1' is raised to (lambda_max(M'_TT) - beta) / (|T| - 1), measured by power steps, where
 * S is a part of the rows: there the subsample's own value is too small, and the more so the more
 *     vectors are flattened. Without it q beyond the automatic one makes steps that grow.
 *
 * Cost: eigenpro_top.h, and EIGENPRO_PROBES (s + EIGENPRO_PROBES) kernel values and multiplications
 * by q. Memory: s q numbers, and while building EIGENPRO_PROBES (q + EIGENPRO_PROBES) in float64.
 */
#pragma once

#include <stdbool.h>

#include "base/rng.h"
#include "engine/backend.h"

enum { EIGENPRO_PAIRS = 1000, EIGENPRO_PROBES = 2000 };

struct eigenpro_spec {
    struct backend *be;
    const struct points *X;
    int64_t n;
    const int64_t *order; /* [n], a random permutation of the rows, borrowed; the first s are S */
    int64_t s;
    int64_t q;         /* pairs flattened, at most s - 1; negative: auto */
    int64_t max_batch; /* m_max */
    double alpha;
    double ridge;
    double rounding;  /* relative, of kernel values */
    enum dtype dtype; /* of W */
    struct rng rng;
};

struct eigenpro;

/* The spec is copied. */
int eigenpro_new(const struct eigenpro_spec *spec, struct eigenpro **ret, struct err *err);
struct eigenpro *eigenpro_free(struct eigenpro *e); /* NULL is fine */
/* 1: complete. 0: call again. Negative: -ERR_*; -ERR_NOT_POSITIVE_DEFINITE where M_S is not. */
int eigenpro_step(struct eigenpro *e, double *ret_fraction, struct err *err);

/* When complete. */
int64_t eigenpro_rank(const struct eigenpro *e);       /* q, may be 0 */
struct mat eigenpro_weights(const struct eigenpro *e); /* W, s x q */
double eigenpro_top_value(const struct eigenpro *e);   /* lambda_1, without the preconditioner */
double eigenpro_lambda(const struct eigenpro *e);      /* lambda1' */
double eigenpro_beta(const struct eigenpro *e);

/* min(m*, max_batch, n), at least 1. */
int64_t eigenpro_batch(const struct eigenpro *e);
/* eta(batch). */
double eigenpro_rate(const struct eigenpro *e, int64_t batch);
