#include "engine/methods/preconds/precond_rank.h"

#include "support/assert.h"

static int64_t room;

static int64_t say_room(struct backend *be)
{
    (void)be;
    return room;
}

static const struct param_value automatic = {.is_auto = true};

static int64_t choose_by_grid(double share, int64_t n, int64_t d, int64_t t,
                              enum rank_source source)
{
    const struct backend_ops ops = {.name = "test", .memory_available = say_room};
    struct backend be = {.ops = &ops};
    const struct problem p = {
        .be = &be, .n = n, .d = d, .t = t, .product_share = share, .dtype = DTYPE_F64};
    return precond_rank_choose(&p, source, &automatic);
}

static int64_t choose(int64_t n, int64_t d, int64_t t, enum rank_source source)
{
    return choose_by_grid(0.0, n, d, t, source);
}

static void test_ten_square_roots(void **state)
{
    (void)state;
    room = INT64_MAX;
    assert_int_equal(choose(10000, 18, 1, RANK_COLUMNS), 1000);
    assert_int_equal(choose(10001, 18, 1, RANK_COLUMNS), 1001);
    assert_int_equal(choose(1000000, 18, 1, RANK_COLUMNS), 10000);
    assert_int_equal(choose(50, 18, 1, RANK_COLUMNS), 50);
    assert_int_equal(choose(1, 1, 1, RANK_COLUMNS), 1);
}

/* n = 100, t = 1000: 4 k t <= n (d + 10 + 4 t) / 2, k <= 50.25. */
static void test_an_application_costs_no_more_than_a_product(void **state)
{
    (void)state;
    room = INT64_MAX;
    assert_int_equal(choose(100, 10, 1000, RANK_COLUMNS), 50);
    assert_int_equal(choose(100, 10, 1, RANK_COLUMNS), 100);
}

/* n = 10,000, d = 18: 2 k + 6e-4 k^2 + 28 <= 1600, which 656 satisfies and 657 does not. */
static void test_building_costs_no_more_than_a_hundred_products(void **state)
{
    (void)state;
    room = INT64_MAX;
    assert_int_equal(choose(10000, 18, 1, RANK_SKETCH), 656);
    assert_int_equal(choose(10000, 784, 1, RANK_SKETCH), 1000);
}

/* n = 10,000, d = 2, a tenth of a product: 8e7, and 2e4 k^2 + 1.2e5 k <= 1.6e9; with a share of
 * .5 <= 50 x 4e8. No grid makes a sketch. */
static void test_cheap_products_take_few_columns(void **state)
{
    (void)state;
    room = INT64_MAX;
    assert_int_equal(choose_by_grid(0.1, 10000, 2, 1, RANK_COLUMNS), 279);
    assert_int_equal(choose_by_grid(0.1, 10000, 2, 4, RANK_COLUMNS), 562);
    assert_int_equal(choose_by_grid(0.5, 10000, 2, 1, RANK_COLUMNS), 997);
    assert_int_equal(choose_by_grid(1.0, 10000, 2, 1, RANK_COLUMNS), 1000);
    assert_int_equal(choose_by_grid(1e-9, 10000, 2, 1, RANK_COLUMNS), 100);
    assert_int_equal(choose_by_grid(1e-9, 50, 2, 1, RANK_COLUMNS), 50);
    const int64_t sketch = choose(10000, 2, 1, RANK_SKETCH);
    assert_int_equal(choose_by_grid(0.1, 10000, 2, 1, RANK_SKETCH), sketch);
}

/* 10,000 x 1,000 numbers are 80 MB, twice that for a sketch while it is built. */
static void test_memory_halves(void **state)
{
    (void)state;
    room = INT64_C(240000000);
    assert_int_equal(choose(10000, 784, 1, RANK_COLUMNS), 1000);
    assert_int_equal(choose(10000, 784, 1, RANK_SKETCH), 500);
    room--;
    assert_int_equal(choose(10000, 784, 1, RANK_COLUMNS), 500);
    room = 0;
    assert_int_equal(choose(10000, 784, 1, RANK_COLUMNS), 1);
}

static void test_a_given_rank_is_taken(void **state)
{
    (void)state;
    room = 0;
    const struct backend_ops ops = {.name = "test", .memory_available = say_room};
    struct backend be = {.ops = &ops};
    const struct problem p = {.be = &be, .n = 300, .d = 1, .t = 1000, .dtype = DTYPE_F64};
    const struct param_value rank = {.real = 299}, above = {.real = 301};
    assert_int_equal(precond_rank_choose(&p, RANK_SKETCH, &rank), 299);
    assert_int_equal(precond_rank_choose(&p, RANK_COLUMNS, &above), 300);
}

TEST_MAIN(cmocka_unit_test(test_ten_square_roots),
          cmocka_unit_test(test_an_application_costs_no_more_than_a_product),
          cmocka_unit_test(test_building_costs_no_more_than_a_hundred_products),
          cmocka_unit_test(test_cheap_products_take_few_columns),
          cmocka_unit_test(test_memory_halves), cmocka_unit_test(test_a_given_rank_is_taken))
