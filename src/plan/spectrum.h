/*
 * How fast the eigenvalues of a kernel matrix fall, from its sizes alone: what leverage scores of
 * rows that nobody has seen add up to.
 *
 * Of normal points of d features, mean 0 and variance 1, and a gaussian kernel exp(-b |x - z|^2)
 * the eigenvalues are known (Rasmussen, Williams, "Gaussian processes for machine learning", MIT
 * Press 2006, 4.3.1): with a = 1/4, c = (a^2 + 2 a b)^1/2 there are (d + k - 1 over k) of size
 *
 *     s_k = (2 a / (a + b + c))^(d/2) (b / (a + b + c))^k,     k = 0, 1, 2, …
 *
 * A Matern kernel of order v is the mean of gaussians with bandwidths h sqrt(u), u of a gamma
 * distribution with shape v and mean 1, and s_k is taken for the mean of theirs. The bandwidth h is
 * the median distance, (2 d)^1/2, or so many times that. The effective dimension of n rows at
 * lambda is then that of the eigenvalues at k,
 *
 *     D(k) = sum_i s_i / (s_i + k),     lambda = k (1 - D(k) / n).
 *
 * Of 1,500 normal points of 17 features at lambda = 1e-3, 1e-5, 1e-7 (their
 * eigenvalues by numpy, a script that is not kept):
 *
 *     gaussian    81   636  1413     by the formula   79   681  1458
 *     matern52   142  1161  1495                     137  1189  1496
 *     laplacian  330  1439  1499                     323  1438  1499
 *
 * Features of tables depend on each other: airfoil, bike, hflights, higgs7k and diamonds are as
 * 0.6 to 0.75 times as many, and so are those
 * of a plan, but for three or fewer.
 */
#pragma once

enum { SPECTRUM_LEVELS = 64 };

struct spectrum {
    double size[SPECTRUM_LEVELS], times[SPECTRUM_LEVELS];
    double rest; /* of the sum of all, which is 1 */
};

/* `medians`: the bandwidth over the median distance; `order` of a Matern kernel, infinity of the
 * gaussian one. */
void spectrum_make(double features, double order, double medians, struct spectrum *ret);
double spectrum_dimension(const struct spectrum *s, double rows, double lambda);
