/*
 * The kernel, where a job leaves it open; what follows from sizes alone is in plan/rules.h.
 *
 * At most 1,500 training rows are drawn from the seed, two thirds of them to fit on and the
 * rest held out. gaussian and laplacian are each fitted by Cholesky, with the bandwidth that the
 * job asks for (the median rule on those rows by default) and the job's regularization, but at
 * least 1e-8 a row. The smaller sum of squared errors on the held-out rows wins; gaussian when they
 * are equal, when neither matrix can be factorised, and for fewer than 20 training rows.
 */
#pragma once

#include <stdint.h>

#include "engine/backend.h"
#include "wire/spec.h"

/* What the kernel is chosen from. */
struct choose_data {
    struct backend *be;
    const struct rows *X; /* standardised training points */
    const double *Y;      /* [n, t] column-major, centered */
    int64_t t;
    enum dtype points_dtype;
    double regularization; /* a row */
    uint64_t seed;
    double bandwidth;         /* 0: the median rule */
    const double *bandwidths; /* one a feature, or NULL */
};
int choose_kernel(const struct choose_data *data, enum kernel_id *ret, struct err *err);
