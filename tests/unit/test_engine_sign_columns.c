#include "engine/methods/restricted/sign_columns.h"

#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

enum { N = 61, D = 40 };

static const struct rule_sketch shapes[] = {{1, 1}, {1, 8}, {8, 1}, {4, 2}, {2, 3}, {16, 1}};

/* Phi(from .. from + phi->rows - 1, first .. first + count - 1), dense, of D x N. */
static void spread(const struct sign_sketch *phi, int64_t from, int64_t first, int64_t count,
                   double *ret)
{
    for (int64_t j = 0; j < count; j++) {
        for (int k = 0; k < sign_sketch_numbers(phi); k++) {
            const struct sign_entry e = sign_sketch_entry(phi, j, k);
            if (e.row >= 0) {
                ret[from + e.row + (first + j) * D] += e.negative ? -phi->scale : phi->scale;
            }
        }
    }
}

static void draw_whole(struct rule_sketch shape, double *ret)
{
    struct sign_columns c;
    assert_int_equal(sign_columns_init(&c, 7, N, D, shape, 1, NULL), 0);
    const struct sign_sketch phi = sign_columns_draw(&c, 0, 0, N);
    assert_int_equal(phi.rows, D);
    assert_true(sign_sketch_valid(&phi, N));
    spread(&phi, 0, 0, N, ret);
    sign_columns_deinit(&c);
}

/* The same Phi in parts, `count` columns at a time. */
static void draw_pieces(struct rule_sketch shape, int parts, int64_t count, double *ret)
{
    struct sign_columns c;
    assert_int_equal(sign_columns_init(&c, 7, N, D, shape, parts, NULL), 0);
    int64_t from = 0;
    for (int part = 0; part < parts; part++) {
        for (int64_t first = 0; first < N; first += count) {
            const int64_t here = N - first < count ? N - first : count;
            const struct sign_sketch phi = sign_columns_draw(&c, part, first, here);
            spread(&phi, from, first, here, ret);
        }
        from += sign_columns_rows(&c, part);
    }
    assert_int_equal(from, D);
    sign_columns_deinit(&c);
}

static void test_pieces(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 3, 8, 13, N};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        double whole[D * N] = {0};
        draw_whole(shapes[s], whole);
        const int numbers = shapes[s].block * shapes[s].copies;
        for (int k = 0; k < 5 * numbers; k++) {
            double pieces[D * N] = {0};
            draw_pieces(shapes[s], 1 + k / 5, counts[k % 5], pieces);
            assert_memory_equal(pieces, whole, sizeof whole);
        }
    }
}

/* Columns have length 1, and a number in each band. */
static void test_columns(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        double whole[D * N] = {0};
        draw_whole(shapes[s], whole);
        for (int64_t j = 0; j < N; j++) {
            double square = 0;
            int there = 0;
            for (int64_t i = 0; i < D; i++) {
                square += whole[i + j * D] * whole[i + j * D];
                there += whole[i + j * D] != 0;
            }
            assert_near(square, 1.0, 1e-14);
            assert_int_equal(there, shapes[s].block * shapes[s].copies);
        }
    }
}

static void test_products(void **state)
{
    (void)state;
    double y[N];
    for (int i = 0; i < N; i++) {
        y[i] = i % 7 - 3.5;
    }
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        double whole[D * N] = {0}, found[D] = {0};
        draw_whole(shapes[s], whole);
        struct sign_columns c;
        assert_int_equal(sign_columns_init(&c, 7, N, D, shapes[s], 1, NULL), 0);
        for (int64_t first = 0; first < N; first += 13) { /* cuts blocks */
            const int64_t here = N - first < 13 ? N - first : 13;
            const struct sign_sketch phi = sign_columns_draw(&c, 0, first, here);
            sign_sketch_multiply(&phi, y + first, here, found);
        }
        for (int64_t i = 0; i < D; i++) {
            double sum = 0;
            for (int64_t j = 0; j < N; j++) {
                sum += whole[i + j * D] * y[j];
            }
            assert_near(found[i], sum, 1e-12);
        }
        sign_columns_deinit(&c);
    }
}

TEST_MAIN(cmocka_unit_test(test_pieces), cmocka_unit_test(test_columns),
          cmocka_unit_test(test_products))
