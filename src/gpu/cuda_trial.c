/*
 * Whether products by tensor cores are right on this device: small ones are computed by them,
 * before anything else is, and by lanes. Wrong ones would give wrong models, with no other sign of
 * it.
 *
 * A way that gives other numbers, or that the device refuses, is left out, and those that stand on
 * it. An error that the device does not recover from ends the process's use of it: the error says
 * how another process does without that way (gpu/providers.h).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/cuda.h"
#include "gpu/providers.h"

/* Both sides of a tile, several of them, features that do not fill a step; rows too far out. */
enum { ROWS = 136, CENTERS = 130, FEATURES_MAX = 100, FAR = 130 };

#define BANDWIDTH 6.0

/* Ways to a product, from the one that every device has on. */
enum way { LANES, TENSOR, GROUP };

static const struct {
    const char *title, *instruction;
} ways[] = {
    [LANES] = {"lanes", "fma"},
    [TENSOR] = {"tensor cores", "mma"},
    [GROUP] = {"groups of warps", "wgmma"},
};

/* What is tried: kernels that take groups, or float16: with few features, in one order of all parts
 * and in blocks of them (short_products.cuh), and in stages of such (group.cuh), and with more
 * features; one that takes tf32; the same in float64. */
static const struct {
    enum kernel_id id;
    enum dtype dtype;
    int features;
    int products;     /* 2: that of points with themselves too */
    float far;        /* how far out the rows are that are */
    double tolerance; /* of a sum of up to ROWS values */
} tries[] = {{KERNEL_GAUSSIAN, DTYPE_F32, 20, 2, 1e3F, 1e-4},
             {KERNEL_GAUSSIAN, DTYPE_F32, 50, 2, 1e3F, 1e-4},
             {KERNEL_MATERN32, DTYPE_F32, 45, 2, 1e3F, 1e-4},
             {KERNEL_GAUSSIAN, DTYPE_F32, 100, 2, 1e3F, 1e-4},
             {KERNEL_LINEAR, DTYPE_F32, 20, 1, 1.0F, 1e-2},
             {KERNEL_GAUSSIAN, DTYPE_F64, 20, 2, 1e3F, 1e-11},
             {KERNEL_LINEAR, DTYPE_F64, 20, 1, 1.0F, 1e-10}};

enum { TRIES = sizeof tries / sizeof *tries };

struct sums {
    double y[TRIES][2 * ROWS];
};

static void take_way(struct cuda_backend *cu, enum way way)
{
    cu->tensor = way >= TENSOR;
    cu->group = way >= GROUP;
}

/* Numbers between -1.7 and 1.7 without an order, as standardised features are. */
static void draw_rows(int features, float far, float *x)
{
    uint32_t state = 1;
    for (int i = 0; i < ROWS * features; i++) {
        state = state * 1664525U + 1013904223U;
        x[i] = ((float)(state >> 8) / 8388608.0F - 1.0F) * 1.7F;
        x[i] *= i / features >= FAR ? far : 1.0F;
    }
}

/* y <- K(rows, centers) 1, then K(rows, rows) 1. */
static int products(struct cuda_backend *cu, int i, const float *x, double y[2 * ROWS],
                    struct err *err)
{
    struct backend *be = &cu->base;
    const struct kernel k = {
        .id = tries[i].id, .d = tries[i].features, .bandwidth = BANDWIDTH, .gamma = 1.0};
    const struct rows X = {.dtype = DTYPE_F32, .n = ROWS, .d = tries[i].features, .data = x};
    struct points *p = NULL;
    struct mat V = {0}, Y = {0};
    double ones[ROWS];
    for (int j = 0; j < ROWS; j++) {
        ones[j] = 1.0;
    }
    int rc = cuda__points_new(be, &k, tries[i].dtype, &X, &p, err);
    rc = rc == 0 ? cuda__mat_new(be, tries[i].dtype, ROWS, 1, &V, err) : rc;
    rc = rc == 0 ? cuda__mat_new(be, tries[i].dtype, ROWS, 1, &Y, err) : rc;
    rc = rc == 0 ? cuda__mat_put(be, ones, ROWS, &V, err) : rc;
    for (int all = 0; rc == 0 && all < tries[i].products; all++) {
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

static int compute(struct cuda_backend *cu, enum way way, struct sums *ret, struct err *err)
{
    cleanup_mem float *x = mem_zarray((size_t)ROWS * FEATURES_MAX, sizeof *x);
    if (x == NULL) {
        return err_no_memory(err);
    }
    take_way(cu, way);
    int rc = 0;
    for (int i = 0; rc == 0 && i < TRIES; i++) {
        draw_rows(tries[i].features, tries[i].far, x);
        rc = products(cu, i, x, ret->y[i], err);
    }
    return rc;
}

/* Whether both agree in what is of the type; false where one is no number. */
static bool agree(const struct sums *a, const struct sums *b, enum dtype dtype)
{
    bool same = true;
    for (int i = 0; i < TRIES; i++) {
        for (int j = 0; tries[i].dtype == dtype && j < tries[i].products * ROWS; j++) {
            same = same && fabs(a->y[i][j] - b->y[i][j]) <= tries[i].tolerance;
        }
    }
    return same;
}

/* In the notice: why the device does without. */
static void note(struct cuda_backend *cu, enum way way, const char *why)
{
    struct backend *be = &cu->base;
    snprintf(be->notice, sizeof be->notice,
             "The device cuda:%d does without products by %s (%s), and others are slower: "
             "%.120s",
             cu->ordinal, ways[way].title, ways[way].instruction, why);
}

static int broke(struct cuda_backend *cu, enum way way, const char *why, struct err *err)
{
    return err_at(
        err, ERR_DEVICE, GPU_BROKEN,
        "The device cuda:%d broke when it tried products by %s (%s): %.160s A process with "
        "%s=%s in its environment leaves them out.",
        cu->ordinal, ways[way].title, ways[way].instruction, why, GPU_WITHOUT,
        ways[way].instruction);
}

/* Returns 0 where the way failed and the device is as it was. */
static int judge_failure(struct cuda_backend *cu, enum way way, const struct err *failure,
                         struct err *err)
{
    if (failure->code == ERR_NO_MEMORY) {
        return err_set(err, failure->code, "%s", failure->detail);
    }
    if (cuda__wait(cu, NULL) < 0) {
        return broke(cu, way, failure->detail, err);
    }
    note(cu, way, failure->detail);
    return 0;
}

static int try_way(struct cuda_backend *cu, enum way way, const struct sums *by_lanes,
                   bool *ret_taken, struct err *err)
{
    struct sums found;
    struct err failure = {.code = ERR_OK};
    const int rc = compute(cu, way, &found, &failure);
    *ret_taken = rc == 0 && agree(&found, by_lanes, DTYPE_F32);
    if (rc < 0) {
        return judge_failure(cu, way, &failure, err);
    }
    if (!*ret_taken) {
        note(cu, way, "in a trial they were wrong, compared with those by lanes.");
    } else if (!agree(&found, by_lanes, DTYPE_F64)) {
        cu->tensor_f64 = false;
        note(cu, TENSOR, "in float64, in a trial, they were wrong, compared with those by lanes.");
    }
    return 0;
}

/* The best way that the environment leaves. */
static int read_environment(enum way *ret, struct err *err)
{
    const char *without = getenv(GPU_WITHOUT);
    *ret = GROUP;
    if (without == NULL || without[0] == '\0') {
        return 0;
    }
    for (enum way way = TENSOR; way <= GROUP; way++) {
        if (strcmp(without, ways[way].instruction) == 0) {
            *ret = way - 1;
            return 0;
        }
    }
    return err_at(err, ERR_INVALID, "#/device",
                  "The environment variable %s is \"%.40s\"; what a GPU can be told to do without "
                  "is \"wgmma\" or \"mma\".",
                  GPU_WITHOUT, without);
}

int cuda__try_ways(struct cuda_backend *cu, struct err *err)
{
    enum way best = cu->group ? GROUP : cu->tensor ? TENSOR : LANES, allowed = best;
    int rc = read_environment(&allowed, err);
    if (rc < 0 || best == LANES) {
        return rc;
    }
    if (allowed < best) {
        note(cu, allowed + 1, "so says the environment variable " GPU_WITHOUT ".");
        best = allowed;
    }
    struct sums by_lanes;
    bool taken = false;
    rc = compute(cu, LANES, &by_lanes, err);
    for (enum way way = best; rc == 0 && !taken && way > LANES; way--) {
        rc = try_way(cu, way, &by_lanes, &taken, err);
    }
    if (rc == 0 && !taken) {
        take_way(cu, LANES);
    }
    cu->base.kernel_entries = cu->base.peak_bytes = 0;
    return rc;
}
