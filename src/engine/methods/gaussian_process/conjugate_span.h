/*
 * Search directions of conjugate gradients on (K + ridge I) X = Y, kept: S (n x p) with
 *
 *     S'K S = I,    Z = K S,
 *
 * p growing by up to t a step, one for each target, from the residuals R of what the directions so
 * far give: K-orthogonal to all before (twice, since once is not enough, and up to six times where
 * little is left), and among each other by the eigenvectors of W'K W, of which those that rounding
 * has eaten are left out. So S spans the (block) Krylov space of K and Y, however long a recurrence
 * would have kept its directions apart; complete reorthogonalisation is what the paper's authors
 * found to matter.
 *
 * That space does not depend on the ridge. Residuals of K X = Y, which the paper takes (ridge 0),
 * are those of a system that has no solution where targets are noisy and K is singular in the
 * precision at hand: its X grows without bound, and directions are lost with it in float32.
 *
 * Bartels, Hennig: Conjugate gradients for kernel machines, JMLR 21 (2020), algorithm 1, with every
 * s_i divided by its K-norm. For t > 1 as O'Leary, "The block conjugate gradient algorithm and
 * related methods", Linear Algebra and its Applications 29 (1980).
 *
 * Cost of a step: a product of K with t vectors, and 7 n p t multiplications.
 * Memory: 2 n (room + t) numbers, and max(room, t) t.
 */
#pragma once

#include "engine/solver.h"

struct conjugate_span {
    struct backend *be;
    struct view points;
    int64_t n, t;
    int64_t room, count; /* columns of S and Z there is room for, and that there are */
    double least;        /* of w'K w / w'w: what is not more is rounding */
    double trace;        /* of K */
    struct mat S, Z;     /* n x room, of the problem's dtype */
    struct mat W, V;     /* n x t: unit vectors, and K W */
    struct mat C;        /* max(room, t) x t: coefficients, scratch */
    struct mat core;     /* t x t float64, scratch */
    double *scale;       /* [t] scratch */
};

/* No directions yet, of the problem's exact points where it has such, for `t` columns of residuals;
 * `room` >= 1. After a failure: span_deinit. */
int span_init(struct conjugate_span *s, const struct problem *p, int64_t t, int64_t room,
              struct err *err);
void span_deinit(struct conjugate_span *s); /* accepts a zeroed one */

/* A direction for each column of R (n x t) that is longer than least[j], as far as there is room;
 * *ret of them, 0: K shows no more in this precision. */
int span_extend(struct conjugate_span *s, const struct mat *R, const double *least, int64_t *ret,
                struct err *err);

/* The columns there are. */
static inline struct mat span_S(const struct conjugate_span *s)
{
    return mat_cols(s->S, 0, s->count);
}

static inline struct mat span_Z(const struct conjugate_span *s)
{
    return mat_cols(s->Z, 0, s->count);
}
