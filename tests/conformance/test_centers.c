/*
 * Every selector of centers: how many come back, that they differ from each other and are rows of
 * the data where they should be, and that the task and the seed alone decide.
 */
#include "engine/centers.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/row_table.h"
#include "engine/methods/centers/center_rank.h"
#include "wire/catalog.h"

static struct table *normal_table(int64_t n, int64_t d, enum dtype dtype, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    return table_new(host_normal(&rng, n * d), n, d, dtype);
}

struct setting {
    struct backend *be;
    struct kernel kernel;
    struct center_task task;
    int64_t fail_nth; /* allocation of a selection that fails; 0: none */
};

static struct setting setting_new(const struct table *t, int64_t count, int threads)
{
    const int64_t d = t->source.d;
    struct setting s = {
        .be = device_open(threads),
        .kernel = {.id = KERNEL_LAPLACIAN, .d = d, .bandwidth = sqrt((double)d)},
    };
    s.task = (struct center_task){
        .be = s.be,
        .rows = &t->source,
        .count = count,
        .regularization = 1e-3,
        .dtype = t->source.dtype,
        .seed = 5,
    };
    return s;
}

static int try_select(struct setting *s, const char *name, struct centers *ret, struct err *err)
{
    s->task.kernel = &s->kernel;
    return table_select(&s->task, name, NULL, s->fail_nth, ret, err);
}

static struct centers select_with(struct setting *s, const char *name, const char *json)
{
    struct centers c = {0};
    s->task.kernel = &s->kernel;
    must(table_select(&s->task, name, json, 0, &c, &err));
    return c;
}

/* Selects once with a backend of its own. */
static struct centers selected(const struct table *t, const char *name, int64_t count,
                               uint64_t seed, int threads)
{
    struct setting s = setting_new(t, count, threads);
    s.task.seed = seed;
    s.task.file = &t->source;
    const struct centers c = select_with(&s, name, NULL);
    device_close(s.be);
    return c;
}

static double squared(const struct centers *c, int64_t j, const double *x)
{
    const struct rows Z = {.dtype = c->dtype, .n = c->m, .d = c->d, .data = c->points};
    double sum = 0;
    for (int64_t k = 0; k < c->d; k++) {
        const double off = rows_at(&Z, j, k) - x[k];
        sum += off * off;
    }
    return sum;
}

static void point_of(const struct centers *c, int64_t j, double *ret)
{
    const struct rows Z = {.dtype = c->dtype, .n = c->m, .d = c->d, .data = c->points};
    for (int64_t k = 0; k < c->d; k++) {
        ret[k] = rows_at(&Z, j, k);
    }
}

/* What holds of every list of centers. */
static void check_sound(const struct table *t, const struct centers *c)
{
    double x[64];
    assert_true(c->m >= 1 && c->d == t->source.d && c->dtype == t->source.dtype);
    for (int64_t j = 0; j < c->m; j++) {
        point_of(c, j, x);
        for (int64_t i = 0; i < j; i++) {
            assert_true(squared(c, i, x) > 0);
        }
        if (c->rows != NULL) {
            assert_true(c->rows[j] >= 0 && c->rows[j] < t->source.n);
            assert_true(j == 0 || c->rows[j] > c->rows[j - 1]);
            for (int64_t k = 0; k < c->d; k++) {
                assert_close(x[k], table_at(t, c->rows[j], k), 0);
            }
        }
        if (c->weights != NULL) {
            assert_true(c->weights[j] > 0 && isfinite(c->weights[j]));
        }
    }
    for (int64_t h = 0; h < c->levels; h++) {
        assert_true(c->path[h].lambda > 0 && c->path[h].count >= 1);
        assert_true(h == 0 || c->path[h].lambda < c->path[h - 1].lambda);
        assert_true(c->path[h].effective_dimension > 0);
    }
}

static bool same(const struct centers *a, const struct centers *b)
{
    const size_t size = (size_t)(a->m * a->d) * dtype_size(a->dtype);
    return a->m == b->m && memcmp(a->points, b->points, size) == 0 &&
           (a->weights == NULL) == (b->weights == NULL) &&
           (a->weights == NULL ||
            memcmp(a->weights, b->weights, (size_t)a->m * sizeof(double)) == 0);
}

/* free points, or rows that say nothing of the training rows */
static bool is_free(const char *name)
{
    return strcmp(name, "kmeans") == 0 || strcmp(name, "file") == 0;
}

static void test_registry_is_catalog(void **state)
{
    (void)state;
    const struct method_def *def = catalog_list(CATALOG_CENTERS);
    const struct center_ops *const *ops = center_list();
    for (; def->name != NULL; def++, ops++) {
        assert_non_null(*ops);
        assert_string_equal((*ops)->name, def->name);
        assert_ptr_equal(center_find(def->name), *ops);
    }
    assert_null(*ops);
    assert_null(center_find("no such selector"));
}

/* As many as asked for, or one for each row. */
static void test_sizes(void **state)
{
    (void)state;
    enum { N = 150 };
    static const int64_t counts[] = {1, 2, 40, N - 1, N, N + 50};
    for (const struct center_ops *const *ops = center_list(); *ops != NULL; ops++) {
        for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
            struct table *t = normal_table(N, 4, (enum dtype)dtype, 1);
            for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
                const int64_t wanted = counts[k] < N ? counts[k] : N;
                struct centers c = selected(t, (*ops)->name, counts[k], 5, 0);
                check_sound(t, &c);
                assert_int_equal(c.m, wanted);
                assert_int_equal(c.rows == NULL, is_free((*ops)->name));
                centers_deinit(&c);
            }
            table_free(t);
        }
    }
}

static void test_seed_decides(void **state)
{
    (void)state;
    struct table *t = normal_table(400, 3, DTYPE_F32, 2);
    for (const struct center_ops *const *ops = center_list(); *ops != NULL; ops++) {
        struct centers a = selected(t, (*ops)->name, 30, 5, 1);
        struct centers b = selected(t, (*ops)->name, 30, 5, 1);
        struct centers c = selected(t, (*ops)->name, 30, 6, 1);
        assert_true(same(&a, &b));
        assert_false(same(&a, &c));
        centers_deinit(&a);
        centers_deinit(&b);
        centers_deinit(&c);
    }
    table_free(t);
}

/* Row i is row i % distinct of normal ones. */
static struct table *repeated_table(int64_t n, int64_t distinct, int64_t d)
{
    struct rng rng = rng_new(3, RNG_TEST);
    double *x = host_normal(&rng, n * d);
    for (int64_t i = distinct; i < n; i++) {
        memcpy(x + i * d, x + (i % distinct) * d, (size_t)d * sizeof(double));
    }
    return table_new(x, n, d, DTYPE_F64);
}

/* Duplicate rows count once; when there are fewer distinct points than asked for, all of them. */
static void test_duplicates(void **state)
{
    (void)state;
    struct table *t = repeated_table(600, 40, 3);
    for (const struct center_ops *const *ops = center_list(); *ops != NULL; ops++) {
        struct centers c = selected(t, (*ops)->name, 25, 5, 0);
        check_sound(t, &c);
        assert_int_equal(c.m, 25);
        centers_deinit(&c);
        c = selected(t, (*ops)->name, 100, 5, 0);
        check_sound(t, &c);
        assert_int_equal(c.m, 40);
        centers_deinit(&c);
    }
    table_free(t);
}

static void test_constant_data(void **state)
{
    (void)state;
    struct table *t = repeated_table(500, 1, 2);
    for (const struct center_ops *const *ops = center_list(); *ops != NULL; ops++) {
        struct centers c = selected(t, (*ops)->name, 10, 5, 0);
        check_sound(t, &c);
        assert_int_equal(c.m, 1);
        centers_deinit(&c);
    }
    table_free(t);
}

static void test_one_row(void **state)
{
    (void)state;
    struct table *t = normal_table(1, 2, DTYPE_F64, 4);
    for (const struct center_ops *const *ops = center_list(); *ops != NULL; ops++) {
        struct centers c = selected(t, (*ops)->name, 3, 5, 0);
        check_sound(t, &c);
        assert_int_equal(c.m, 1);
        centers_deinit(&c);
    }
    table_free(t);
}

/* A read or an allocation that fails ends the selection with its error and leaves nothing behind.
 */
static void test_failures(void **state)
{
    (void)state;
    struct table *t = normal_table(300, 3, DTYPE_F32, 6);
    for (const struct center_ops *const *ops = center_list(); *ops != NULL; ops++) {
        int64_t failed = 0;
        for (int64_t at_read = 0; at_read < 12; at_read++) {
            struct setting s = setting_new(t, 20, 1);
            s.task.file = &t->source;
            struct centers c = {0};
            struct err err = {0};
            t->reads = 0;
            t->fail_at = at_read;
            const int rc = try_select(&s, (*ops)->name, &c, &err);
            assert_true(rc == 0 || rc == -ERR_IO);
            failed += rc < 0;
            centers_deinit(&c);
            device_close(s.be);
        }
        assert_true(failed >= 1);
        t->fail_at = -1;
        failed = 0;
        for (int64_t nth = 1; nth < 200; nth += 1 + nth / 8) {
            struct setting s = setting_new(t, 20, 1);
            s.task.file = &t->source;
            struct centers c = {0};
            struct err err = {0};
            s.fail_nth = nth;
            const int rc = try_select(&s, (*ops)->name, &c, &err);
            assert_true(rc == 0 || rc == -ERR_NO_MEMORY);
            failed += rc < 0;
            centers_deinit(&c);
            device_close(s.be);
        }
        assert_true(failed >= 3);
    }
    table_free(t);
}

static void test_refusals(void **state)
{
    (void)state;
    struct table *t = normal_table(20, 3, DTYPE_F64, 1), *other = normal_table(5, 2, DTYPE_F64, 1);
    struct setting s = setting_new(t, 0, 1);
    struct centers c = {0};
    struct err err = {0};
    static const char *const need_count[] = {"uniform", "kmeans", "rpcholesky"};
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(try_select(&s, need_count[k], &c, &err), -ERR_INVALID);
        assert_string_equal(err.pointer, "#/count");
    }
    assert_int_equal(try_select(&s, "file", &c, &err), -ERR_INVALID);
    s.task.file = &other->source;
    assert_int_equal(try_select(&s, "file", &c, &err), -ERR_INVALID);
    assert_contains(err.detail, "2 features");
    device_close(s.be);
    table_free(t);
    table_free(other);
}

/* All rows of the other data set, in the type of the training rows, or some of them. */
static void test_file(void **state)
{
    (void)state;
    struct table *t = normal_table(20, 3, DTYPE_F32, 1), *other = normal_table(50, 3, DTYPE_F64, 2);
    struct setting s = setting_new(t, 0, 1);
    s.task.file = &other->source;
    struct centers all = select_with(&s, "file", NULL);
    check_sound(t, &all);
    assert_int_equal(all.m, 50);
    double sum = 0, expected = 0;
    for (int64_t i = 0; i < 150; i++) {
        sum += (double)((float *)all.points)[i];
        expected += (double)(float)table_at(other, i / 3, i % 3);
    }
    assert_close(sum, expected, 1e-6);
    s.task.count = 8;
    struct centers some = select_with(&s, "file", NULL);
    assert_int_equal(some.m, 8);
    centers_deinit(&all);
    centers_deinit(&some);
    device_close(s.be);
    table_free(t);
    table_free(other);
}

/* ---- uniform ---- */

/* Every row is as likely as any other. */
static void test_uniform_is_uniform(void **state)
{
    (void)state;
    enum { N = 50, M = 10, SEEDS = 1000 };
    struct table *t = normal_table(N, 1, DTYPE_F64, 1);
    struct setting s = setting_new(t, M, 1);
    int64_t counts[N] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        s.task.seed = seed;
        struct centers c = select_with(&s, "uniform", NULL);
        for (int64_t j = 0; j < c.m; j++) {
            counts[c.rows[j]]++;
        }
        centers_deinit(&c);
    }
    for (int64_t i = 0; i < N; i++) {
        /* 200 expected, standard deviation 12.6 */
        assert_true(counts[i] > 200 - 64 && counts[i] < 200 + 64);
    }
    device_close(s.be);
    table_free(t);
}

/* ---- kmeans ---- */

static double quantization_error(const struct table *t, const struct centers *c)
{
    double sum = 0, x[64];
    for (int64_t i = 0; i < t->source.n; i++) {
        double least = INFINITY;
        for (int64_t k = 0; k < c->d; k++) {
            x[k] = table_at(t, i, k);
        }
        for (int64_t j = 0; j < c->m; j++) {
            least = fmin(least, squared(c, j, x));
        }
        sum += least;
    }
    return sum / (double)t->source.n;
}

/* Clusters of widths and sizes that differ. */
static struct table *clustered_table(int64_t n, int64_t d, int64_t clusters, enum dtype dtype)
{
    struct rng rng = rng_new(9, RNG_TEST);
    double *middle = host_normal(&rng, clusters * d), *x = host_normal(&rng, n * d);
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = (int64_t)((double)clusters * pow(rng_uniform(&rng), 2.0));
        for (int64_t j = 0; j < d; j++) {
            x[i * d + j] = 4.0 * middle[c * d + j] + x[i * d + j] * (0.1 + 0.02 * (double)c);
        }
    }
    mem_free(middle);
    return table_new(x, n, d, dtype);
}

static void test_kmeans_lowers_the_error(void **state)
{
    (void)state;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        struct table *t = clustered_table(4000, 5, 20, (enum dtype)dtype);
        struct setting s = setting_new(t, 40, 0);
        struct centers uniform = select_with(&s, "uniform", NULL);
        struct centers seeds = select_with(&s, "kmeans", "{\"rows\": 0}");
        struct centers kmeans = select_with(&s, "kmeans", "{\"batch_size\": 1000}");
        const double e_uniform = quantization_error(t, &uniform),
                     e_seeds = quantization_error(t, &seeds),
                     e_kmeans = quantization_error(t, &kmeans);
        assert_true(e_seeds < e_uniform);
        assert_true(e_kmeans < 0.8 * e_seeds);
        assert_true(e_kmeans < 0.5 * e_uniform);
        assert_null(kmeans.rows);
        centers_deinit(&uniform);
        centers_deinit(&seeds);
        centers_deinit(&kmeans);
        device_close(s.be);
        table_free(t);
    }
}

/* Far clusters of very different sizes: each has a center, and the center is its mean. */
static void test_kmeans_finds_the_means(void **state)
{
    (void)state;
    enum { N = 3000, D = 2, K = 6 };
    struct rng rng = rng_new(4, RNG_TEST);
    double *x = host_normal(&rng, N * D), sums[K][D] = {{0}};
    int64_t sizes[K] = {0};
    for (int64_t i = 0; i < N; i++) {
        const int64_t c = i < N - 50 ? i % 3 : 3 + i % 3;
        sizes[c]++;
        for (int64_t j = 0; j < D; j++) {
            x[i * D + j] = 0.1 * x[i * D + j] + (j == 0 ? 100.0 * (double)c : 0.0);
            sums[c][j] += x[i * D + j];
        }
    }
    struct table *t = table_new(x, N, D, DTYPE_F64);
    struct setting s = setting_new(t, K, 0);
    struct centers c = select_with(&s, "kmeans", NULL);
    assert_int_equal(c.m, K);
    for (int64_t k = 0; k < K; k++) {
        double mean[D], least = INFINITY;
        for (int64_t j = 0; j < D; j++) {
            mean[j] = sums[k][j] / (double)sizes[k];
        }
        for (int64_t j = 0; j < c.m; j++) {
            least = fmin(least, squared(&c, j, mean));
        }
        assert_true(least < 1e-3);
    }
    centers_deinit(&c);
    device_close(s.be);
    table_free(t);
}

/* ---- rpcholesky ---- */

/* 2,000 rows close together and 8 groups of 3 that see nobody else. */
static void test_rpcholesky_finds_small_clusters(void **state)
{
    (void)state;
    enum { N = 2000, D = 3, GROUPS = 8 };
    struct rng rng = rng_new(8, RNG_TEST);
    double *x = host_normal(&rng, N * D);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < D; j++) {
            const double far = i < 3 * GROUPS && j == 0 ? 30.0 + 20.0 * (double)(i / 3) : 0.0;
            x[i * D + j] = 0.3 * x[i * D + j] + far;
        }
    }
    struct table *t = table_new(x, N, D, DTYPE_F64);
    struct setting s = setting_new(t, 60, 0);
    s.kernel.id = KERNEL_GAUSSIAN;
    for (int pass = 0; pass < 2; pass++) {
        struct centers c = select_with(&s, "rpcholesky", pass == 0 ? NULL : "{\"block_size\": 1}");
        bool found[GROUPS] = {false};
        for (int64_t j = 0; j < c.m; j++) {
            if (c.rows[j] < 3 * GROUPS) {
                found[c.rows[j] / 3] = true;
            }
        }
        for (int g = 0; g < GROUPS; g++) {
            assert_true(found[g]);
        }
        centers_deinit(&c);
    }
    /* On a sample, the centers are rows of all the data. */
    struct centers c = select_with(&s, "rpcholesky", "{\"sample\": 500}");
    check_sound(t, &c);
    assert_true(c.rows[c.m - 1] > 500);
    centers_deinit(&c);
    device_close(s.be);
    table_free(t);
}

/* No row has a pivot. */
static void test_rpcholesky_of_zeros(void **state)
{
    (void)state;
    struct table *t = table_new(mem_zarray(40 * 3, sizeof(double)), 40, 3, DTYPE_F64);
    struct setting s = setting_new(t, 10, 0);
    s.kernel.id = KERNEL_LINEAR;
    s.kernel.gamma = 1.0;
    struct centers c = select_with(&s, "rpcholesky", NULL);
    check_sound(t, &c);
    assert_int_equal(c.m, 1);
    centers_deinit(&c);
    device_close(s.be);
    table_free(t);
}

/* ---- kernels of finite rank ---- */

/* *ret: how many of `count` random points are kept, which have 0 in all but the first `used` of d
 * features; the kept ones are points of the given ones, in their order, with their row and weight.
 */
static int64_t kept_of(struct kernel kernel, int64_t count, int64_t used)
{
    struct backend *be = device_open(1);
    struct rng rng = rng_new(3, RNG_TEST);
    double *all = host_normal(&rng, count * kernel.d);
    struct centers c = {.m = count,
                        .d = kernel.d,
                        .dtype = DTYPE_F64,
                        .points = mem_array((size_t)(count * kernel.d), sizeof(double)),
                        .rows = mem_array((size_t)count, sizeof(int64_t)),
                        .weights = mem_array((size_t)count, sizeof(double))};
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < kernel.d; k++) {
            all[i * kernel.d + k] *= k < used ? 1.0 : 0.0;
        }
        c.rows[i] = i;
        c.weights[i] = 1.0 + (double)i;
    }
    memcpy(c.points, all, (size_t)(count * kernel.d) * sizeof(double));
    must(center_rank_reduce(be, &kernel, &c, NULL, NULL, &err));
    for (int64_t j = 0; j < c.m; j++) {
        assert_true(j == 0 || c.rows[j] > c.rows[j - 1]);
        /* n / (m s_j) with the same s_j */
        const double before = 1.0 + (double)c.rows[j];
        assert_close(c.weights[j], before * (double)count / (double)c.m, 1e-14);
        assert_memory_equal((double *)c.points + j * c.d, all + c.rows[j] * c.d,
                            (size_t)c.d * sizeof(double));
    }
    const int64_t kept = c.m;
    centers_deinit(&c);
    mem_free(all);
    device_close(be);
    return kept;
}

static void test_finite_rank(void **state)
{
    (void)state;
    const struct kernel linear = {.id = KERNEL_LINEAR, .d = 5, .gamma = 1};
    const struct kernel cubic = {
        .id = KERNEL_POLYNOMIAL, .d = 3, .gamma = 0.3, .coef0 = 1, .degree = 3};
    const struct kernel even = {
        .id = KERNEL_POLYNOMIAL, .d = 3, .gamma = 0.3, .coef0 = 0, .degree = 2};
    const struct kernel gaussian = {.id = KERNEL_GAUSSIAN, .d = 3, .bandwidth = 100};
    assert_int_equal(center_rank_bound(&linear), 6);
    assert_int_equal(center_rank_bound(&cubic), 20);
    assert_true(center_rank_bound(&gaussian) == INT64_MAX);
    const struct kernel affine = {.id = KERNEL_LINEAR, .d = 5, .gamma = 1, .coef0 = 2};
    assert_int_equal(kept_of(linear, 40, 5), 5);
    assert_int_equal(kept_of(affine, 40, 5), 6);
    assert_int_equal(kept_of(linear, 3, 5), 3);
    assert_int_equal(kept_of(linear, 40, 2), 2);
    assert_int_equal(kept_of(linear, 40, 0), 1); /* all kernel values are 0 */
    assert_int_equal(kept_of(cubic, 300, 3), 20);
    assert_int_equal(kept_of(cubic, 300, 1), 4);
    assert_int_equal(kept_of(even, 300, 3), 6);
    assert_int_equal(kept_of(gaussian, 60, 3), 60);
}

/* Asked to stop, it does. */
static int refuse(void *context, struct err *e)
{
    (void)context;
    return err_set(e, ERR_CANCELLED, "stop");
}

static void test_finite_rank_stops(void **state)
{
    (void)state;
    const struct kernel linear = {.id = KERNEL_LINEAR, .d = 1, .gamma = 1};
    double points[] = {1, 2, 3};
    struct centers c = {.m = 3, .d = 1, .dtype = DTYPE_F64, .points = points};
    struct backend *be = device_open(1);
    struct err e = {0};
    assert_int_equal(center_rank_reduce(be, &linear, &c, refuse, NULL, &e), -ERR_CANCELLED);
    assert_int_equal(c.m, 3);
    device_close(be);
}

TEST_MAIN(cmocka_unit_test(test_registry_is_catalog), cmocka_unit_test(test_sizes),
          cmocka_unit_test(test_seed_decides), cmocka_unit_test(test_duplicates),
          cmocka_unit_test(test_constant_data), cmocka_unit_test(test_one_row),
          cmocka_unit_test(test_failures), cmocka_unit_test(test_refusals),
          cmocka_unit_test(test_file), cmocka_unit_test(test_uniform_is_uniform),
          cmocka_unit_test(test_kmeans_lowers_the_error),
          cmocka_unit_test(test_kmeans_finds_the_means),
          cmocka_unit_test(test_rpcholesky_finds_small_clusters),
          cmocka_unit_test(test_rpcholesky_of_zeros), cmocka_unit_test(test_finite_rank),
          cmocka_unit_test(test_finite_rank_stops))
