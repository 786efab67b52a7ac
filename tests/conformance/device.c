#include "conformance/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/providers.h"
#include "engine/group/backend_group.h"

#define SKIPPED 77

/* The CPU with one instruction set's loops; a machine without it skips the whole program. */
static struct backend *open_isa(const char *isa, int threads)
{
    struct backend *be = NULL;
    struct err err = {0};
    const int rc = backend_cpu_open(isa, threads, &be, &err);
    if (rc == -ERR_UNSUPPORTED) {
        print_message("skipped: %s\n", err.detail);
        exit(SKIPPED);
    }
    assert_int_equal(rc, 0);
    return be;
}

struct backend *device_member(int i)
{
    const struct backend_provider *p = test_providers[0];
    struct backend *be = NULL;
    must(p->open(p->find != NULL ? i : 0, 1, &be, &err));
    return be;
}

/* Three devices of the first provider's as one, which divides every product that it can. Of the
 * CPU there is only one, thrice. */
static struct backend *open_group(void)
{
    struct backend *members[3] = {NULL}, *be = NULL;
    for (int i = 0; i < 3; i++) {
        members[i] = device_member(i);
    }
    must(backend_group_new(members, 3, 1, &be, &err));
    return be;
}

struct backend *device_open(int threads)
{
    const char *name = getenv("KRR_DEVICE"), *isa = getenv("KRR_ISA");
    struct backend *be = NULL;
    if (isa != NULL) {
        return open_isa(isa, threads);
    }
    if (name != NULL && strcmp(name, "group") == 0) {
        return open_group();
    }
    must(backend_open(test_providers, name == NULL ? "cpu" : name, threads, &be, &err));
    return be;
}

void device_close(struct backend *be)
{
    assert_int_equal(be->bytes, 0);
    backend_close(be);
}

int device_setup_one(void **state)
{
    *state = device_open(1);
    return 0;
}

int device_setup_two(void **state)
{
    *state = device_open(2);
    return 0;
}

int device_teardown(void **state)
{
    device_close(*state);
    return 0;
}

double *host_zeros(int64_t n)
{
    double *x = mem_zarray((size_t)n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

struct kernel usual_kernel(enum kernel_id id, int64_t d)
{
    return (struct kernel){.id = id,
                           .d = d,
                           .bandwidth = kernel_uses_l1(id) ? (double)d : sqrt((double)d),
                           .gamma = 0.5 / (double)d,
                           .coef0 = 0.3,
                           .degree = 3};
}

double *host_normal(struct rng *rng, int64_t n)
{
    double *x = host_zeros(n);
    for (int64_t i = 0; i < n; i++) {
        x[i] = rng_normal(rng);
    }
    return x;
}

void host_round(double *x, int64_t n, enum dtype dtype)
{
    for (int64_t i = 0; dtype == DTYPE_F32 && i < n; i++) {
        x[i] = (double)(float)x[i];
    }
}

struct mat device_mat(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols,
                      const double *values)
{
    struct mat m = {0};
    must(be->ops->mat_new(be, dtype, rows, cols, &m, &err));
    if (values != NULL) {
        must(be->ops->mat_put(be, values, rows > 0 ? rows : 1, &m, &err));
    }
    return m;
}

double *device_get(struct backend *be, const struct mat *m)
{
    double *x = host_zeros(m->rows * m->cols);
    must(be->ops->mat_get(be, m, x, m->rows > 0 ? m->rows : 1, &err));
    return x;
}

struct points *device_points(struct backend *be, const struct kernel *k, enum dtype dtype,
                             int64_t n, const double *x)
{
    const struct rows X = {.dtype = DTYPE_F64, .n = n, .d = k->d, .data = x};
    struct points *ret = NULL;
    must(be->ops->points_new(be, k, dtype, &X, &ret, &err));
    return ret;
}

double *device_product(struct backend *be, struct view P, struct view Q, enum dtype dtype,
                       int64_t t, const double *v)
{
    struct mat V = device_mat(be, dtype, Q.count, t, v);
    struct mat Y = device_mat(be, dtype, P.count, t, NULL);
    must(be->ops->kmv(be, P, Q, 1.0, &V, 0.0, &Y, &err));
    double *y = device_get(be, &Y);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    return y;
}

double *device_update(struct backend *be, struct view P, struct view Q, enum dtype dtype, int64_t t,
                      const double *v, const double *y)
{
    struct mat V = device_mat(be, dtype, Q.count, t, v);
    struct mat all = device_mat(be, dtype, Q.count, t, y);
    const struct mat Y = mat_rows(all, 0, P.count);
    must(be->ops->kmv(be, P, Q, 1.5, &V, -0.5, &Y, &err));
    double *ret = device_get(be, &Y);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &all);
    return ret;
}
