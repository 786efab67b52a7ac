/* Several devices as one that are not alike: each has its share of the same product, however it
 * would cut that product for itself. */
#include <math.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "engine/group/backend_group.h"

enum { ROWS = 6500, DEVICES = 3, STEP = 99 };

static struct backend *open_group(void)
{
    struct backend *members[DEVICES], *be = NULL;
    for (int i = 0; i < DEVICES; i++) {
        members[i] = device_member(i);
    }
    must(backend_group_new(members, DEVICES, 1, &be, &err));
    for (int i = 0; i < DEVICES; i++) {
        assert_false(members[i]->alike);
    }
    return be;
}

static void check(struct backend *be, enum dtype dtype, int64_t d, int64_t t)
{
    struct rng rng = rng_new((uint64_t)(d + t), RNG_TEST);
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, d);
    double *x = host_normal(&rng, ROWS * d), *v = host_normal(&rng, ROWS * t);
    host_round(x, ROWS * d, DTYPE_F32);
    host_round(v, ROWS * t, DTYPE_F32);
    const struct rows X = {.dtype = DTYPE_F64, .n = ROWS, .d = d, .data = x};
    struct points *p = NULL;
    must(be->ops->points_new(be, &k, DTYPE_F32, &X, &p, &err));
    struct mat V = device_mat(be, dtype, ROWS, t, v), Y = device_mat(be, dtype, ROWS, t, NULL);
    const struct view all = view_all(p, ROWS);
    must(be->ops->kmv(be, all, all, 1.0, &V, 0.0, &Y, &err));
    double *y = device_get(be, &Y);
    for (int64_t i = 0; i < ROWS; i += STEP) {
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < ROWS; j++) {
            const double value = kernel_eval(&k, x + i * d, x + j * d);
            sum += value * v[j + (t - 1) * ROWS];
            size += fabs(value * v[j + (t - 1) * ROWS]);
        }
        assert_near(y[i + (t - 1) * ROWS], sum, 1e-5 * size);
    }
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    be->ops->points_free(be, p);
    mem_free(y);
    mem_free(x);
    mem_free(v);
}

static void test_shares_are_of_one_cut(void **state)
{
    (void)state;
    struct backend *be = open_group();
    check(be, DTYPE_F32, 2, 1);
    check(be, DTYPE_F64, 3, 1);
    check(be, DTYPE_F32, 3, 2);
    device_close(be);
}

TEST_MAIN(cmocka_unit_test(test_shares_are_of_one_cut))
