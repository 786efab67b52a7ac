#include "engine/data/standardize.h"

#include <math.h>

#include "engine_fixture.h"

static const int64_t rows[] = {0, 2, 3};
static const int64_t columns[] = {2, 0};
/* Row 1 is not a training row and must not count. */
static const double values[] = {1, 5, 0.1, /**/ 100, 5, 900, /**/ 4, 5, 0.1, /**/ 7, 5, 0.1};

static void test_columns(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 4, 3, 0);
    double mean[2], scale[2];
    standardize_columns(ds, rows, 3, columns, 2, mean, scale);
    assert_same_bits(mean[0], 0.1); /* constant: exactly, and with scale 1 */
    assert_close(scale[0], 1.0, 0);
    assert_close(mean[1], 4.0, 1e-15);
    assert_close(scale[1], sqrt(6.0), 1e-15);
    void *X = NULL;
    assert_int_equal(standardize_gather(ds, rows, 3, columns, 2, mean, scale, DTYPE_F64, &X, NULL),
                     0);
    const double expected[] = {0, -3 / sqrt(6.0), 0, 0, 0, 3 / sqrt(6.0)};
    assert_all_close((double *)X, expected, 6, 1e-15, 1e-15);
    mem_free(X);
    fixture_dataset_free(ds);
}

/* Two passes: a large mean costs no digits. */
static void test_large_offset(void **state)
{
    (void)state;
    double x[1000], mean, scale;
    for (int i = 0; i < 1000; i++) {
        x[i] = 1e9 + (i % 2);
    }
    assert_false(standardize_vector(x, 1000, &mean, &scale));
    assert_close(mean, 1e9 + 0.5, 1e-15);
    assert_close(scale, 0.5, 1e-6);
    for (int i = 0; i < 1000; i++) {
        x[i] = 0.1;
    }
    assert_true(standardize_vector(x, 1000, &mean, &scale));
    assert_same_bits(mean, 0.1);
    assert_close(scale, 1.0, 0);
}

/* Numbers whose squares are too small or too large for float64, denormal ones among them. */
static void test_extreme_scales(void **state)
{
    (void)state;
    const double units[] = {1e-140, 1e-160, 1e-250, 1e-300, 1e-310, 1e160, 1e300};
    for (size_t k = 0; k < sizeof(units) / sizeof(units[0]); k++) {
        const double u = units[k];
        const double x[] = {0, 5, 2 * u, 5, 4 * u, 5, 10 * u, 5};
        struct dataset *ds = fixture_dataset(x, 4, 2, 0);
        const int64_t all[] = {0, 1, 2, 3}, both[] = {0, 1};
        double mean[2], scale[2], alone[4] = {0, 2 * u, 4 * u, 10 * u}, mean_alone, scale_alone;
        standardize_columns(ds, all, 4, both, 2, mean, scale);
        assert_false(standardize_vector(alone, 4, &mean_alone, &scale_alone));
        assert_close(mean[0] / u, mean_alone / u, 1e-12); /* a target's is the more exact one */
        assert_close(scale[0] / u, scale_alone / u, 1e-12);
        assert_close(mean[0] / u, 4.0, 1e-12);
        assert_close(scale[0] / u, sqrt(14.0), 1e-12);
        assert_close(scale[1], 1.0, 0);
        fixture_dataset_free(ds);
    }
}

/* More columns than are scaled together. */
static void test_many_columns(void **state)
{
    (void)state;
    enum { COLUMNS = 150 };
    double x[3 * COLUMNS], mean[COLUMNS], scale[COLUMNS];
    int64_t wanted[COLUMNS];
    for (int j = 0; j < COLUMNS; j++) {
        wanted[j] = j;
        for (int i = 0; i < 3; i++) {
            x[i * COLUMNS + j] = (i - 1) * (j + 1.0);
        }
    }
    struct dataset *ds = fixture_dataset(x, 3, COLUMNS, 0);
    const int64_t all[] = {0, 1, 2};
    standardize_columns(ds, all, 3, wanted, COLUMNS, mean, scale);
    for (int j = 0; j < COLUMNS; j++) {
        assert_close(mean[j], 0.0, 0);
        assert_close(scale[j], sqrt(2.0 / 3.0) * (j + 1), 1e-15);
    }
    fixture_dataset_free(ds);
}

/* A row alone has the bits that it has among others, in float32 too. */
static void test_row_and_gather_agree(void **state)
{
    (void)state;
    struct dataset *ds = fixture_dataset(values, 4, 3, 0);
    const double mean[2] = {0.3, 0.7}, scale[2] = {3, 7};
    void *X = NULL;
    assert_int_equal(standardize_gather(ds, rows, 3, columns, 2, mean, scale, DTYPE_F32, &X, NULL),
                     0);
    for (int64_t i = 0; i < 3; i++) {
        const double raw[2] = {dataset_at(ds, rows[i], 2), dataset_at(ds, rows[i], 0)};
        float one[2];
        standardize_row(raw, 2, mean, scale, DTYPE_F32, one, 0);
        assert_memory_equal(one, (float *)X + 2 * i, sizeof(one));
    }
    mem_free(X);
    fixture_dataset_free(ds);
}

/* A mean in the middle of the rows stays; one that a row drags away becomes the median. */
static void test_origin(void **state)
{
    (void)state;
    enum { ROWS = 12 };
    double x[2 * ROWS], mean[2], scale[2];
    int64_t all[ROWS];
    const int64_t both[] = {0, 1};
    for (int i = 0; i < ROWS; i++) {
        all[i] = i;
        x[2 * i] = i;
        x[2 * i + 1] = i == 4 ? 1e8 : i;
    }
    struct dataset *ds = fixture_dataset(x, ROWS, 2, 0);
    standardize_columns(ds, all, ROWS, both, 2, mean, scale);
    assert_int_equal(standardize_origin(ds, all, ROWS, both, 2, mean, NULL), 0);
    assert_close(mean[0], 5.5, 1e-15);
    assert_true(mean[1] >= 5 && mean[1] <= 7);
    fixture_dataset_free(ds);
}

static void test_too_large_for_float32(void **state)
{
    (void)state;
    const double big[] = {1, 2, 1e300, 4};
    struct dataset *ds = fixture_dataset(big, 2, 2, 0);
    const double mean[1] = {0}, scale[1] = {1};
    const int64_t both[] = {0, 1}, first[] = {0};
    void *X = NULL;
    struct err err;
    assert_int_equal(standardize_gather(ds, both, 2, first, 1, mean, scale, DTYPE_F32, &X, &err),
                     -ERR_INVALID);
    assert_contains(err.detail, "too large for float32");
    assert_null(X);
    fixture_dataset_free(ds);
}

TEST_MAIN(cmocka_unit_test(test_columns), cmocka_unit_test(test_large_offset),
          cmocka_unit_test(test_extreme_scales), cmocka_unit_test(test_many_columns),
          cmocka_unit_test(test_row_and_gather_agree), cmocka_unit_test(test_too_large_for_float32),
          cmocka_unit_test(test_origin))
