#include "wire/dtype.h"

#include "support/assert.h"

static void test_names_and_sizes(void **state)
{
    (void)state;
    enum dtype t = DTYPE_F32;
    assert_int_equal(dtype_size(DTYPE_F32), 4);
    assert_int_equal(dtype_size(DTYPE_F64), 8);
    assert_int_equal(dtype_parse("float64", &t, NULL), 0);
    assert_int_equal(t, DTYPE_F64);
    assert_int_equal(dtype_parse(dtype_name(DTYPE_F32), &t, NULL), 0);
    assert_int_equal(t, DTYPE_F32);
}

static void test_unknown(void **state)
{
    (void)state;
    struct err err;
    enum dtype t = DTYPE_F64;
    assert_int_equal(dtype_parse("float16", &t, &err), -ERR_INVALID);
    assert_contains(err.detail, "float32");
    assert_int_equal(t, DTYPE_F64);
}

static void test_products_that_overflow(void **state)
{
    (void)state;
    assert_int_equal(dtype_matrix_bytes(10, 20, DTYPE_F32), 800);
    assert_int_equal(dtype_matrix_bytes(INT64_C(1) << 32, INT64_C(1) << 32, DTYPE_F32), INT64_MAX);
    assert_int_equal(dtype_matrix_bytes(INT64_C(1) << 31, INT64_C(1) << 31, DTYPE_F64), INT64_MAX);
}

TEST_MAIN(cmocka_unit_test(test_names_and_sizes), cmocka_unit_test(test_unknown),
          cmocka_unit_test(test_products_that_overflow))
