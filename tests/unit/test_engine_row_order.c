#include "engine/methods/row_order.h"

#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

/* Every row has one place. */
static void test_is_a_permutation(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 16, 63, 64, 65, 1000, 4096, 4097, 100003};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        const int64_t n = sizes[k];
        bool *seen = mem_zarray((size_t)n, sizeof(*seen));
        assert_non_null(seen);
        const struct row_order o = row_order_new(k, ORDER_DRAW, 0, n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t row = row_order_at(&o, i);
            assert_true(row >= 0 && row < n && !seen[row]);
            seen[row] = true;
        }
        mem_free(seen);
    }
}

/* Row r at place i is equally likely for all r, for small n as well: chi square of 2,000 seeds. */
static void test_places_are_uniform(void **state)
{
    (void)state;
    enum { SEEDS = 2000 };
    static const int64_t sizes[] = {2, 5, 20, 70};
    for (size_t k = 0; k < 4; k++) {
        const int64_t n = sizes[k];
        for (int64_t place = 0; place < n; place += n - 1) {
            int64_t counts[70] = {0};
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                const struct row_order o = row_order_new(seed, ORDER_NESTED, 0, n);
                counts[row_order_at(&o, place)]++;
            }
            double chi = 0;
            for (int64_t r = 0; r < n; r++) {
                const double expected = (double)SEEDS / (double)n;
                chi += ((double)counts[r] - expected) * ((double)counts[r] - expected) / expected;
            }
            /* Mean n - 1, variance 2 (n - 1): five standard deviations. */
            assert_true(chi < (double)(n - 1) + 5.0 * 1.4143 * (double)(n - 1) + 10.0);
        }
    }
}

/* Pairs of places are as independent as pairs of draws without replacement. */
static void test_pairs_are_uniform(void **state)
{
    (void)state;
    enum { SEEDS = 6000, N = 6 };
    int64_t counts[N][N] = {{0}};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct row_order o = row_order_new(seed, ORDER_SAMPLE, 0, N);
        counts[row_order_at(&o, 1)][row_order_at(&o, 2)]++;
    }
    double chi = 0;
    const double expected = (double)SEEDS / (N * (N - 1));
    for (int i = 0; i < N; i++) {
        assert_int_equal(counts[i][i], 0);
        for (int j = 0; j < N; j++) {
            const double off = (double)counts[i][j] - expected;
            chi += i == j ? 0.0 : off * off / expected;
        }
    }
    assert_true(chi < 29 + 5 * 7.6);
}

static void test_seeds_and_tags_differ(void **state)
{
    (void)state;
    const int64_t n = 100000000;
    const struct row_order a = row_order_new(7, ORDER_DRAW, 0, n),
                           b = row_order_new(7, ORDER_SAMPLE, 0, n),
                           c = row_order_new(8, ORDER_DRAW, 0, n);
    int64_t same = 0, low = 0;
    for (int64_t i = 0; i < 1000; i++) {
        const int64_t row = row_order_at(&a, i);
        assert_int_equal(row, row_order_at(&a, i));
        same += row == row_order_at(&b, i);
        same += row == row_order_at(&c, i);
        low += row < n / 2;
    }
    assert_true(same <= 1);
    assert_true(low > 420 && low < 580);
}

/* No number is for two things: orders that should have nothing to do with each other would be one.
 */
static void test_uses_have_numbers_of_their_own(void **state)
{
    (void)state;
    for (int i = 0; i < ORDER_COUNT_; i++) {
        const struct row_order_range a = row_order_range((enum row_order_use)i);
        assert_true(a.first >= 1 && a.count >= 1 && a.count - 1 <= UINT32_MAX - a.first);
        for (int j = 0; j < i; j++) {
            const struct row_order_range b = row_order_range((enum row_order_use)j);
            assert_true(a.first + (a.count - 1) < b.first || b.first + (b.count - 1) < a.first);
        }
    }
}

/* A use of many orders comes back to its first, and never to another's. */
static void test_numbers_stay_in_their_range(void **state)
{
    (void)state;
    const struct row_order_range levels = row_order_range(ORDER_LEVEL);
    for (int64_t k = 0; k < 5000; k++) {
        const struct row_order o = row_order_new(1, ORDER_LEVEL, k, 10);
        assert_true(o.tag >= levels.first && o.tag - levels.first < levels.count);
        assert_int_equal(o.tag, row_order_new(1, ORDER_LEVEL, k + levels.count, 10).tag);
        assert_true(o.tag != row_order_new(1, ORDER_LEVEL, k + 1, 10).tag);
    }
    const struct row_order last = row_order_new(1, ORDER_EIGENPRO_EPOCH, INT64_MAX, 10);
    const struct row_order_range epochs = row_order_range(ORDER_EIGENPRO_EPOCH);
    assert_true(last.tag >= epochs.first && last.tag - epochs.first < epochs.count);
}

TEST_MAIN(cmocka_unit_test(test_uses_have_numbers_of_their_own),
          cmocka_unit_test(test_numbers_stay_in_their_range),
          cmocka_unit_test(test_is_a_permutation), cmocka_unit_test(test_places_are_uniform),
          cmocka_unit_test(test_pairs_are_uniform), cmocka_unit_test(test_seeds_and_tags_differ))
