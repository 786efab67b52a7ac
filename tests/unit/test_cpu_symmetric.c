/* How many columns a product of points with themselves takes at a time. */
#include "cpu/oracle.h"
#include "support/assert.h"

static int64_t f32(int64_t n, int64_t cols)
{
    return oracle__symmetric_cols(n, 64, DTYPE_F32, cols);
}

static void test_columns(void **state)
{
    (void)state;
    assert_int_equal(f32(64, 1), 0); /* one panel: nothing to share */
    assert_int_equal(f32(65, 1), 1);
    assert_int_equal(f32(98304, 64), 64);
    assert_int_equal(f32(98304, 200), 64);
    /* 48 MiB of sums. Two passes that evaluate once are no better than one that does twice; three
     * are better than two. */
    assert_int_equal(f32(98305, 63), 63);
    assert_int_equal(f32(98305, 64), 0);
    assert_int_equal(f32(98305, 128), 63);
    assert_int_equal(f32(1000000, 6), 6);
    assert_int_equal(f32(1000000, 7), 0);
    assert_int_equal(f32(6291456, 1), 1);
    assert_int_equal(f32(6291457, 1), 0);
}

/* Sums that are added to a float64 result need no room of their own. */
static void test_columns_in_place(void **state)
{
    (void)state;
    assert_int_equal(oracle__symmetric_cols(100000000, 32, DTYPE_F64, 1), 1);
    assert_int_equal(oracle__symmetric_cols(100000000, 32, DTYPE_F64, 100), 64);
    assert_int_equal(oracle__symmetric_cols(32, 32, DTYPE_F64, 100), 0);
}

/* Every pair of blocks once, every row in one block. */
static void test_grid(void **state)
{
    (void)state;
    static const int64_t sizes[] = {65, 640, 1000, 20001, 70000};
    for (int i = 0; i < 5; i++) {
        const struct symmetric_grid g = oracle__symmetric_grid(sizes[i], 64);
        assert_int_equal(g.block % 64, 0);
        double pairs = 0.0, rows = 0.0;
        for (int64_t task = 0; task < g.tasks; task++) {
            const struct symmetric_task t = oracle__symmetric_task(&g, task);
            const double a = (double)(t.end - t.first), b = (double)(t.z_end - t.z_first);
            assert_true(a > 0 && b > 0 && a <= (double)g.block && b <= (double)g.block);
            assert_true((t.I == t.J) == (t.step == 0));
            pairs += t.I == t.J ? a * b : 2 * a * b;
            rows += t.I == t.J ? a : 0;
        }
        assert_true(rows == (double)sizes[i]);
        assert_true(pairs == rows * rows);
    }
}

TEST_MAIN(cmocka_unit_test(test_columns), cmocka_unit_test(test_columns_in_place),
          cmocka_unit_test(test_grid))
