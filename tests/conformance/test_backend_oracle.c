/*
 * The kernel oracle of a backend against the float64 triple loop; sizes and dimensions are
 * test_backend_sizes.c's. The error of a row is measured
 * against sum_j |k(x_i, z_j) v_j|: at most 1e-5 for float32 kernel values, 1e-12 for float64.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"

static double tolerance(enum precision p)
{
    return p == F64 ? 1e-12 : 1e-5;
}

/* Points on both sides. */
struct cloud {
    int64_t n, d;
    double *x; /* row-major */
    struct points *points;
};

static struct cloud cloud_new(struct backend *be, const struct kernel *k, enum precision precision,
                              int64_t n, double offset, struct rng *rng)
{
    struct cloud c = {.n = n, .d = k->d, .x = host_normal(rng, n * k->d)};
    for (int64_t i = 0; i < n * k->d; i++) {
        c.x[i] += offset;
    }
    const struct rows X = {.dtype = DTYPE_F64, .n = n, .d = k->d, .data = c.x};
    must(be->ops->points_new(be, k, points_dtype(precision), &X, &c.points, &err));
    return c;
}

static void cloud_free(struct backend *be, struct cloud *c)
{
    be->ops->points_free(be, c->points);
    mem_free(c->x);
}

/* What an entry's rounding error is relative to: its value, but for inner products, which cancel,
 * what it would be if no term were negative. */
static double entry_size(const struct kernel *k, const double *x, const double *z)
{
    if (kernel_uses_distance(k->id)) {
        return kernel_eval(k, x, z);
    }
    double sum = 0.0;
    for (int64_t j = 0; j < k->d; j++) {
        sum += fabs(x[j] * z[j]);
    }
    sum = k->gamma * sum + fabs(k->coef0);
    return k->id == KERNEL_POLYNOMIAL ? pow(sum, k->degree) : sum;
}

static int64_t member(const struct view *v, int64_t i)
{
    return v->index != NULL ? v->index[i] : v->first + i;
}

/* One product: Y <- a K(P,Q) V + b Y with random V and Y. */
struct product {
    const struct kernel *kernel;
    enum precision precision;
    const struct cloud *p, *q;
    struct view P, Q;
    int64_t t;
    double a, b;
};

static void check_column(const struct product *m, const double *v, const double *before,
                         const double *got)
{
    for (int64_t i = 0; i < m->P.count; i++) {
        const double *x = m->p->x + member(&m->P, i) * m->p->d;
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < m->Q.count; j++) {
            const double *z = m->q->x + member(&m->Q, j) * m->q->d;
            sum += kernel_eval(m->kernel, x, z) * v[j];
            size += entry_size(m->kernel, x, z) * fabs(v[j]);
        }
        const double old = m->b == 0.0 ? 0.0 : m->b * before[i];
        assert_near(got[i], m->a * sum + old,
                    tolerance(m->precision) * (fabs(m->a) * size + fabs(old)));
    }
}

static void check_product(struct backend *be, const struct product *m, struct rng *rng)
{
    const int64_t p = m->P.count, q = m->Q.count;
    double *v = host_normal(rng, q * m->t), *y = host_normal(rng, p * m->t);
    const enum dtype dtype = vector_dtype(m->precision);
    host_round(v, q * m->t, dtype);
    host_round(y, p * m->t, dtype);
    if (m->b == 0.0) {
        y[0] = NAN; /* must not be read */
    }
    struct mat V = device_mat(be, dtype, q, m->t, v), Y = device_mat(be, dtype, p, m->t, y);
    must(be->ops->kmv(be, m->P, m->Q, m->a, &V, m->b, &Y, &err));
    double *got = device_get(be, &Y);
    for (int64_t c = 0; c < m->t; c++) {
        check_column(m, v + c * q, y + c * p, got + c * p);
    }
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    mem_free(got);
    mem_free(v);
    mem_free(y);
}

/* A p x q product of a kernel with all rows of two clouds. */
static void check_sizes(struct backend *be, const struct kernel *k, enum precision precision,
                        int64_t p, int64_t q, int64_t t)
{
    struct rng rng = rng_new((uint64_t)(p * 1000 + q), RNG_TEST);
    struct cloud A = cloud_new(be, k, precision, p, 0.0, &rng);
    struct cloud B = cloud_new(be, k, precision, q, 0.0, &rng);
    const struct product m = {.kernel = k,
                              .precision = precision,
                              .p = &A,
                              .q = &B,
                              .P = view_all(A.points, p),
                              .Q = view_all(B.points, q),
                              .t = t,
                              .a = 1.0};
    check_product(be, &m, &rng);
    cloud_free(be, &A);
    cloud_free(be, &B);
}

/* A cloud with itself: what a backend may evaluate once for both sides. */
static void check_itself(struct backend *be, const struct kernel *k, enum precision precision,
                         int64_t n, int64_t t)
{
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    struct cloud A = cloud_new(be, k, precision, n, 0.0, &rng);
    const struct product m = {.kernel = k,
                              .precision = precision,
                              .p = &A,
                              .q = &A,
                              .P = view_all(A.points, n),
                              .Q = view_all(A.points, n),
                              .t = t,
                              .a = -2.0,
                              .b = n % 2 ? 0.5 : 0.0};
    check_product(be, &m, &rng);
    cloud_free(be, &A);
}

/* With factors, and with more right-hand sides than share one evaluation. */
static void test_products_with_itself(void **state)
{
    static const int64_t sizes[] = {1, 64, 65, 257}, ts[] = {1, 10, 65};
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        const struct kernel k = usual_kernel((enum kernel_id)id, 5);
        for (int precision = 0; precision < PRECISIONS; precision++) {
            for (int s = 0; s < 4; s++) {
                check_itself(*state, &k, (enum precision)precision, sizes[s], ts[(s + id) % 3]);
            }
        }
    }
}

/* Single values of K(X, X), by columns of the identity: those near 1 as well as the others, and on
 * the CPU 1 exactly where a row meets itself. */
static void check_columns(struct backend *be, const struct kernel *k, enum precision precision)
{
    enum { N = 150, COLS = 20 };
    struct rng rng = rng_new((uint64_t)k->d, RNG_TEST);
    struct cloud A = cloud_new(be, k, precision, N, 0.0, &rng);
    double *v = mem_zarray((size_t)N * COLS, sizeof *v);
    for (int c = 0; c < COLS; c++) {
        v[c * N + 7 * c] = 1.0;
    }
    struct mat V = device_mat(be, vector_dtype(precision), N, COLS, v);
    struct mat Y = device_mat(be, vector_dtype(precision), N, COLS, NULL);
    const struct view all = view_all(A.points, N);
    must(be->ops->kmv(be, all, all, 1.0, &V, 0.0, &Y, &err));
    double *got = device_get(be, &Y);
    for (int c = 0; c < COLS; c++) {
        const int64_t one = 7 * c;
        for (int i = 0; i < N; i++) {
            const double expected = kernel_eval(k, A.x + i * k->d, A.x + one * k->d);
            assert_near(got[c * N + i], expected, precision == F64 ? 1e-14 : 3e-6);
        }
        if (getenv("KRR_DEVICE") == NULL) { /* the CPU, and not a group of them */
            assert_same_bits(got[c * N + one], 1.0);
        }
    }
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    mem_free(got);
    mem_free(v);
    cloud_free(be, &A);
}

static void test_columns(void **state)
{
    static const int64_t ds[] = {1, 3, 18, 200};
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        for (int i = 0; i < 4 && kernel_uses_distance((enum kernel_id)id); i++) {
            const struct kernel k = usual_kernel((enum kernel_id)id, ds[i]);
            for (int precision = 0; precision < PRECISIONS; precision++) {
                check_columns(*state, &k, (enum precision)precision);
            }
        }
    }
}

static void test_right_hand_sides(void **state)
{
    static const int64_t ts[] = {1, 2, 3, 8, 10, 26, 65};
    const struct kernel k = usual_kernel(KERNEL_MATERN52, 5);
    for (int i = 0; i < 7; i++) {
        for (int precision = 0; precision < PRECISIONS; precision++) {
            check_sizes(*state, &k, (enum precision)precision, 70, 130, ts[i]);
            check_sizes(*state, &k, (enum precision)precision, 3, 70, ts[i]);
        }
    }
}

static void test_one_bandwidth_a_feature(void **state)
{
    const double bandwidths[7] = {0.5, 3.0, 1.0, 20.0, 2.5, 8.0, 4.0};
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        struct kernel k = usual_kernel((enum kernel_id)id, 7);
        k.bandwidths = bandwidths;
        for (int precision = 0; precision < PRECISIONS; precision++) {
            check_sizes(*state, &k, (enum precision)precision, 40, 50, 1);
        }
    }
}

static void test_factors(void **state)
{
    static const double factors[] = {0.0, 1.0, -0.5};
    struct backend *be = *state;
    const struct kernel k = usual_kernel(KERNEL_LAPLACIAN, 4);
    for (int i = 0; i < 9 * PRECISIONS; i++) {
        struct rng rng = rng_new((uint64_t)i, RNG_TEST);
        const enum precision precision = (enum precision)(i / 9);
        struct cloud A = cloud_new(be, &k, precision, 40, 0.0, &rng);
        const struct product m = {.kernel = &k,
                                  .precision = precision,
                                  .p = &A,
                                  .q = &A,
                                  .P = view_all(A.points, 40),
                                  .Q = view_all(A.points, 40),
                                  .t = 2,
                                  .a = factors[i % 3],
                                  .b = factors[i / 3 % 3]};
        check_product(be, &m, &rng);
        cloud_free(be, &A);
    }
}

/* Ranges and index lists on both sides, with repeats and in any order. */
static void test_views(void **state)
{
    struct backend *be = *state;
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, 6);
    for (int precision = 0; precision < PRECISIONS; precision++) {
        struct rng rng = rng_new(5, RNG_TEST);
        struct cloud A = cloud_new(be, &k, (enum precision)precision, 200, 0.0, &rng);
        struct cloud B = cloud_new(be, &k, (enum precision)precision, 300, 0.0, &rng);
        int64_t rows[90], cols[170];
        for (int i = 0; i < 90; i++) {
            rows[i] = rng_below(&rng, A.n);
        }
        for (int i = 0; i < 170; i++) {
            cols[i] = rng_below(&rng, B.n);
        }
        struct product m = {.kernel = &k,
                            .precision = (enum precision)precision,
                            .p = &A,
                            .q = &B,
                            .P = view_index(A.points, rows, 90),
                            .Q = view_index(B.points, cols, 170),
                            .t = 3,
                            .a = 1.0};
        check_product(be, &m, &rng);
        m.P = view_range(A.points, 17, 77);
        check_product(be, &m, &rng);
        m.Q = view_range(B.points, 299, 1);
        check_product(be, &m, &rng);
        m.Q = view_range(B.points, 300, 0); /* an empty sum: Y <- b Y */
        m.b = 1.0;
        check_product(be, &m, &rng);
        m.P = view_range(A.points, 0, 0); /* nothing to do */
        m.t = 1;
        m.b = 1.0;
        check_product(be, &m, &rng);
        cloud_free(be, &A);
        cloud_free(be, &B);
    }
}

/* Data far from the origin, and bandwidths 100 times too small or large. Products of a cloud with
 * itself, so that each row has an entry that is 1. */
static void test_extreme_scales(void **state)
{
    struct backend *be = *state;
    static const double offsets[] = {0.0, 1e4}, factors[] = {1.0, 0.01, 100.0};
    const double center[9] = {1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4};
    for (int i = 0; i < 6 * PRECISIONS * KERNEL_COUNT_; i++) {
        if (!kernel_uses_distance((enum kernel_id)(i / 6 / PRECISIONS))) {
            continue;
        }
        const enum precision precision = (enum precision)(i / 6 % PRECISIONS);
        struct rng rng = rng_new((uint64_t)i, RNG_TEST);
        struct kernel k = usual_kernel((enum kernel_id)(i / 6 / PRECISIONS), 9);
        k.center = i % 2 == 1 ? center : NULL;
        k.bandwidth *= factors[i / 2 % 3];
        struct cloud A = cloud_new(be, &k, precision, 150, offsets[i % 2], &rng);
        const struct product m = {.kernel = &k,
                                  .precision = precision,
                                  .p = &A,
                                  .q = &A,
                                  .P = view_all(A.points, 150),
                                  .Q = view_all(A.points, 150),
                                  .t = 1,
                                  .a = 1.0};
        check_product(be, &m, &rng);
        cloud_free(be, &A);
    }
}

static void test_points_must_stay_finite(void **state)
{
    struct backend *be = *state;
    const double x[4] = {1.0, 2.0, 1e30, 4.0};
    const struct rows X = {.dtype = DTYPE_F64, .n = 2, .d = 2, .data = x};
    struct kernel k = {.id = KERNEL_GAUSSIAN, .d = 2, .bandwidth = 1e-20};
    struct points *points = NULL;
    struct err why = {0};
    assert_int_equal(be->ops->points_new(be, &k, DTYPE_F32, &X, &points, &why), -ERR_INVALID);
    assert_contains(why.detail, "A row divided by the bandwidth is infinity or NaN in float32");
    assert_null(points);
    must(be->ops->points_new(be, &k, DTYPE_F64, &X, &points, &err));
    be->ops->points_free(be, points);
}

/* ---- bits ---- */

/* Y <- K(P, all) V with `threads` threads; ret has P's rows. */
static double *product_bits(struct backend *be, int threads, enum precision precision,
                            const struct kernel *k, int64_t p, int64_t q, int64_t first,
                            int64_t count)
{
    be->threads = threads;
    struct rng rng = rng_new(77, RNG_TEST);
    struct cloud A = cloud_new(be, k, precision, p, 0.0, &rng);
    struct cloud B = cloud_new(be, k, precision, q, 0.0, &rng);
    double *v = host_normal(&rng, q * 3);
    struct mat V = device_mat(be, vector_dtype(precision), q, 3, v);
    struct mat Y = device_mat(be, vector_dtype(precision), count, 3, NULL);
    must(be->ops->kmv(be, view_range(A.points, first, count), view_all(B.points, q), 1.0, &V, 0.0,
                      &Y, &err));
    double *y = device_get(be, &Y);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    mem_free(v);
    cloud_free(be, &A);
    cloud_free(be, &B);
    return y;
}

/* Y <- K(A, A) V, t columns. With an index, the view is every other row. */
static double *symmetric_bits(struct backend *be, int threads, enum precision precision,
                              const struct kernel *k, int64_t n, int64_t t, bool indexed)
{
    be->threads = threads;
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    struct cloud A = cloud_new(be, k, precision, indexed ? 2 * n : n, 0.0, &rng);
    int64_t *index = mem_array((size_t)n, sizeof *index);
    for (int64_t i = 0; i < n; i++) {
        index[i] = 2 * i;
    }
    double *v = host_normal(&rng, n * t);
    struct mat V = device_mat(be, vector_dtype(precision), n, t, v);
    struct mat Y = device_mat(be, vector_dtype(precision), n, t, NULL);
    const struct view P = indexed ? view_index(A.points, index, n) : view_all(A.points, n);
    must(be->ops->kmv(be, P, P, 1.0, &V, 0.0, &Y, &err));
    double *y = device_get(be, &Y);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
    mem_free(v);
    mem_free(index);
    cloud_free(be, &A);
    return y;
}

/* A product of a view with itself has the same bits on any number of threads. */
static void test_bits_of_products_with_itself(void **state)
{
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 255, 257, 1000, 3001};
    static const int64_t ts[] = {1, 3, 10};
    for (int id = 0; id < KERNEL_COUNT_ * PRECISIONS; id++) {
        const struct kernel k = usual_kernel((enum kernel_id)(id / PRECISIONS), 3);
        const enum precision precision = (enum precision)(id % PRECISIONS);
        for (int s = 0; s < 11; s++) {
            const int64_t n = sizes[s], t = ts[(s + id) % 3];
            double *one = symmetric_bits(*state, 1, precision, &k, n, t, s % 2);
            for (int threads = 2; threads <= 3; threads++) {
                double *more = symmetric_bits(*state, threads, precision, &k, n, t, s % 2);
                for (int64_t i = 0; i < n * t; i++) {
                    assert_same_bits(more[i], one[i]);
                }
                mem_free(more);
            }
            mem_free(one);
        }
    }
}

/* Parts of a product, on any number of threads, have the bits of the whole on one thread. */
static void test_bits_of_rows(void **state)
{
    static const struct {
        int64_t first, count;
        int threads;
    } parts[] = {{0, 330, 2}, {0, 330, 3}, {0, 1, 1}, {129, 1, 2}, {7, 100, 2}, {300, 30, 3}};
    const int64_t p = 330, q = 9001;
    for (int precision = 0; precision < PRECISIONS; precision++) {
        const struct kernel k = usual_kernel(precision == MIXED ? KERNEL_MATERN32 : KERNEL_GAUSSIAN,
                                             precision == F32 ? 5 : 18);
        double *whole = product_bits(*state, 1, (enum precision)precision, &k, p, q, 0, p);
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            const int64_t count = parts[i].count;
            double *part = product_bits(*state, parts[i].threads, (enum precision)precision, &k, p,
                                        q, parts[i].first, count);
            for (int64_t c = 0; c < 3; c++) {
                for (int64_t j = 0; j < count; j++) {
                    assert_same_bits(part[j + c * count], whole[parts[i].first + j + c * p]);
                }
            }
            mem_free(part);
        }
        mem_free(whole);
    }
}

/* ---- blocks and diagonals ---- */

static void check_block(struct backend *be, const struct kernel *k, enum precision precision,
                        const struct cloud *A, struct view P, const struct cloud *B, struct view Q)
{
    struct mat K = device_mat(be, vector_dtype(precision), P.count, Q.count, NULL);
    must(be->ops->kblock(be, P, Q, &K, &err));
    double *got = device_get(be, &K);
    for (int64_t j = 0; j < Q.count; j++) {
        const double *z = B->x + member(&Q, j) * B->d;
        for (int64_t i = 0; i < P.count; i++) {
            const double *x = A->x + member(&P, i) * A->d;
            /* One entry, not a sum: rounding of r near 10 costs float32 10 times its own unit. */
            assert_near(got[i + j * P.count], kernel_eval(k, x, z),
                        tolerance(precision) * entry_size(k, x, z));
        }
    }
    mem_free(got);
    be->ops->mat_free(be, &K);
}

static void test_blocks(void **state)
{
    struct backend *be = *state;
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        const struct kernel k = usual_kernel((enum kernel_id)id, 7);
        for (int precision = 0; precision < PRECISIONS; precision++) {
            struct rng rng = rng_new((uint64_t)id, RNG_TEST);
            struct cloud A = cloud_new(be, &k, (enum precision)precision, 75, 0.0, &rng);
            struct cloud B = cloud_new(be, &k, (enum precision)precision, 140, 0.0, &rng);
            const int64_t index[5] = {70, 3, 3, 0, 74};
            const struct view all = view_all(A.points, 75), some = view_index(A.points, index, 5);
            const struct view others = view_all(B.points, 140);
            check_block(be, &k, (enum precision)precision, &A, all, &B, others);
            check_block(be, &k, (enum precision)precision, &B, others, &A, some);
            check_block(be, &k, (enum precision)precision, &A, some, &A, some);
            check_block(be, &k, (enum precision)precision, &A, view_range(A.points, 9, 1), &B,
                        others);
            cloud_free(be, &A);
            cloud_free(be, &B);
        }
    }
}

/* K(X, X): symmetric to the last bit, 1 on the diagonal, and entry for entry what the product of
 * two views that are not recognised as the same gives. */
static void check_symmetric(struct backend *be, const struct kernel *k, enum precision precision,
                            int64_t n)
{
    struct rng rng = rng_new((uint64_t)n, RNG_TEST);
    struct cloud A = cloud_new(be, k, precision, n, 0.0, &rng);
    int64_t *index = mem_array((size_t)n, sizeof *index);
    for (int64_t i = 0; i < n; i++) {
        index[i] = i;
    }
    struct mat K = device_mat(be, vector_dtype(precision), n, n, NULL);
    struct mat G = device_mat(be, vector_dtype(precision), n, n, NULL);
    const struct view all = view_all(A.points, n);
    must(be->ops->kblock(be, all, all, &K, &err));
    must(be->ops->kblock(be, all, view_index(A.points, index, n), &G, &err));
    double *symmetric = device_get(be, &K), *general = device_get(be, &G);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            assert_same_bits(symmetric[i + j * n], symmetric[j + i * n]);
            assert_same_bits(symmetric[i + j * n], general[i + j * n]);
        }
        if (kernel_uses_distance(k->id)) {
            assert_same_bits(symmetric[j + j * n], 1.0);
        }
    }
    be->ops->mat_free(be, &K);
    be->ops->mat_free(be, &G);
    mem_free(symmetric);
    mem_free(general);
    mem_free(index);
    cloud_free(be, &A);
}

static void test_symmetric_blocks(void **state)
{
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        const struct kernel k = usual_kernel((enum kernel_id)id, 10);
        for (int precision = 0; precision < PRECISIONS; precision++) {
            check_symmetric(*state, &k, (enum precision)precision, 71);
        }
    }
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, 3);
    static const int64_t sizes[] = {1, 2, 16, 31, 64, 65, 128, 600};
    for (int s = 0; s < 8; s++) {
        check_symmetric(*state, &k, F32, sizes[s]);
        check_symmetric(*state, &k, F64, sizes[s]);
    }
}

static void test_diagonals(void **state)
{
    struct backend *be = *state;
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        const struct kernel k = usual_kernel((enum kernel_id)id, 4);
        struct rng rng = rng_new((uint64_t)id, RNG_TEST);
        struct cloud A = cloud_new(be, &k, F64, 33, 0.0, &rng);
        struct mat D = device_mat(be, DTYPE_F64, 30, 1, NULL);
        must(be->ops->kdiag(be, view_range(A.points, 3, 30), &D, &err));
        double *d = device_get(be, &D);
        for (int64_t i = 0; i < 30; i++) {
            const double *x = A.x + (i + 3) * A.d;
            assert_close(d[i], kernel_eval(&k, x, x), 1e-13);
        }
        mem_free(d);
        be->ops->mat_free(be, &D);
        cloud_free(be, &A);
    }
}

static void test_views_are_checked(void **state)
{
    struct backend *be = *state;
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, 2);
    struct rng rng = rng_new(1, RNG_TEST);
    struct cloud A = cloud_new(be, &k, F64, 10, 0.0, &rng);
    struct mat K = device_mat(be, DTYPE_F64, 2, 2, NULL);
    const int64_t outside[2] = {0, 10};
    const struct view good = view_range(A.points, 0, 2), late = view_range(A.points, 9, 2);
    const struct view bad = view_index(A.points, outside, 2);
    assert_int_equal(be->ops->kblock(be, good, late, &K, NULL), -ERR_INTERNAL);
    assert_int_equal(be->ops->kblock(be, bad, good, &K, NULL), -ERR_INTERNAL);
    assert_int_equal(be->ops->kblock(be, good, view_all(A.points, 10), &K, NULL), -ERR_INTERNAL);
    be->ops->mat_free(be, &K);
    cloud_free(be, &A);
}

static void test_entries_are_counted(void **state)
{
    struct backend *be = *state;
    const struct kernel k = usual_kernel(KERNEL_GAUSSIAN, 2);
    const int64_t before = be->kernel_entries;
    check_sizes(be, &k, F32, 30, 50, 4);
    assert_int_equal(be->kernel_entries - before, 1500); /* once for all right-hand sides */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, device_setup_two, device_teardown)
TEST_MAIN(TEST(test_products_with_itself), TEST(test_columns), TEST(test_right_hand_sides),
          TEST(test_one_bandwidth_a_feature), TEST(test_factors), TEST(test_views),
          TEST(test_extreme_scales), TEST(test_points_must_stay_finite), TEST(test_bits_of_rows),
          TEST(test_bits_of_products_with_itself), TEST(test_blocks), TEST(test_symmetric_blocks),
          TEST(test_diagonals), TEST(test_views_are_checked), TEST(test_entries_are_counted))
