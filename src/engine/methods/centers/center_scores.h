/*
 * Approximate ridge leverage scores l(x) = [K (K + ridge I)^-1]_xx, ridge = n lambda, from a few
 * points J of which point j stands for s_j of the n rows:
 *
 *     l~(x) = (k(x,x) - k_J(x)' (K_JJ + ridge S^-1)^-1 k_J(x)) / ridge,    S = diag(s)
 *
 * Paper: Rudi, Calandriello, Carratino, Rosasco, "On fast leverage score sampling and optimal
 * learning", arXiv:1810.13258, equation (3), with A = S^-1. J = all rows with s = 1 gives the exact
 * scores; J empty gives k(x,x) / ridge. Rounding can take a score anywhere, so it is clamped to
 * [k(x,x) / (n max k + ridge), 1], which holds for every exact one.
 *
 * A lambda below the rounding of kernel values counts as that. The factor is made in float64, with
 * a little more on the diagonal where rounding makes it fail. Scores are float64, or float32 where
 * the task's matrices are and lambda >= 1e-6 max k, which halves their cost. Cost: m^3 / 3
 * multiplications once and m^2 a row. Memory: 8 m^2 bytes, 4 m^2 more for float32, and a piece of
 * rows.
 */
#pragma once

#include "engine/methods/centers/center_set.h"

struct center_scores {
    const struct center_task *task;
    double ridge, largest; /* n lambda, max k(x,x) */
    int64_t m;
    struct points *J;
    double *stands;        /* [m] */
    struct mat core;       /* m x m float64: the factor */
    struct mat narrow;     /* the same in float32, or empty */
    double jitter;         /* added to the diagonal */
    int attempts;          /* that failed */
    int64_t next;          /* column of the factor */
    bool assembled, ready; /* the core holds the matrix; its factor */
    struct mat C, diagonal;
    double *host; /* [piece] */
    int64_t piece;
};

/* *task stays until center_scores_deinit; J is copied. Scores of an earlier start are gone. After a
 * failure: center_scores_deinit. `largest`: max k(x,x). */
int center_scores_start(struct center_scores *s, const struct center_task *task,
                        const struct center_set *J, double lambda, double largest, struct err *err);
void center_scores_deinit(struct center_scores *s); /* accepts a zeroed one */

/* One piece of the factor. 1: ready. 0: call again. */
int center_scores_build(struct center_scores *s, struct err *err);

/* Rows that center_scores_of takes at most: about a second's work. */
int64_t center_scores_piece(const struct center_scores *s);
/* X [count, d] of the rows' type. */
int center_scores_of(struct center_scores *s, const void *X, int64_t count, double *ret,
                     struct err *err);

/* The smallest lambda whose scores are more than the rounding of kernel values of the rows' type.
 */
double center_least_lambda(const struct center_task *task, double largest);

/* max k(x,x): of the kernel, or over a sample of the rows where it depends on them. */
int center_largest(const struct center_task *task, double *ret, struct err *err);
