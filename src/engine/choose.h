/*
 * Kernel, bandwidth and regularization, where a job leaves them open; what follows from sizes alone
 * is in plan/rules.h.
 *
 * Training rows are drawn from the seed: to fit on, two thirds of them, at most 1,000, and twice as
 * many that are held out, or all others. Each candidate is fitted by Cholesky, and the smallest sum
 * of squared errors on the held-out rows wins; of equal ones the first, and that is also taken
 * where no matrix can be factorised, and for fewer than 20 training rows. To hold out more is
 * cheap, and noise is what misleads the choice. Candidates are, in this order,
 *
 *   kernel          gaussian, laplacian, laplacian_l1
 *   bandwidth       the median distance of those rows, and four times that
 *   regularization  lambda0, and 30, 1e3, 1e4 and 1e5 times that, lambda0 the job's
 *
 * of which the job may settle each. Of 10,000 training rows and more, where there is time, the
 * three best pairs of kernel and bandwidth, each judged by its best regularization, are tried again
 * in the same way, fitted on an eighth of the rows, at most 3,000 (rule_choice_rows). What wins
 * there is taken, unless no matrix of it could be factorised.
 *
 * The ridge is what stands for noise, and noise does not depend on how many rows there are: so the
 * ridge that won, fitted rows times lambda, is that of all rows, and their lambda the less the more
 * they are, but not below lambda0 (docs/adr/0047).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/backend.h"
#include "wire/spec.h"

/* What is chosen from. */
struct choose_data {
    struct backend *be;
    const struct rows *X; /* standardised training points, or some of them */
    int64_t n;            /* training rows in all */
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
    double time_budget_s;  /* of the job: no clock is looked at */
    /* Asked before each fit: a negative code ends the choice, and is returned. NULL: never. */
    int (*stop)(void *context, struct err *err);
    void *stop_context;
};

struct choice {
    enum kernel_id kernel;
    double medians; /* the bandwidth in medians of the distances; 1 unless any_bandwidth */
    double ridge;   /* absolute */
};
int choose_kernel(const struct choose_data *data, struct choice *ret, struct err *err);
