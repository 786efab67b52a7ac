#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

/* Known answers published with Random123 (kat_vectors, philox4x32, 10 rounds). */
static void test_published_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t answer[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t words[4];
        rng_philox(cases[i].counter, cases[i].key, words);
        assert_memory_equal(words, cases[i].answer, sizeof(words));
    }
}

/* How seed, stream and position make up counter and key. */
static void test_layout(void **state)
{
    (void)state;
    struct rng zero = rng_new(0, 0);
    assert_true(rng_u64(&zero) == UINT64_C(0xe169c58d6627e8d5));
    assert_true(rng_u64(&zero) == UINT64_C(0x9b00dbd8bc57ac4c));
    assert_int_equal(zero.position, 2);

    /* seed, stream and block as in the vector of pi's digits; block = position / 2 */
    struct rng pi = rng_new(UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e));
    pi.position = UINT64_C(0x05a308d3243f6a88) * 2;
    uint32_t words[4];
    rng_philox((const uint32_t[]){0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344},
               (const uint32_t[]){0xa4093822, 0x299f31d0}, words);
    assert_true(rng_u64(&pi) == (words[0] | (uint64_t)words[1] << 32));
    assert_true(rng_u64(&pi) == (words[2] | (uint64_t)words[3] << 32));
}

static void test_streams_and_positions(void **state)
{
    (void)state;
    struct rng a = rng_new(7, RNG_SPLIT);
    struct rng b = rng_new(7, RNG_SOLVER);
    struct rng c = rng_new(8, RNG_SPLIT);
    uint64_t first[20];
    for (int i = 0; i < 20; i++) {
        first[i] = rng_u64(&a);
        assert_true(first[i] != rng_u64(&b));
        assert_true(first[i] != rng_u64(&c));
    }
    for (uint64_t at = 0; at < 20; at++) { /* a checkpoint is three integers */
        struct rng again = {.seed = 7, .stream = RNG_SPLIT, .position = at};
        assert_true(rng_u64(&again) == first[at]);
    }
}

static void test_uniform(void **state)
{
    (void)state;
    struct rng first = rng_new(0, 0); /* the first vector's words, cut to 52 bits */
    assert_same_bits(rng_uniform(&first), ((double)0xe169c58d6627e + 0.5) / 4503599627370496.0);
    struct rng r = rng_new(1, RNG_TEST);
    const int n = 100000;
    double sum = 0.0;
    double squares = 0.0;
    int cells[10] = {0};
    for (int i = 0; i < n; i++) {
        const double u = rng_uniform(&r);
        assert_true(u > 0.0 && u < 1.0);
        sum += u;
        squares += u * u;
        cells[(int)(10.0 * u)]++;
    }
    /* Five standard deviations: 5 / sqrt(12 n), and so on. */
    assert_near(sum / n, 0.5, 5.0 * sqrt(1.0 / 12.0 / n));
    assert_near(squares / n, 1.0 / 3.0, 5.0 * sqrt(4.0 / 45.0 / n));
    for (int i = 0; i < 10; i++) {
        assert_near(cells[i], n / 10.0, 5.0 * sqrt(0.09 * n));
    }
}

static void test_normal(void **state)
{
    (void)state;
    struct rng r = rng_new(2, RNG_TEST);
    const int n = 100000;
    double moments[5] = {0};
    int beyond_two = 0;
    for (int i = 0; i < n; i++) {
        const double z = rng_normal(&r);
        assert_true(isfinite(z));
        for (int p = 1; p <= 4; p++) {
            moments[p] += pow(z, p) / n;
        }
        beyond_two += fabs(z) > 2.0;
    }
    assert_int_equal(r.position, 2 * n);
    assert_near(moments[1], 0.0, 5.0 * sqrt(1.0 / n));
    assert_near(moments[2], 1.0, 5.0 * sqrt(2.0 / n));
    assert_near(moments[3], 0.0, 5.0 * sqrt(15.0 / n));
    assert_near(moments[4], 3.0, 5.0 * sqrt(96.0 / n));
    assert_near(beyond_two, 0.0455 * n, 5.0 * sqrt(0.0455 * n));
}

static void test_below(void **state)
{
    (void)state;
    struct rng r = rng_new(3, RNG_TEST);
    const int n = 70000;
    int counts[7] = {0};
    for (int i = 0; i < n; i++) {
        const int64_t v = rng_below(&r, 7);
        assert_in_range(v, 0, 6);
        counts[v]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_near(counts[i], n / 7.0, 5.0 * sqrt(n * 6.0 / 49.0));
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(rng_below(&r, 1), 0);
        const int64_t v = rng_below(&r, INT64_MAX);
        assert_true(v >= 0 && v < INT64_MAX);
    }
    assert_int_equal(rng_below(&r, 0), 0);
    assert_int_equal(rng_below(&r, -5), 0);
}

/* With n = 3/8 of 2^64 a careless product would give v = 2 mod 3 two draws where the others get
 * three. */
static void test_below_without_bias(void **state)
{
    (void)state;
    struct rng r = rng_new(4, RNG_TEST);
    const int draws = 30000;
    int classes[3] = {0};
    for (int i = 0; i < draws; i++) {
        classes[rng_below(&r, INT64_C(3) << 61) % 3]++;
    }
    for (int i = 0; i < 3; i++) {
        assert_near(classes[i], draws / 3.0, 5.0 * sqrt(draws * 2.0 / 9.0));
    }
}

static void test_shuffle(void **state)
{
    (void)state;
    struct rng r = rng_new(5, RNG_TEST);
    int orders[27] = {0};
    for (int i = 0; i < 12000; i++) {
        int64_t a[3] = {0, 1, 2};
        rng_shuffle(&r, a, 3);
        orders[9 * a[0] + 3 * a[1] + a[2]]++;
    }
    int seen = 0;
    for (int i = 0; i < 27; i++) {
        if (orders[i] > 0) {
            seen++;
            assert_near(orders[i], 2000.0, 5.0 * sqrt(12000 * 5.0 / 36.0));
        }
    }
    assert_int_equal(seen, 6);
    int64_t one = 42;
    rng_shuffle(&r, &one, 1);
    rng_shuffle(&r, NULL, 0);
    assert_int_equal(one, 42);
}

static void check_choice(int64_t n, int64_t k)
{
    struct rng r = rng_new(6, RNG_TEST);
    cleanup_mem int64_t *chosen = mem_array((size_t)k, sizeof(*chosen));
    cleanup_mem char *seen = mem_zarray((size_t)n, 1);
    assert_int_equal(rng_choose(&r, n, k, chosen, NULL), 0);
    for (int64_t i = 0; i < k; i++) {
        assert_in_range(chosen[i], 0, n - 1);
        assert_int_equal(seen[chosen[i]], 0);
        seen[chosen[i]] = 1;
    }
}

static void test_choose_is_distinct(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 70; n++) {
        for (int64_t k = 0; k <= n; k++) {
            check_choice(n, k);
        }
    }
    check_choice(100000, 12499); /* the last by Floyd */
    check_choice(100000, 12500);
    check_choice(100000, 100000);
}

/* Every number is chosen equally often at every place, by both methods. */
static void test_choose_is_uniform(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{24, 2}, {5, 3}};
    for (size_t s = 0; s < 2; s++) {
        const int64_t n = sizes[s][0];
        const int64_t k = sizes[s][1];
        struct rng r = rng_new(8, RNG_TEST);
        int counts[3][24] = {{0}};
        const int draws = 20000;
        for (int i = 0; i < draws; i++) {
            int64_t chosen[3];
            assert_int_equal(rng_choose(&r, n, k, chosen, NULL), 0);
            for (int64_t p = 0; p < k; p++) {
                counts[p][chosen[p]]++;
            }
        }
        for (int64_t p = 0; p < k; p++) {
            for (int64_t v = 0; v < n; v++) {
                assert_near(counts[p][v], (double)draws / (double)n,
                            5.0 * sqrt((double)draws / (double)n));
            }
        }
    }
}

static void test_choose_few_of_very_many(void **state)
{
    (void)state;
    struct rng r = rng_new(9, RNG_TEST);
    int64_t chosen[4];
    assert_int_equal(rng_choose(&r, INT64_MAX, 4, chosen, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_true(chosen[i] > 0);
        assert_true(chosen[i] != chosen[(i + 1) % 4]);
    }
}

static void test_choose_refuses(void **state)
{
    (void)state;
    struct rng r = rng_new(10, RNG_TEST);
    struct err err;
    int64_t chosen[3] = {-7, -7, -7};
    assert_int_equal(rng_choose(&r, 2, 3, chosen, &err), -ERR_INVALID);
    assert_contains(err.detail, "3 of 2");
    assert_int_equal(rng_choose(&r, 2, -1, chosen, &err), -ERR_INVALID);
    assert_int_equal(rng_choose(&r, 0, 1, chosen, &err), -ERR_INVALID);
    assert_int_equal(rng_choose(&r, 0, 0, chosen, &err), 0);
    for (int64_t n = 3; n <= 300; n += 297) { /* both methods need memory */
        mem_fail_nth(1);
        assert_int_equal(rng_choose(&r, n, 3, chosen, &err), -ERR_NO_MEMORY);
    }
    assert_true(chosen[0] == -7 && chosen[1] == -7 && chosen[2] == -7);
}

TEST_MAIN(cmocka_unit_test(test_published_vectors), cmocka_unit_test(test_layout),
          cmocka_unit_test(test_streams_and_positions), cmocka_unit_test(test_uniform),
          cmocka_unit_test(test_normal), cmocka_unit_test(test_below),
          cmocka_unit_test(test_below_without_bias), cmocka_unit_test(test_shuffle),
          cmocka_unit_test(test_choose_is_distinct), cmocka_unit_test(test_choose_is_uniform),
          cmocka_unit_test(test_choose_few_of_very_many), cmocka_unit_test(test_choose_refuses))
