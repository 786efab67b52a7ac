/* The levels of lambda on which centers by leverage scores are found, what is read for them, and
 * the limits that are told of. */
#include "base/mem.h"
#include "conformance/score_fixture.h"

/* The path falls by at most q to the regularization, and its sizes follow q2 d(lambda). */
static void test_path(void **state)
{
    (void)state;
    struct scored w = scored_new(DTYPE_F64, 0);
    static const char *const names[] = {"bless", "bless_r"};
    for (size_t k = 0; k < 2; k++) {
        struct centers c = scored_select(&w, names[k], "{\"q\": 3}");
        assert_int_equal(c.levels, 7); /* 3^6 < 1 / lambda < 3^7 */
        assert_close(c.path[6].lambda, lambda, 1e-12);
        assert_int_equal(c.path[6].count, c.m);
        assert_close(c.path[6].effective_dimension, scored_dimension(&w), 0.35);
        for (int64_t h = 1; h < c.levels; h++) {
            assert_true(c.path[h].lambda * 3.0 >= c.path[h - 1].lambda * (1 - 1e-12));
            assert_true(c.path[h].effective_dimension >= 0.8 * c.path[h - 1].effective_dimension);
        }
        centers_deinit(&c);
        w.task.count = 50;
        c = scored_select(&w, names[k], NULL);
        assert_int_equal(c.path[c.levels - 1].count, 50);
        assert_close(5.0 * c.path[c.levels - 1].effective_dimension, 50.0, 0.4);
        w.task.count = 0;
        centers_deinit(&c);
    }
    scored_free(&w);
}

/* Asked for m centers the scores are at the lambda where the effective dimension is 20, m / 5 for
 * fewer than 100 and m / 100 for more than 2,000; q2 says otherwise. */
static void test_dimension_of_a_count(void **state)
{
    (void)state;
    static const struct {
        int64_t count;
        const char *params;
        double dimension;
    } cases[] = {{60, NULL, 12.0}, {300, NULL, 20.0}, {300, "{\"q2\": 8}", 37.5}};
    struct scored w = scored_new(DTYPE_F64, 0);
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        w.task.count = cases[k].count;
        struct centers c = scored_select(&w, "bless", cases[k].params);
        assert_int_equal(c.m, cases[k].count);
        assert_close(c.path[c.levels - 1].effective_dimension, cases[k].dimension, 0.15);
        centers_deinit(&c);
    }
    scored_free(&w);
}

/* A lambda of the selection's own takes the place of the job's, with a count and without. */
static void test_named_lambda(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    static const char named[] = "{\"regularization\": 1e-3}";
    struct scored w = scored_new(DTYPE_F64, 1);
    for (size_t k = 0; k < 5; k++) {
        w.task.regularization = lambda;
        struct centers a = scored_select(&w, names[k], NULL);
        w.task.regularization = 1e-7; /* of the job: leaves no trace */
        struct centers b = scored_select(&w, names[k], named);
        assert_int_equal(a.m, b.m);
        assert_memory_equal(a.rows, b.rows, (size_t)a.m * sizeof(*a.rows));
        assert_memory_equal(a.weights, b.weights, (size_t)a.m * sizeof(double));
        centers_deinit(&b);
        w.task.regularization = 0;
        w.task.count = 40;
        b = scored_select(&w, names[k], named);
        assert_int_equal(b.m, 40);
        if (b.levels > 0) {
            assert_close(b.path[b.levels - 1].lambda, 1e-3, 1e-12);
            assert_close(b.path[b.levels - 1].effective_dimension, scored_dimension(&w), 0.35);
        }
        w.task.count = 0;
        centers_deinit(&a);
        centers_deinit(&b);
    }
    scored_free(&w);
}

/* Rows read of a selection, by the table's own count. */
static int64_t rows_read(struct scored *w, const char *name, const char *json, struct centers *ret)
{
    w->t->rows_read = 0;
    *ret = scored_select(w, name, json);
    return w->t->rows_read;
}

/* Where the path starts, how many candidates a level has, and how many at most. */
static void test_parameters_of_the_path(void **state)
{
    (void)state;
    struct scored w = scored_new(DTYPE_F64, 1);
    struct centers usual, c;
    w.task.regularization = 4e-3;
    const int64_t read = rows_read(&w, "bless", NULL, &usual);
    assert_true(rows_read(&w, "bless", "{\"q1\": 1}", &c) < read);
    centers_deinit(&c);
    assert_true(rows_read(&w, "bless", "{\"candidates\": 256}", &c) < read);
    assert_true(c.levels == usual.levels && c.m > usual.m / 2);
    centers_deinit(&c);
    for (int k = 0; k < 2; k++) {
        static const char *const names[] = {"bless", "bless_r"};
        c = scored_select(&w, names[k], "{\"t\": 0.25, \"q\": 2}");
        assert_int_equal(c.levels, usual.levels + 2); /* from 4 max k */
        assert_true(c.path[0].lambda > 1.0 && usual.path[0].lambda < 1.0);
        centers_deinit(&c);
    }
    centers_deinit(&usual);
    scored_free(&w);
}

/* How many rows the first, uniform set has. */
static void test_first_rows(void **state)
{
    (void)state;
    static const struct {
        const char *name, *json;
        int64_t first, passes; /* rows of all passes: N, and N/2 and so on */
    } cases[] = {{"two_pass", "{\"first\": 70}", 70, N},
                 {"two_pass", NULL, 1000, N}, /* max k / lambda */
                 {"rls", "{\"first\": 300}", 300, N / 2 + N},
                 {"rls", "{\"first\": 599}", 300, N / 2 + N},
                 {"rls", NULL, 300, N / 2 + N}}; /* no more than 512 */
    struct scored w = scored_new(DTYPE_F64, 1);
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct centers c;
        const int64_t read = rows_read(&w, cases[k].name, cases[k].json, &c);
        const int64_t least = cases[k].first + cases[k].passes + c.m; /* the last ones, drawn */
        assert_true(read >= least);
        assert_true(cases[k].passes == N ? read == least : read <= least + N / 2);
        centers_deinit(&c);
    }
    scored_free(&w);
}

/* One feature, of `distinct` values. */
static struct table *long_table(int64_t n, int64_t distinct)
{
    double *x = mem_array((size_t)n, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        x[i] = (double)(i % distinct) / 10.0;
    }
    return table_new(x, n, 1, DTYPE_F32);
}

/* What is left out of the rows that lambda asks for is told of, where it was not the user's wish.
 */
static void test_limits_are_told_of(void **state)
{
    (void)state;
    static const struct {
        const char *name, *json, *limited_by;
        int64_t n, count, asked, scored;
    } cases[] = {{"bless", NULL, "candidates", 150000, 0, 150000, 100000},
                 {"bless", "{\"regularization\": 1e-5}", "candidates", 150000, 20, 150000, 100000},
                 {"bless", NULL, NULL, 90000, 0, 0, 0},
                 {"bless", NULL, NULL, 150000, 20, 0, 0},
                 {"bless", "{\"candidates\": 5000}", NULL, 150000, 0, 0, 0},
                 {"bless", "{\"q1\": 0.9}", NULL, 150000, 0, 0, 0},
                 {"two_pass", "{\"first\": 500}", NULL, 11000, 0, 0, 0},
                 {"two_pass", NULL, "first", 11000, 0, 11000, 10000}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct table *t = long_table(cases[k].n, 20);
        struct backend *be = device_open(1);
        const struct kernel kernel = {.id = KERNEL_GAUSSIAN, .d = 1, .bandwidth = 10.0};
        const struct center_task task = {.be = be,
                                         .kernel = &kernel,
                                         .rows = &t->source,
                                         .count = cases[k].count,
                                         .regularization = 1e-5,
                                         .dtype = DTYPE_F32,
                                         .seed = 1};
        struct centers c = {0};
        must(table_select(&task, cases[k].name, cases[k].json, 0, &c, &err));
        assert_string_equal(c.limited_by != NULL ? c.limited_by : "",
                            cases[k].limited_by != NULL ? cases[k].limited_by : "");
        if (c.limited_by != NULL) {
            assert_int_equal(c.asked, cases[k].asked);
            assert_int_equal(c.scored, cases[k].scored);
        }
        centers_deinit(&c);
        device_close(be);
        table_free(t);
    }
}

/* What BLESS reads is bounded by lambda, not by n. */
static void test_bless_does_not_look_at_all_rows(void **state)
{
    (void)state;
    int64_t looked[2];
    for (int pass = 0; pass < 2; pass++) {
        const int64_t n = pass == 0 ? 5000 : 100000;
        struct rng rng = rng_new(1, RNG_TEST);
        struct table *t = table_new(host_normal(&rng, n), n, 1, DTYPE_F32);
        struct backend *be = device_open(0);
        const struct kernel kernel = {.id = KERNEL_GAUSSIAN, .d = 1, .bandwidth = 1.0};
        const struct center_task task = {.be = be,
                                         .kernel = &kernel,
                                         .rows = &t->source,
                                         .regularization = 1e-2,
                                         .dtype = DTYPE_F32,
                                         .seed = 1};
        struct centers c = {0};
        must(table_select(&task, "bless", NULL, 0, &c, &err));
        looked[pass] = t->rows_read;
        centers_deinit(&c);
        device_close(be);
        table_free(t);
    }
    assert_true(looked[0] < 5000);
    assert_true((double)looked[1] < 1.05 * (double)looked[0] + 50);
}

TEST_MAIN(cmocka_unit_test(test_path), cmocka_unit_test(test_dimension_of_a_count),
          cmocka_unit_test(test_named_lambda), cmocka_unit_test(test_parameters_of_the_path),
          cmocka_unit_test(test_first_rows), cmocka_unit_test(test_limits_are_told_of),
          cmocka_unit_test(test_bless_does_not_look_at_all_rows))
