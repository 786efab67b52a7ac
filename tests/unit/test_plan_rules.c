#include "plan/rules.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "support/assert.h"
#include "wire/catalog.h"

static int64_t room;

static void assert_chosen(const char *solver, int64_t n, int64_t d, double regularization,
                          enum precision precision)
{
    assert_string_equal(rule_solver(room, n, d, regularization, precision), solver);
}

/* The last number of rows that is factorised. */
static void assert_last(int64_t n, int64_t d, double regularization, enum precision precision)
{
    assert_chosen("cholesky", n, d, regularization, precision);
    assert_chosen("pcg", n + 1, d, regularization, precision);
}

static void test_solver_follows_memory_and_cost(void **state)
{
    (void)state;
    room = INT64_MAX;
    assert_last(4560, 18, 1e-6, PRECISION_MIXED); /* 12 (30 * 9 + 110) */
    assert_last(4560, 435, 1e-6, PRECISION_MIXED);
    assert_last(3210, 3, 1e-6, PRECISION_MIXED);
    assert_last(11460, 18, 1e-9, PRECISION_MIXED); /* 6 (200 * 9 + 110) */
    assert_last(4560, 18, 1e-9, PRECISION_FLOAT32);
    assert_last(7800, 18, 1e-6, PRECISION_FLOAT64);
    assert_last(22260, 18, 1e-9, PRECISION_FLOAT64);
    assert_chosen("pcg", INT64_C(1) << 40, 435, 0, PRECISION_MIXED);
    room = 4 * 1000 * 1000 * 8;
    assert_last(1000, 3, 0, PRECISION_MIXED);
    assert_last(1414, 3, 1e-3, PRECISION_MIXED);
}

static void test_few_centers_are_solved_directly(void **state)
{
    (void)state;
    assert_string_equal(rule_restricted_solver(360, 18), "direct");
    assert_string_equal(rule_restricted_solver(361, 18), "krill");
    assert_int_equal(rule_centers(10000), 1000);
    assert_int_equal(rule_centers(99), 99);
    assert_true(rule_whitens(1, RULE_WHITENED_FEW) && !rule_whitens(1, RULE_WHITENED_FEW + 1));
    assert_true(rule_whitens(500000, 7071)); /* 10 sqrt(n) */
    assert_true(!rule_whitens(INT64_MAX, RULE_WHITENED_MOST + 1));
}

static void test_ranks_of_kernels(void **state)
{
    (void)state;
    assert_int_equal(rule_kernel_rank("linear", 18, 7), 19);
    assert_int_equal(rule_kernel_rank("polynomial", 3, 3), 20);
    assert_int_equal(rule_kernel_rank("polynomial", 90, 20), INT64_MAX);
    assert_int_equal(rule_kernel_rank("gaussian", 3, 3), INT64_MAX);
}

static void test_mixed_precision_is_for_pcg_and_distances(void **state)
{
    (void)state;
    assert_int_equal(rule_precision("pcg", true), PRECISION_MIXED);
    assert_int_equal(rule_precision("pcg", false), PRECISION_FLOAT64);
    assert_int_equal(rule_precision("cholesky", true), PRECISION_FLOAT64);
}

static void test_a_narrow_factor_needs_rows_and_a_ridge(void **state)
{
    (void)state;
    const double n = 8000;
    assert_true(rule_narrow_factor(8000, 8, 1, n * 1e-6, 1.0));
    assert_false(rule_narrow_factor(8000, 8, 1, n * 1e-8, 1.0));
    assert_false(rule_narrow_factor(4095, 8, 1, n * 1e-6, 1.0));
    assert_false(rule_narrow_factor(8000, 400, 1, n * 1e-6, 1.0));
}

static void test_blocks(void **state)
{
    (void)state;
    const struct param_value automatic = {.is_auto = true}, given = {.real = 700};
    assert_int_equal(rule_block_rows(100, &automatic), 100);
    assert_int_equal(rule_block_rows(2048, &automatic), 2048);
    assert_int_equal(rule_block_rows(2049, &automatic), 256);
    assert_int_equal(rule_block_rows(10000, &automatic), 256);
    assert_int_equal(rule_block_rows(1000000, &automatic), 2000);
    assert_int_equal(rule_block_rows(INT64_C(1) << 40, &automatic), 8192);
    assert_int_equal(rule_block_rows(1000000, &given), 700);
    assert_true(rule_block_exact(1000000, 18, 2000, 100, 10, DTYPE_F64));
    assert_false(rule_block_exact(20000, 18, 8000, 100, 10, DTYPE_F64));
}

static void test_stochastic_sizes(void **state)
{
    (void)state;
    struct param_set params;
    const struct method_def *saga = catalog_find(CATALOG_SOLVERS, "sketchysaga");
    assert_int_equal(param_read(saga->params, NULL, NULL, &params, NULL), 0);
    assert_int_equal(rule_batch_rows(1000000, 3000, &params), 3000);
    assert_int_equal(rule_batch_rows(1000000, 100, &params), 256);
    assert_int_equal(rule_batch_rows(800, 1000, &params), 100);
    assert_int_equal(rule_batch_rows(513, 100, &params), 64);
    assert_int_equal(rule_batch_rows(512, 100, &params), 512);
    assert_int_equal(rule_batch_rows(512, 10, &params),
                     64); /* whose preconditioner is no exact one */
    assert_int_equal(rule_batch_rows(24, 2, &params), 12);
    assert_int_equal(rule_batch_rows(1, 1, &params), 1);
    assert_int_equal(rule_sketch_rank(8192, &params), 8192);
    assert_int_equal(rule_sketch_rank(8193, &params), 500);
    assert_int_equal(rule_hessian_rows(100000, 1000, &params), 8000);
    assert_int_equal(rule_hessian_rows(100000, 4000, &params), 16000);
    assert_int_equal(rule_hessian_rows(1000, 4000, &params), 1000);
}

static void test_signs_of_a_sketch(void **state)
{
    (void)state;
    static const int given[] = {1, 2, 3, 8, 33, 1000};
    static const int expected[] = {1, 2, 4, 8, 64, 64};
    const struct method_def *krill = catalog_find(CATALOG_SOLVERS, "krill");
    for (int i = 0; i < 6; i++) {
        struct param_set params;
        struct json *object = json_new_object();
        json_set(object, "nonzeros", json_new_number(given[i]));
        assert_int_equal(param_read(krill->params, object, NULL, &params, NULL), 0);
        json_free(object);
        assert_int_equal(rule_sketch_signs(8000, 1000, &params).block, expected[i]);
        assert_int_equal(rule_sketch_signs(8000, 1000, &params).copies, 1);
        assert_int_equal(rule_sketch_signs(7999, 1000, &params).copies, expected[i]);
        assert_int_equal(rule_sketch_signs(7999, 1000, &params).block, 1);
        assert_int_equal(rule_sketch_signs(100, 5, &params).block,
                         expected[i] < 4 ? expected[i] : 4);
    }
}

/* 128 MiB are 16,777 rows of 1,000 numbers beside the first 1,000. */
static void test_sketch_in_parts(void **state)
{
    (void)state;
    assert_int_equal(rule_sketch_parts(4000, 1000, 8), 1);
    assert_int_equal(rule_sketch_parts(17777, 1000, 8), 1);
    assert_int_equal(rule_sketch_parts(17778, 1000, 8), 2);
    assert_int_equal(rule_sketch_parts(400000, 100000, 2), 2);
}

static void test_tiles(void **state)
{
    (void)state;
    assert_int_equal(rule_tile_rows(7, 1, 1000), 65536);
    assert_int_equal(rule_tile_rows(63, 1, 1000), 8192);
    assert_int_equal(rule_tile_rows(7, 1, 1 << 20), 256);
}

static bool affordable(const struct rule_search *s, int64_t more, double products)
{
    const double n = (double)s->rows, m = (double)(s->centers + more);
    return 4.0 * n * m * m + 9.0 * m * m * m <= products;
}

/* As many centers as the time allows, no more than rows, whose left-out predictions are kept. */
static void test_searches_on_centers(void **state)
{
    (void)state;
    const double most = 9.0 * 12000.0 * 12000.0 * 12000.0;
    struct rule_search s = rule_search_on_centers(1000000000, 10000, 1, 12000, most);
    assert_int_equal(s.rows, 768000);
    assert_true(affordable(&s, 0, most) && !affordable(&s, 1, most));
    s = rule_search_on_centers(1000000000, 10000, 400 * 1000, 12000, most);
    assert_true(s.rows == 83 && s.centers == 83);
    assert_true(rule_search_takes_centers(1000000000, 8000, 4000));
    assert_false(rule_search_takes_centers(1000000000, 8400, 4000));
    assert_true(rule_search_takes_centers(83, 400 * 1000, 4000));
    assert_false(rule_search_takes_centers(84, 400 * 1000, 4000));
}

static struct rule_search sized(int64_t n, int64_t centers, int64_t folds, double time_budget_s)
{
    const struct search_spec spec = {.wanted = true, .folds = folds, .max_rows = 4000};
    return rule_search_size(&spec, n, 1, centers, time_budget_s);
}

/* Full models of all rows, or of a sample; where centers are judged, also for lack of time. */
static void test_what_a_search_judges(void **state)
{
    (void)state;
    const double half = 9.0 * 2000 * 2000 * 2000 / RULE_SEARCH_RATE;
    struct rule_search s = sized(4000, 0, 0, INFINITY);
    assert_true(s.rows == 4000 && s.centers == 0);
    s = sized(4001, 0, 5, INFINITY);
    assert_true(s.rows == 4000 && s.centers == 0);
    s = sized(4000, 0, 5, half);
    assert_true(s.rows == 2000 && s.centers == 0);
    s = sized(4000, 0, 5, 1e-9);
    assert_true(s.rows == RULE_SEARCH_ROWS_MIN && s.centers == 0);
    s = sized(4000, 0, 0, half);
    assert_true(s.rows == 4000 && s.centers > 1000 && s.centers < 2000);
    s = sized(4000, 700, 0, INFINITY);
    assert_true(s.rows == 4000 && s.centers == 700);
}

static void test_tiles_of_a_search(void **state)
{
    (void)state;
    assert_int_equal(rule_search_tile(100000, 2048), 1024);
    assert_int_equal(rule_search_tile(100000, 20000), 419);
    assert_int_equal(rule_search_tile(400, 20000), 400);
    assert_int_equal(rule_search_tile(400, INT64_C(1) << 40), 1);
}

/* Two thirds, at most 1,000, and fewer in a hurry. */
static void test_rows_of_a_choice(void **state)
{
    (void)state;
    assert_int_equal(rule_choice_first(20, INFINITY), 14);
    assert_int_equal(rule_choice_first(900, INFINITY), 600);
    assert_int_equal(rule_choice_first(1000000, INFINITY), 1000);
    const double factors = RULE_KERNELS * RULE_BANDWIDTHS * RULE_RIDGES;
    const double full = factors * 1e9 / 6.0 / RULE_SEARCH_RATE; /* seconds */
    assert_int_equal(rule_choice_first(1000000, 10.01 * full), 1000);
    assert_int_equal(rule_choice_first(1000000, 10.01 * full / 8.0), 500);
    assert_int_equal(rule_choice_first(1000000, 1e-9), 100);
    assert_int_equal(rule_choice_first(30, 1e-9), 20);
}

/* Each row of a few hundred is held out once, where there is time for it. */
static void test_folds_of_a_choice(void **state)
{
    (void)state;
    assert_int_equal(rule_choice_folds(99, INFINITY), 1);
    assert_int_equal(rule_choice_folds(100, INFINITY), RULE_CHOICE_FOLDS);
    assert_int_equal(rule_choice_folds(299, INFINITY), RULE_CHOICE_FOLDS);
    assert_int_equal(rule_choice_folds(300, INFINITY), 1);
    assert_int_equal(rule_choice_first(100, INFINITY), 80);
    assert_int_equal(rule_choice_first(299, INFINITY), 240);
    const double factors = RULE_CHOICE_FOLDS * RULE_KERNELS * RULE_BANDWIDTHS * RULE_RIDGES;
    const double all = factors * pow(200, 3) / 6.0 / RULE_SEARCH_RATE; /* seconds */
    assert_int_equal(rule_choice_folds(250, 10.01 * all), RULE_CHOICE_FOLDS);
    assert_int_equal(rule_choice_folds(250, 9.9 * all), 1);
    assert_int_equal(rule_choice_first(250, 9.9 * all), 167);
}

static void test_rows_to_learn_from(void **state)
{
    (void)state;
    assert_int_equal(rule_learned_rows(1000, 1, 20, INFINITY), 500);
    assert_int_equal(rule_learned_rows(300, 1, RULE_LEARNED_FEATURES, INFINITY), 300);
    assert_int_equal(rule_learned_rows(199, 1, 20, INFINITY), 0);
    assert_int_equal(rule_learned_rows(1000, 1, RULE_LEARNED_FEATURES + 1, INFINITY), 0);
    const double steps = RULE_KERNELS * RULE_LEARNED_STARTS * RULE_LEARNED_STEPS;
    const double all = steps * 7 * pow(500, 3) / 6 / RULE_SEARCH_RATE;
    assert_int_equal(rule_learned_rows(1000, 1, 20, 10.01 * all), 500);
    assert_int_equal(rule_learned_rows(1000, 1, 20, 10.01 * all / 8), 250);
    assert_int_equal(rule_learned_rows(1000, 1, 20, 10.01 * all / 27), 0);
    assert_int_equal(rule_learned_rows(79, 5, 20, INFINITY), 0);
    assert_int_equal(rule_learned_rows(80, 5, 20, INFINITY), 80);
    assert_int_equal(rule_learned_rows(240, 5, 20, INFINITY), 240);
    assert_int_equal(rule_learned_rows(240, 5, 20, 10.01 * all / 25), 100);
}

/* An eighth, where that is 1,250 rows at least, and there is time. */
static void test_rows_of_a_second_choice(void **state)
{
    (void)state;
    assert_int_equal(rule_choice_rows(9999, INFINITY), 0);
    assert_int_equal(rule_choice_rows(10000, INFINITY), 1250);
    assert_int_equal(rule_choice_rows(23999, INFINITY), 2999);
    assert_int_equal(rule_choice_rows(1000000, INFINITY), 3000);
    const double full = 25.0 * 3000.0 * 3000.0 * 3000.0 / 6.0 / RULE_SEARCH_RATE; /* seconds */
    assert_int_equal(rule_choice_rows(1000000, 10.01 * full), 3000);
    const int64_t half = rule_choice_rows(1000000, 5.0 * full);
    assert_true(half > 2370 && half < 2390); /* 3,000 by the cube root of 2 */
    assert_int_equal(rule_choice_rows(1000000, 0.7 * full), 0);
}

static void test_rows_held_out(void **state)
{
    (void)state;
    assert_int_equal(rule_choice_held(100000, 1000, 10, RULE_HELD_FIRST), 4000);
    assert_int_equal(rule_choice_held(4000, 1000, 10, RULE_HELD_FIRST), 3000);
    assert_int_equal(rule_choice_held(100000, 3000, 10, RULE_HELD_AGAIN), 24000);
    assert_int_equal(rule_choice_held(100000, 3000, 130, RULE_HELD_AGAIN), 10000);
    assert_int_equal(rule_choice_held(100000, 3000, 1 << 20, RULE_HELD_AGAIN), 6000);
    assert_int_equal(rule_choice_held(50, 50, 1, RULE_HELD_FIRST), 0);
}

TEST_MAIN(cmocka_unit_test(test_rows_to_learn_from), cmocka_unit_test(test_rows_held_out),
          cmocka_unit_test(test_solver_follows_memory_and_cost),
          cmocka_unit_test(test_few_centers_are_solved_directly),
          cmocka_unit_test(test_ranks_of_kernels),
          cmocka_unit_test(test_mixed_precision_is_for_pcg_and_distances),
          cmocka_unit_test(test_a_narrow_factor_needs_rows_and_a_ridge),
          cmocka_unit_test(test_blocks), cmocka_unit_test(test_stochastic_sizes),
          cmocka_unit_test(test_signs_of_a_sketch), cmocka_unit_test(test_sketch_in_parts),
          cmocka_unit_test(test_tiles), cmocka_unit_test(test_searches_on_centers),
          cmocka_unit_test(test_what_a_search_judges), cmocka_unit_test(test_tiles_of_a_search),
          cmocka_unit_test(test_rows_of_a_choice), cmocka_unit_test(test_folds_of_a_choice),
          cmocka_unit_test(test_rows_of_a_second_choice))
