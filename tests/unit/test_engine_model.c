#include "engine/model/model.h"

#include <math.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/rng.h"
#include "engine_fixture.h"
#include "support/mutate.h"

enum { M = 7, D = 3 };

static double *normal(int64_t n, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *x = mem_array((size_t)n, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        x[i] = rng_normal(&rng);
    }
    return x;
}

static double *constant(int64_t n, double value)
{
    double *x = mem_array((size_t)n, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        x[i] = value + (double)i / 7;
    }
    return x;
}

/* classes = 0: regression of two targets. */
static struct model *model_make(enum kernel_id id, enum dtype dtype, int64_t classes, bool ard)
{
    struct model *m = mem_zalloc(sizeof(*m));
    m->kernel = (struct kernel){
        .id = id, .d = D, .bandwidth = 1.0 / 3, .gamma = 0.7, .coef0 = 0.1, .degree = 3};
    m->task = classes > 0 ? TASK_CLASSIFICATION : TASK_REGRESSION;
    m->m = M;
    m->d = D;
    m->t = classes > 0 ? classes : 2;
    m->outputs = classes > 0 ? 1 : 2;
    m->dtype = dtype;
    double *X = normal(M * D, 1);
    m->centers = mem_array(M * D, dtype_size(dtype));
    for (int64_t k = 0; k < M * D; k++) {
        if (dtype == DTYPE_F32) {
            ((float *)m->centers)[k] = (float)X[k];
        } else {
            ((double *)m->centers)[k] = X[k];
        }
    }
    mem_free(X);
    m->coef = normal(M * m->t, 2);
    m->feature_mean = constant(D, -0.3);
    m->feature_scale = constant(D, 0.9);
    m->target_mean = constant(m->t, 10);
    m->target_scale = constant(m->t, 2);
    m->bandwidths = ard ? constant(D, 0.6) : NULL;
    m->kernel.bandwidths = m->bandwidths;
    m->feature_names = fixture_names("x", D);
    m->target_names = fixture_names("y", m->outputs);
    m->class_labels = classes > 0 ? fixture_names("c", classes) : NULL;
    return m;
}

/* Columns that are small enough for variances to be positive, of kernels of distances. */
static void give_variance(struct model *m, int64_t p)
{
    m->p = p;
    m->variance_factor = normal(m->m * p, 9);
    m->prior_variance = mem_zarray((size_t)m->t, sizeof(double));
    m->noise_variance = mem_zarray((size_t)m->t, sizeof(double));
    for (int64_t k = 0; k < m->m * p; k++) {
        m->variance_factor[k] *= 0.1 / sqrt((double)(m->m * p));
    }
    for (int64_t j = 0; j < m->t; j++) {
        m->prior_variance[j] = 2.0 + (double)j;
    }
}

static int to_buf(void *context, const void *data, size_t size, struct err *err)
{
    (void)err;
    buf_add(context, data, size);
    return 0;
}

static struct model *through_file(const struct model *m, struct buf *image)
{
    struct model *back = NULL;
    struct err err = {.code = ERR_OK};
    assert_int_equal(model_write(m, to_buf, image, NULL), 0);
    if (model_read(image->data, image->len, &back, &err) < 0) {
        fail_msg("%s", err.detail);
    }
    return back;
}

/* f(x) by its formula. */
static double by_hand(const struct model *m, const double *x, int64_t j)
{
    const struct rows C = {.dtype = m->dtype, .n = m->m, .d = m->d, .data = m->centers};
    double sum = 0;
    for (int64_t i = 0; i < m->m; i++) {
        double s[D], c[D];
        for (int64_t k = 0; k < m->d; k++) {
            s[k] = (x[k] - m->feature_mean[k]) / m->feature_scale[k];
            s[k] = m->dtype == DTYPE_F32 ? (double)(float)s[k] : s[k];
            c[k] = rows_at(&C, i, k);
        }
        sum += kernel_eval(&m->kernel, s, c) * m->coef[i * m->t + j];
    }
    return m->target_mean[j] + m->target_scale[j] * sum;
}

/* var f_j(x) by its formula. */
static double variance_by_hand(const struct model *m, const double *x, int64_t j)
{
    const struct rows C = {.dtype = m->dtype, .n = m->m, .d = m->d, .data = m->centers};
    double s[D], left;
    for (int64_t k = 0; k < m->d; k++) {
        s[k] = (x[k] - m->feature_mean[k]) / m->feature_scale[k];
        s[k] = m->dtype == DTYPE_F32 ? (double)(float)s[k] : s[k];
    }
    left = kernel_eval(&m->kernel, s, s);
    for (int64_t l = 0; l < m->p; l++) {
        double sum = 0;
        for (int64_t i = 0; i < m->m; i++) {
            double c[D];
            for (int64_t k = 0; k < m->d; k++) {
                c[k] = rows_at(&C, i, k);
            }
            sum += kernel_eval(&m->kernel, s, c) * m->variance_factor[i * m->p + l];
        }
        left -= sum * sum;
    }
    return m->prior_variance[j] * fmax(left, 0.0);
}

/* By its formula; a row's bits are those of the row alone, and predictions are the same with it. */
static void test_variance(void **state)
{
    (void)state;
    enum { ROWS = 4200, P = 1500 };
    struct backend *be = fixture_backend();
    double *X = normal(ROWS * D, 5);
    for (int k = 0; k < 6; k++) {
        const enum kernel_id ids[] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN_L1, KERNEL_POLYNOMIAL};
        const enum dtype dtype = k % 2 == 0 ? DTYPE_F32 : DTYPE_F64;
        struct model *m = model_make(ids[k / 2], dtype, k == 1 ? 4 : 0, false);
        give_variance(m, k < 2 ? P : 7);
        struct buf image = BUF_INIT;
        struct model *back = through_file(m, &image);
        struct predictor *p = NULL;
        assert_int_equal(predictor_new(back, be, &p, NULL), 0);
        const size_t size = (size_t)(ROWS * m->t);
        double *a = mem_zarray(size, sizeof(double)), *b = mem_zarray(size, sizeof(double));
        double *v = mem_zarray(size, sizeof(double)), *w = mem_zarray(size, sizeof(double));
        assert_int_equal(predictor_run(p, X, 0, ROWS, a, NULL, NULL), 0);
        assert_int_equal(predictor_run(p, X, 0, ROWS, b, v, NULL), 0);
        assert_memory_equal(a, b, size * sizeof(double));
        for (int64_t i = 0; i < ROWS; i += 839) {
            assert_int_equal(predictor_run(p, X + i * D, 0, 1, b, w, NULL), 0);
            assert_memory_equal(v + i * m->t, w, (size_t)m->t * sizeof(double));
            for (int64_t j = 0; j < m->t; j++) {
                const double hand = variance_by_hand(m, X + i * D, j);
                const double eps = dtype == DTYPE_F32 ? 2e-5 : 1e-12;
                assert_true(hand > 0);
                assert_true(fabs(v[i * m->t + j] - hand) <= eps * hand);
            }
        }
        mem_free(a);
        mem_free(b);
        mem_free(v);
        mem_free(w);
        predictor_free(p);
        model_free(back);
        model_free(m);
        buf_deinit(&image);
    }
    mem_free(X);
    backend_close(be);
}

/* Where k(x,x) overflows the prediction may not: the variance is infinite, not 0. */
static void test_variance_out_of_range(void **state)
{
    (void)state;
    struct backend *be = fixture_backend();
    struct model *m = model_make(KERNEL_LINEAR, DTYPE_F64, 0, false);
    give_variance(m, 7);
    struct predictor *p = NULL;
    double X[D] = {0}, y[8], v[8];
    X[0] = 1e200;
    assert_int_equal(predictor_new(m, be, &p, NULL), 0);
    assert_int_equal(predictor_run(p, X, 0, 1, y, v, NULL), 0);
    assert_true(isfinite(y[0]));
    assert_true(isinf(v[0]));
    predictor_free(p);
    model_free(m);
    backend_close(be);
}

/* However many rows are asked for, the first that the model cannot take is named. */
static void test_too_large_for_the_model(void **state)
{
    (void)state;
    enum { ROWS = 9000, BAD = 8500 };
    struct backend *be = fixture_backend();
    double *X = normal(ROWS * D, 4);
    X[BAD * D] = X[(BAD + 7) * D] = 1e300; /* no float32 */
    struct model *m = model_make(KERNEL_GAUSSIAN, DTYPE_F32, 0, false);
    struct predictor *p = NULL;
    struct err err;
    assert_int_equal(predictor_new(m, be, &p, NULL), 0);
    double *y = mem_zarray((size_t)(ROWS * m->t), sizeof(double));
    assert_int_equal(predictor_run(p, X, 0, ROWS, y, NULL, &err), -ERR_INVALID);
    assert_contains(err.detail, "Row 8500 (counted from 0)");
    assert_contains(err.detail, "float32");
    assert_int_equal(predictor_run(p, X, 0, BAD, y, NULL, &err), 0);
    mem_free(y);
    predictor_free(p);
    model_free(m);
    mem_free(X);
    backend_close(be);
}

static void test_round_trip_and_prediction(void **state)
{
    (void)state;
    enum { ROWS = 5000 };
    struct backend *be = fixture_backend();
    double *X = normal(ROWS * D, 4);
    for (int k = 0; k < 4 * KERNEL_COUNT_; k++) {
        const enum kernel_id id = (enum kernel_id)(k / 4);
        const bool ard = k % 2 == 0 && kernel_uses_distance(id);
        const enum dtype dtype = k % 4 < 2 ? DTYPE_F32 : DTYPE_F64;
        struct model *m = model_make(id, dtype, k % 3 == 0 ? 4 : 0, ard);
        struct buf image = BUF_INIT;
        struct model *back = through_file(m, &image);
        struct predictor *p = NULL, *q = NULL;
        assert_int_equal(predictor_new(m, be, &p, NULL), 0);
        assert_int_equal(predictor_new(back, be, &q, NULL), 0);
        double *a = mem_zarray((size_t)(ROWS * m->t), sizeof(double));
        double *b = mem_zarray((size_t)(ROWS * m->t), sizeof(double));
        assert_int_equal(predictor_run(p, X, 0, ROWS, a, NULL, NULL), 0);
        /* The same bits from the file, and row by row. */
        for (int64_t i = 0; i < ROWS; i += i < 10 ? 1 : 977) {
            assert_int_equal(predictor_run(q, X + i * D, 0, 1, b + i * m->t, NULL, NULL), 0);
            assert_memory_equal(a + i * m->t, b + i * m->t, (size_t)m->t * sizeof(double));
            for (int64_t j = 0; j < m->t; j++) {
                const double size = fabs(by_hand(m, X + i * D, j)) + 1;
                assert_near(a[i * m->t + j], by_hand(m, X + i * D, j),
                            (dtype == DTYPE_F32 ? 3e-4 : 1e-11) * size);
            }
        }
        mem_free(a);
        mem_free(b);
        predictor_free(p);
        predictor_free(q);
        model_free(back);
        model_free(m);
        buf_deinit(&image);
    }
    mem_free(X);
    backend_close(be);
}

static void test_names_survive(void **state)
{
    (void)state;
    struct model *m = model_make(KERNEL_LAPLACIAN_L1, DTYPE_F64, 3, false);
    fixture_rename(&m->class_labels[1], "äé \"quoted\"\n");
    fixture_rename(&m->target_names[0], "HOMO / eV");
    struct buf image = BUF_INIT;
    struct model *back = through_file(m, &image);
    assert_string_equal(back->class_labels[1], m->class_labels[1]);
    assert_string_equal(back->target_names[0], "HOMO / eV");
    assert_string_equal(back->feature_names[2], "x2");
    assert_int_equal(back->outputs, 1);
    assert_same_bits(back->kernel.bandwidth, 1.0 / 3);
    struct json *j = model_describe(back);
    assert_string_equal(json_string(json_get(json_get(j, "kernel"), "name")), "laplacian_l1");
    assert_string_equal(json_string(json_get(j, "task")), "classification");
    assert_int_equal(json_size(json_get(j, "classes")), 3);
    assert_int_equal((int)json_number(json_get(j, "centers")), M);
    json_free(j);
    model_free(back);
    model_free(m);
    buf_deinit(&image);
}

/* The description is replaced by another text; the tensors stay. */
static int read_with(const char *from, const char *to, struct err *err)
{
    struct model *m = model_make(KERNEL_GAUSSIAN, DTYPE_F64, 0, false);
    struct buf image = BUF_INIT;
    assert_int_equal(model_write(m, to_buf, &image, NULL), 0);
    char *at = memmem(image.data, image.len, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    struct model *back = NULL;
    const int r = model_read(image.data, image.len, &back, err);
    assert_true(r < 0 ? back == NULL : back != NULL);
    model_free(back);
    model_free(m);
    buf_deinit(&image);
    return r;
}

static void test_damaged_descriptions(void **state)
{
    (void)state;
    const char *const cases[][2] = {
        {"gaussian", "gaussiaN"},
        {"\\\"bandwidth\\\":0.33", "\\\"bandwidth\\\":-.33"},
        {"\\\"bandwidth\\\":0.33", "\\\"bandwidth\\\":0.0e"},
        {"\\\"bandwidth\\\"", "\\\"bandwidtH\\\""},
        {"\\\"features\\\":[\\\"x0\\\",", "\\\"features\\\":[       "},
        {"\\\"task\\\":\\\"regression\\\"", "\\\"task\\\":\\\"auto\\\"      "},
        {"\\\"version\\\":1", "\\\"version\\\":2"},
        {"\\\"targets\\\"", "\\\"classes\\\""},
        {"\"model\"", "\"modeL\""},
        {"feature_scale", "feature_scalE"},
        {"target_mean", "bandwidths_"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {.code = ERR_OK};
        if (read_with(cases[i][0], cases[i][1], &err) >= 0) {
            fail_msg("accepted: %s", cases[i][1]);
        }
        assert_true(err.detail[0] != '\0');
    }
}

static void test_numbers_are_checked(void **state)
{
    (void)state;
    const double bad[] = {0.0, -1.0, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++) {
            struct model *m = model_make(KERNEL_MATERN32, DTYPE_F64, 0, true);
            double *const places[] = {m->feature_scale, m->target_scale, m->bandwidths,
                                      m->feature_mean};
            places[k][1] = bad[i];
            struct buf image = BUF_INIT;
            struct model *back = NULL;
            const int written = model_write(m, to_buf, &image, NULL);
            assert_int_equal(written, i < 2 ? 0 : -ERR_DIVERGED);
            if (written == 0) {
                const int r = model_read(image.data, image.len, &back, NULL);
                assert_int_equal(r, k == 3 ? 0 : -ERR_CORRUPT);
            }
            model_free(back);
            model_free(m);
            buf_deinit(&image);
        }
    }
}

/* Files cut short and files damaged at random are refused or read; never more. */
static void test_damage(void **state)
{
    (void)state;
    struct model *m = model_make(KERNEL_GAUSSIAN, DTYPE_F32, 3, true);
    struct buf image = BUF_INIT;
    assert_int_equal(model_write(m, to_buf, &image, NULL), 0);
    for (size_t len = 0; len < image.len; len++) {
        struct model *back = NULL;
        void *part = mem_dup(image.data, len);
        assert_true(model_read(part, len, &back, NULL) < 0);
        mem_free(part);
    }
    struct rng rng = rng_new(5, RNG_TEST);
    for (int i = 0; i < 3000; i++) {
        size_t len = 0;
        char *damaged = mutate(&rng, image.data, image.len, &len);
        struct model *back = NULL;
        if (model_read(damaged, len, &back, NULL) == 0) {
            assert_true(back->m > 0 && back->d > 0 && back->t > 0);
            model_free(back);
        }
        mem_free(damaged);
    }
    model_free(m);
    buf_deinit(&image);
}

static int refuse(void *context, const void *data, size_t size, struct err *err)
{
    (void)data;
    (void)size;
    return --*(int *)context < 0 ? err_set(err, ERR_IO, "The disk is full.") : 0;
}

static void test_sink_that_fails(void **state)
{
    (void)state;
    struct model *m = model_make(KERNEL_GAUSSIAN, DTYPE_F64, 0, false);
    for (int calls = 0; calls < 7; calls++) {
        int left = calls;
        struct err err;
        assert_int_equal(model_write(m, refuse, &left, &err), -ERR_IO);
        assert_string_equal(err.detail, "The disk is full.");
    }
    model_free(m);
}

static void test_argmax(void **state)
{
    (void)state;
    const double scores[] = {0.1, 0.7, 0.7, -3};
    assert_int_equal(model_argmax(scores, 4), 1);
    assert_int_equal(model_argmax(scores, 1), 0);
}

TEST_MAIN(cmocka_unit_test(test_round_trip_and_prediction), cmocka_unit_test(test_variance),
          cmocka_unit_test(test_variance_out_of_range),
          cmocka_unit_test(test_too_large_for_the_model), cmocka_unit_test(test_names_survive),
          cmocka_unit_test(test_damaged_descriptions), cmocka_unit_test(test_numbers_are_checked),
          cmocka_unit_test(test_damage), cmocka_unit_test(test_sink_that_fails),
          cmocka_unit_test(test_argmax))
