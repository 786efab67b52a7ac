#include <math.h>

#include "base/mem.h"
#include "gpu/cuda.h"

/* What a kernel is on packed points, and the factor of their coordinates besides 1/bandwidth:
 * exp(-u) = 2^(-u / ln 2), where the factor goes under the square if there is one. */
struct form {
    enum launch_form form;
    enum launch_function function;
    double scale;
};

#define LOG2E 1.4426950408889634074

static struct form form_of(enum kernel_id id)
{
    switch (id) {
    case KERNEL_GAUSSIAN:
        return (struct form){FORM_L2, FUNCTION_EXP, sqrt(0.5 * LOG2E)};
    case KERNEL_LAPLACIAN:
    case KERNEL_MATERN12:
        return (struct form){FORM_L2, FUNCTION_ROOT_EXP, LOG2E};
    case KERNEL_LAPLACIAN_L1:
        return (struct form){FORM_L1, FUNCTION_EXP, LOG2E};
    case KERNEL_MATERN32:
        return (struct form){FORM_L2, FUNCTION_MATERN32, sqrt(3.0) * LOG2E};
    case KERNEL_MATERN52:
        return (struct form){FORM_L2, FUNCTION_MATERN52, sqrt(5.0) * LOG2E};
    case KERNEL_POLYNOMIAL:
        return (struct form){FORM_DOT, FUNCTION_POLYNOMIAL, 1.0};
    case KERNEL_SIGMOID:
        return (struct form){FORM_DOT, FUNCTION_SIGMOID, 1.0};
    default:
        return (struct form){FORM_DOT, FUNCTION_LINEAR, 1.0};
    }
}

/* Fewer features than so many fill less of a product of 16, or of 4 in float64, and functions and
 * sums take most of the time. */
static bool takes_tensor(const struct cuda_backend *cu, enum dtype dtype, int64_t d)
{
    return cu->tensor && (dtype == DTYPE_F32 ? d >= 16 : cu->tensor_f64 && d >= 8);
}

/* Groups of warps have the norms in their products, which pays from the first feature on. */
static bool takes_group(const struct cuda_backend *cu, enum dtype dtype, int64_t d, double limit)
{
    return cu->group && dtype == DTYPE_F32 && d > 0 && limit > 0;
}

/* The share of kernel_inner_limit that is borne where tensor cores may take inner products. In
 * float32 they round every 16 features alone, or 32, or 92, but what their parts leave out and what
 * they cut off counts as two roundings more, as six where norms are in it, as eight where more sums
 * are cut off or float32 adds what has norms to what has not. Never above 1: some products take
 * lanes all the same. */
static double tensor_share(enum dtype dtype, int64_t d, bool group)
{
    const double root = sqrt((double)d);
    const double more = !group ? 4.0 : d <= 28 ? 8.0 : 10.0;
    return dtype == DTYPE_F32 ? fmin((2.0 + 0.4 * root) / (more + 0.1 * root), 1.0) : 1.0;
}

/* What packing needs on the device: scale[d], center[d], and the first row that does not fit. */
static int upload_factors(struct cuda_backend *cu, const struct kernel *k, const struct points *p,
                          struct err *err)
{
    const bool distance = kernel_uses_distance(k->id);
    const double scale = form_of(k->id).scale * (p->kernel.inner > 0 ? sqrt(2.0) : 1.0);
    const int64_t none = INT64_MAX;
    cleanup_mem double *host = mem_zarray(2 * (size_t)k->d + 1, sizeof *host);
    if (host == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < k->d; j++) {
        const double bandwidth = k->bandwidths != NULL ? k->bandwidths[j] : k->bandwidth;
        host[j] = distance ? scale / bandwidth : 1.0;
        host[k->d + j] = distance && k->center != NULL ? k->center[j] : 0.0;
    }
    const size_t bytes = 2 * (size_t)k->d * sizeof *host;
    int rc = cuda__reserve(&cu->work, bytes, err);
    if (rc == 0) {
        rc = cuda__upload(cu, cu->work.data, host, bytes, err);
    }
    if (rc == 0) {
        rc = cuda__reserve(&cu->lists[0], sizeof none, err);
    }
    return rc < 0 ? rc : cuda__upload(cu, cu->lists[0].data, &none, sizeof none, err);
}

/* A stage full of rows at a time, but a tile of them at least. */
static int pack_rows(struct cuda_backend *cu, const struct rows *X, const struct points *p,
                     struct err *err)
{
    const size_t from_row = (size_t)X->d * dtype_size(X->dtype);
    const size_t to_row = (size_t)p->ld * dtype_size(p->dtype);
    const int64_t fit = (int64_t)(CUDA_STAGE_BYTES / from_row) / LAUNCH_TILE * LAUNCH_TILE;
    const int64_t whole = fit < LAUNCH_TILE ? LAUNCH_TILE : fit;
    const int64_t step = whole > X->n ? X->n : whole;
    int rc = cuda__reserve(&cu->stage, (size_t)step * from_row, err);
    for (int64_t first = 0; rc == 0 && first < X->n; first += step) {
        const int64_t n = X->n - first < step ? X->n - first : step;
        const struct pack pack = {.from = cu->stage.data,
                                  .from_dtype = X->dtype,
                                  .to = (char *)p->data + (size_t)first * to_row,
                                  .to_dtype = p->dtype,
                                  .n = n,
                                  .d = X->d,
                                  .ld = p->ld,
                                  .scale = cu->work.data,
                                  .center = (const double *)cu->work.data + X->d,
                                  .first_row = first,
                                  .bad = cu->lists[0].data};
        rc = cuda__upload(cu, cu->stage.data, (const char *)X->data + (size_t)first * from_row,
                          (size_t)n * from_row, err);
        if (rc == 0) {
            rc = cuda__status(launch_pack(cu->stream, &pack), "pack points", err);
        }
    }
    return rc;
}

static int pack_points(struct cuda_backend *cu, const struct kernel *k, const struct rows *X,
                       const struct points *p, struct err *err)
{
    int64_t bad = INT64_MAX;
    if (X->n == 0 || X->d == 0) {
        return 0;
    }
    int rc = upload_factors(cu, k, p, err);
    if (rc < 0 || (rc = pack_rows(cu, X, p, err)) < 0 ||
        (rc = cuda__download(cu, &bad, cu->lists[0].data, sizeof bad, err)) < 0) {
        return rc;
    }
    if (bad < INT64_MAX) {
        return kernel_refuse_points(k, p->dtype, err);
    }
    return 0;
}

int cuda__make_parts(struct cuda_backend *cu, const struct points *p, int64_t rows,
                     const void *panels, void *to, struct err *err)
{
    const struct parts parts = {.panels = panels, .to = to, .d = p->d, .ld = p->ld, .rows = rows};
    return cuda__status(launch_parts(cu->stream, &parts), "split points", err);
}

/* They lie behind the panels. */
static int64_t parts_bytes(const struct points *p)
{
    const int64_t panels = cuda__padded(p->n) / LAUNCH_PANEL;
    return p->kernel.group ? panels * launch_parts_bytes(p->d) : 0;
}

static int64_t points_bytes(const struct points *p)
{
    return cuda__padded(p->n) * p->ld * (int64_t)dtype_size(p->dtype) + parts_bytes(p);
}

/* Rows in panels, and their parts where products want them. */
static int fill_points(struct cuda_backend *cu, const struct kernel *k, const struct rows *X,
                       struct points *p, struct err *err)
{
    int rc = pack_points(cu, k, X, p, err);
    if (rc < 0 || !p->kernel.group || X->n == 0) {
        return rc;
    }
    p->parts = (char *)p->data + cuda__panel_bytes(p->n, p->ld, p->dtype);
    return cuda__make_parts(cu, p, cuda__padded(p->n), p->data, p->parts, err);
}

int cuda__points_new(struct backend *be, const struct kernel *k, enum dtype dtype,
                     const struct rows *X, struct points **ret, struct err *err)
{
    int rc = cuda__begin(be, k->d == X->d && X->n >= 0 && X->d >= 0, "points_new", err);
    if (rc < 0) {
        return rc;
    }
    struct points *p = mem_zalloc(sizeof *p);
    const struct form form = form_of(k->id);
    const double limit = kernel_inner_limit(k->id, X->d);
    const bool group = takes_group(cuda_of(be), dtype, X->d, limit);
    const bool tensor = group || takes_tensor(cuda_of(be), dtype, X->d);
    const float inner = (float)(limit * (tensor ? tensor_share(dtype, X->d, group) : 1.0));
    int64_t bytes = 0;
    const int64_t ld = X->d + (inner > 0);
    if (p == NULL || X->n > INT64_MAX - LAUNCH_TILE ||
        __builtin_mul_overflow(cuda__padded(X->n), ld, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)dtype_size(dtype), &bytes) ||
        bytes > INT64_MAX / 4) {
        mem_free(p);
        return err_no_memory(err);
    }
    *p = (struct points){.id = k->id,
                         .kernel = {.form = form.form,
                                    .function = form.function,
                                    .inner = inner,
                                    .tensor = tensor && (inner > 0 || form.form == FORM_DOT),
                                    .group = group,
                                    .gamma = k->gamma,
                                    .coef0 = k->coef0,
                                    .degree = k->degree},
                         .dtype = dtype,
                         .n = X->n,
                         .d = X->d,
                         .ld = ld};
    const size_t panels = cuda__panel_bytes(p->n, ld, dtype);
    rc = cuda__alloc(panels + (size_t)parts_bytes(p), &p->data, err);
    if (rc < 0) {
        mem_free(p);
        return rc;
    }
    cuda__account(be, points_bytes(p));
    rc = fill_points(cuda_of(be), k, X, p, err);
    if (rc < 0) {
        cuda__points_free(be, p);
        return rc;
    }
    *ret = p;
    return 0;
}

void cuda__points_free(struct backend *be, struct points *p)
{
    if (p != NULL) {
        cuda__cache_free(be, p);
        cuda__account(be, -points_bytes(p));
        cuda__release(p->data);
        mem_free(p);
    }
}
