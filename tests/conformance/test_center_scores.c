/* Centers by leverage scores: the scores that they give against the exact ones, and weights. */
#include "engine/methods/centers/center_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/score_fixture.h"

/* Scores of all rows from the centers and their weights. */
static double *approximate(struct scored *w, const struct centers *c)
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

static struct quality quality_of(struct scored *w, const struct centers *c)
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

/* All rows with weight 1 give the exact scores. */
static void test_all_rows_are_exact(void **state)
{
    (void)state;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        struct scored w = scored_new((enum dtype)dtype, 0);
        w.task.count = N;
        struct centers c = scored_select(&w, "bless", NULL);
        assert_int_equal(c.m, N);
        double *scores = approximate(&w, &c);
        assert_all_close(scores, w.exact, N, dtype == DTYPE_F32 ? 2e-3 : 1e-9, 0);
        for (int64_t j = 0; j < N; j++) {
            assert_close(c.weights[j], 1.0, 1e-15);
        }
        mem_free(scores);
        centers_deinit(&c);
        scored_free(&w);
    }
}

/* What each selector's points say of all rows' scores, by lambda alone and with a count. */
static void test_scores_are_close(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        struct scored w = scored_new((enum dtype)dtype, 0);
        const double d = scored_dimension(&w);
        for (size_t k = 0; k < 10; k++) {
            w.task.count = k % 2 == 0 ? 0 : (int64_t)(8 * d);
            struct centers c = scored_select(&w, names[k / 2], "{\"q2\": 10}");
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
        scored_free(&w);
    }
}

/* More centers for each unit of the effective dimension: closer scores. */
static void test_oversampling_helps(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct scored w = scored_new(DTYPE_F64, 0);
    for (size_t k = 0; k < 5; k++) {
        struct centers few = scored_select(&w, names[k], "{\"q2\": 2}");
        struct centers many = scored_select(&w, names[k], "{\"q2\": 8}");
        const struct quality a = quality_of(&w, &few), b = quality_of(&w, &many);
        assert_true(many.m > few.m);
        assert_true(b.high - b.low < a.high - a.low);
        centers_deinit(&few);
        centers_deinit(&many);
    }
    scored_free(&w);
}

/* Chances follow the scores: over many seeds a row comes as often as min(1, q2 l), and the weights
 * of those that come are the inverse, scaled by n / m. Approximate scores are rather too large, in
 * the last level of rls up to twice, since they are those of half of the rows. */
static void test_chances_follow_scores(void **state)
{
    (void)state;
    enum { SEEDS = 60 };
    struct scored w = scored_new(DTYPE_F64, 1);
    static const char *const names[] = {"bless_r", "rls"};
    static const double most[] = {1.4, 2.2};
    for (size_t k = 0; k < 2; k++) {
        double high = 0, low = 0, expected_high = 0, expected_low = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            w.task.seed = seed;
            struct centers c = scored_select(&w, names[k], NULL);
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
    scored_free(&w);
}

/* K_JJ A^-1 K_JJ estimates K_Jn K_nJ m / n: here v' of both v, v the ones vector. */
static void test_weights(void **state)
{
    (void)state;
    static const char *const names[] = {"uniform", "bless", "bless_r", "rls", "two_pass", "squeak"};
    struct scored w = scored_new(DTYPE_F64, 1);
    for (size_t k = 0; k < 6; k++) {
        double estimate = 0, truth = 0;
        for (uint64_t seed = 0; seed < 5; seed++) {
            w.task.seed = seed;
            w.task.count = 120;
            struct centers c = scored_select(&w, names[k], NULL);
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
    scored_free(&w);
}

/* How many threads, and in what pieces rows are read, decide nothing; nor do rows far away. */
static void test_threads(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct scored one = scored_new(DTYPE_F64, 1), two = scored_new(DTYPE_F64, 2);
    for (size_t k = 0; k < 5; k++) {
        struct centers a = scored_select(&one, names[k], NULL),
                       b = scored_select(&two, names[k], NULL);
        assert_int_equal(a.m, b.m);
        assert_memory_equal(a.rows, b.rows, (size_t)a.m * sizeof(*a.rows));
        for (int64_t j = 0; j < a.m; j++) {
            assert_close(a.weights[j], b.weights[j], 1e-6);
        }
        centers_deinit(&a);
        centers_deinit(&b);
    }
    scored_free(&one);
    scored_free(&two);
}

/* Kernels whose diagonal differs from row to row, and of small rank: no count can be reached. */
static void test_linear_kernel(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct scored w = scored_new(DTYPE_F64, 0);
    w.kernel =
        (struct kernel){.id = KERNEL_LINEAR, .d = D, .bandwidth = 1.0, .gamma = 1.0, .coef0 = 0.0};
    mem_free(w.exact);
    w.exact = scored_exactly(&w);
    for (size_t k = 0; k < 5; k++) {
        w.task.count = 0;
        struct centers c = scored_select(&w, names[k], "{\"q2\": 20}");
        assert_true(c.m >= 10 && c.m <= 120);
        centers_deinit(&c);
        w.task.count = 100;
        c = scored_select(&w, names[k], NULL);
        assert_int_equal(c.m, 100);
        centers_deinit(&c);
    }
    scored_free(&w);
}

/* Far below the rounding of kernel values scores would be noise, and the path endless. */
static void test_tiny_regularization(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "squeak"};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        struct scored w = scored_new((enum dtype)dtype, 0);
        w.task.regularization = 1e-25;
        for (size_t k = 0; k < 4; k++) {
            struct centers c = scored_select(&w, names[k], "{\"q2\": 1}");
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
        scored_free(&w);
    }
}

static void test_no_regularization(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct scored w = scored_new(DTYPE_F64, 1);
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
    scored_free(&w);
}

/* tanh of large products has a kernel matrix with large negative eigenvalues. */
static void test_indefinite_kernel(void **state)
{
    (void)state;
    static const char *const names[] = {"bless", "bless_r", "rls", "two_pass", "squeak"};
    struct scored w = scored_new(DTYPE_F64, 1);
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
    scored_free(&w);
}

TEST_MAIN(cmocka_unit_test(test_all_rows_are_exact), cmocka_unit_test(test_scores_are_close),
          cmocka_unit_test(test_oversampling_helps), cmocka_unit_test(test_chances_follow_scores),
          cmocka_unit_test(test_weights), cmocka_unit_test(test_threads),
          cmocka_unit_test(test_linear_kernel), cmocka_unit_test(test_tiny_regularization),
          cmocka_unit_test(test_no_regularization), cmocka_unit_test(test_indefinite_kernel))
