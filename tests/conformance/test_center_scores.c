/*
 * Centers by leverage scores: the scores that they give against the exact ones, their weights, and
 * the path of lambda.
 */
#include "engine/methods/centers/center_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "conformance/row_table.h"
#include "wire/catalog.h"

enum { N = 1200, D = 2 };
static const double lambda = 1e-3;

struct world {
    struct table *t;
    struct backend *be;
    struct kernel kernel;
    struct center_task task;
    double *exact; /* [N] */
};

/* A dense cloud, where scores are small, and 60 rows spread widely, where they are near 1. */
static struct table *uneven_table(enum dtype dtype)
{
    struct rng rng = rng_new(12, RNG_TEST);
    double *x = host_normal(&rng, N * D);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < D; j++) {
            x[i * D + j] *= i % 20 == 0 ? 6.0 : 0.7;
        }
    }
    return table_new(x, N, D, dtype);
}

/* 1 - ridge [(K + ridge I)^-1]_ii by the backend's dense algebra, from float64 kernel values. */
static double *exact_scores(const struct world *w)
{
    const struct backend_ops *o = w->be->ops;
    const double ridge = lambda * N;
    struct points *P = NULL;
    cleanup_mem double *x = mem_array(N * D, sizeof(double));
    double *ret = host_zeros(N);
    for (int64_t i = 0; i < N * D; i++) {
        x[i] = table_at(w->t, i / D, i % D);
    }
    const struct rows X = {.dtype = DTYPE_F64, .n = N, .d = D, .data = x};
    must(o->points_new(w->be, &w->kernel, DTYPE_F64, &X, &P, &err));
    struct mat K = device_mat(w->be, DTYPE_F64, N, N, NULL);
    struct mat I = device_mat(w->be, DTYPE_F64, N, N, NULL);
    must(o->kblock(w->be, view_all(P, N), view_all(P, N), &K, &err));
    must(o->add_diag(w->be, ridge, &K, &err));
    must(o->add_diag(w->be, 1.0, &I, &err));
    must(o->potrf(w->be, &K, 0.0, NULL, &err));
    must(o->trsm(w->be, false, false, &K, &I, &err));
    must(o->col_dots(w->be, &I, &I, ret, &err));
    for (int64_t i = 0; i < N; i++) {
        ret[i] = 1.0 - ridge * ret[i];
    }
    o->mat_free(w->be, &K);
    o->mat_free(w->be, &I);
    o->points_free(w->be, P);
    return ret;
}

static struct world world_new(enum dtype dtype, int threads)
{
    struct world w = {
        .t = uneven_table(dtype),
        .be = device_open(threads),
        .kernel = {.id = KERNEL_GAUSSIAN, .d = D, .bandwidth = 1.0},
    };
    w.task = (struct center_task){
        .be = w.be, .regularization = lambda, .dtype = dtype, .rows = &w.t->source, .seed = 3};
    w.exact = exact_scores(&w);
    return w;
}

static void world_free(struct world *w)
{
    table_free(w->t);
    device_close(w->be);
    mem_free(w->exact);
}

static struct centers select_centers(struct world *w, const char *name, const char *json)
{
    struct centers c = {0};
    w->task.kernel = &w->kernel;
    must(table_select(&w->task, name, json, 0, &c, &err));
    return c;
}

/* Scores of all rows from the centers and their weights. */
static double *approximate(struct world *w, const struct centers *c)
{
    struct center_scores s = {.m = 0};
    struct center_set J;
    double *ret = host_zeros(N);
    center_set_init(&J, D, c->dtype);
    for (int64_t j = 0; j < c->m; j++) {
        const char *point = (const char *)c->points + (size_t)(j * D) * dtype_size(c->dtype);
        const double weight = c->weights != NULL ? c->weights[j] : 1.0;
        assert_int_equal(center_set_add(&J, point, j, (double)N / ((double)c->m * weight), NULL),
                         1);
    }
    must(center_scores_start(&s, &w->task, &J, lambda, 1.0, &err));
    int rc = 0;
    while (rc == 0) {
        struct err err = {0};
        rc = center_scores_build(&s, &err);
    }
    assert_int_equal(rc, 1);
    const int64_t piece = center_scores_piece(&s);
    for (int64_t i = 0; i < N; i += piece) {
        const int64_t count = N - i < piece ? N - i : piece;
        const char *X = w->t->X + (size_t)(i * D) * dtype_size(c->dtype);
        must(center_scores_of(&s, X, count, ret + i, &err));
    }
    center_scores_deinit(&s);
    center_set_deinit(&J);
    return ret;
}

static int compare(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

struct quality {
    double mean, low, high; /* of approximate / exact; 5th and 95th percentile */
};

static struct quality quality_of(struct world *w, const struct centers *c)
{
    double *ratio = approximate(w, c), sum = 0;
    for (int64_t i = 0; i < N; i++) {
        assert_true(ratio[i] > 0 && ratio[i] <= 1);
        ratio[i] /= w->exact[i];
        sum += ratio[i];
    }
    qsort(ratio, N, sizeof(*ratio), compare);
    const struct quality q = {sum / N, ratio[N / 20], ratio[N - 1 - N / 20]};
    mem_free(ratio);
    return q;
}

static double dimension(const struct world *w)
{
    double sum = 0;
    for (int64_t i = 0; i < N; i++) {
        sum += w->exact[i];
    }
    return sum;
}

/* All rows with weight 1 give the exact scores. */
static void test_all_rows_are_exact(void **state)
{
    (void)state;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        struct world w = world_new((enum dtype)dtype, 0);
        w.task.count = N;
        struct centers c = select_centers(&w, "bless", NULL);
        assert_int_equal(c.m, N);
        double *scores = approximate(&w, &c);
        assert_all_close(scores, w.exact, N, dtype == DTYPE_F32 ? 2e-3 : 1e-9, 0);
        for (int64_t j = 0; j < N; j++) {
            assert_close(c.weights[j], 1.0, 1e-15);
        }
        mem_free(scores);
        centers_deinit(&c);
        world_free(&w);
    }
}

/* What each selector's points say of all rows' scores, by lambda alone and with a count. */
static void test_scores_are_close(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        struct world w = world_new((enum dtype)dtype, 0);
        const double d = dimension(&w);
        for (size_t k = 0; k < 10; k++) {
            w.task.count = k % 2 == 0 ? 0 : (int64_t)(8 * d);
            struct centers c = select_centers(&w, names[k / 2], "{\"q2\": 10}");
            const struct quality q = quality_of(&w, &c);
            print_message("%-9s m %4lld  mean %.3f  5%% %.3f  95%% %.3f\n", names[k / 2],
                          (long long)c.m, q.mean, q.low, q.high);
            assert_true(q.mean > 0.85 && q.mean < 1.3);
            assert_true(q.low > 0.65 && q.high < 2.0);
            if (k % 2 == 0) {
                assert_true((double)c.m > 4.0 * d && (double)c.m < 12.0 * d);
            } else {
                assert_int_equal(c.m, w.task.count);
            }
            centers_deinit(&c);
        }
        world_free(&w);
    }
}

/* More centers for each unit of the effective dimension: closer scores. */
static void test_oversampling_helps(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct world w = world_new(DTYPE_F64, 0);
    for (size_t k = 0; k < 5; k++) {
        struct centers few = select_centers(&w, names[k], "{\"q2\": 2}");
        struct centers many = select_centers(&w, names[k], "{\"q2\": 8}");
        const struct quality a = quality_of(&w, &few), b = quality_of(&w, &many);
        assert_true(many.m > few.m);
        assert_true(b.high - b.low < a.high - a.low);
        centers_deinit(&few);
        centers_deinit(&many);
    }
    world_free(&w);
}

/* Chances follow the scores: over many seeds a row comes as often as min(1, q2 l), and the weights
 * of those that come are the inverse, scaled by n / m. Approximate scores are rather too large, in
 * the last level of rls up to twice, since they are those of half of the rows. */
static void test_chances_follow_scores(void **state)
{
    (void)state;
    enum { SEEDS = 60 };
    struct world w = world_new(DTYPE_F64, 1);
    static const char *const names[] = {"bless_r", "rls"};
    static const double most[] = {1.4, 2.2};
    for (size_t k = 0; k < 2; k++) {
        double high = 0, low = 0, expected_high = 0, expected_low = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            w.task.seed = seed;
            struct centers c = select_centers(&w, names[k], NULL);
            for (int64_t j = 0; j < c.m; j++) {
                high += w.exact[c.rows[j]] > 0.2;
                low += w.exact[c.rows[j]] <= 0.2;
                const double chance = c.weights[j] * (double)c.m / N;
                assert_true(chance <= 1.0 + 1e-12);
                assert_true(chance > 0.3 * fmin(1.0, 5.0 * w.exact[c.rows[j]]));
            }
            centers_deinit(&c);
        }
        for (int64_t i = 0; i < N; i++) {
            *(w.exact[i] > 0.2 ? &expected_high : &expected_low) += fmin(1.0, 5.0 * w.exact[i]);
        }
        assert_true(expected_high > 5 && expected_low > 20);
        assert_true(high / SEEDS > 0.9 * expected_high && high / SEEDS < 1.1 * expected_high);
        assert_true(low / SEEDS > 0.8 * expected_low && low / SEEDS < most[k] * expected_low);
    }
    world_free(&w);
}

/* K_JJ A^-1 K_JJ estimates K_Jn K_nJ m / n: here v' of both v, v the ones vector. */
static void test_weights(void **state)
{
    (void)state;
    static const char *const names[] = {"uniform", "bless", "bless_r", "rls", "two_pass", "squeak"};
    struct world w = world_new(DTYPE_F64, 1);
    for (size_t k = 0; k < 6; k++) {
        double estimate = 0, truth = 0;
        for (uint64_t seed = 0; seed < 5; seed++) {
            w.task.seed = seed;
            w.task.count = 120;
            struct centers c = select_centers(&w, names[k], NULL);
            double x[D], z[D];
            for (int64_t i = 0; i < N; i++) {
                double sum = 0;
                for (int64_t j = 0; j < D; j++) {
                    x[j] = table_at(w.t, i, j);
                }
                for (int64_t j = 0; j < c.m; j++) {
                    memcpy(z, (double *)c.points + j * D, sizeof(z));
                    sum += kernel_eval(&w.kernel, x, z);
                }
                truth += sum * sum * (double)c.m / N;
                const int64_t *at = bsearch(&i, c.rows, (size_t)c.m, sizeof(i), table_compare_rows);
                if (at != NULL) {
                    const double weight = c.weights != NULL ? c.weights[at - c.rows] : 1.0;
                    estimate += sum * sum / weight;
                }
            }
            centers_deinit(&c);
        }
        assert_close(estimate, truth, 0.25);
    }
    world_free(&w);
}

/* The path falls by at most q to the regularization, and its sizes follow q2 d(lambda). */
static void test_path(void **state)
{
    (void)state;
    struct world w = world_new(DTYPE_F64, 0);
    static const char *const names[] = {"bless", "bless_r"};
    for (size_t k = 0; k < 2; k++) {
        struct centers c = select_centers(&w, names[k], "{\"q\": 3}");
        assert_int_equal(c.levels, 7); /* 3^6 < 1 / lambda < 3^7 */
        assert_close(c.path[6].lambda, lambda, 1e-12);
        assert_int_equal(c.path[6].count, c.m);
        assert_close(c.path[6].effective_dimension, dimension(&w), 0.35);
        for (int64_t h = 1; h < c.levels; h++) {
            assert_true(c.path[h].lambda * 3.0 >= c.path[h - 1].lambda * (1 - 1e-12));
            assert_true(c.path[h].effective_dimension >= 0.8 * c.path[h - 1].effective_dimension);
        }
        centers_deinit(&c);
        w.task.count = 50;
        c = select_centers(&w, names[k], NULL);
        assert_int_equal(c.path[c.levels - 1].count, 50);
        assert_close(5.0 * c.path[c.levels - 1].effective_dimension, 50.0, 0.4);
        w.task.count = 0;
        centers_deinit(&c);
    }
    world_free(&w);
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
    struct world w = world_new(DTYPE_F64, 0);
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        w.task.count = cases[k].count;
        struct centers c = select_centers(&w, "bless", cases[k].params);
        assert_int_equal(c.m, cases[k].count);
        assert_close(c.path[c.levels - 1].effective_dimension, cases[k].dimension, 0.15);
        centers_deinit(&c);
    }
    world_free(&w);
}

/* A lambda of the selection's own takes the place of the job's, with a count and without. */
static void test_named_lambda(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    static const char named[] = "{\"regularization\": 1e-3}";
    struct world w = world_new(DTYPE_F64, 1);
    for (size_t k = 0; k < 5; k++) {
        w.task.regularization = lambda;
        struct centers a = select_centers(&w, names[k], NULL);
        w.task.regularization = 1e-7; /* of the job: leaves no trace */
        struct centers b = select_centers(&w, names[k], named);
        assert_int_equal(a.m, b.m);
        assert_memory_equal(a.rows, b.rows, (size_t)a.m * sizeof(*a.rows));
        assert_memory_equal(a.weights, b.weights, (size_t)a.m * sizeof(double));
        centers_deinit(&b);
        w.task.regularization = 0;
        w.task.count = 40;
        b = select_centers(&w, names[k], named);
        assert_int_equal(b.m, 40);
        if (b.levels > 0) {
            assert_close(b.path[b.levels - 1].lambda, 1e-3, 1e-12);
            assert_close(b.path[b.levels - 1].effective_dimension, dimension(&w), 0.35);
        }
        w.task.count = 0;
        centers_deinit(&a);
        centers_deinit(&b);
    }
    world_free(&w);
}

/* Rows read of a selection, by the table's own count. */
static int64_t rows_read(struct world *w, const char *name, const char *json, struct centers *ret)
{
    w->t->rows_read = 0;
    *ret = select_centers(w, name, json);
    return w->t->rows_read;
}

/* Where the path starts, how many candidates a level has, and how many at most. */
static void test_parameters_of_the_path(void **state)
{
    (void)state;
    struct world w = world_new(DTYPE_F64, 1);
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
        c = select_centers(&w, names[k], "{\"t\": 0.25, \"q\": 2}");
        assert_int_equal(c.levels, usual.levels + 2); /* from 4 max k */
        assert_true(c.path[0].lambda > 1.0 && usual.path[0].lambda < 1.0);
        centers_deinit(&c);
    }
    centers_deinit(&usual);
    world_free(&w);
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
    struct world w = world_new(DTYPE_F64, 1);
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct centers c;
        const int64_t read = rows_read(&w, cases[k].name, cases[k].json, &c);
        const int64_t least = cases[k].first + cases[k].passes + c.m; /* the last ones, drawn */
        assert_true(read >= least);
        assert_true(cases[k].passes == N ? read == least : read <= least + N / 2);
        centers_deinit(&c);
    }
    world_free(&w);
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

/* How many threads, and in what pieces rows are read, decide nothing; nor do rows far away. */
static void test_threads(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct world one = world_new(DTYPE_F64, 1), two = world_new(DTYPE_F64, 2);
    for (size_t k = 0; k < 5; k++) {
        struct centers a = select_centers(&one, names[k], NULL),
                       b = select_centers(&two, names[k], NULL);
        assert_int_equal(a.m, b.m);
        assert_memory_equal(a.rows, b.rows, (size_t)a.m * sizeof(*a.rows));
        for (int64_t j = 0; j < a.m; j++) {
            assert_close(a.weights[j], b.weights[j], 1e-6);
        }
        centers_deinit(&a);
        centers_deinit(&b);
    }
    world_free(&one);
    world_free(&two);
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

/* Kernels whose diagonal differs from row to row, and of small rank: no count can be reached. */
static void test_linear_kernel(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct world w = world_new(DTYPE_F64, 0);
    w.kernel =
        (struct kernel){.id = KERNEL_LINEAR, .d = D, .bandwidth = 1.0, .gamma = 1.0, .coef0 = 0.0};
    mem_free(w.exact);
    w.exact = exact_scores(&w);
    for (size_t k = 0; k < 5; k++) {
        w.task.count = 0;
        struct centers c = select_centers(&w, names[k], "{\"q2\": 20}");
        assert_true(c.m >= 10 && c.m <= 120);
        centers_deinit(&c);
        w.task.count = 100;
        c = select_centers(&w, names[k], NULL);
        assert_int_equal(c.m, 100);
        centers_deinit(&c);
    }
    world_free(&w);
}

/* Far below the rounding of kernel values scores would be noise, and the path endless. */
static void test_tiny_regularization(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "squeak"};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        struct world w = world_new((enum dtype)dtype, 0);
        w.task.regularization = 1e-25;
        for (size_t k = 0; k < 4; k++) {
            struct centers c = select_centers(&w, names[k], "{\"q2\": 1}");
            assert_true(c.m > 60 && c.m <= N);
            for (int64_t j = 0; j < c.m; j++) {
                assert_true(c.weights[j] > 0 && isfinite(c.weights[j]));
            }
            if (c.levels > 0) {
                assert_close(c.path[c.levels - 1].lambda, dtype == DTYPE_F32 ? 0x1p-23 : 1e-14,
                             1e-9);
            }
            centers_deinit(&c);
        }
        world_free(&w);
    }
}

static void test_no_regularization(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct world w = world_new(DTYPE_F64, 1);
    w.task.kernel = &w.kernel;
    w.task.regularization = 0;
    for (size_t k = 0; k < 5; k++) {
        struct centers c = {0};
        struct err err = {0};
        w.task.count = 0;
        assert_int_equal(table_select(&w.task, names[k], NULL, 0, &c, &err), -ERR_INVALID);
        assert_contains(err.detail, "regularization");
        assert_string_equal(err.pointer, "#/regularization");
        w.task.count = 30;
        assert_int_equal(table_select(&w.task, names[k], NULL, 0, &c, &err), 0);
        assert_int_equal(c.m, 30);
        centers_deinit(&c);
    }
    world_free(&w);
}

/* tanh of large products has a kernel matrix with large negative eigenvalues. */
static void test_indefinite_kernel(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct world w = world_new(DTYPE_F64, 1);
    w.kernel = (struct kernel){.id = KERNEL_SIGMOID, .d = D, .gamma = 3.0, .coef0 = -1.0};
    w.task.kernel = &w.kernel;
    w.task.regularization = 1e-6;
    for (size_t k = 0; k < 5; k++) {
        struct centers c = {0};
        struct err err = {0};
        assert_int_equal(table_select(&w.task, names[k], NULL, 0, &c, &err),
                         -ERR_NOT_POSITIVE_DEFINITE);
        assert_string_equal(err.pointer, "#/kernel");
        assert_contains(err.detail, "positive definite kernel");
        centers_deinit(&c);
    }
    world_free(&w);
}

TEST_MAIN(cmocka_unit_test(test_all_rows_are_exact), cmocka_unit_test(test_scores_are_close),
          cmocka_unit_test(test_oversampling_helps), cmocka_unit_test(test_chances_follow_scores),
          cmocka_unit_test(test_weights), cmocka_unit_test(test_path),
          cmocka_unit_test(test_dimension_of_a_count), cmocka_unit_test(test_named_lambda),
          cmocka_unit_test(test_parameters_of_the_path), cmocka_unit_test(test_first_rows),
          cmocka_unit_test(test_limits_are_told_of), cmocka_unit_test(test_threads),
          cmocka_unit_test(test_bless_does_not_look_at_all_rows),
          cmocka_unit_test(test_linear_kernel), cmocka_unit_test(test_tiny_regularization),
          cmocka_unit_test(test_no_regularization), cmocka_unit_test(test_indefinite_kernel))
