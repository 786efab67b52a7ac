#include "engine/memory.h"

#include "support/assert.h"

static int64_t tiny(struct backend *be)
{
    (void)be;
    return 1000;
}

static void test_refusal_says_how_much(void **state)
{
    (void)state;
    const struct backend_ops ops = {.name = "test", .memory_available = tiny};
    struct backend be = {.ops = &ops};
    struct err err;
    assert_int_equal(memory_check_matrix(&be, 5, 25, DTYPE_F64, "solver", &err), 0);
    assert_int_equal(memory_check_matrix(&be, 50000, 50000, DTYPE_F64, "solver", &err),
                     -ERR_NO_MEMORY);
    assert_contains(err.detail, "50000 x 50000");
    assert_contains(err.detail, "20.0 GB in float64");
    const struct backend_ops silent = {.name = "test"};
    be.ops = &silent;
    assert_int_equal(memory_check_matrix(&be, 50000, 50000, DTYPE_F64, "solver", &err), 0);
}

/* Either would fit alone. */
static void test_two_together(void **state)
{
    (void)state;
    const struct backend_ops ops = {.name = "test", .memory_available = tiny};
    struct backend be = {.ops = &ops};
    struct err err;
    assert_int_equal(memory_check_pair(&be, 10, 10, DTYPE_F32, 10, 7, DTYPE_F64, "way", &err), 0);
    assert_int_equal(memory_check_pair(&be, 10, 20, DTYPE_F32, 10, 10, DTYPE_F64, "way", &err),
                     -ERR_NO_MEMORY);
    assert_contains(err.detail, "10 x 20 matrix");
    assert_contains(err.detail, "10 x 10 one");
    assert_int_equal(memory_check_pair(&be, INT64_C(1) << 32, INT64_C(1) << 32, DTYPE_F32, 1, 1,
                                       DTYPE_F64, "way", &err),
                     -ERR_NO_MEMORY);
}

TEST_MAIN(cmocka_unit_test(test_refusal_says_how_much), cmocka_unit_test(test_two_together))
