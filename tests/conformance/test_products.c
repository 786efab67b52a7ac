/*
 * Products beyond backend.h's own, K' diag(w) K V and Phi K, against the float64 triple loop: the
 * backend's operation where it has one, and the way by blocks, which every backend has.
 */
#include "engine/products.h"

#include <math.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/precisions.h"

/* Numbers for K(P,Q); P is every other row of its points when `indexed`. */
struct fixture {
    struct backend *be;
    struct kernel kernel;
    enum precision precision;
    int64_t p, q, t;
    double *x, *z, *v, *weights; /* weights NULL: ones */
    double *targets;             /* [p, t] or NULL */
    double before;               /* Y's first number before: NaN, or what is added to */
    int64_t *index;
    struct points *X, *Z;
    struct view P, Q;
};

static struct fixture fixture_new(struct backend *be, int threads, enum kernel_id id,
                                  enum precision precision, int64_t p, int64_t q, int64_t d,
                                  int64_t t, bool indexed)
{
    struct rng rng = rng_new((uint64_t)(p + 1000 * q + t), RNG_TEST);
    const int64_t rows = indexed ? 2 * p : p;
    struct fixture f = {
        .be = be,
        .kernel = usual_kernel(id, d),
        .precision = precision,
        .p = p,
        .q = q,
        .t = t,
        .x = host_normal(&rng, rows * d),
        .z = host_normal(&rng, q * d),
        .v = host_normal(&rng, q * t),
        .weights = indexed ? host_normal(&rng, p) : NULL,
        .targets = p % 2 == 1 ? host_normal(&rng, p * t) : NULL,
        .before = p % 3 == 0 ? 0.25 : (double)NAN,
        .index = mem_array((size_t)p + 1, sizeof(int64_t)),
    };
    host_round(f.x, rows * d, DTYPE_F32);
    host_round(f.z, q * d, DTYPE_F32);
    host_round(f.v, q * t, DTYPE_F32);
    if (f.targets != NULL) {
        host_round(f.targets, p * t, DTYPE_F32);
    }
    be->threads = threads;
    for (int64_t i = 0; i < p; i++) {
        f.index[i] = 2 * i;
    }
    f.X = device_points(f.be, &f.kernel, points_dtype(f.precision), rows, f.x);
    f.Z = device_points(f.be, &f.kernel, points_dtype(f.precision), q, f.z);
    f.P = indexed ? view_index(f.X, f.index, p) : view_all(f.X, p);
    f.Q = view_all(f.Z, q);
    return f;
}

/* Points of what x and z are now. */
static void load_again(struct fixture *f, int64_t rows)
{
    f->be->ops->points_free(f->be, f->X);
    f->be->ops->points_free(f->be, f->Z);
    f->X = device_points(f->be, &f->kernel, points_dtype(f->precision), rows, f->x);
    f->Z = device_points(f->be, &f->kernel, points_dtype(f->precision), f->q, f->z);
    f->P.points = f->X;
    f->Q.points = f->Z;
}

static void fixture_free(struct fixture *f)
{
    f->be->ops->points_free(f->be, f->X);
    f->be->ops->points_free(f->be, f->Z);
    mem_free(f->x);
    mem_free(f->z);
    mem_free(f->v);
    mem_free(f->weights);
    mem_free(f->targets);
    mem_free(f->index);
    assert_int_equal(f->be->bytes, 0);
}

/* k(p_i, q_j), and its size where inner products cancel. */
static double entry(const struct fixture *f, int64_t i, int64_t j, double *ret_size)
{
    const int64_t d = f->kernel.d;
    const double *x = f->x + (f->P.index != NULL ? f->index[i] : i) * d, *z = f->z + j * d;
    const double k = kernel_eval(&f->kernel, x, z);
    double sum = 0.0;
    for (int64_t c = 0; c < d; c++) {
        sum += fabs(x[c] * z[c]);
    }
    sum = f->kernel.gamma * sum + fabs(f->kernel.coef0);
    const bool distance = kernel_uses_distance(f->kernel.id);
    *ret_size = distance ? k : f->kernel.id == KERNEL_POLYNOMIAL ? pow(sum, f->kernel.degree) : sum;
    return k;
}

static double tolerance(const struct fixture *f)
{
    return f->precision == F64 ? 1e-12 : 2e-5;
}

/* ---- K' diag(w) (K V - T) ---- */

typedef int normal_function(struct backend *be, struct view P, struct view Q, const double *weights,
                            const struct mat *V, const struct mat *T, bool add, const struct mat *Y,
                            struct err *err);

static int by_blocks(struct backend *be, struct view P, struct view Q, const double *weights,
                     const struct mat *V, const struct mat *T, bool add, const struct mat *Y,
                     struct err *err)
{
    return product_normal_by_blocks(be, P, Q, weights, V, T, NULL, add, Y, err);
}

static double *run_normal(struct fixture *f, normal_function *function)
{
    const enum dtype dtype = vector_dtype(f->precision);
    struct mat V = device_mat(f->be, dtype, f->q, f->t, f->v);
    double *before = host_zeros(f->q * f->t);
    before[0] = f->before; /* NaN must not be read */
    struct mat Y = device_mat(f->be, dtype, f->q, f->t, before);
    struct mat T = device_mat(f->be, dtype, f->p, f->t, f->targets);
    must(function(f->be, f->P, f->Q, f->weights, &V, f->targets != NULL ? &T : NULL,
                  !isnan(f->before), &Y, &err));
    double *y = device_get(f->be, &Y);
    f->be->ops->mat_free(f->be, &T);
    f->be->ops->mat_free(f->be, &V);
    f->be->ops->mat_free(f->be, &Y);
    mem_free(before);
    return y;
}

/* [p][q] each: the values, and their sizes. */
static void all_entries(const struct fixture *f, double *values, double *sizes)
{
    for (int64_t k = 0; k < f->p * f->q; k++) {
        values[k] = entry(f, k / f->q, k % f->q, &sizes[k]);
    }
}

/* sums and sizes [q] += those of row i, k and k_sizes its values, with column c of V and T. */
static void add_normal_row(const struct fixture *f, int64_t i, int64_t c, const double *k,
                           const double *k_sizes, double *sums, double *sizes)
{
    double u = f->targets != NULL ? -f->targets[i + c * f->p] : 0.0, u_size = fabs(u);
    for (int64_t j = 0; j < f->q; j++) {
        u += k[j] * f->v[j + c * f->q];
        u_size += k_sizes[j] * fabs(f->v[j + c * f->q]);
    }
    const double w = f->weights != NULL ? f->weights[i] : 1.0;
    for (int64_t j = 0; j < f->q; j++) {
        sums[j] += k[j] * w * u;
        sizes[j] += k_sizes[j] * fabs(w) * u_size;
    }
}

static void check_normal(const struct fixture *f, const double *y)
{
    double *k = host_zeros(f->p * f->q), *k_sizes = host_zeros(f->p * f->q);
    double *sums = host_zeros(f->q), *sizes = host_zeros(f->q);
    all_entries(f, k, k_sizes);
    for (int64_t c = 0; c < f->t; c++) {
        for (int64_t j = 0; j < f->q; j++) {
            sums[j] = j + c == 0 && !isnan(f->before) ? f->before : 0.0;
            sizes[j] = fabs(sums[j]);
        }
        for (int64_t i = 0; i < f->p; i++) {
            add_normal_row(f, i, c, k + i * f->q, k_sizes + i * f->q, sums, sizes);
        }
        for (int64_t j = 0; j < f->q; j++) {
            assert_near(y[j + c * f->q], sums[j], tolerance(f) * sizes[j]);
        }
    }
    double *const all[] = {k, k_sizes, sums, sizes};
    for (int i = 0; i < 4; i++) {
        mem_free(all[i]);
    }
}

static void check_normal_case(struct backend *be, enum kernel_id id, enum precision precision,
                              int64_t p, int64_t q, int64_t d, int64_t t, bool indexed)
{
    normal_function *const functions[] = {product_normal, by_blocks};
    struct fixture f = fixture_new(be, 2, id, precision, p, q, d, t, indexed);
    for (int i = 0; i < 2; i++) {
        double *y = run_normal(&f, functions[i]);
        check_normal(&f, y);
        mem_free(y);
    }
    fixture_free(&f);
}

static void test_normal(void **state)
{
    static const int64_t sizes[] = {1, 2, 15, 17, 33, 70, 130};
    for (int i = 0; i < KERNEL_COUNT_ * PRECISIONS; i++) {
        const enum kernel_id id = (enum kernel_id)(i / PRECISIONS);
        for (int s = 0; s < 7; s++) {
            /* Backends may keep values that have many features and evaluate others twice. */
            check_normal_case(*state, id, (enum precision)(i % PRECISIONS), sizes[s],
                              sizes[(s + i) % 7], (s + i / 2) % 2 == 0 ? 3 : 25, 1 + s % 3,
                              s % 2 == 1);
        }
    }
    for (int precision = 0; precision < PRECISIONS; precision++) {
        check_normal_case(*state, KERNEL_GAUSSIAN, (enum precision)precision, 80, 50, 4, 70, true);
        check_normal_case(*state, KERNEL_LAPLACIAN_L1, (enum precision)precision, 1100, 90, 2, 1,
                          false);
        check_normal_case(*state, KERNEL_MATERN52, (enum precision)precision, 303, 600, 25, 5,
                          true);
        check_normal_case(*state, KERNEL_POLYNOMIAL, (enum precision)precision, 301, 70, 25, 9,
                          false);
    }
    check_normal_case(*state, KERNEL_GAUSSIAN, F64, 1101, 4100, 1, 1, true); /* 34 MiB of values */
}

/* U = K V - T comes out beside K' U, in T's place too, and K' U has the bits of product_normal. */
static void check_residual(const struct fixture *f, bool in_place, bool blocks)
{
    const enum dtype dtype = vector_dtype(f->precision);
    struct mat V = device_mat(f->be, dtype, f->q, f->t, f->v),
               Y = device_mat(f->be, dtype, f->q, f->t, NULL),
               plain = device_mat(f->be, dtype, f->q, f->t, NULL),
               T = device_mat(f->be, dtype, f->p, f->t, f->targets),
               other = device_mat(f->be, dtype, f->p, f->t, NULL);
    const struct mat *U = in_place ? &T : &other;
    must(product_normal(f->be, f->P, f->Q, NULL, &V, &T, false, &plain, &err));
    must(blocks ? product_normal_by_blocks(f->be, f->P, f->Q, NULL, &V, &T, U, false, &Y, &err)
                : product_residual(f->be, f->P, f->Q, &V, &T, U, false, &Y, &err));
    double *u = device_get(f->be, U), *y = device_get(f->be, &Y), *x = device_get(f->be, &plain);
    double *values = host_zeros(f->p * f->q), *scales = host_zeros(f->p * f->q);
    all_entries(f, values, scales);
    for (int64_t k = 0; k < f->p * f->t; k++) {
        double sum = -f->targets[k], size = fabs(sum);
        for (int64_t j = 0; j < f->q; j++) {
            const double v = f->v[j + k / f->p * f->q];
            sum += values[k % f->p * f->q + j] * v;
            size += scales[k % f->p * f->q + j] * fabs(v);
        }
        assert_near(u[k], sum, tolerance(f) * size);
    }
    for (int64_t k = 0; !blocks && k < f->q * f->t; k++) {
        assert_same_bits(y[k], x[k]);
    }
    struct mat *const all[] = {&V, &Y, &plain, &T, &other};
    for (int i = 0; i < 5; i++) {
        f->be->ops->mat_free(f->be, all[i]);
    }
    mem_free(values);
    mem_free(scales);
    mem_free(u);
    mem_free(y);
    mem_free(x);
}

static void test_residual(void **state)
{
    static const int64_t columns[] = {1, 19, 5};
    for (int i = 0; i < 6 * PRECISIONS; i++) {
        struct fixture f = fixture_new(*state, 2, KERNEL_MATERN32, (enum precision)(i / 6), 1100,
                                       90, i % 2 == 0 ? 3 : 25, columns[i % 3], i % 2 == 0);
        if (f.targets == NULL) {
            f.targets = host_zeros(f.p * f.t);
            for (int64_t k = 0; k < f.p * f.t; k++) {
                f.targets[k] = (double)(k % 7) - 3.0;
            }
        }
        check_residual(&f, i % 6 < 3, false);
        check_residual(&f, i % 6 < 3, true);
        fixture_free(&f);
    }
}

/* No rows give 0. */
static void test_normal_of_nothing(void **state)
{
    check_normal_case(*state, KERNEL_GAUSSIAN, F64, 0, 5, 3, 2, false);
    struct fixture f = fixture_new(*state, 1, KERNEL_GAUSSIAN, F32, 5, 0, 3, 1, false);
    struct mat V = device_mat(f.be, DTYPE_F32, 0, 1, NULL),
               Y = device_mat(f.be, DTYPE_F32, 0, 1, NULL);
    must(product_normal(f.be, f.P, f.Q, NULL, &V, NULL, false, &Y, &err));
    f.be->ops->mat_free(f.be, &V);
    f.be->ops->mat_free(f.be, &Y);
    fixture_free(&f);
}

static void assert_same(const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        assert_same_bits(a[i], b[i]);
    }
}

/* Bits do not depend on the number of threads, nor on how many columns there are. */
static void test_bits_of_normal(void **state)
{
    for (int i = 0; i < 2 * PRECISIONS; i++) {
        struct fixture f = i % 2 == 0
                               ? fixture_new(*state, 1, KERNEL_MATERN32, (enum precision)(i / 2),
                                             2500, 300, 5, 3, true)
                               : fixture_new(*state, 1, KERNEL_MATERN32, (enum precision)(i / 2),
                                             1100, 600, 25, 3, true);
        if (f.be->ops->kmtkv == NULL) {
            fixture_free(&f);
            skip();
        }
        double *one = run_normal(&f, product_normal);
        for (int threads = 2; threads <= 3; threads++) {
            f.be->threads = threads;
            f.t = threads;
            double *more = run_normal(&f, product_normal);
            assert_same(more, one, f.q * f.t);
            mem_free(more);
        }
        mem_free(one);
        fixture_free(&f);
    }
}

/* ---- Phi K ---- */

struct phi {
    struct sign_sketch sketch;
    int64_t *index;
    signed char *sign, *flip;
};

/* The first column is in the middle of its block, one number in nine goes nowhere. */
static struct phi phi_new(int64_t rows, int64_t columns, int block, int copies)
{
    struct rng rng = rng_new((uint64_t)rows, RNG_TEST);
    const int64_t numbers = (columns + 2 * block) * copies;
    struct phi phi = {.index = mem_array((size_t)numbers, sizeof(int64_t)),
                      .sign = mem_array((size_t)numbers, 1),
                      .flip = mem_array((size_t)numbers, 1)};
    for (int64_t k = 0; k < numbers; k++) {
        phi.index[k] = rng_below(&rng, 9) == 0 ? -1 : rng_below(&rng, rows); /* equal ones add up */
        phi.sign[k] = rng_below(&rng, 2) == 0 ? -1 : 1;
        phi.flip[k] = rng_below(&rng, 2) == 0 ? -1 : 1;
    }
    phi.sketch = (struct sign_sketch){.rows = rows,
                                      .block = block,
                                      .copies = copies,
                                      .lead = block / 2,
                                      .index = phi.index,
                                      .sign = phi.sign,
                                      .flip = phi.flip,
                                      .scale = 1.0 / sqrt((double)(block * copies))};
    return phi;
}

static void phi_free(struct phi *phi)
{
    mem_free(phi->index);
    mem_free(phi->sign);
    mem_free(phi->flip);
}

/* Number k of column j, as backend.h has it. */
static double phi_number(const struct sign_sketch *phi, int64_t j, int64_t k)
{
    const int64_t number = phi->lead + j, block = number / phi->block;
    int sign = phi->sign[block * phi->block * phi->copies + k] * phi->flip[number];
    for (int64_t both = number % phi->block & k / phi->copies; both > 0; both >>= 1) {
        sign *= (both & 1) != 0 ? -1 : 1;
    }
    return phi->scale * sign;
}

typedef int sketch_function(struct backend *be, const struct sign_sketch *phi, struct view P,
                            struct view Q, bool add, const struct mat *S, struct err *err);

static double *run_sketch(struct fixture *f, const struct phi *phi, sketch_function *function)
{
    double *before = host_zeros(phi->sketch.rows * f->q);
    before[0] = f->before; /* NaN must not be read */
    struct mat S = device_mat(f->be, vector_dtype(f->precision), phi->sketch.rows, f->q, before);
    must(function(f->be, &phi->sketch, f->P, f->Q, !isnan(f->before), &S, &err));
    double *s = device_get(f->be, &S);
    f->be->ops->mat_free(f->be, &S);
    mem_free(before);
    return s;
}

static void check_sketch(const struct fixture *f, const struct sign_sketch *phi, const double *s)
{
    double *sums = host_zeros(phi->rows), *sizes = host_zeros(phi->rows);
    for (int64_t j = 0; j < f->q; j++) {
        for (int64_t r = 0; r < phi->rows; r++) {
            sums[r] = j + r == 0 && !isnan(f->before) ? f->before : 0.0;
            sizes[r] = fabs(sums[r]);
        }
        for (int64_t i = 0; i < f->p; i++) {
            double size;
            const double k = entry(f, i, j, &size);
            const int64_t numbers = phi->block * phi->copies;
            const int64_t *index = phi->index + (phi->lead + i) / phi->block * numbers;
            for (int64_t n = 0; n < numbers; n++) {
                if (index[n] >= 0) {
                    sums[index[n]] += phi_number(phi, i, n) * k;
                    sizes[index[n]] += phi->scale * size;
                }
            }
        }
        for (int64_t r = 0; r < phi->rows; r++) {
            assert_near(s[r + j * phi->rows], sums[r], tolerance(f) * sizes[r]);
        }
    }
    mem_free(sums);
    mem_free(sizes);
}

static void check_sketch_case(struct backend *be, enum kernel_id id, enum precision precision,
                              int64_t p, int64_t q, int64_t rows, int block, int copies,
                              bool indexed)
{
    sketch_function *const functions[] = {product_sketch, product_sketch_by_blocks};
    struct fixture f = fixture_new(be, 2, id, precision, p, q, 3, 1, indexed);
    struct phi phi = phi_new(rows, p, block, copies);
    for (int i = 0; i < 2; i++) {
        double *s = run_sketch(&f, &phi, functions[i]);
        check_sketch(&f, &phi.sketch, s);
        mem_free(s);
    }
    phi_free(&phi);
    fixture_free(&f);
}

static void test_sketch(void **state)
{
    static const int64_t sizes[] = {1, 2, 15, 17, 33, 70, 130};
    for (int i = 0; i < KERNEL_COUNT_ * PRECISIONS; i++) {
        const enum kernel_id id = (enum kernel_id)(i / PRECISIONS);
        for (int s = 0; s < 7; s++) {
            check_sketch_case(*state, id, (enum precision)(i % PRECISIONS), sizes[s],
                              sizes[(s + i) % 7], 1 + 9 * s, 1 << (s + i) % 4, i % 2 == 0 ? 1 : 3,
                              s % 2 == 1);
        }
    }
    check_sketch_case(*state, KERNEL_GAUSSIAN, F32, 5000, 20, 40, 8, 1, true);
    check_sketch_case(*state, KERNEL_GAUSSIAN, F32, 30, 100, 70000, 1, 8, false); /* many rows */
    check_sketch_case(*state, KERNEL_GAUSSIAN, F64, 150, 30, 70, SIGN_NUMBERS_MAX, 1, false);
    check_sketch_case(*state, KERNEL_GAUSSIAN, F32, 150, 30, 70, 16, SIGN_NUMBERS_MAX / 16, false);
    check_sketch_case(*state, KERNEL_GAUSSIAN, F64, 0, 5, 10, 8, 1, false);
    check_sketch_case(*state, KERNEL_GAUSSIAN, F32, 17001, 3, 6, 1, 2, false); /* many rows of P */
    check_sketch_case(*state, KERNEL_MATERN32, F64, 9000, 600, 5, 1, 1,
                      false); /* 41 MiB of values */
}

static void test_bits_of_sketch(void **state)
{
    struct fixture f = fixture_new(*state, 1, KERNEL_MATERN52, F32, 900, 500, 3, 1, true);
    if (f.be->ops->ksketch == NULL) {
        fixture_free(&f);
        skip();
    }
    struct phi phi = phi_new(100, f.p, 8, 1);
    double *one = run_sketch(&f, &phi, product_sketch);
    f.be->threads = 3;
    double *more = run_sketch(&f, &phi, product_sketch);
    assert_same(more, one, 100 * f.q);
    mem_free(one);
    mem_free(more);
    phi_free(&phi);
    fixture_free(&f);
}

/* Both sides are lists, of points so long that a device may take them a part at a time. */
static void test_lists(void **state)
{
    for (int precision = 0; precision < PRECISIONS; precision++) {
        struct fixture f = fixture_new(*state, 2, KERNEL_GAUSSIAN, (enum precision)precision, 9,
                                       530, 8300, 2, true);
        struct phi phi = phi_new(40, f.p, 4, 2);
        int64_t members[530];
        for (int64_t j = 0; j < f.q; j++) {
            members[j] = j;
        }
        f.Q = view_index(f.Z, members, f.q);
        double *y = run_normal(&f, product_normal), *s = run_sketch(&f, &phi, product_sketch);
        check_normal(&f, y);
        check_sketch(&f, &phi.sketch, s);
        mem_free(y);
        mem_free(s);
        phi_free(&phi);
        fixture_free(&f);
    }
}

#define SMALL_DEVICE ((int64_t)1 << 30)

/* Matrices in all the memory that a small device has left, but for less than one of them. */
static int64_t fill_device(struct backend *be, struct mat *ret, int64_t most)
{
    int64_t count = 0;
    while (count < most && be->ops->mat_new(be, DTYPE_F64, 1 << 20, 1, &ret[count], NULL) == 0) {
        count++;
    }
    assert_true(count < most);
    return count;
}

/* A device without memory for a workspace says so, and has lost nothing. */
static void test_lack_of_device_memory(void **state)
{
    enum { MOST = 256 };
    static struct mat filled[MOST];
    struct fixture f = fixture_new(*state, 1, KERNEL_GAUSSIAN, F64, 1300, 3300, 3, 1, false);
    const struct backend_ops *o = f.be->ops;
    if (o->memory_available == NULL || o->memory_available(f.be) > SMALL_DEVICE) {
        fixture_free(&f);
        skip();
    }
    struct phi phi = phi_new(7, f.p, 2, 1);
    struct mat V = device_mat(f.be, DTYPE_F64, f.q, 1, f.v),
               Y = device_mat(f.be, DTYPE_F64, f.q, 1, NULL),
               S = device_mat(f.be, DTYPE_F64, 7, f.q, NULL);
    const int64_t count = fill_device(f.be, filled, MOST);
    assert_int_equal(product_normal(f.be, f.P, f.Q, NULL, &V, NULL, false, &Y, NULL),
                     -ERR_NO_MEMORY);
    assert_int_equal(product_sketch(f.be, &phi.sketch, f.P, f.Q, false, &S, NULL), -ERR_NO_MEMORY);
    for (int64_t i = 0; i < count; i++) {
        o->mat_free(f.be, &filled[i]);
    }
    double *y = run_normal(&f, product_normal), *s = run_sketch(&f, &phi, product_sketch);
    check_normal(&f, y);
    check_sketch(&f, &phi.sketch, s);
    struct mat *const all[] = {&V, &Y, &S};
    for (int i = 0; i < 3; i++) {
        o->mat_free(f.be, all[i]);
    }
    mem_free(y);
    mem_free(s);
    phi_free(&phi);
    fixture_free(&f);
}

/* Values of rows behind P's last may be infinite. */
static void test_neighbours_add_nothing(void **state)
{
    for (int precision = 0; precision < PRECISIONS; precision++) {
        struct fixture f = fixture_new(*state, 2, KERNEL_POLYNOMIAL, (enum precision)precision, 128,
                                       20, 25, 1, false);
        for (int64_t k = 65 * f.kernel.d; k < f.p * f.kernel.d; k++) {
            f.x[k] = precision == F64 ? 1e200 : 1e30;
        }
        load_again(&f, f.p);
        f.p = f.P.count = 65;
        double *y = run_normal(&f, product_normal);
        check_normal(&f, y);
        mem_free(y);
        fixture_free(&f);
    }
}

static void test_shapes_are_checked(void **state)
{
    struct fixture f = fixture_new(*state, 1, KERNEL_GAUSSIAN, F64, 20, 10, 3, 2, false);
    struct phi phi = phi_new(7, f.p, 2, 1);
    struct mat V = device_mat(f.be, DTYPE_F64, 10, 2, NULL),
               S = device_mat(f.be, DTYPE_F64, 7, 10, NULL);
    const struct mat less = mat_rows(V, 0, 9);
    assert_int_equal(product_normal(f.be, f.P, f.Q, NULL, &V, NULL, false, &less, NULL),
                     -ERR_INTERNAL);
    phi.index[5] = 7;
    assert_int_equal(product_sketch(f.be, &phi.sketch, f.P, f.Q, false, &S, NULL), -ERR_INTERNAL);
    phi.index[5] = -2;
    assert_int_equal(product_sketch(f.be, &phi.sketch, f.P, f.Q, false, &S, NULL), -ERR_INTERNAL);
    phi.index[5] = -1;
    const struct sign_sketch odd[] = {{.rows = 7, .block = 0, .copies = 1},
                                      {.rows = 7, .block = 3, .copies = 1},
                                      {.rows = 7, .block = 1, .copies = 0},
                                      {.rows = 7, .block = 8, .copies = SIGN_NUMBERS_MAX / 8 + 1},
                                      {.rows = 7, .block = 2, .copies = 1, .lead = 2},
                                      {.rows = 7, .block = 2, .copies = 1, .lead = -1}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        assert_int_equal(product_sketch(f.be, &odd[i], f.P, f.Q, false, &S, NULL), -ERR_INTERNAL);
    }
    f.be->ops->mat_free(f.be, &V);
    f.be->ops->mat_free(f.be, &S);
    phi_free(&phi);
    fixture_free(&f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, device_setup_two, device_teardown)
TEST_MAIN(TEST(test_normal), TEST(test_residual), TEST(test_normal_of_nothing),
          TEST(test_bits_of_normal), TEST(test_sketch), TEST(test_bits_of_sketch), TEST(test_lists),
          TEST(test_neighbours_add_nothing), TEST(test_lack_of_device_memory),
          TEST(test_shapes_are_checked))
