/*
 * Dense algebra on tall matrices in pieces of about PIECE_WORK multiplications, so that building a
 * preconditioner can be cancelled within a fraction of a second. All sums and triangular factors
 * are float64 whatever the type of the tall matrix, whose rows are converted a piece at a time.
 *
 * Each function does one piece from row (or column) *next on and moves *next; it returns 1 when the
 * work is complete, 0 when it is to be called again, or a negative -ERR_*. *next starts at 0.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "engine/backend.h"

#define PIECE_WORK 4e9

/* Rows that make a piece, of the `left` ones, when each takes `work` multiplications. */
int64_t piece_rows(int64_t left, double work);

/* Lower triangle of C (k x k, float64) += A'A, A n x k. */
int piece_gram(struct backend *be, const struct mat *A, int64_t *next, const struct mat *C,
               struct err *err);
/* C (k x k, float64) += A'B, A and B n x k. */
int piece_cross(struct backend *be, const struct mat *A, const struct mat *B, int64_t *next,
                const struct mat *C, struct err *err);
/* A <- A L^-T, A n x k, L k x k float64. */
int piece_solve(struct backend *be, const struct mat *L, int64_t *next, const struct mat *A,
                struct err *err);
/* The lower triangle of A (float64) becomes its Cholesky factor; what is above it is lost.
 * -ERR_NOT_POSITIVE_DEFINITE as potrf. */
int piece_factor(struct backend *be, int64_t *next, const struct mat *A, struct err *err);
