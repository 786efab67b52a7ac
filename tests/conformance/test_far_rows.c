/*
 * Points of which a few lie far from the others, as measured data has them: products are accurate
 * for all rows. On a CPU rows have the bits of a block in every view, or, where that is faster,
 * near ones those that they have without far ones. Rows beside far ones may come with them.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"

#define N 305      /* rows, of which */
#define EVERY 61   /* one in so many is far, */
#define FAR 40.0   /* by so much in each feature */
#define MOVED 1e-3 /* from rows of Q to those of P */

static const struct {
    enum kernel_id id;
    int64_t d;
} cases[] = {{KERNEL_GAUSSIAN, 2},      {KERNEL_GAUSSIAN, 6},     {KERNEL_GAUSSIAN, 18},
             {KERNEL_GAUSSIAN, 40},     {KERNEL_MATERN12, 18},    {KERNEL_MATERN32, 12},
             {KERNEL_MATERN32, 70},     {KERNEL_MATERN52, 14},    {KERNEL_LAPLACIAN_L1, 3},
             {KERNEL_LAPLACIAN_L1, 18}, {KERNEL_LAPLACIAN_L1, 90}};

enum { CASES = sizeof cases / sizeof cases[0] };

/* x: P's rows, next to those of Q, z. */
struct fixture {
    struct backend *be;
    struct kernel kernel;
    enum precision precision;
    int64_t d;
    double *x, *z;
    struct points *P, *Q;
};

static bool far_row(int64_t i)
{
    return i % EVERY == 17;
}

#define BESIDE 5 /* rows that may come with a far one, on either side */

static bool beside_far_row(int64_t i)
{
    for (int64_t j = i - BESIDE; j <= i + BESIDE; j++) {
        if (far_row(j)) {
            return true;
        }
    }
    return false;
}

static struct fixture fixture_new(struct backend *be, int i, enum precision precision)
{
    struct rng rng = rng_new((uint64_t)i, RNG_TEST);
    const int64_t d = cases[i].d;
    struct fixture f = {.be = be,
                        .kernel = usual_kernel(cases[i].id, d),
                        .precision = precision,
                        .d = d,
                        .x = host_normal(&rng, N * d),
                        .z = host_normal(&rng, N * d)};
    f.kernel.bandwidth *= 1.5;
    for (int64_t k = 0; k < N * d; k++) {
        f.z[k] += far_row(k / d) ? copysign(FAR, f.z[k]) : 0.0;
        f.x[k] = f.z[k] + MOVED * f.x[k];
    }
    host_round(f.z, N * d, DTYPE_F32);
    host_round(f.x, N * d, DTYPE_F32);
    f.P = device_points(f.be, &f.kernel, points_dtype(f.precision), N, f.x);
    f.Q = device_points(f.be, &f.kernel, points_dtype(f.precision), N, f.z);
    return f;
}

static void fixture_free(struct fixture *f)
{
    f->be->ops->points_free(f->be, f->P);
    f->be->ops->points_free(f->be, f->Q);
    mem_free(f->x);
    mem_free(f->z);
    assert_int_equal(f->be->bytes, 0);
}

typedef void check(struct fixture *f);

static void for_each_case(check *function)
{
    struct backend *be = device_open(2);
    for (int i = 0; i < CASES * PRECISIONS; i++) {
        struct fixture f = fixture_new(be, i / PRECISIONS, (enum precision)(i % PRECISIONS));
        function(&f);
        fixture_free(&f);
    }
    device_close(be);
}

/* ---- accuracy ---- */

static double tolerance(const struct fixture *f)
{
    return f->precision == F64 ? 1e-12 : 1e-5;
}

/* y = K(x,z) v, y of N rows. */
static void check_sums(const struct fixture *f, const double *x, const double *z, const double *v,
                       const double *y)
{
    for (int64_t i = 0; i < N; i++) {
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < N; j++) {
            const double k = kernel_eval(&f->kernel, x + i * f->d, z + j * f->d);
            sum += k * v[j];
            size += fabs(k * v[j]);
        }
        assert_near(y[i], sum, tolerance(f) * size);
    }
}

static void check_accuracy(struct fixture *f)
{
    struct rng rng = rng_new(5, RNG_TEST);
    double *v = host_normal(&rng, N * 3);
    host_round(v, N * 3, DTYPE_F32);
    const struct view P = view_all(f->P, N), Q = view_all(f->Q, N);
    double *plain = device_product(f->be, P, Q, vector_dtype(f->precision), 3, v),
           *both = device_product(f->be, Q, Q, vector_dtype(f->precision), 3, v);
    for (int c = 0; c < 3; c++) {
        check_sums(f, f->x, f->z, v + c * N, plain + c * N);
        check_sums(f, f->z, f->z, v + c * N, both + c * N);
    }
    mem_free(plain);
    mem_free(both);
    mem_free(v);
}

static void test_accuracy(void **state)
{
    (void)state;
    for_each_case(check_accuracy);
}

/* K' K v in one pass is what two products are. */
static void check_normal(struct fixture *f)
{
    struct rng rng = rng_new(6, RNG_TEST);
    double *v = host_normal(&rng, N), *sizes = host_zeros(N);
    host_round(v, N, DTYPE_F32);
    const struct view P = view_all(f->P, N), Q = view_all(f->Q, N);
    struct mat V = device_mat(f->be, vector_dtype(f->precision), N, 1, v);
    struct mat Y = device_mat(f->be, vector_dtype(f->precision), N, 1, NULL);
    must(f->be->ops->kmtkv(f->be, P, Q, NULL, &V, NULL, NULL, false, &Y, &err));
    double *found = device_get(f->be, &Y),
           *u = device_product(f->be, P, Q, vector_dtype(f->precision), 1, v);
    double *expected = device_product(f->be, Q, P, vector_dtype(f->precision), 1, u);
    for (int64_t i = 0; i < N; i++) {
        v[i] = fabs(v[i]);
    }
    double *u_size = device_product(f->be, P, Q, vector_dtype(f->precision), 1, v),
           *size = device_product(f->be, Q, P, vector_dtype(f->precision), 1, u_size);
    for (int64_t i = 0; i < N; i++) {
        assert_near(found[i], expected[i], 3 * tolerance(f) * size[i]);
    }
    f->be->ops->mat_free(f->be, &V);
    f->be->ops->mat_free(f->be, &Y);
    double *const all[] = {v, sizes, found, u, expected, u_size, size};
    for (int i = 0; i < 7; i++) {
        mem_free(all[i]);
    }
}

static void test_normal(void **state)
{
    (void)state;
    for_each_case(check_normal);
}

/* ---- bits ---- */

/* Kernel values, column-major, by the columns of the identity. */
static double *values(const struct fixture *f, struct view P, struct view Q)
{
    double *identity = host_zeros(Q.count * Q.count);
    for (int64_t j = 0; j < Q.count; j++) {
        identity[j + j * Q.count] = 1.0;
    }
    double *K = device_product(f->be, P, Q, vector_dtype(f->precision), Q.count, identity);
    mem_free(identity);
    return K;
}

static double *block(const struct fixture *f, struct view P, struct view Q)
{
    struct mat K = device_mat(f->be, vector_dtype(f->precision), P.count, Q.count, NULL);
    must(f->be->ops->kblock(f->be, P, Q, &K, &err));
    double *ret = device_get(f->be, &K);
    f->be->ops->mat_free(f->be, &K);
    return ret;
}

/* Whether near rows come another way than far ones. */
static bool takes_turns(const struct fixture *f)
{
    const bool gains = f->kernel.id == KERNEL_GAUSSIAN || f->d >= 64;
    return !kernel_uses_l1(f->kernel.id) && (strcmp(f->be->isa, "avx512_intel") == 0 ||
                                             (strcmp(f->be->isa, "avx512") == 0 && gains));
}

/* What a column of Q is to be, or NULL where that is not said. In float64 `FAR` is near enough for
 * maxima. */
static const double *expected_column(const struct fixture *f, int64_t row, const double *near,
                                     const double *far)
{
    if (kernel_uses_l1(f->kernel.id) && f->precision == F64) {
        return far_row(row) ? NULL : near + row * N;
    }
    if (!takes_turns(f) || far_row(row)) {
        return far + row * N;
    }
    return beside_far_row(row) ? NULL : near + row * N;
}

/* Members of Q in an order of its own. */
static void check_columns(const struct fixture *f, struct view Q, const double *near_values,
                          const double *far_values)
{
    double *found = values(f, view_all(f->P, N), Q);
    for (int64_t j = 0; j < Q.count; j++) {
        const int64_t row = Q.index != NULL ? Q.index[j] : Q.first + j;
        const double *expected = expected_column(f, row, near_values, far_values);
        for (int64_t i = 0; i < N && expected != NULL; i++) {
            assert_same_bits(found[i + j * N], expected[i]);
        }
    }
    mem_free(found);
}

static void check_bits(struct fixture *f)
{
    if (f->be->ops->points_lanes == NULL) { /* not a CPU */
        return;
    }
    double *near = host_zeros(N * f->d), *near_values = host_zeros(N * N);
    int64_t rows[N], order[N], n = 0;
    for (int64_t i = 0; i < N; i++) {
        order[i] = i * 7 % N;
        if (!far_row(i)) {
            memcpy(near + n * f->d, f->z + i * f->d, (size_t)f->d * sizeof *near);
            rows[n++] = i;
        }
    }
    struct points *Q = device_points(f->be, &f->kernel, points_dtype(f->precision), n, near);
    double *of_near = values(f, view_all(f->P, N), view_all(Q, n));
    for (int64_t j = 0; j < n; j++) {
        memcpy(near_values + rows[j] * N, of_near + j * N, N * sizeof *near_values);
    }
    double *of_far = block(f, view_all(f->P, N), view_all(f->Q, N));
    check_columns(f, view_all(f->Q, N), near_values, of_far);
    check_columns(f, view_range(f->Q, 16, N - 16), near_values, of_far);
    check_columns(f, view_index(f->Q, order, N - 2), near_values, of_far);
    f->be->ops->points_free(f->be, Q);
    mem_free(of_far);
    mem_free(of_near);
    mem_free(near_values);
    mem_free(near);
}

static void test_bits(void **state)
{
    (void)state;
    for_each_case(check_bits);
}

/* Where sums are drained depends on the rows alone, not on runs, which are shorter for many
 * columns: of blocks that are longer than what a float32 sum may be. */
static void check_columns_together(struct backend *be, enum precision precision)
{
    enum { ROWS = 4200, D = 6, COLS = 40 };
    struct rng rng = rng_new(8, RNG_TEST);
    struct fixture f = {
        .be = be, .kernel = usual_kernel(KERNEL_GAUSSIAN, D), .precision = precision, .d = D};
    double *z = host_normal(&rng, ROWS * D), *v = host_normal(&rng, ROWS * COLS);
    f.kernel.bandwidth *= 1.5;
    for (int64_t k = 0; k < ROWS * D; k++) {
        z[k] += far_row(k / D) ? copysign(FAR, z[k]) : 0.0;
    }
    struct points *Q = device_points(f.be, &f.kernel, points_dtype(f.precision), ROWS, z);
    const struct view all = view_all(Q, ROWS);
    double *together = device_product(f.be, all, all, vector_dtype(f.precision), COLS, v),
           *alone = device_product(f.be, all, all, vector_dtype(f.precision), 1, v);
    for (int64_t i = 0; i < ROWS; i++) {
        assert_same_bits(together[i], alone[i]);
    }
    be->ops->points_free(be, Q);
    double *const used[] = {z, v, together, alone};
    for (int i = 0; i < 4; i++) {
        mem_free(used[i]);
    }
}

static void test_columns_together(void **state)
{
    (void)state;
    struct backend *be = device_open(2);
    for (int i = 0; i < PRECISIONS && be->ops->points_lanes != NULL; i++) { /* a CPU */
        check_columns_together(be, (enum precision)i);
    }
    device_close(be);
}

/* Values that are kept are those that are computed. */
static void check_kept(struct fixture *f)
{
    const struct backend_ops *ops = f->be->ops;
    struct rng rng = rng_new(7, RNG_TEST);
    double *v = host_normal(&rng, N * 2);
    host_round(v, N * 2, DTYPE_F32);
    const struct view Q = view_all(f->Q, N);
    double *computed = device_product(f->be, Q, Q, vector_dtype(f->precision), 2, v);
    int64_t kept = 0;
    if (ops->points_cache != NULL) {
        must(ops->points_cache(f->be, f->Q, 1 << 24, KERNEL_STORE_EXACT, &kept, &err));
        assert_true(kept > 0);
    }
    double *found = device_product(f->be, Q, Q, vector_dtype(f->precision), 2, v);
    for (int64_t i = 0; i < N * 2; i++) {
        assert_same_bits(found[i], computed[i]);
    }
    mem_free(found);
    mem_free(computed);
    mem_free(v);
}

static void test_kept(void **state)
{
    (void)state;
    for_each_case(check_kept);
}

/* Phi the identity: the same values, of which those of P's rows pass by. */
static void check_sketch(struct fixture *f)
{
    int64_t index[N];
    signed char sign[N];
    for (int64_t i = 0; i < N; i++) {
        index[i] = i;
        sign[i] = 1;
    }
    const struct sign_sketch phi = {.rows = N,
                                    .block = 1,
                                    .copies = 1,
                                    .index = index,
                                    .sign = sign,
                                    .flip = sign,
                                    .scale = 1.0};
    const struct view P = view_all(f->P, N), Q = view_all(f->Q, N);
    struct mat S = device_mat(f->be, vector_dtype(f->precision), N, N, NULL);
    must(f->be->ops->ksketch(f->be, &phi, P, Q, false, &S, &err));
    double *found = device_get(f->be, &S), *expected = values(f, Q, P);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < N; j++) {
            assert_near(found[i + j * N], expected[j + i * N],
                        3 * tolerance(f) * expected[j + i * N] + 1e-30);
        }
    }
    f->be->ops->mat_free(f->be, &S);
    mem_free(found);
    mem_free(expected);
}

static void test_sketch(void **state)
{
    (void)state;
    for_each_case(check_sketch);
}

TEST_MAIN(cmocka_unit_test(test_accuracy), cmocka_unit_test(test_normal),
          cmocka_unit_test(test_bits), cmocka_unit_test(test_columns_together),
          cmocka_unit_test(test_kept), cmocka_unit_test(test_sketch))
