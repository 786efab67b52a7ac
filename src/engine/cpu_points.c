#include <math.h>
#include <omp.h>

#include "base/mem.h"
#include "engine/cpu.h"

static double scale_of(const struct kernel *k, int64_t j)
{
    if (!kernel_uses_distance(k->id)) {
        return 1.0;
    }
    return tile_scale(k->id) / (k->bandwidths != NULL ? k->bandwidths[j] : k->bandwidth);
}

double tile_scale(enum kernel_id id)
{
    /* exp(-u) = 2^(-u / ln 2): the factor goes into the points, under the square where there is
     * one. */
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

/* One row, scaled in float64, then rounded. False when it leaves the type's range. */
static bool pack_row(const struct rows *X, int64_t i, const double *scale, const double *center,
                     struct points *p)
{
    bool finite = true;
    for (int64_t j = 0; j < X->d; j++) {
        const double value = (rows_at(X, i, j) - (center != NULL ? center[j] : 0.0)) * scale[j];
        if (p->dtype == DTYPE_F32) {
            const float rounded = (float)value;
            ((float *)p->data)[i * X->d + j] = rounded;
            finite = finite && isfinite(rounded);
        } else {
            ((double *)p->data)[i * X->d + j] = value;
            finite = finite && isfinite(value);
        }
    }
    return finite;
}

static int pack(struct backend *be, const struct kernel *k, const struct rows *X, struct points *p,
                struct err *err)
{
    cleanup_mem double *scale = mem_array((size_t)X->d + 1, sizeof *scale);
    if (scale == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < X->d; j++) {
        scale[j] = scale_of(k, j);
    }
    const double *center = kernel_uses_distance(k->id) ? k->center : NULL;
    int64_t bad = INT64_MAX;
#pragma omp parallel for num_threads(be->threads) reduction(min : bad) if (X->n > 1000)
    for (int64_t i = 0; i < X->n; i++) {
        if (!pack_row(X, i, scale, center, p)) {
            bad = i < bad ? i : bad;
        }
    }
    if (bad < INT64_MAX) {
        return err_set(err, ERR_INVALID,
                       "Row %lld divided by the bandwidth is infinity or NaN in %s.",
                       (long long)bad + 1, dtype_name(p->dtype));
    }
    return 0;
}

static int64_t points_bytes(const struct points *p)
{
    return p->n * p->d * (int64_t)dtype_size(p->dtype);
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
    if (p != NULL && !__builtin_mul_overflow((size_t)X->n, (size_t)X->d, &count)) {
        p->data = mem_aligned(count > 0 ? count : 1, dtype_size(dtype));
    }
    if (p == NULL || p->data == NULL) {
        mem_free(p);
        return err_no_memory(err);
    }
    p->kernel = (struct tile_kernel){
        .id = k->id, .gamma = k->gamma, .coef0 = k->coef0, .degree = k->degree};
    p->dtype = dtype;
    p->n = X->n;
    p->d = X->d;
    cpu__account(be, points_bytes(p));
    rc = pack(be, k, X, p, err);
    if (rc < 0) {
        cpu__points_free(be, p);
        return rc;
    }
    *ret = p;
    return 0;
}

void cpu__points_free(struct backend *be, struct points *p)
{
    if (p != NULL) {
        cpu__account(be, -points_bytes(p));
        mem_free(p->data);
        mem_free(p);
    }
}
