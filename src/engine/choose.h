/*
 * The rules behind "auto".
 *
 * Kernel: at most 1,500 training rows are drawn from the seed, two thirds of them to fit on and the
 * rest held out. gaussian and laplacian are each fitted by Cholesky, with the bandwidth that the
 * job asks for (the median rule on those rows by default) and the job's regularization, but at
 * least 1e-8 a row. The smaller sum of squared errors on the held-out rows wins; gaussian when they
 * are equal, when neither matrix can be factorised, and for fewer than 20 training rows.
 *
 * Solver: cholesky while its matrix takes at most a quarter of the backend's free memory and its
 * multiply-adds are at most those of pcg with rpcholesky, both for each entry of the matrix:
 *
 *     cholesky   n/6, or n/12 with a float32 factor: float32 vectors, or regularization >= 2^-23
 *     pcg        50 (d + 18)/2 + 110 with such a regularization, 400 (d + 18)/2 + 110 below
 *
 * with d at most 64, since kernel values that cost more are kept; and at most 24,000 rows in the
 * last case. 50 and 400 are the iterations to 1e-6 that gaussian kernels take with the default rank
 * 10 sqrt(n), for regularizations of 1e-6 and 1e-8; 110 is the preconditioner. Processor seconds of
 * one thread, d = 18, float64, to a relative residual of 1e-6:
 *
 *     n                             8,000   12,000   16,000
 *     1e-6   cholesky (float32)       2.7      7.6     18.8
 *            pcg                      4.1      7.9     12.5
 *     1e-8   pcg                             60.5
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

/* Of a model on m centers: "direct", whose m/2 multiplications a kernel value are less than what
 * some twenty iterations take, or "falkon". */
const char *choose_restricted_solver(int64_t m, int64_t d);

/* The precision of a job that leaves it to us: mixed for pcg, whose refinement reaches what float64
 * does, and for values in [0, 1]; float64 for methods that have no such refinement (cholesky
 * refines a float32 factor in any precision) and for kernels whose values float32 might not hold.
 */
enum precision choose_precision(const char *solver, enum kernel_id kernel);

/* "cholesky" or "pcg", for n points of d features with vectors of `dtype`. */
const char *choose_solver(struct backend *be, int64_t n, int64_t d, double regularization,
                          enum dtype dtype);
