/*
 * The certificate: how well coefficients solve the system,
 *
 *     max_j |R_j| / |Y_j|,   R = Y - (K + ridge I) A,
 *
 * recomputed in float64 from the training points (the problem's exact ones, or the host's), by no
 * grid, whatever precision, products and recurrence the solver used. Y is the problem's own
 * (rounded to its precision); a column Y_j = 0 counts |R_j|, which is 0 for A_j = 0. NaN when A
 * holds infinity or NaN.
 */
#pragma once

#include "engine/solver.h"

struct certificate {
    double residual; /* exact, or an estimate */
    double bound;    /* of the truth: the residual itself, or above it with 99 % confidence; NaN
                        when none is known */
    bool sampled;
    double whitened, distance; /* of restricted problems, below; NaN: not measured */
};

/* Products with all of K in float64 are made while they take at most these many kernel values, or a
 * twentieth of those that the solve has taken; of larger problems rows are sampled. */
#define CERTIFY_ENTRIES 1e10
#define CERTIFY_SHARE 20
#define CERTIFY_ROWS 4096

bool certify_samples(int64_t n, int64_t entries);

/* Asked before each piece of at most about CERTIFY_PIECE kernel values, and of a row at least; yes
 * ends the certificate with -ERR_CANCELLED. */
struct certify_stop {
    bool (*asked)(void *context);
    void *context;
};
#define CERTIFY_PIECE 1e9

/* R <- R - K(P,Q) A in pieces of P's rows, of at most `piece` values each. Twice as many are taken
 * at once where P and Q are the same view, since a backend may use each for both sides. `stop` may
 * be NULL. A row of R has the same bits in all pieces that are not the whole. */
int certify_subtract(struct backend *be, struct view P, struct view Q, double piece,
                     const struct mat *A, const struct certify_stop *stop, const struct mat *R,
                     struct err *err);

/* Of a restricted problem (solver.h): max_j |K_nm' W (K_nm A_j - Y_j) + ridge K_mm A_j| / |K_nm' W
 * Y_j|, W of its row_weights, always with every row: sums that cancel cannot be sampled. n m + m^2
 * kernel values and m (4 t + d) float64 numbers, a tile of rows beside. A column of which K_nm' Y_j
 * is no more than the rounding of its sums, as where all rows are equal and the targets centered,
 * counts |R_j| by the most that |K_nm' Y_j| could be.
 *
 * `whitened` is max_j |L^-1 R_j| / |L^-1 K_nm' W Y_j|, K_mm = L L' but for a jitter, that of the
 * solvers' variables (core_factor_variables); R with K_mm or with L L', whichever is smaller.
 * Directions of small eigenvalues of K_mm, which R hardly shows beside the large ones, count in it
 * as others do (adr/0062). |L^-1 R_j|^2 / ridge bounds what the objective exceeds its minimum by,
 * which is the squared distance from the solution B in the norm of H = K_nm' W K_nm + ridge K_mm;
 * `distance` is the root of its share in A_j' K_nm' W Y_j, about |B_j|_H^2: a bound of |A_j -
 * B_j|_H / |B_j|_H. Both take m^2 numbers and m^3 / 3 operations, where rule_whitens allows them.
 */
int certify_restricted(const struct problem *p, const struct mat *A,
                       const struct certify_stop *stop, struct certificate *ret, struct err *err);

/* By that rule; `entries`: kernel values taken by the solve. `stop` may be NULL, here and below. */
int certify(const struct problem *p, const struct kernel *kernel, const struct rows *host,
            const struct mat *A, int64_t entries, const struct certify_stop *stop,
            struct certificate *ret, struct err *err);

/* Every row. n^2 kernel values, n d + 2 n t float64 numbers. */
int certify_residual(const struct problem *p, const struct kernel *kernel, const struct rows *host,
                     const struct mat *A, const struct certify_stop *stop, double *ret,
                     struct err *err);

/*
 * From `rows` rows, drawn with replacement from the seed.
 *
 * The whole residual is computed once with float32 kernel values, r~, so that a few rows that hold
 * most of it are not missed; row i is then drawn with probability
 *
 *     p_i = 1/2 mean_j r~_ij^2 / |r~_j|^2 + 1/(2n)
 *
 * and the mean of r_ij^2 / p_i over the draws, r in float64, estimates |r_j|^2 without bias. The
 * bound is the empirical Bernstein inequality (Maurer and Pontil, COLT 2009, Theorem 4) for all
 * columns together. It needs the range of r_ij^2 / p_i: that of kappa^2 (|r~_ij| + rms_j)^2 / p_i
 * over all rows, which is known, with kappa twice the largest |r_ij| / (|r~_ij| + rms_j) drawn. So
 * the confidence holds unless a row that was not drawn is wrong in float32 more than twice as badly
 * as all that were.
 *
 * Costs n^2 kernel values in float32 and n rows in float64; 3/2 n d + 3 n t float64 numbers.
 */
int certify_sampled(const struct problem *p, const struct kernel *kernel, const struct rows *host,
                    const struct mat *A, int64_t rows, uint64_t seed,
                    const struct certify_stop *stop, struct certificate *ret, struct err *err);
