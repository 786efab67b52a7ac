/* EigenPro's preconditioner: the top of an eigen-system, the published sizes of batch and step, and
 * what keeps them sound where the subsample is not. */
#include <math.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"
#include "engine/methods/eigenpro/eigenpro.h"
#include "engine/methods/eigenpro/eigenpro_top.h"

static int64_t *counting(int64_t n)
{
    int64_t *order = mem_array((size_t)n, sizeof(*order));
    assert_non_null(order);
    for (int64_t i = 0; i < n; i++) {
        order[i] = i;
    }
    return order;
}

static struct fixture_spec plain_spec(enum kernel_id id, int64_t n, double lambda)
{
    return (struct fixture_spec){.kernel = id,
                                 .points = DTYPE_F64,
                                 .vectors = DTYPE_F64,
                                 .n = n,
                                 .d = 3,
                                 .t = 1,
                                 .lambda = lambda,
                                 .seed = 5};
}

/* ---- the eigen-system ---- */

static struct eigenpro_top *decompose(const struct fixture *f, const int64_t *order, int64_t s,
                                      int64_t count, int *ret_steps)
{
    struct eigenpro_top *e = NULL;
    double fraction = 0, before = 0;
    must(eigenpro_top_new(f->be, f->points, order, s, count, rng_new(1, RNG_PRECOND), &e, &err));
    int r = 0;
    for (*ret_steps = 0; r == 0; ++*ret_steps) {
        r = eigenpro_top_step(e, &fraction, NULL);
        assert_true(fraction >= before && fraction <= 1.0);
        before = fraction;
    }
    assert_int_equal(r, 1);
    assert_close(fraction, 1.0, 0);
    return e;
}

/* V'V = I, V'KV = diag(values), and |K v - value v| small for the leading `accurate` pairs. */
static void check_pairs(const struct fixture *f, const int64_t *order, int64_t s,
                        const struct eigenpro_top *e, int64_t accurate, double tolerance)
{
    const struct backend_ops *o = f->be->ops;
    const int64_t q = eigenpro_top_count(e);
    const double *values = eigenpro_top_values(e);
    const struct mat V = eigenpro_top_vectors(e);
    const struct view S = view_index(f->points, order, s);
    struct mat KV = device_mat(f->be, DTYPE_F64, s, q, NULL);
    struct mat G = device_mat(f->be, DTYPE_F64, q, q, NULL);
    must(o->gemm(f->be, true, false, 1.0, &V, &V, 0.0, &G, &err));
    double *gram = device_get(f->be, &G);
    must(o->kmv(f->be, S, S, 1.0, &V, 0.0, &KV, &err));
    must(o->gemm(f->be, true, false, 1.0, &V, &KV, 0.0, &G, &err));
    double *ritz = device_get(f->be, &G), *kv = device_get(f->be, &KV), *v = device_get(f->be, &V);
    for (int64_t j = 0; j < q; j++) {
        for (int64_t i = 0; i < q; i++) {
            assert_near(gram[i + j * q], i == j ? 1.0 : 0.0, 1e-10);
            assert_near(ritz[i + j * q], i == j ? values[j] : 0.0, 1e-10 * values[0]);
        }
        assert_true(j == 0 || values[j] <= values[j - 1]);
        double rr = 0;
        for (int64_t i = 0; i < s; i++) {
            const double e_i = kv[i + j * s] - values[j] * v[i + j * s];
            rr += e_i * e_i;
        }
        assert_true(j >= accurate || sqrt(rr) <= tolerance * values[j]);
    }
    mem_free(v);
    mem_free(kv);
    mem_free(ritz);
    mem_free(gram);
    o->mat_free(f->be, &G);
    o->mat_free(f->be, &KV);
}

static void test_dense_pairs(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = plain_spec(KERNEL_MATERN32, 90, 0);
    fixture_init(&f, *state, &spec);
    int64_t *order = counting(f.n);
    int steps = 0;
    struct eigenpro_top *e = decompose(&f, order, 70, 30, &steps);
    assert_int_equal(eigenpro_top_count(e), 30);
    check_pairs(&f, order, 70, e, 30, 1e-10);
    eigenpro_top_free(e);
    mem_free(order);
    fixture_deinit(&f);
}

/* Beyond the dense size: several steps, so that a cancel is seen; leading pairs accurate. */
static void test_subspace_pairs(void **state)
{
    struct fixture f;
    const int64_t s = EIGENPRO_DENSE_ROWS + 50;
    const struct fixture_spec spec = plain_spec(KERNEL_GAUSSIAN, s + 10, 0);
    fixture_init(&f, *state, &spec);
    int64_t *order = counting(f.n);
    int steps = 0;
    struct eigenpro_top *e = decompose(&f, order, s, 60, &steps);
    assert_int_equal(eigenpro_top_count(e), 60);
    assert_true(steps >= 2 * (EIGENPRO_POWERS + 2));
    check_pairs(&f, order, s, e, 40, 1e-3);
    eigenpro_top_free(e);
    mem_free(order);
    fixture_deinit(&f);
}

/* A linear kernel in 3 dimensions with a constant has rank 4: the pairs beyond are dropped. */
static void test_subspace_of_low_rank(void **state)
{
    struct fixture f;
    const int64_t s = EIGENPRO_DENSE_ROWS + 1;
    const struct fixture_spec spec = plain_spec(KERNEL_LINEAR, s, 0);
    fixture_init(&f, *state, &spec);
    int64_t *order = counting(f.n);
    int steps = 0;
    struct eigenpro_top *e = decompose(&f, order, s, 20, &steps);
    assert_true(eigenpro_top_count(e) >= 4 && eigenpro_top_count(e) <= 20);
    check_pairs(&f, order, s, e, 4, 1e-8);
    for (int64_t i = 4; i < eigenpro_top_count(e); i++) {
        assert_near(eigenpro_top_values(e)[i], 0.0, 1e-10 * eigenpro_top_values(e)[0]);
    }
    eigenpro_top_free(e);
    mem_free(order);
    fixture_deinit(&f);
}

/* ---- the preconditioner ---- */

static struct eigenpro *build(const struct fixture *f, const int64_t *order, int64_t s, int64_t q,
                              double alpha)
{
    const struct eigenpro_spec spec = {.be = f->be,
                                       .X = f->points,
                                       .n = f->n,
                                       .order = order,
                                       .s = s,
                                       .q = q,
                                       .max_batch = 1000000,
                                       .alpha = alpha,
                                       .ridge = f->problem.ridge,
                                       .rounding = DBL_EPSILON,
                                       .dtype = DTYPE_F64,
                                       .rng = rng_new(1, RNG_PRECOND)};
    struct eigenpro *e = NULL;
    double fraction = 0;
    int r = 0;
    must(eigenpro_new(&spec, &e, &err));
    while (r == 0) {
        r = eigenpro_step(e, &fraction, NULL);
    }
    assert_int_equal(r, 1);
    return e;
}

/* C = A B of n x n by plain loops. */
static void multiply(const double *A, const double *B, double *C, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            C[i + j * n] = 0;
            for (int64_t k = 0; k < n; k++) {
                C[i + j * n] += A[i + k * n] * B[k + j * n];
            }
        }
    }
}

/* M' = M - M N M on the host, N = W W' in the corner of S. */
static double *preconditioned(const struct fixture *f, const struct eigenpro *e, const double *M)
{
    const int64_t n = f->n, q = eigenpro_rank(e);
    const struct mat W = eigenpro_weights(e);
    double *w = device_get(f->be, &W), *N = host_zeros(n * n);
    double *MN = host_zeros(n * n), *R = host_zeros(n * n);
    for (int64_t c = 0; c < q; c++) {
        for (int64_t j = 0; j < W.rows; j++) {
            for (int64_t i = 0; i < W.rows; i++) {
                N[i + j * n] += w[i + c * W.rows] * w[j + c * W.rows];
            }
        }
    }
    multiply(M, N, MN, n);
    multiply(MN, M, R, n);
    for (int64_t i = 0; i < n * n; i++) {
        R[i] = M[i] - R[i];
    }
    mem_free(MN);
    mem_free(N);
    mem_free(w);
    return R;
}

static double *eigenvalues(struct backend *be, const double *A, int64_t n)
{
    struct mat m = device_mat(be, DTYPE_F64, n, n, A);
    double *values = host_zeros(n);
    must(be->ops->eigh(be, &m, values, &err));
    be->ops->mat_free(be, &m);
    return values;
}

/* With all rows in S, M' has the eigenvalues n lambda_i r_i for i <= q and M's own beyond. */
static void check_spectrum(struct backend *be, double lambda)
{
    enum { N = 60, Q = 7 };
    struct fixture f;
    const struct fixture_spec spec = plain_spec(KERNEL_MATERN52, N, lambda);
    fixture_init(&f, be, &spec);
    int64_t *order = counting(N);
    const double alpha = 0.9;
    struct eigenpro *e = build(&f, order, N, Q, alpha);
    double *M = fixture_matrix(&f), *R = preconditioned(&f, e, M);
    double *plain = eigenvalues(be, M, N), *flat = eigenvalues(be, R, N);
    double expected[N], largest = 0;
    for (int64_t i = 0; i < N; i++) {
        const double v = plain[N - 1 - i], tail = plain[N - 1 - Q];
        expected[N - 1 - i] = i < Q ? v * pow(tail / v, alpha) : v;
        largest = fmax(largest, R[i + i * N]);
    }
    assert_all_close(flat, expected, N, 0, 1e-9 * expected[N - 1]);
    assert_int_equal(eigenpro_rank(e), Q);
    assert_close(eigenpro_top_value(e), plain[N - 1] / N, 1e-10);
    assert_close(eigenpro_lambda(e), expected[N - 1] / N, 1e-9);
    assert_close(eigenpro_beta(e), largest, 1e-9);
    mem_free(flat);
    mem_free(plain);
    mem_free(R);
    mem_free(M);
    eigenpro_free(e);
    mem_free(order);
    fixture_deinit(&f);
}

static void test_spectrum_is_flattened(void **state)
{
    check_spectrum(*state, 0);
    check_spectrum(*state, 1e-4);
    check_spectrum(*state, 1e-1);
}

/* With a part of the rows: M' stays positive semidefinite however large the ridge is, and beta is
 * the largest of its diagonal, whether rows are inside of S or not. */
static void test_subsample_is_safe(void **state)
{
    static const double lambdas[] = {0, 1e-6, 1e-3, 1.0};
    for (size_t k = 0; k < 4; k++) {
        struct fixture f;
        const struct fixture_spec spec = plain_spec(KERNEL_GAUSSIAN, 80, lambdas[k]);
        fixture_init(&f, *state, &spec);
        int64_t *order = counting(f.n);
        struct eigenpro *e = build(&f, order, 30, -1, 0.95);
        double *M = fixture_matrix(&f), *R = preconditioned(&f, e, M);
        double largest = 0;
        for (int64_t i = 0; i < f.n; i++) {
            largest = fmax(largest, R[i + i * f.n]);
        }
        assert_close(eigenpro_beta(e), largest, 1e-9);
        double *values = eigenvalues(f.be, R, f.n);
        assert_true(values[0] >= -1e-10 * (double)f.n);
        assert_true(eigenpro_beta(e) >= eigenpro_lambda(e));
        mem_free(values);
        mem_free(R);
        mem_free(M);
        eigenpro_free(e);
        mem_free(order);
        fixture_deinit(&f);
    }
}

/* The published formulas, from the object's own lambda1' and beta. */
static void test_batch_and_rate(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = plain_spec(KERNEL_LAPLACIAN, 400, 0);
    fixture_init(&f, *state, &spec);
    int64_t *order = counting(f.n);
    struct eigenpro *e = build(&f, order, 100, 10, 0.95);
    const double beta = eigenpro_beta(e), lambda = eigenpro_lambda(e);
    const int64_t critical = (int64_t)(beta / lambda + 1.0);
    assert_true(critical > 2 && critical < 300);
    assert_int_equal(eigenpro_batch(e), critical);
    assert_close(eigenpro_rate(e, 2), 2.0 / beta, 1e-15);
    const int64_t b = critical + 40;
    assert_close(eigenpro_rate(e, b), 2.0 * (double)b / (beta + (double)(b - 1) * lambda), 1e-15);
    assert_close(eigenpro_rate(e, 400), 1.9 / lambda, 1e-15);
    eigenpro_free(e);
    mem_free(order);
    fixture_deinit(&f);
}

/* Auto: lambda_q is the last above kappa s^(-1 / alpha); more rows in S, more pairs. */
static void test_automatic_rank(void **state)
{
    struct fixture f;
    const struct fixture_spec spec = plain_spec(KERNEL_MATERN32, 300, 0);
    fixture_init(&f, *state, &spec);
    int64_t *order = counting(f.n);
    const int64_t s = 200;
    struct eigenpro *e = build(&f, order, s, -1, 0.95);
    int steps = 0;
    struct eigenpro_top *top = decompose(&f, order, s, s, &steps);
    int64_t above = 0;
    while (above < s && pow(eigenpro_top_values(top)[above] / (double)s, -0.95) < (double)s) {
        above++;
    }
    assert_true(above > 6 && above < s);
    assert_int_equal(eigenpro_rank(e), above - 1);
    eigenpro_top_free(top);
    eigenpro_free(e);
    mem_free(order);
    fixture_deinit(&f);
}

/* Subsamples without 5 sound pairs: one row, equal rows, low rank, no kernel at all. */
static void test_poor_subsamples(void **state)
{
    static const enum kernel_id kernels[] = {KERNEL_GAUSSIAN, KERNEL_LINEAR};
    for (int i = 0; i < 16; i++) {
        struct fixture f;
        struct fixture_spec spec = plain_spec(kernels[i % 2], 40, (i & 2) != 0 ? 1e-3 : 0);
        spec.copies = (i & 4) != 0 ? 39 : 0;
        fixture_init(&f, *state, &spec);
        int64_t *order = counting(f.n);
        struct eigenpro *e = build(&f, order, (i & 8) != 0 ? 1 : 40, -1, 0.95);
        assert_true(isfinite(eigenpro_beta(e)) && eigenpro_beta(e) > 0);
        assert_true(isfinite(eigenpro_lambda(e)) && eigenpro_lambda(e) > 0);
        const struct mat W = eigenpro_weights(e);
        double *w = eigenpro_rank(e) > 0 ? device_get(f.be, &W) : host_zeros(1);
        for (int64_t k = 0; k < W.rows * eigenpro_rank(e); k++) {
            assert_true(isfinite(w[k]));
        }
        mem_free(w);
        eigenpro_free(e);
        mem_free(order);
        fixture_deinit(&f);
    }
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_two, device_teardown)

TEST_MAIN(on_device(test_dense_pairs), on_device(test_subspace_pairs),
          on_device(test_subspace_of_low_rank), on_device(test_spectrum_is_flattened),
          on_device(test_subsample_is_safe), on_device(test_batch_and_rate),
          on_device(test_automatic_rank), on_device(test_poor_subsamples))
