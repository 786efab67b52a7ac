#include "worker/loaded.h"

#include "base/buf.h"
#include "engine/model/model.h"
#include "engine_fixture.h"
#include "wire/frame.h"

enum { M = 5, D = 2, ROWS = 4 };

static const double X[ROWS * D] = {0.5, 1, -2, 3, 0, 0, 7, -1};

static double *numbers(int64_t n, uint64_t seed, double size)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *x = mem_array((size_t)n, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        x[i] = size * (0.5 + fabs(rng_normal(&rng)));
    }
    return x;
}

/* classes 0: a regression of two targets; p 0: without a variance. */
static struct model *model_make(int64_t classes, int64_t p)
{
    const int64_t t = classes > 0 ? classes : 2;
    struct model *m = mem_zalloc(sizeof(*m));
    *m = (struct model){.kernel = {.id = KERNEL_GAUSSIAN, .d = D, .bandwidth = 2, .degree = 1},
                        .task = classes > 0 ? TASK_CLASSIFICATION : TASK_REGRESSION,
                        .m = M,
                        .d = D,
                        .t = t,
                        .p = p,
                        .dtype = DTYPE_F64,
                        .centers = numbers(M * D, 1, 1),
                        .coef = numbers(M * t, 2, 1),
                        .feature_mean = numbers(D, 3, 1),
                        .feature_scale = numbers(D, 4, 1),
                        .target_mean = numbers(t, 5, 1),
                        .target_scale = numbers(t, 6, 1),
                        .outputs = classes > 0 ? 1 : t,
                        .feature_names = fixture_names("x", D),
                        .target_names = fixture_names("y", classes > 0 ? 1 : t),
                        .class_labels = classes > 0 ? fixture_names("c", classes) : NULL};
    if (p > 0) {
        m->variance_factor = numbers(M * p, 7, 0.05);
        m->prior_variance = numbers(t, 8, 1);
        m->noise_variance = numbers(t, 9, 1);
    }
    return m;
}

static int to_buf(void *context, const void *data, size_t size, struct err *err)
{
    (void)err;
    buf_add(context, data, size);
    return 0;
}

/* Its file in two pieces, as a daemon sends it. */
static void load(struct loaded *set, const char *key, const struct model *m)
{
    cleanup_buf struct buf image = BUF_INIT;
    assert_int_equal(model_write(m, to_buf, &image, NULL), 0);
    const size_t half = image.len / 2;
    assert_int_equal(loaded_begin(set, key, (int64_t)image.len, NULL), 0);
    assert_int_equal(loaded_append(set, key, image.data, half, NULL), 0);
    assert_int_equal(loaded_bytes(set, key), 0);
    assert_int_equal(loaded_append(set, key, image.data + half, image.len - half, NULL), 1);
}

static struct loaded_ask question(bool variance)
{
    return (struct loaded_ask){
        .X = X, .rows = ROWS, .values = (size_t)ROWS * D, .variance = variance};
}

/* The kinds of numbers stand one behind the other, as the model alone computes them; what is not
 * wanted is not there, and changes nothing of the rest. */
static void check_answers(struct backend *be, struct loaded *set, int64_t classes)
{
    struct model *m = model_make(classes, 3);
    struct predictor *p = NULL;
    const int64_t t = m->t, labels = classes > 0 ? ROWS : 0;
    double *values = mem_array((size_t)(ROWS * t), sizeof(double));
    double *variances = mem_array((size_t)(ROWS * t), sizeof(double));
    assert_int_equal(predictor_new(m, be, &p, NULL), 0);
    assert_int_equal(predictor_run(p, X, 0, ROWS, values, variances, NULL), 0);
    load(set, "m", m);
    for (int variance = 0; variance < 2; variance++) {
        const struct loaded_ask ask = question(variance == 1);
        const size_t size = (size_t)(ROWS * t) * sizeof(double);
        struct loaded_answer a;
        assert_int_equal(loaded_predict(set, "m", &ask, &a, NULL), 0);
        assert_int_equal(a.outputs, classes > 0 ? 1 : t);
        assert_int_equal(a.scores, classes);
        assert_int_equal(a.variances, variance == 1 ? t : 0);
        assert_int_equal(a.bytes, (size_t)labels * sizeof(double) + (variance == 1 ? 2 : 1) * size);
        for (int64_t i = 0; i < labels; i++) {
            assert_same_bits(a.numbers[i], (double)model_argmax(values + i * t, t));
        }
        assert_memory_equal(a.numbers + labels, values, size);
        if (variance == 1) {
            assert_true(variances[0] > 0);
            assert_memory_equal(a.numbers + labels + ROWS * t, variances, size);
        }
        mem_free(a.numbers);
    }
    assert_int_equal(loaded_drop(set, "m", NULL), 0);
    predictor_free(p);
    model_free(m);
    mem_free(values);
    mem_free(variances);
}

static void test_answers(void **state)
{
    (void)state;
    struct backend *be = fixture_backend();
    struct loaded *set = loaded_new(be);
    check_answers(be, set, 0);
    check_answers(be, set, 3);
    loaded_free(set);
    backend_close(be);
}

static void test_refusals(void **state)
{
    (void)state;
    struct backend *be = fixture_backend();
    struct loaded *set = loaded_new(be);
    struct model *plain = model_make(0, 0);
    struct loaded_ask ask = question(true);
    struct loaded_answer a = {.numbers = NULL};
    struct err err;
    assert_int_equal(loaded_predict(set, "plain", &ask, &a, &err), -ERR_NOT_FOUND);
    load(set, "plain", plain);
    assert_int_equal(loaded_predict(set, "plain", &ask, &a, &err), -ERR_INVALID);
    assert_contains(err.detail, "no variance");
    ask.variance = false;
    ask.values--;
    assert_int_equal(loaded_predict(set, "plain", &ask, &a, &err), -ERR_INVALID);
    assert_contains(err.detail, "2 features");
    ask.rows = 0;
    ask.values = 0;
    assert_int_equal(loaded_predict(set, "plain", &ask, &a, &err), -ERR_INVALID);
    assert_null(a.numbers);
    model_free(plain);
    loaded_free(set);
    backend_close(be);
}

/* What fits a frame without variances does not fit it with them, and is then not computed. */
static void test_answers_fit_a_frame(void **state)
{
    (void)state;
    struct backend *be = fixture_backend();
    struct loaded *set = loaded_new(be);
    struct model *m = model_make(0, 1);
    const int64_t rows = FRAME_PAYLOAD_MAX / 8 / 2; /* two targets */
    double *many = mem_zarray((size_t)(rows * D), sizeof(double));
    struct loaded_ask ask = {.X = many, .rows = rows / 2 + 1, .variance = true};
    struct loaded_answer a = {.numbers = NULL};
    struct err err;
    load(set, "m", m);
    ask.values = (size_t)(ask.rows * D);
    assert_int_equal(loaded_predict(set, "m", &ask, &a, &err), -ERR_TOO_LARGE);
    assert_contains(err.detail, "64 MiB");
    ask.variance = false;
    assert_int_equal(loaded_predict(set, "m", &ask, &a, &err), 0);
    mem_free(a.numbers);
    mem_free(many);
    model_free(m);
    loaded_free(set);
    backend_close(be);
}

TEST_MAIN(cmocka_unit_test(test_answers), cmocka_unit_test(test_refusals),
          cmocka_unit_test(test_answers_fit_a_frame))
