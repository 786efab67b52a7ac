#include "plan/spectrum.h"

#include <math.h>
#include <stdbool.h>

enum { GAUSSIANS = 49, HALVINGS = 30 };
/* Of log(u) of the gaussians that a Matern kernel is made of: none beyond has much weight. */
static const double log_least = -12.0, log_most = 4.0;
/* Of features that are independent, as many as those of a table are worth; of a few, all. */
static const double worth = 0.7, few = 3.0;

/* Adds a gaussian's eigenvalues. */
static void add_gaussian(double weight, double d, double medians, struct spectrum *to)
{
    const double b = 1.0 / (4.0 * d * medians * medians), a = 0.25;
    const double all = a + b + sqrt(a * a + 2.0 * a * b);
    double size = weight * pow(2.0 * a / all, d / 2.0);
    for (int k = 0; k < SPECTRUM_LEVELS; k++) {
        to->size[k] += size;
        size *= b / all;
    }
}

/* Of u, on a grid of log(u): u^order exp(-order u), scaled to be 1 at most. */
static double gamma_weight(double order, double log_u)
{
    return exp(order * (log_u + 1.0 - exp(log_u)));
}

static void add_gaussians(double d, double order, double medians, struct spectrum *to)
{
    const double step = (log_most - log_least) / (GAUSSIANS - 1);
    double sum = 0;
    for (int i = 0; i < GAUSSIANS; i++) {
        sum += gamma_weight(order, log_least + i * step);
    }
    for (int i = 0; i < GAUSSIANS; i++) {
        const double log_u = log_least + i * step;
        add_gaussian(gamma_weight(order, log_u) / sum, d, medians * exp(log_u / 2.0), to);
    }
}

void spectrum_make(double features, double order, double medians, struct spectrum *ret)
{
    const double d = fmax(worth * features, fmin(features, few));
    *ret = (struct spectrum){.rest = 1.0};
    if (isinf(order)) {
        add_gaussian(1.0, d, medians, ret);
    } else {
        add_gaussians(d, order, medians, ret);
    }
    double times = 1.0;
    for (int k = 0; k < SPECTRUM_LEVELS; k++) {
        ret->times[k] = times;
        ret->rest = fmax(ret->rest - times * ret->size[k], 0.0);
        times *= (d + k) / (k + 1.0);
    }
}

/* Of any number of rows; those that are left are all taken to be smaller than k. */
static double of_all(const struct spectrum *s, double k)
{
    double sum = s->rest / k;
    for (int i = 0; i < SPECTRUM_LEVELS; i++) {
        sum += s->times[i] * s->size[i] / (s->size[i] + k);
    }
    return sum;
}

double spectrum_dimension(const struct spectrum *s, double rows, double lambda)
{
    double low = lambda, high = 2.0 * lambda + 2.0 / rows; /* D(k) k <= 1 */
    for (int i = 0; i < HALVINGS; i++) {
        const double k = sqrt(low * high);
        const bool below = k - k * of_all(s, k) / rows < lambda;
        low = below ? k : low;
        high = below ? high : k;
    }
    return fmin(of_all(s, high), rows);
}
