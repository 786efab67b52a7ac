/*
 * Kernel ridge regression for every ridge from one eigendecomposition K = Q D Q':
 *
 *     G = K + ridge I,   A = G^-1 Y = Q (D + ridge I)^-1 Q'Y,   G^-1 = Q (D + ridge I)^-1 Q'
 *
 * and from these, exactly, what each row's prediction would be had it not been trained on (Allen,
 * Technometrics 16, 1974; Golub, Heath and Wahba, Technometrics 21, 1979; in blocks: An, Liu and
 * Venkatesh, Pattern Recognition 40, 2007):
 *
 *     one row i left out    y_i - f_{-i}(x_i) = A_i / (G^-1)_ii
 *     a fold S left out     Y_S - f_{-S}(X_S) = ((G^-1)_SS)^-1 A_S
 *
 * with the same absolute ridge as the whole problem's. All in float64; kernel values in the points'
 * precision.
 *
 * Cost: about 9 n^3 multiplications, once; then n^2 for a ridge, and n s^2 for each fold of s rows.
 * Memory: 3 n^2 numbers at the peak, n^2 afterwards.
 */
#pragma once

#include "engine/backend.h"

struct ridge_path;

/* X: n points on the host, Y [n, t] column-major; both borrowed for the path's life. */
int ridge_path_new(struct backend *be, const struct kernel *k, enum dtype points,
                   const struct rows *X, const double *Y, int64_t t, struct ridge_path **ret,
                   struct err *err);
struct ridge_path *ridge_path_free(struct ridge_path *p); /* NULL is fine */

/* K + ridge I is positive definite beyond doubt: its least eigenvalue is above n eps times K's
 * largest. The functions below need that. */
bool ridge_path_defined(const struct ridge_path *p, double ridge);

/* ln |K + ridge I|. */
double ridge_path_log_det(const struct ridge_path *p, double ridge);

/* A [n, t] column-major on the host. `refine`: one step of iterative refinement by the oracle. */
int ridge_path_solve(struct ridge_path *p, double ridge, bool refine, double *ret, struct err *err);

/* diag(G^-1) for each of `count` ridges: [n, count] column-major. */
int ridge_path_diagonals(struct ridge_path *p, const double *ridges, int64_t count, double *ret,
                         struct err *err);

/* R [count, t] column-major <- ((G^-1)_SS)^-1 A_S for the rows S = index[0 .. count-1], A [n, t].
 */
int ridge_path_fold(struct ridge_path *p, double ridge, const int64_t *index, int64_t count,
                    const double *A, double *ret, struct err *err);
