/* Several devices as one: the bits of products, and what remains when a device fails. */

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"
#include "engine/group/backend_group.h"
#include "engine/solve/pace.h"

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
                         const struct mat *V, bool add, const struct mat *Y, struct err *err)
{
    const int64_t first = P.count * part / parts, rows = P.count * (part + 1) / parts - first;
    double *zeros = host_zeros(P.count * Y->cols);
    const int rc = add ? 0 : be->ops->mat_put(be, zeros, P.count, Y, err);
    mem_free(zeros);
    assert_int_equal(rc, 0);
    const struct mat own = mat_rows(*Y, first, rows);
    return be->ops->kmv(be, view_range(P.points, first, rows), P, 1.0, V, add ? 1.0 : 0.0, &own,
                        err);
}

/* N points, and N x T numbers to multiply with. */
static struct points *own_points(struct backend *be, enum precision precision, double **ret_v)
{
    struct rng rng = rng_new(9, RNG_TEST);
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, D);
    double *x = host_normal(&rng, N * D);
    const struct rows X = {.dtype = DTYPE_F64, .n = N, .d = D, .data = x};
    struct points *p = NULL;
    must(be->ops->points_new(be, &k, points_dtype(precision), &X, &p, &err));
    mem_free(x);
    *ret_v = host_normal(&rng, N * T);
    return p;
}

static double *own_product(struct backend *be, enum precision precision)
{
    double *v = NULL;
    struct points *p = own_points(be, precision, &v);
    struct mat V = device_mat(be, vector_dtype(precision), N, T, v);
    struct mat Y = device_mat(be, vector_dtype(precision), N, T, v);
    const struct view all = view_all(p, N);
    must(be->ops->kmv(be, all, all, 0.5, &V, 2.0, &Y, &err));
    double *ret = device_get(be, &Y);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    be->ops->points_free(be, p);
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

/* ---- kept values ---- */

struct looks {
    int left;
};

static int stop_after(void *context, struct err *why)
{
    struct looks *l = context;
    return l->left-- > 0 ? 0 : err_set(why, ERR_CANCELLED, "enough");
}

/* K V, the caller frees. */
static double *times(struct backend *be, const struct points *p, enum precision precision,
                     const double *v)
{
    struct mat V = device_mat(be, vector_dtype(precision), N, T, v);
    struct mat Y = device_mat(be, vector_dtype(precision), N, T, NULL);
    must(be->ops->kmv(be, view_all(p, N), view_all(p, N), 1.0, &V, 0.0, &Y, &err));
    double *ret = device_get(be, &Y);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    return ret;
}

static int64_t bytes_of(struct backend *const *members)
{
    int64_t sum = 0;
    for (int i = 0; i < DEVICES; i++) {
        sum += members[i]->bytes;
    }
    return sum;
}

/* Whatever they keep, all, a part, or nothing since somebody stops it, the bits of the group's
 * product stay; the shares are all the values, and those of about the same size. */
static void check_kept(struct backend *be, struct backend *const *members, enum precision precision)
{
    double *v = NULL;
    struct points *p = own_points(be, precision, &v);
    double *computed = times(be, p, precision, v);
    const int64_t before = bytes_of(members);
    const int64_t all = (int64_t)N * N / 2 * (int64_t)dtype_size(points_dtype(precision));
    const int64_t budgets[] = {INT64_MAX, all / DEVICES / 2, 0};
    for (int i = 0; i < 3; i++) {
        int64_t kept = -1;
        must(be->ops->points_cache(be, p, budgets[i], KERNEL_STORE_EXACT, &kept, &err));
        assert_true(i == 2 ? kept == 0 : kept > 0);
        assert_true(i > 0 || bytes_of(members) - before >= all);
        assert_true(bytes_of(members) - before <= DEVICES * (double)budgets[i]);
        double *y = times(be, p, precision, v);
        assert_memory_equal(y, computed, N * T * sizeof(*y));
        mem_free(y);
    }
    for (int looks = 0; looks < DEVICES; looks++) {
        struct looks l = {looks};
        int64_t kept = -1;
        struct err why;
        be->stop = stop_after;
        be->stop_context = &l;
        assert_int_equal(be->ops->points_cache(be, p, INT64_MAX, KERNEL_STORE_EXACT, &kept, &why),
                         -ERR_CANCELLED);
        be->stop = NULL;
        assert_int_equal(bytes_of(members), before);
    }
    be->ops->points_free(be, p);
    assert_int_equal(bytes_of(members), 0);
    mem_free(computed);
    mem_free(v);
}

static void test_shares_are_kept(void **state)
{
    (void)state;
    for (enum precision p = F32; p < PRECISIONS; p++) {
        struct backend *members[DEVICES], *be = NULL;
        open_members(members);
        const bool can = members[0]->ops->points_cache_share != NULL;
        must(backend_group_new(members, DEVICES, 1, &be, &err));
        assert_true(can == (be->ops->points_cache != NULL));
        if (can) {
            check_kept(be, members, p);
        }
        device_close(be);
    }
}

/* ---- a product that is not divided ---- */

static void test_the_lead_alone_asks(void **state)
{
    (void)state;
    enum { MANY = 9000 };
    struct backend *members[DEVICES], *be = NULL;
    open_members(members);
    must(backend_group_new(members, DEVICES, INT64_MAX, &be, &err));
    struct rng rng = rng_new(10, RNG_TEST);
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, 1);
    double *x = host_normal(&rng, MANY);
    const struct rows X = {.dtype = DTYPE_F64, .n = MANY, .d = 1, .data = x};
    struct points *p = NULL;
    must(be->ops->points_new(be, &k, DTYPE_F32, &X, &p, &err));
    struct mat V = device_mat(be, DTYPE_F32, MANY, 1, x), Y = device_mat(be, DTYPE_F32, MANY, 1, x);
    struct looks l = {0};
    struct err why;
    be->stop = stop_after;
    be->stop_context = &l;
    const struct view all = view_all(p, MANY);
    assert_int_equal(be->ops->kmv(be, all, all, 1.0, &V, 0.0, &Y, &why), -ERR_CANCELLED);
    assert_int_equal(be->ops->kmtkv(be, all, all, NULL, &V, NULL, NULL, false, &Y, &why),
                     -ERR_CANCELLED);
    be->stop = NULL;
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    be->ops->points_free(be, p);
    device_close(be);
    mem_free(x);
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

static double no_time(void *context)
{
    double *at = context;
    return *at += 1.0;
}

/* What was measured beside a job is none of its kernel values, in a group as on one device. */
static void test_measuring_is_not_counted(void **state)
{
    (void)state;
    for (int count = 1; count <= DEVICES; count++) {
        struct backend *be = count == 1 ? device_member(0) : open_group(count);
        const struct kernel k = usual_kernel(KERNEL_MATERN32, D);
        struct rng rng = rng_new(7, RNG_TEST);
        double *x = host_normal(&rng, N * D), *v = host_normal(&rng, N), at = 0;
        const struct rows rows = {.dtype = DTYPE_F64, .n = N, .d = D, .data = x};
        struct plan_rates rates;
        must(pace_measure(be, no_time, &at, &rates, &err));
        assert_int_equal(be->kernel_entries, 0);
        struct points *p = NULL;
        must(be->ops->points_new(be, &k, DTYPE_F64, &rows, &p, &err));
        struct mat V = device_mat(be, DTYPE_F64, M, 1, v), Y = device_mat(be, DTYPE_F64, N, 1, v);
        must(be->ops->kmv(be, view_all(p, N), view_range(p, 0, M), 1.0, &V, 0.0, &Y, &err));
        assert_int_equal(be->kernel_entries, M * N);
        be->ops->mat_free(be, &V);
        be->ops->mat_free(be, &Y);
        be->ops->points_free(be, p);
        device_close(be);
        mem_free(x);
        mem_free(v);
    }
}

TEST_MAIN(cmocka_unit_test(test_measuring_is_not_counted),
          cmocka_unit_test(test_rows_have_the_bits_of_one_device),
          cmocka_unit_test(test_shares_add_up), cmocka_unit_test(test_shares_are_kept),
          cmocka_unit_test(test_the_lead_alone_asks), cmocka_unit_test(test_a_member_that_fails))
