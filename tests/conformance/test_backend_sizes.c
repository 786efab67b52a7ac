/*
 * Products with every kernel in every precision, at sizes around the widths of panels, blocks and
 * runs: rectangular ones, and of points with themselves, with one and with several right-hand
 * sides, against the float64 triple loop. The error of a row is measured against sum_j |k(x_i, z_j)
 * v_j|: at most 1e-5 for float32 kernel values, 1e-12 for float64.
 */
#include <math.h>

#include "base/mem.h"
#include "conformance/device.h"

#define N 1000 /* the largest size */
#define T 3    /* right-hand sides of a product with several */

static const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 255, 257, N};
static const int64_t dims[] = {1, 2, 3, 7, 64, 435};

enum { SIZES = sizeof sizes / sizeof sizes[0], DIMS = sizeof dims / sizeof dims[0] };

/* Types of the points and of the vectors: float32, float64, mixed. */
static const enum dtype precisions[][2] = {
    {DTYPE_F32, DTYPE_F32}, {DTYPE_F64, DTYPE_F64}, {DTYPE_F32, DTYPE_F64}};

/* One kernel on N points, and on the host all its values. A smaller product is a corner of them. */
struct corpus {
    struct kernel kernel;
    double *x;      /* [N, d] */
    double *v;      /* [N, T], column-major, of numbers that float32 holds */
    double *values; /* [N, N] */
    double *bounds; /* [N, N]: what an entry's rounding error is relative to */
};

/* An entry, but for inner products, which cancel: what it would be if no term were negative. */
static double entry_bound(const struct kernel *k, const double *x, const double *z, double value)
{
    if (kernel_uses_distance(k->id)) {
        return value;
    }
    double sum = 0.0;
    for (int64_t j = 0; j < k->d; j++) {
        sum += fabs(x[j] * z[j]);
    }
    sum = k->gamma * sum + fabs(k->coef0);
    return k->id == KERNEL_POLYNOMIAL ? pow(sum, k->degree) : sum;
}

static void corpus_init(struct corpus *c, enum kernel_id id, int64_t d)
{
    struct rng rng = rng_new((uint64_t)d, RNG_TEST);
    *c = (struct corpus){.kernel = usual_kernel(id, d),
                         .x = host_normal(&rng, N * d),
                         .v = host_normal(&rng, N * T),
                         .values = host_zeros(N * N),
                         .bounds = host_zeros(N * N)};
    host_round(c->x, N * d, DTYPE_F32);
    host_round(c->v, N * T, DTYPE_F32);
#pragma omp parallel for num_threads(2) schedule(dynamic, 16)
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double *x = c->x + i * d, *z = c->x + j * d;
            const double value = kernel_eval(&c->kernel, x, z);
            const double bound = entry_bound(&c->kernel, x, z, value);
            c->values[i * N + j] = c->values[j * N + i] = value;
            c->bounds[i * N + j] = c->bounds[j * N + i] = bound;
        }
    }
}

static void corpus_deinit(struct corpus *c)
{
    mem_free(c->x);
    mem_free(c->v);
    mem_free(c->values);
    mem_free(c->bounds);
}

/* One column of K(first p points, first q points) V. */
static void check_column(const struct corpus *c, int64_t p, int64_t q, const double *v,
                         const double *got, double tolerance)
{
    for (int64_t i = 0; i < p; i++) {
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < q; j++) {
            sum += c->values[i * N + j] * v[j];
            size += c->bounds[i * N + j] * fabs(v[j]);
        }
        assert_near(got[i], sum, tolerance * size);
    }
}

/* The same points twice, so that a product between them is no product with themselves. */
struct case_points {
    enum dtype dtype, vectors;
    struct points *P, *Q;
};

static void check_product(struct backend *be, const struct corpus *c, const struct case_points *m,
                          const struct points *Q, int64_t p, int64_t q, int64_t t)
{
    struct mat V = device_mat(be, m->vectors, q, t, NULL);
    struct mat Y = device_mat(be, m->vectors, p, t, NULL);
    must(be->ops->mat_put(be, c->v, N, &V, &err));
    must(be->ops->kmv(be, view_all(m->P, p), view_all(Q, q), 1.0, &V, 0.0, &Y, &err));
    double *got = device_get(be, &Y);
    for (int64_t i = 0; i < t; i++) {
        check_column(c, p, q, c->v + i * N, got + i * p, m->dtype == DTYPE_F64 ? 1e-12 : 1e-5);
    }
    mem_free(got);
    be->ops->mat_free(be, &V);
    be->ops->mat_free(be, &Y);
}

static void check_precision(struct backend *be, const struct corpus *c, const enum dtype types[2])
{
    struct case_points m = {.dtype = types[0], .vectors = types[1]};
    const struct rows X = {.dtype = DTYPE_F64, .n = N, .d = c->kernel.d, .data = c->x};
    must(be->ops->points_new(be, &c->kernel, m.dtype, &X, &m.P, &err));
    must(be->ops->points_new(be, &c->kernel, m.dtype, &X, &m.Q, &err));
    for (int s = 0; s < SIZES; s++) {
        for (int64_t t = 1; t <= T; t += T - 1) {
            check_product(be, c, &m, m.Q, sizes[s], sizes[SIZES - 1 - s], t);
            check_product(be, c, &m, m.P, sizes[s], sizes[s], t);
        }
    }
    check_product(be, c, &m, m.Q, N, N, 1);
    be->ops->points_free(be, m.P);
    be->ops->points_free(be, m.Q);
}

static void check_kernel(enum kernel_id id)
{
    struct backend *be = device_open(2);
    print_message("%s on %s\n", kernel_name(id), be->isa != NULL ? be->isa : be->ops->name);
    for (int i = 0; i < DIMS; i++) {
        struct corpus c;
        corpus_init(&c, id, dims[i]);
        for (size_t j = 0; j < sizeof precisions / sizeof precisions[0]; j++) {
            check_precision(be, &c, precisions[j]);
        }
        corpus_deinit(&c);
    }
    device_close(be);
}

static void test_exponentials_of_sums(void **state)
{
    (void)state;
    check_kernel(KERNEL_GAUSSIAN);
    check_kernel(KERNEL_LAPLACIAN_L1);
}

static void test_exponentials_of_roots(void **state)
{
    (void)state;
    check_kernel(KERNEL_LAPLACIAN);
    check_kernel(KERNEL_MATERN12);
    check_kernel(KERNEL_MATERN32);
    check_kernel(KERNEL_MATERN52);
}

static void test_inner_products(void **state)
{
    (void)state;
    check_kernel(KERNEL_LINEAR);
    check_kernel(KERNEL_POLYNOMIAL);
    check_kernel(KERNEL_SIGMOID);
}

TEST_MAIN(cmocka_unit_test(test_exponentials_of_sums), cmocka_unit_test(test_exponentials_of_roots),
          cmocka_unit_test(test_inner_products))
