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
 *     pcg        30 v + 110 with such a regularization, 200 v + 110 below
 *
 * v = (d + 18)/4 is a product's share in mixed precision and in float32, twice that in float64,
 * with d at most 18, since kernel values that cost more are kept. 110 is the preconditioner. 30 and
 * 200 are iterations to 1e-6 with the default rank 10 sqrt(n), between those of the data below.
 * Processor seconds of one thread and iterations, to a relative residual of 1e-6, on a machine with
 * other work; normal points and three real sets, gaussian kernel, bandwidth by the median rule:
 *
 *                            1e-6                           1e-8
 *         d       n   cholesky         pcg, mixed    cholesky       pcg, mixed
 *         3   4,000       0.79         0.25    2         0.82       0.30     3
 *         3   8,000       2.63         0.71    2         4.62       0.68     4
 *        18   2,000       0.20         0.26   45         0.20       0.44   288
 *        18   4,000       0.75         0.60   34         0.86       3.40   343
 *        18   8,000       2.83         2.03   30         4.55      10.2    309
 *        18  12,000       8.00         3.33   28                   18.2    287
 *        64   4,000       0.94         1.04   56         0.90       1.55   120
 *        64   8,000       3.04         2.43   56         4.89       5.30   191
 *     bike    6,000                    0.74   13                    2.48   106
 *     hflights                         0.58    6                    1.02    33
 *     diamonds                         0.57    4                    0.88    18
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
 * some twenty iterations take, or "krill", which takes 5 to 25 iterations to 1e-4 whatever the
 * regularization. Processor seconds to 1e-4 with 1,000 centers (gaussian, bandwidth 3, 10,000 rows,
 * one thread, with other work) for krill and for falkon: bike at 1e-7 a row 0.6 and 2.0, at 2e-10
 * 0.7 and 2.2; higgs7k 0.7 and 0.6; hflights, all 223,874 rows, 5.4 and more than 32. */
const char *choose_restricted_solver(int64_t m, int64_t d);

/* The precision of a job that leaves it to us: mixed for pcg, whose refinement reaches what float64
 * does, and for values in [0, 1]; float64 for methods that have no such refinement (cholesky
 * refines a float32 factor in any precision) and for kernels whose values float32 might not hold.
 */
enum precision choose_precision(const char *solver, enum kernel_id kernel);

/* "cholesky" or "pcg", for n points of d features; `precision` is the one that pcg would have. */
const char *choose_solver(struct backend *be, int64_t n, int64_t d, double regularization,
                          enum precision precision);
