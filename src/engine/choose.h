/*
 * Kernel, bandwidth and regularization, where a job leaves them open; what follows from sizes alone
 * is in plan/rules.h.
 *
 * At most 1,500 training rows are drawn from the seed, two thirds of them to fit on and the rest
 * held out. Each candidate is fitted by Cholesky, and the smallest sum of squared errors on the
 * held-out rows wins; of equal ones the first, and that is also taken where no matrix can be
 * factorised, and for fewer than 20 training rows. Candidates are, in this order,
 *
 *   kernel          gaussian, laplacian, laplacian_l1
 *   bandwidth       the median distance of those rows, and four times that
 *   regularization  lambda0, and 30, 1e3, 1e4 and 1e5 times that, lambda0 the job's
 *
 * of which the job may settle each. The ridge is what stands for noise, and noise does not depend
 * on how many rows there are: so the ridge that won, fitted rows times lambda, is that of all rows,
 * and their lambda the less the more they are, but not below lambda0 (docs/adr/0047).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/backend.h"
#include "wire/spec.h"

/* What is chosen from. */
struct choose_data {
    struct backend *be;
    const struct rows *X; /* standardised training points */
    const double *Y;      /* [n, t] column-major, centered */
    int64_t t;
    enum dtype points_dtype;
    uint64_t seed;
    bool any_kernel;
    enum kernel_id kernel;    /* unless any; of a distance */
    bool any_bandwidth;       /* else the first of these that is there: */
    const double *bandwidths; /* one a feature, or NULL */
    double bandwidth;         /* 0: the median rule */
    bool any_regularization;
    double regularization; /* a row, lambda0; taken to be at least 1e-8 */
};

struct choice {
    enum kernel_id kernel;
    double medians; /* the bandwidth in medians of the distances; 1 unless any_bandwidth */
    double ridge;   /* absolute */
};
int choose_kernel(const struct choose_data *data, struct choice *ret, struct err *err);
