/*
 * Kernel functions. Distance kernels take one bandwidth s > 0, or one per feature (ARD), which is
 * the same as dividing feature j by s_j and using bandwidth 1:
 *
 *   gaussian      exp(-|x-z|_2^2 / (2 s^2))
 *   laplacian     exp(-|x-z|_2 / s)                 the same function as matern12
 *   laplacian_l1  exp(-|x-z|_1 / s)
 *   matern12      exp(-r),                r = |x-z|_2 / s
 *   matern32      (1 + sqrt3 r) exp(-sqrt3 r)
 *   matern52      (1 + sqrt5 r + 5/3 r^2) exp(-sqrt5 r)
 *   linear        gamma x.z + coef0
 *   polynomial    (gamma x.z + coef0)^degree
 *   sigmoid       tanh(gamma x.z + coef0)           not positive definite in general
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/dtype.h"
#include "wire/param.h"

enum kernel_id {
    KERNEL_GAUSSIAN,
    KERNEL_LAPLACIAN,
    KERNEL_LAPLACIAN_L1,
    KERNEL_MATERN12,
    KERNEL_MATERN32,
    KERNEL_MATERN52,
    KERNEL_LINEAR,
    KERNEL_POLYNOMIAL,
    KERNEL_SIGMOID,
    KERNEL_COUNT_
};

/* How kernel values that are kept lie in memory. */
enum kernel_storage {
    KERNEL_STORE_EXACT, /* in the type they are computed in */
    KERNEL_STORE_HALF   /* in 16 bits, with a relative error of 2^-12: the value plus 2^-31, without
                           sign, 5 bits of exponent (0 is 2^-31) and 11 of mantissa */
};

struct kernel {
    enum kernel_id id;
    int64_t d;
    double bandwidth;         /* used when bandwidths is NULL */
    const double *bandwidths; /* [d], borrowed, or NULL */
    /* [d], borrowed, or NULL: a place near the data (its mean, say). Distance kernels do not depend
     * on it; float32 points are stored relative to it, so that data far from the origin keep their
     * digits. Standardised data need none. */
    const double *center;
    double gamma, coef0; /* dot-product kernels */
    int degree;
};

const char *kernel_name(enum kernel_id id);
int kernel_id_parse(const char *name, enum kernel_id *ret, struct err *err);
bool kernel_uses_distance(enum kernel_id id);
bool kernel_uses_l1(enum kernel_id id);
/* A product of one function for each feature. */
bool kernel_is_product(enum kernel_id id);
/* -ERR_UNSUPPORTED where values of the kernel do not lie in what the storage holds. */
int kernel_check_storage(enum kernel_id id, enum kernel_storage storage, struct err *err);

/* In float32 |x-z|_2^2 may be taken from norms and an inner product, where a value then loses at
 * most 4e-6 (5e-6 where all features of a row are alike): up to so large a sum of |x|^2 and |z|^2,
 * in units of the exponent of 2 (r^2 of the Matern kernels, r in such units, likewise). 0: never,
 * as where the kernel has a slope at r = 0.
 */
double kernel_inner_limit(enum kernel_id id, int64_t d);

/* What |x-z|^2 loses so, at most, as a share of |x|^2 + |z|^2. */
double kernel_inner_error(int64_t d);

/* -ERR_DIVERGED: values of the kernel are infinite or NaN. */
int kernel_overflows(struct err *err);

/* Of points of which a row leaves the range of `dtype`: -ERR_INVALID at the field of a job that is
 * to blame for it. Which row it is says nothing: they may be a tile, a sample or centers. */
int kernel_refuse_points(const struct kernel *k, enum dtype dtype, struct err *err);

/* gamma, coef0 and degree from the catalog's parameter values; gamma "auto" = 1/d. */
void kernel_set_params(struct kernel *k, const struct param_set *params);

/* Of a distance r in bandwidths: k(r), and how fast it falls: -k'(r) for a distance in the 1-norm,
 * -k'(r) / r for others, 0 at r = 0 where that has no limit. A bandwidth s_j changes k by that
 * times (d ln s_j) |x_j - z_j| / s_j, or the square of the latter. */
double kernel_of_distance(enum kernel_id id, double r);
double kernel_fall(enum kernel_id id, double r);

/* The float64 reference, by differences, one pair at a time: what every fast path is held to. */
double kernel_eval(const struct kernel *k, const double *x, const double *z);
