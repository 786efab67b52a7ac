/*
 * How likely a kernel and its noise make the targets: ln p(y), or Titsias's bound on it (AISTATS
 * 2009), of a gaussian process with y = f(X) + noise, where f has the prior s^2 k. What solvers
 * tell of their models (posterior.h), and what a search may judge by (search.h).
 */
#pragma once

#include <stdint.h>

struct evidence {
    int64_t n;        /* rows */
    double ridge;     /* noise has variance s^2 ridge */
    double amplitude; /* s^2; NaN: the most likely one, y'C^-1 y / n */
    double log_det;   /* ln |C|, C the covariance of y for s^2 = 1 */
    double left_out;  /* trace of what C leaves out of K, which the bound pays for; 0: no bound */
};
/* Of one target, misfit = ridge y'C^-1 y. Infinite or NaN where y is 0 and the amplitude is open.
 */
double evidence_of_target(const struct evidence *e, double misfit);
