/*
 * A Matern kernel as a sum of two, after Ewald (Ann. Phys. 369, 1921, p. 253): a smooth one, whose
 * spectrum ends, and one of pairs that are near. With a = sqrt(2 nu) / s
 *
 *   k(r) = a^(2 nu) / Gamma(nu) int_0^inf t^(nu-1) exp(-a^2 t - r^2 / (4 t)) dt
 *
 * is a mixture of gaussians: those of t > tau are far(r), whose spectrum ends as exp(-tau w^2)
 * does, the others near(r), which ends as exp(-r^2 / (4 tau)) does. Both are positive definite, and
 * have closed forms for nu = 1/2, 3/2 and 5/2. Distances are in any one unit.
 */
#pragma once

#include <stdbool.h>

#include "engine/kernel.h"

struct split {
    enum kernel_id id;
    int twice_nu;
    double bandwidth, a;
    double root_tau; /* sqrt(tau) */
    double reach;    /* beyond it near(r) is lost; 0: everywhere */
    double beyond;   /* beyond it k(r) is */
};

/* Whether there is one of a kernel of so many features. laplacian_l1 of one is laplacian. */
bool split_exists(enum kernel_id id, int dims);
/* With the least tau for which far's spectrum in so many dimensions, 1 to 3, holds a share of at
 * most `loss` beyond `frequency` (radians a unit). What is lost elsewhere is below `loss` too. */
struct split split_at(enum kernel_id id, double bandwidth, int dims, double frequency, double loss);
double split_far(const struct split *s, double r);
double split_near(const struct split *s, double r);
