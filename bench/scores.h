/*
 * Exact ridge leverage scores of all rows, l_i = [K (K + n lambda I)^-1]_ii, in float64:
 *
 *     K + n lambda I = L L',   l_i = 1 - n lambda |L^-1 e_i|^2,   L^-1 by panels of columns
 *
 * Cost: 2 n^3 / 3 multiplications. Memory: 8 n^2 bytes.
 */
#pragma once

#include "engine/centers.h"

/* ret[task->rows->n], at the task's regularization. */
int scores_exact(const struct center_task *task, double *ret, struct err *err);

/* What the centers say of every row's score (center_scores.h). */
int scores_of_centers(const struct center_task *task, const struct centers *c, double *ret,
                      struct err *err);
