/*
 * A bandwidth for each feature, and a ridge, that make the targets of some rows most likely:
 * automatic relevance determination (MacKay 1994; Rasmussen and Williams, Gaussian Processes for
 * Machine Learning, 2006, 5.1 and 5.4.1). With C = K + ridge I, the covariance of n rows but for an
 * amplitude, which is the most likely one for each of the t targets,
 *
 *     cost = (1/n) [ ln |C| / 2 + (n/2) mean_j ln(y_j'C^-1 y_j / n) ],
 *
 * of which the slope along the logarithm of a parameter is tr(W dC) / (2 n t) with
 * W = t C^-1 - n sum_j a_j a_j' / y_j'a_j, a_j = C^-1 y_j. Steps follow the signs of the slopes,
 * each parameter's own length growing while its sign lasts (iRprop-, Igel and Huesken,
 * Neurocomputing 50, 2003; for this cost: Blum and Riedmiller, ESANN 2013). A feature that does not
 * matter comes to a wide bandwidth.
 *
 * Cost of a step: about 7/6 n^3 multiply-adds on the backend, and n^2 d on the host.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/backend.h"

struct relevance_task {
    struct backend *be;
    enum kernel_id kernel; /* of a distance */
    int64_t n, d, t;
    const double *X; /* [n, d] column-major, on the host */
    const double *Y; /* [n, t] column-major, likewise; their squares are numbers */
    /* Asked before each step: 1 ends the learning as it is, < 0 is returned. */
    int (*go_on)(void *context, struct err *err);
    void *context;
};

/* `bandwidths` [d] and *ridge, above 0, are where to begin, and then the likeliest that was seen.
 * *ret_cost is theirs; infinity where no matrix had a factor, or the targets are all 0. */
int relevance_learn(const struct relevance_task *task, double *bandwidths, double *ridge,
                    double *ret_cost, struct err *err);
