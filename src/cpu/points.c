#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cache.h"
#include "cpu/form.h"
#include "cpu/grid/grid.h"
#include "cpu/lanes.h"

#define LN2 0.69314718055994530942

static double scale_of(const struct kernel *k, int64_t j, double scale)
{
    if (!kernel_uses_distance(k->id)) {
        return 1.0;
    }
    return scale / (k->bandwidths != NULL ? k->bandwidths[j] : k->bandwidth);
}

/* exp(-u) = 2^(-u / ln 2): the factor goes into the points, under the square where there is one. */
static double scale_of_kernel(enum kernel_id id)
{
    const double log2e = 1.4426950408889634074;
    switch (id) {
    case KERNEL_GAUSSIAN:
        return sqrt(0.5 * log2e);
    case KERNEL_LAPLACIAN:
    case KERNEL_LAPLACIAN_L1:
    case KERNEL_MATERN12:
        return log2e;
    case KERNEL_MATERN32:
        return sqrt(3.0) * log2e;
    case KERNEL_MATERN52:
        return sqrt(5.0) * log2e;
    default:
        return 1.0;
    }
}

/* Of scaled points, beyond that. */
static double scale_of_loops(const struct tile_loops *loops, enum kernel_id id)
{
    if (kernel_uses_l1(id)) {
        return tile_doubles(loops, id) ? 2.0 : 1.0;
    }
    return id == KERNEL_GAUSSIAN      ? loops->scale_gaussian
           : kernel_uses_distance(id) ? loops->scale_root
                                      : 1.0;
}

double tile_scale(const struct tile_loops *loops, enum kernel_id id)
{
    return scale_of_kernel(id) * scale_of_loops(loops, id);
}

/* Feature j's share in the number with which sums of inner products begin: -x^2/2, and of a pair
 * -(x1 + x2)^2/2 together. No share is above 0, so that a sum stays below 0 on its way, and where
 * it overflows it is -infinity to its end. */
static double begin_share(const struct points *p, int64_t j, double value, double before)
{
    const bool paired = j / 3 < p->kernel.pairs && j % 3 < 2;
    const double part = !paired ? value : j % 3 == 1 ? value + before : 0.0;
    return -0.5 * part * part;
}

/* A row's numbers, in float64. */
struct row_sums {
    double size, squares, sum; /* of |x|, x^2, x */
    double begin;              /* begin_share */
};

/* Features scaled in float64, then rounded. */
static struct row_sums pack_features(const struct rows *X, int64_t i, const double *scale,
                                     const double *center, const struct points *p)
{
    float *const row_f32 = (float *)p->data + i * p->ld;
    double *const row_f64 = (double *)p->data + i * p->ld;
    struct row_sums r = {.size = 0.0};
    double before = 0.0;
    for (int64_t j = 0; j < X->d; j++) {
        double value = (rows_at(X, i, j) - (center != NULL ? center[j] : 0.0)) * scale[j];
        if (p->dtype == DTYPE_F32) {
            row_f32[j] = (float)value;
            value = (double)row_f32[j];
        } else {
            row_f64[j] = value;
        }
        r.squares += value * value;
        r.sum += value;
        r.size += fabs(value);
        r.begin += begin_share(p, j, value, before);
        before = value;
    }
    return r;
}

/* One row, and one feature more of what was rounded where points carry it (cpu/tile/tile.h).
 * Returns |x|_1; not finite when a feature leaves the type's range. *ret_reach is that or |x|_2. */
static double pack_row(const struct rows *X, int64_t i, const double *scale, const double *center,
                       struct points *p, double *ret_reach)
{
    const bool f32 = p->dtype == DTYPE_F32, l1 = kernel_uses_l1(p->kernel.id);
    const struct row_sums r = pack_features(X, i, scale, center, p);
    const double begin = !l1 ? r.begin : p->kernel.doubled ? 0.5 * r.sum : r.sum;
    if (p->ld > p->d && f32) {
        ((float *)p->data)[i * p->ld + p->d] = (float)begin;
    } else if (p->ld > p->d) {
        ((double *)p->data)[i * p->ld + p->d] = begin;
    }
    *ret_reach = l1 ? r.size : sqrt(r.squares);
    /* Sums of the faster forms must not overflow. */
    return p->ld > p->d && f32 && r.size > (double)FLT_MAX / 4 ? (double)INFINITY : r.size;
}

static int pack(struct backend *be, const struct kernel *k, const struct rows *X, struct points *p,
                struct err *err)
{
    const struct tile_loops *loops = cpu_loops(be, p->dtype);
    const double beyond = scale_of_loops(loops, k->id);
    cleanup_mem double *scale = mem_array((size_t)X->d + 1, sizeof *scale);
    if (scale == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < X->d; j++) {
        scale[j] = scale_of(k, j, p->scale);
    }
    const double *center = kernel_uses_distance(k->id) ? k->center : NULL;
    bool bad = false;
    double reach = 0.0;
#pragma omp parallel for num_threads(be->threads) reduction(||                                     \
                                                            : bad)                                 \
    reduction(max                                                                                  \
              : reach) if (X->n > 1000)
    for (int64_t i = 0; i < X->n; i++) {
        double row_reach = 0.0;
        const double size = pack_row(X, i, scale, center, p, &row_reach);
        row_reach /= beyond;
        reach = row_reach > reach ? row_reach : reach;
        if (p->far != NULL) {
            p->far[i] = form_is_far(p, row_reach);
        }
        bad = bad || !isfinite(size);
    }
    if (bad) {
        return kernel_refuse_points(k, p->dtype, err);
    }
    p->reach = reach;
    form_choose(p, loops);
    return 0;
}

/* Few rows of P meet each row of Q so seldom that turning it would take longer than the rest; so
 * all rows are turned here if there is room. */
static void turn_points(struct backend *be, struct points *p)
{
    const struct tile_loops *loops = cpu_loops(be, p->dtype);
    const size_t row = (size_t)p->ld * dtype_size(p->dtype), size = form_turned_bytes(p);
    if (!tile_turns(&p->kernel) || size == 0 || (p->turned = mem_alloc(size)) == NULL) {
        return;
    }
#pragma omp parallel for num_threads(be->threads) if (p->n > 1000)
    for (int64_t i = 0; i < p->n; i++) {
        loops->turn_row(&p->kernel, points_row(p, i), p->d, p->turned + (size_t)i * row);
    }
}

/* 2^begin of each row, which is exp(-|x|^2) there; 1 for far ones, whose values have it already. */
static int make_factors(struct backend *be, struct points *p, struct err *err)
{
    const struct tile_loops *loops = cpu_loops(be, p->dtype);
    if (!p->kernel.by_inner || p->kernel.id != KERNEL_GAUSSIAN || !loops->factors) {
        return 0;
    }
    p->factors = mem_array((size_t)p->n + 1, dtype_size(p->dtype));
    if (p->factors == NULL) {
        return err_no_memory(err);
    }
    const struct rows X = points_rows(p);
    const struct mat factors = {.dtype = p->dtype, .rows = p->n, .cols = 1, .data = p->factors};
#pragma omp parallel for num_threads(be->threads) if (p->n > 1000)
    for (int64_t i = 0; i < p->n; i++) {
        const bool far = p->far != NULL && p->far[i] != 0;
        mat_set(&factors, i, 0, far ? 1.0 : exp2(rows_at(&X, i, p->d)));
    }
    return 0;
}

static int64_t points_bytes(const struct points *p)
{
    const int64_t row = p->ld * (int64_t)dtype_size(p->dtype);
    const int64_t beside =
        (p->far != NULL ? 1 : 0) + (p->factors != NULL ? (int64_t)dtype_size(p->dtype) : 0);
    return (p->n + 1) * (row + beside) + (p->turned != NULL ? p->n * row : 0);
}

static void points_free(struct points *p)
{
    if (p != NULL) {
        mem_free(p->data);
        mem_free(p->far);
        mem_free(p->factors);
        mem_free(p->turned);
        mem_free(p);
    }
}

int cpu__points_new(struct backend *be, const struct kernel *k, enum dtype dtype,
                    const struct rows *X, struct points **ret, struct err *err)
{
    int rc = cpu__expect(k->d == X->d && X->n >= 0 && X->d >= 0, "points_new", err);
    if (rc < 0) {
        return rc;
    }
    struct points *p = mem_zalloc(sizeof *p);
    size_t count = 0;
    const struct tile_loops *loops = cpu_loops(be, dtype);
    const bool begins = kernel_uses_l1(k->id) || tile_has_inner(loops, k->id, X->d);
    const int64_t ld = X->d + (begins ? 1 : 0);
    if (p != NULL && !__builtin_mul_overflow((size_t)X->n + 1, (size_t)ld, &count)) {
        p->data = mem_aligned(count > 0 ? count : 1, dtype_size(dtype));
        p->far = begins ? mem_zarray((size_t)X->n + 1, 1) : NULL;
    }
    if (p == NULL || p->data == NULL || (begins && p->far == NULL)) {
        points_free(p);
        return err_no_memory(err);
    }
    const int64_t pairs = tile_has_inner(loops, k->id, X->d) ? tile_pairs(loops, k->id, X->d) : 0;
    p->kernel =
        (struct tile_kernel){.id = k->id,
                             .gamma = k->gamma,
                             .coef0 = k->coef0,
                             .degree = k->degree,
                             .doubled = tile_doubles(loops, k->id),
                             .pairs = pairs,
                             .panel_ahead = tile_panel_ahead(loops, X->d, dtype_size(dtype))};
    p->scale = tile_scale(loops, k->id);
    p->dtype = dtype;
    p->n = X->n;
    p->d = X->d;
    p->ld = ld;
    memset((char *)p->data + (size_t)(X->n * ld) * dtype_size(dtype), 0,
           (size_t)ld * dtype_size(dtype));
    rc = pack(be, k, X, p, err);
    rc = rc == 0 ? make_factors(be, p, err) : rc;
    if (rc < 0) {
        points_free(p);
        return rc;
    }
    turn_points(be, p);
    cpu__account(be, points_bytes(p));
    *ret = p;
    return 0;
}

void cpu__points_free(struct backend *be, struct points *p)
{
    if (p != NULL) {
        p->cache = cache_free(be, p->cache);
        p->lanes = lanes_free(be, p->lanes);
        grid_forget(be, p);
        cpu__account(be, -points_bytes(p));
        points_free(p);
    }
}
