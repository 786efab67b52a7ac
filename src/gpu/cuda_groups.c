/*
 * Whether products by groups of warps are right on this device (launch_kernel.group): a small one
 * is computed by them, before anything else is, and by lanes. A wrong one would give wrong models,
 * with no other sign of it.
 */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "gpu/cuda.h"

/* Both sides of a tile, several of them, features that do not fill a step; rows too far out. */
enum { ROWS = 200, CENTERS = 150, FEATURES = 41, FAR = 190 };

#define BANDWIDTH 6.0
#define TOLERANCE 1e-4 /* of CENTERS values of up to 1 */

/* Numbers between -1.7 and 1.7 without an order, as standardised features are. */
static void draw_rows(float *x)
{
    uint32_t state = 1;
    for (int i = 0; i < ROWS * FEATURES; i++) {
        state = state * 1664525U + 1013904223U;
        x[i] = ((float)(state >> 8) / 8388608.0F - 1.0F) * 1.7F;
        x[i] *= i / FEATURES >= FAR ? 1e3F : 1.0F;
    }
}

/* y <- K(rows, centers) 1, then K(rows, rows) 1. */
static int products(struct cuda_backend *cu, const float *x, double y[2 * ROWS], struct err *err)
{
    struct backend *be = &cu->base;
    const struct kernel k = {.id = KERNEL_GAUSSIAN, .d = FEATURES, .bandwidth = BANDWIDTH};
    const struct rows X = {.dtype = DTYPE_F32, .n = ROWS, .d = FEATURES, .data = x};
    struct points *p = NULL;
    struct mat V = {0}, Y = {0};
    double ones[ROWS];
    for (int i = 0; i < ROWS; i++) {
        ones[i] = 1.0;
    }
    int rc = cuda__points_new(be, &k, DTYPE_F32, &X, &p, err);
    rc = rc == 0 ? cuda__mat_new(be, DTYPE_F32, ROWS, 1, &V, err) : rc;
    rc = rc == 0 ? cuda__mat_new(be, DTYPE_F32, ROWS, 1, &Y, err) : rc;
    rc = rc == 0 ? cuda__mat_put(be, ones, ROWS, &V, err) : rc;
    for (int all = 0; rc == 0 && all < 2; all++) {
        const struct view P = view_all(p, ROWS), Q = view_range(p, 0, all ? ROWS : CENTERS);
        const struct mat v = mat_rows(V, 0, Q.count);
        rc = cuda__kmv(be, P, Q, 1.0, &v, 0.0, &Y, err);
        rc = rc == 0 ? cuda__mat_get(be, &Y, y + (size_t)all * ROWS, ROWS, err) : rc;
    }
    cuda__mat_free(be, &V);
    cuda__mat_free(be, &Y);
    cuda__points_free(be, p);
    return rc;
}

/* Whether both agree; false where one is no number. */
static bool agree(const double *a, const double *b)
{
    bool same = true;
    for (int i = 0; i < 2 * ROWS; i++) {
        same = same && fabs(a[i] - b[i]) <= TOLERANCE;
    }
    return same;
}

static int compare(struct cuda_backend *cu, const float *x, bool *ret_same, struct err *err)
{
    const bool tensor = cu->tensor;
    double by_groups[2 * ROWS], by_lanes[2 * ROWS];
    int rc = products(cu, x, by_groups, err);
    cu->group = cu->tensor = false;
    rc = rc == 0 ? products(cu, x, by_lanes, err) : rc;
    cu->tensor = tensor;
    *ret_same = rc == 0 && agree(by_groups, by_lanes);
    return rc;
}

int cuda__try_groups(struct cuda_backend *cu, struct err *err)
{
    bool same = false;
    if (!cu->group) {
        return 0;
    }
    cleanup_mem float *x = mem_zarray((size_t)ROWS * FEATURES, sizeof *x);
    if (x == NULL) {
        return err_no_memory(err);
    }
    draw_rows(x);
    const int rc = compare(cu, x, &same, err);
    cu->group = same;
    cu->base.kernel_entries = cu->base.peak_bytes = 0;
    if (rc == 0 && !same) {
        snprintf(
            cu->base.notice, sizeof cu->base.notice,
            "The device cuda:%d gives wrong products by groups of warps (wgmma), compared with "
            "those by lanes: they are switched off, and products of many features are slower.",
            cu->ordinal);
    }
    return rc;
}
