/*
 * The Cholesky factor of a full kernel matrix, K + ridge I = L L', by blocked left-looking
 * factorisation (Golub and Van Loan, Matrix Computations, 4.2). One step makes one panel of
 * b = block columns J, with I the rows from J's first on:
 *
 *     G    = K(I,J) + ridge I - L(I,1:j) L(J,1:j)'      the kernel oracle and one gemm
 *     L_JJ = chol(G_JJ),   L_IJ = G_IJ L_JJ^-T          potrf and trsm
 *
 * Cost: n^3/6 multiply-adds in all, at most n^2 b / 8 in a step. Memory: n^2 numbers of the
 * factor's own precision, which need not be that of the points or of the vectors; the strict upper
 * triangle outside the diagonal blocks is never touched.
 *
 * A panel is made from those before it and never looked back at: the panels so far are all that a
 * checkpoint needs (state.h lends them, so that none is copied), and the rest comes out to the same
 * bits.
 */
#pragma once

#include "engine/solver.h"

struct factor {
    struct backend *be;
    const struct points *X;
    int64_t n, block;
    int64_t next;     /* columns of L made so far */
    bool narrow;      /* kernel values or L are float32 */
    double ridge;     /* what the diagonal is given: the problem's own, or more */
    double min_pivot; /* a smaller one ends the factorisation */
    struct mat L;     /* n x n */
    struct mat work;  /* n x t of L's type where the vectors have another one */
};

/* max_i k(x_i, x_i); -ERR_DIVERGED when one is not finite. */
int factor_largest_kernel(const struct problem *p, double *ret, struct err *err);

/* Room for the factor of p's matrix with `ridge` on its diagonal; nothing is computed.
 * -ERR_NO_MEMORY names the matrix. factor_deinit accepts a zeroed and a half-built one. */
int factor_init(const struct problem *p, enum dtype dtype, double ridge, double min_pivot,
                int64_t block, struct factor *ret, struct err *err);
void factor_deinit(struct factor *f);

/* 1: complete. 0: call again. -ERR_NOT_POSITIVE_DEFINITE names the training row. */
int factor_step(struct factor *f, struct err *err);
double factor_fraction(const struct factor *f); /* of the work, 0..1 */

/* The panels made so far, and back; the sizes and the block of the one that loads are to be the
 * same, or it is -ERR_CORRUPT. */
int factor_save(const struct factor *f, struct state *to, struct err *err);
int factor_load(struct factor *f, const struct state *from, struct err *err);

/* B <- (L L')^-1 B, n x t of any type. */
int factor_solve(struct factor *f, const struct mat *B, struct err *err);
