/* Several devices as one: the bits of products, and what remains when a device fails. */

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"
#include "engine/backend_group.h"

enum { N = 1301, M = 77, D = 5, T = 3, DEVICES = 3 };

static void open_members(struct backend *members[DEVICES])
{
    for (int i = 0; i < DEVICES; i++) {
        members[i] = device_member(i);
    }
}

static struct backend *open_group(int count)
{
    struct backend *members[BACKEND_GROUP_MAX] = {NULL}, *be = NULL;
    for (int i = 0; i < count; i++) {
        members[i] = device_member(i);
    }
    must(backend_group_new(members, count, 1, &be, &err));
    return be;
}

/* The numbers of Y <- 0.7 K(P,Q) V - 0.3 Y. */
static double *product(struct backend *be, enum precision precision, const int64_t *index)
{
    struct rng rng = rng_new(7, RNG_TEST);
    const struct kernel k = usual_kernel(KERNEL_MATERN32, D);
    double *x = host_normal(&rng, (N + M) * D), *v = host_normal(&rng, M * T);
    double *y = host_normal(&rng, N * T);
    const struct rows P = {.dtype = DTYPE_F64, .n = N, .d = D, .data = x};
    const struct rows Q = {.dtype = DTYPE_F64, .n = M, .d = D, .data = x + (size_t)N * D};
    struct points *p = NULL, *q = NULL;
    must(be->ops->points_new(be, &k, points_dtype(precision), &P, &p, &err));
    must(be->ops->points_new(be, &k, points_dtype(precision), &Q, &q, &err));
    struct mat V = device_mat(be, vector_dtype(precision), M, T, v);
    struct mat Y = device_mat(be, vector_dtype(precision), N, T, y);
    const struct view rows = index != NULL ? view_index(p, index, N) : view_all(p, N);
    must(be->ops->kmv(be, rows, view_all(q, M), 0.7, &V, -0.3, &Y, &err));
    double *ret = device_get(be, &Y);
    assert_int_equal(be->kernel_entries % (N * M), 0); /* some columns at a time */
    assert_true(be->kernel_entries >= N * M);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    be->ops->points_free(be, p);
    be->ops->points_free(be, q);
    mem_free(x);
    mem_free(v);
    mem_free(y);
    device_close(be);
    return ret;
}

static void test_rows_have_the_bits_of_one_device(void **state)
{
    (void)state;
    int64_t backwards[N];
    for (int64_t i = 0; i < N; i++) {
        backwards[i] = N - 1 - i;
    }
    for (enum precision p = F32; p < PRECISIONS; p++) {
        for (int listed = 0; listed < 2; listed++) {
            const int64_t *index = listed ? backwards : NULL;
            double *one = product(device_member(0), p, index);
            for (int count = 1; count <= DEVICES; count++) {
                double *several = product(open_group(count), p, index);
                assert_memory_equal(several, one, N * T * sizeof(*one));
                mem_free(several);
            }
            mem_free(one);
        }
    }
}

/* ---- products with both sides the same ---- */

/* The part's rows, and zeros for the others: a share as any. */
static int share_by_rows(struct backend *be, struct view P, int part, int parts,
                         const struct mat *V, const struct mat *Y, struct err *err)
{
    const int64_t first = P.count * part / parts, rows = P.count * (part + 1) / parts - first;
    double *zeros = host_zeros(P.count * Y->cols);
    const int rc = be->ops->mat_put(be, zeros, P.count, Y, err);
    mem_free(zeros);
    assert_int_equal(rc, 0);
    const struct mat own = mat_rows(*Y, first, rows);
    return be->ops->kmv(be, view_range(P.points, first, rows), P, 1.0, V, 0.0, &own, err);
}

static double *own_product(struct backend *be, enum precision precision)
{
    struct rng rng = rng_new(9, RNG_TEST);
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, D);
    double *x = host_normal(&rng, N * D), *v = host_normal(&rng, N * T);
    const struct rows X = {.dtype = DTYPE_F64, .n = N, .d = D, .data = x};
    struct points *p = NULL;
    must(be->ops->points_new(be, &k, points_dtype(precision), &X, &p, &err));
    struct mat V = device_mat(be, vector_dtype(precision), N, T, v);
    struct mat Y = device_mat(be, vector_dtype(precision), N, T, v);
    const struct view all = view_all(p, N);
    must(be->ops->kmv(be, all, all, 0.5, &V, 2.0, &Y, &err));
    double *ret = device_get(be, &Y);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    be->ops->points_free(be, p);
    mem_free(x);
    mem_free(v);
    device_close(be);
    return ret;
}

static void test_shares_add_up(void **state)
{
    (void)state;
    for (enum precision p = F32; p < PRECISIONS; p++) {
        struct backend *members[DEVICES], *be = NULL;
        open_members(members);
        struct backend_ops sharing = *members[0]->ops;
        sharing.kmv_share = sharing.kmv_share != NULL ? sharing.kmv_share : share_by_rows;
        for (int i = 0; i < DEVICES; i++) {
            members[i]->ops = &sharing;
        }
        must(backend_group_new(members, DEVICES, 1, &be, &err));
        double *shared = own_product(be, p), *one = own_product(device_member(0), p);
        for (int64_t i = 0; i < N * T; i++) {
            assert_close(shared[i], one[i], p == F64 ? 1e-13 * N : 1e-6 * N);
        }
        mem_free(shared);
        mem_free(one);
    }
}

/* ---- a device without memory ---- */

static const struct backend_ops *real_ops;

static int no_memory(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols,
                     struct mat *ret, struct err *err)
{
    (void)be;
    (void)dtype;
    (void)rows;
    (void)cols;
    (void)ret;
    return err_no_memory(err);
}

static void test_a_member_that_fails(void **state)
{
    (void)state;
    struct backend *members[DEVICES], *be = NULL;
    open_members(members);
    must(backend_group_new(members, DEVICES, 1, &be, &err));
    struct rng rng = rng_new(8, RNG_TEST);
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, D);
    double *x = host_normal(&rng, N * D);
    const struct rows X = {.dtype = DTYPE_F64, .n = N, .d = D, .data = x};
    struct points *p = NULL;
    must(be->ops->points_new(be, &k, DTYPE_F64, &X, &p, &err));
    struct mat V = device_mat(be, DTYPE_F64, N, 1, x), Y = device_mat(be, DTYPE_F64, N, 1, NULL);
    real_ops = members[2]->ops;
    struct backend_ops poor = *real_ops;
    poor.mat_new = no_memory;
    members[2]->ops = &poor;
    struct err why;
    const struct view all = view_all(p, N);
    assert_int_equal(be->ops->kmv(be, all, all, 1.0, &V, 0.0, &Y, &why), -ERR_NO_MEMORY);
    members[2]->ops = real_ops;
    must(be->ops->kmv(be, all, all, 1.0, &V, 0.0, &Y, &err));
    assert_int_equal(members[1]->bytes, members[2]->bytes);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    be->ops->points_free(be, p);
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(members[i]->bytes, 0);
    }
    device_close(be);
    mem_free(x);
}

TEST_MAIN(cmocka_unit_test(test_rows_have_the_bits_of_one_device),
          cmocka_unit_test(test_shares_add_up), cmocka_unit_test(test_a_member_that_fails))
