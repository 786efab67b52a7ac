/*
 * Models on m centers Z for many ridges at once, and what each of them would predict for a row that
 * it had not been trained on. With L L' = K_mm such a model is ridge regression on the features
 * phi(x) = L^-1 k_m(x) (Williams and Seeger, NeurIPS 2000). With F'F = Q D Q' of all rows'
 * features F, and U = F Q, the row i left out is missed by
 *
 *     (y_i - u_i (D + ridge)^-1 U'Y) / (1 - u_i (D + ridge)^-1 u_i')
 *
 * exactly, for centers that stay, and the same absolute ridge (Allen, Technometrics 16, 1974). K_mm
 * gets some of its rounding on the diagonal. All in float64.
 *
 * And how likely the gaussian process on these centers makes the targets (evidence.h; DTC, or VFE's
 * bound): with b = Q'F'y
 *
 *     ln |F F' + ridge I| = sum_i ln (d_i + ridge) + (n - m) ln ridge
 *     ridge y'(F F' + ridge I)^-1 y = y'y - sum_i b_i^2 / (d_i + ridge).
 *
 * Cost: 3 n m^2 + 9 m^3 multiplications, and n m (1 + t) for a ridge; 2 n m kernel values. Rows are
 * read twice, in tiles. Memory: 2 m^2 numbers and three tiles of m; 4 m^2 and one tile while F'F is
 * decomposed.
 */
#pragma once

#include <stdbool.h>

#include "engine/backend.h"
#include "engine/row_source.h"

struct center_path_task {
    struct backend *be;
    const struct kernel *kernel;
    const struct row_source *rows; /* with targets */
    const int64_t *index;          /* [n] rows of it, ascending */
    int64_t n;
    const struct rows *Z; /* on the host */
    const double *ridges; /* [count] */
    int64_t count;
    double least;         /* that a ridge must be of n times the largest k(z,z); 0: any share */
    double *ret_evidence; /* [count]: of all targets, NaN as below; NULL: not wanted */
    double amplitude;     /* s^2 of each target; NaN: the most likely */
    bool bound;           /* less the trace that the centers leave out */
    int (*stop)(void *context, struct err *err); /* before each tile; < 0 ends it */
    void *stop_context;
    void (*told)(void *context, double share); /* of all the work that is done; NULL: nobody asks */
    void *told_context;
};

/* ret_missed [n, t, count]: column-major for each ridge, NaN for ridges of which the rounding of D
 * leaves nothing, or below the `least`, and for rows whose own part in their prediction is all but
 * 1 beyond rounding, as that of centers under a small ridge can be. -ERR_NOT_POSITIVE_DEFINITE:
 * K_mm is not, by more than rounding; -ERR_DIVERGED: F'F, of numbers too large, has no
 * decomposition. */
int center_path_left_out(const struct center_path_task *task, double *ret_missed, struct err *err);
