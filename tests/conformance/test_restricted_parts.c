/* Parts of restricted problems: rows in tiles, the certificate, and factors of the centers. */
#include <string.h>

#include "base/mem.h"
#include "conformance/precisions.h"
#include "conformance/restricted_fixture.h"
#include "engine/methods/normal_core.h"
#include "engine/normal.h"
#include "engine/solve/certify.h"

/* ---- rows in tiles ---- */

static double *gradient(struct restricted_fixture *f, const double *v, bool targets)
{
    struct mat V = device_mat(f->be, f->problem.dtype, f->m, f->t, v);
    struct mat G = device_mat(f->be, f->problem.dtype, f->m, f->t, NULL);
    struct normal_pass pass = {0};
    int r = 0;
    while (r == 0) {
        struct err err;
        r = normal_gradient(&f->restricted, f->be, &pass, &V, targets, &G, &err);
    }
    assert_int_equal(r, 1);
    double *g = device_get(f->be, &G);
    f->be->ops->mat_free(f->be, &V);
    f->be->ops->mat_free(f->be, &G);
    return g;
}

/* The same bits whether tiles stay or not, and the source is read again only where they do not. */
static void test_tiles_stay_or_pass(void **state)
{
    struct restricted_spec spec = restricted_ordinary();
    struct restricted_fixture f;
    double *first = NULL;
    for (int streamed = 0; streamed < 2; streamed++) {
        spec.streamed = streamed == 1;
        restricted_init(&f, *state, &spec);
        assert_int_equal(rowset_tiles(f.rows), 3);
        assert_int_equal(rowset_resident(f.rows), streamed == 0);
        double *g = gradient(&f, f.Y, true);
        assert_int_equal(f.reads, f.n);
        double *again = gradient(&f, f.Y, true);
        assert_int_equal(f.reads, streamed == 0 ? f.n : 2 * f.n);
        assert_memory_equal(g, again, (size_t)(f.m * f.t) * sizeof(double));
        if (first != NULL) {
            assert_memory_equal(g, first, (size_t)(f.m * f.t) * sizeof(double));
        } else {
            first = mem_dup(g, (size_t)(f.m * f.t) * sizeof(double));
        }
        mem_free(g);
        mem_free(again);
        restricted_deinit(&f);
    }
    mem_free(first);
}

/* Whether tiles stay within so many bytes. */
static bool stays(const struct restricted_fixture *f, int64_t budget)
{
    const struct rowset_spec spec = {.be = f->be,
                                     .kernel = &f->kernel,
                                     .source = &f->source,
                                     .points = f->points,
                                     .vectors = DTYPE_F64,
                                     .centers = f->m,
                                     .budget = budget,
                                     .tile_rows = 128};
    struct rowset *rows = NULL;
    must(rowset_new(&spec, &rows, &err));
    const bool ret = rowset_resident(rows);
    rowset_free(rows);
    return ret;
}

/* Tiles stay where there is room for points and targets, and on a device with memory of its own for
 * the parts that it may make of float32 points. */
static void test_room_for_tiles(void **state)
{
    static const enum dtype types[] = {DTYPE_F64, DTYPE_F32};
    struct backend *be = *state;
    const bool device = strcmp(be->ops->name, "cpu") != 0;
    for (int i = 0; i < 2; i++) {
        struct restricted_spec spec = restricted_ordinary();
        struct restricted_fixture f;
        spec.points = types[i];
        restricted_init(&f, be, &spec);
        const int64_t blocks = (3 * f.d + 4 + 15) / 16; /* of 16 numbers, as x rows and as z rows */
        const int64_t parts = device && types[i] == DTYPE_F32 ? 64 * blocks : 0;
        const int64_t row = f.d * (int64_t)dtype_size(types[i]) + parts + f.t * 8;
        assert_true(stays(&f, f.n * row));
        assert_false(stays(&f, f.n * row - 1));
        restricted_deinit(&f);
    }
}

/* A batch has the rows it was asked for, in that order, and tiles are whole afterwards. */
static void test_batches(void **state)
{
    struct restricted_spec spec = restricted_ordinary();
    spec.streamed = true;
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    const int64_t index[] = {299, 0, 17, 17, 200};
    struct row_tile batch, tile;
    must(rowset_tile(f.rows, 1, &tile, &err));
    must(rowset_batch(f.rows, index, 5, &batch, &err));
    assert_int_equal(batch.count, 5);
    double *Y = device_get(f.be, &batch.Y);
    struct mat K = device_mat(f.be, DTYPE_F64, 5, f.m, NULL);
    must(f.be->ops->kblock(f.be, batch.rows, view_all(f.centers, f.m), &K, &err));
    double *k = device_get(f.be, &K), *whole = restricted_kernel(&f);
    for (int64_t i = 0; i < 5; i++) {
        assert_true(Y[i] == f.Y[index[i]] && Y[5 + i] == f.Y[f.n + index[i]]);
        for (int64_t j = 0; j < f.m; j++) {
            assert_near(k[i + 5 * j], whole[index[i] + f.n * j], 1e-13);
        }
    }
    must(rowset_tile(f.rows, 1, &tile, &err));
    assert_int_equal(tile.first, 128);
    double *again = device_get(f.be, &tile.Y);
    assert_true(again[0] == f.Y[128]);
    mem_free(again);
    mem_free(k);
    mem_free(whole);
    mem_free(Y);
    f.be->ops->mat_free(f.be, &K);
    restricted_deinit(&f);
}

/* ---- the certificate ---- */

static void test_certificate(void **state)
{
    struct restricted_spec spec = restricted_ordinary();
    for (int precision = 0; precision < PRECISIONS; precision++) {
        spec.points = points_dtype((enum precision)precision);
        spec.vectors = vector_dtype((enum precision)precision);
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        double *B = restricted_solution(&f);
        struct certificate found, zero;
        host_round(B, f.m * f.t, spec.vectors);
        B[3] += 0.125; /* far from the solution, so that both agree to many digits */
        must(f.be->ops->mat_put(f.be, B, f.m, &f.A, &err));
        must(certify_restricted(&f.problem, &f.A, NULL, &found, &err));
        assert_close(found.residual, restricted_residual(&f, B), 1e-9);
        memset(B, 0, (size_t)(f.m * f.t) * sizeof(double));
        must(f.be->ops->mat_put(f.be, B, f.m, &f.A, &err));
        must(certify_restricted(&f.problem, &f.A, NULL, &zero, &err));
        assert_close(zero.residual, 1.0, 1e-12);
        mem_free(B);
        restricted_deinit(&f);
    }
}

/* ---- factors ---- */

/* A <- L A of two lower triangles, of one block of the product and of several. */
static void test_product_of_factors(void **state)
{
    struct backend *be = *state;
    static const int64_t sizes[] = {1, 7, 256, 300, 530};
    for (int k = 0; k < 5; k++) {
        const int64_t m = sizes[k];
        struct rng rng = rng_new((uint64_t)m, RNG_TEST);
        double *l = host_normal(&rng, m * m), *a = host_normal(&rng, m * m);
        for (int64_t i = 0; i < m * m; i++) {
            l[i] = i % m < i / m ? 0.0 : l[i]; /* column i / m, row i % m */
        }
        struct mat L = device_mat(be, DTYPE_F64, m, m, l), A = device_mat(be, DTYPE_F64, m, m, a);
        must(core_multiply_factors(be, &L, &A, &err));
        double *found = device_get(be, &A);
        for (int64_t i = 0; i < m * m; i++) {
            double sum = 0;
            for (int64_t j = i / m; j <= i % m; j++) {
                sum += l[i % m + j * m] * a[j + i / m * m];
            }
            assert_near(found[i], sum, 1e-12 * (double)m);
        }
        be->ops->mat_free(be, &L);
        be->ops->mat_free(be, &A);
        mem_free(l);
        mem_free(a);
        mem_free(found);
    }
}

/* W <- L X and back, of one block of the product and of several. */
static void test_variables_of_the_centers(void **state)
{
    struct backend *be = *state;
    static const int64_t sizes[] = {1, 7, 256, 530};
    for (int k = 0; k < 4; k++) {
        const int64_t m = sizes[k], t = 3, rows = m < CORE_MULTIPLY_ROWS ? m : CORE_MULTIPLY_ROWS;
        struct rng rng = rng_new((uint64_t)m, RNG_TEST);
        double *l = host_normal(&rng, m * m), *x = host_normal(&rng, m * t);
        for (int64_t i = 0; i < m * m; i++) { /* column i / m, row i % m; its diagonal dominates */
            l[i] = i % m < i / m ? 0.0 : i % m == i / m ? 2.0 : l[i] / (double)m;
        }
        struct mat L = device_mat(be, DTYPE_F64, m, m, l), X = device_mat(be, DTYPE_F64, m, t, x);
        struct mat W = device_mat(be, DTYPE_F64, m, t, NULL);
        struct mat block = device_mat(be, DTYPE_F64, rows, t, NULL);
        const struct core_variables v = {.L = &L, .W = &W};
        must(core_multiply(be, &v, &block, &X, &err));
        double *found = device_get(be, &W);
        for (int64_t i = 0; i < m * t; i++) {
            double sum = 0;
            for (int64_t j = 0; j <= i % m; j++) {
                sum += l[i % m + j * m] * x[j + i / m * m];
            }
            assert_near(found[i], sum, 1e-12);
        }
        must(be->ops->copy(be, &W, &X, &err));
        must(core_whiten(be, &v, &X, &err));
        double *back = device_get(be, &X);
        for (int64_t i = 0; i < m * t; i++) {
            assert_near(back[i], x[i], 1e-11);
        }
        struct mat *const all[] = {&L, &X, &W, &block};
        for (int i = 0; i < 4; i++) {
            be->ops->mat_free(be, all[i]);
        }
        double *const host[] = {l, x, found, back};
        for (int i = 0; i < 4; i++) {
            mem_free(host[i]);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_tiles_stay_or_pass), TEST(test_room_for_tiles), TEST(test_batches),
          TEST(test_certificate), TEST(test_product_of_factors),
          TEST(test_variables_of_the_centers))
