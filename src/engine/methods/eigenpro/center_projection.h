/*
 * The projection onto the span of the centers: theta = K_mm^-1 h, where h are the values of a
 * function at the centers and theta the coefficients of the nearest function k(., Z) theta in the
 * norm of the kernel. What EigenPro 3 does after every batch and EigenPro 4 after many.
 *
 * exact: by the factor K_mm + jitter I = L L' (normal_core.h): m^2 numbers, m^3 / 3 multiplications
 * once and 2 m^2 t a projection.
 *
 * inexact (Abedsoltan, Belkin, Pandit, arXiv:2302.02605, Algorithm 2): `epochs` epochs of EigenPro
 * 2 (eigenpro.h) for K_mm theta = h from theta = 0, the centers in one fixed random order, so that
 * theta is a linear function of h: m^2 kernel values an epoch, and no m x m matrix. Directions of
 * K_mm with small eigenvalues are hardly seen: theta is too small there.
 *
 * All of it is float64, from the centers in float64. A projection comes in steps; one under way is
 * lost by what a caller saves, and begun again to the same bits.
 */
#pragma once

#include "engine/solver.h"

/* Centers up to which `auto` is exact: 3.2 GB. */
#define CENTER_PROJECTION_EXACT 20000

struct center_projection_spec {
    const struct problem *p;
    bool exact;
    int64_t epochs;    /* inexact: at least 1 */
    int64_t subsample; /* inexact: centers of the preconditioner, cut to m */
    int64_t eigenvectors;
};

struct center_projection;

/* The problem must outlive it. */
int center_projection_new(const struct center_projection_spec *spec, struct center_projection **ret,
                          struct err *err);
struct center_projection *center_projection_free(struct center_projection *c); /* NULL is fine */

/* 1: ready. 0: call again. Negative: -ERR_*. */
int center_projection_build(struct center_projection *c, double *ret_fraction, struct err *err);

/* L, when ready and exact; else NULL. */
const struct mat *center_projection_factor(const struct center_projection *c);

/* From now on of H (m x t, of any type; copied). */
int center_projection_begin(struct center_projection *c, const struct mat *H, struct err *err);
/* 1: *ret is theta, float64, valid until the next begin. 0: call again. */
int center_projection_step(struct center_projection *c, struct mat *ret, struct err *err);
