/*
 * The nearest of many centers, for many rows: |x - z|^2 = |x|^2 + |z|^2 - 2 x.z with the inner
 * products from the backend's oracle for the linear kernel, in blocks of NEAREST_BLOCK^2, and the
 * minima on the host in float64. A distance that is rounding error of that sum counts as 0. What
 * comes out does not depend on the blocks. Memory: 16 NEAREST_BLOCK^2 bytes.
 */
#pragma once

#include "engine/backend.h"

enum { NEAREST_BLOCK = 1024 };

struct nearest {
    struct backend *be;
    struct kernel kernel; /* linear: what the points are made with */
    enum dtype dtype;     /* of the points */
    struct mat block;
    double *host;
};

int nearest_init(struct nearest *w, struct backend *be, enum dtype dtype, int64_t d,
                 struct err *err);      /* after a failure: nearest_deinit */
void nearest_deinit(struct nearest *w); /* accepts a zeroed one */

/* Points for `nearest_update`, and the |x|^2 of each into ret_norms. */
int nearest_points(struct nearest *w, const void *X, int64_t n, struct points **ret,
                   double *ret_norms, struct err *err);

/* distance[i] <- min(distance[i], |p_i - q_j|^2 over all j), and which[i] <- the first j (counted
 * from `base`) where that is less than distance[i] was; which may be NULL. The norms are those of
 * the view's members, in their order. */
int nearest_update(struct nearest *w, struct view P, const double *p_norms, struct view Q,
                   const double *q_norms, double *distance, int64_t *which, struct err *err);

/* |p_i - q_j|^2 of two norms and an inner product. */
double nearest_distance(const struct nearest *w, double p_norm, double q_norm, double product);
