#include "wire/model_file.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"
#include "support/mutate.h"

enum { M = 4, D = 2 };

static const double coef[M] = {1, -2, 3, -4}, mean[D] = {0.5, -0.5}, scale[D] = {2, 3};
static const double target_mean[1] = {7}, target_scale[1] = {0.125}, bandwidths[D] = {1, 4};
static const float centers[M * D] = {0, 1, 2, 3, 4, 5, 6, 7};

static struct model_file example(bool ard)
{
    static char x0[] = "x0", x1[] = "x1", y[] = "y";
    static char *features[] = {x0, x1}, *targets[] = {y};
    return (struct model_file){
        .kernel = catalog_find(CATALOG_KERNELS, "gaussian"),
        .bandwidth = 1.0 / 3,
        .degree = 1,
        .task = TASK_REGRESSION,
        .m = M,
        .d = D,
        .t = 1,
        .outputs = 1,
        .feature_names = features,
        .target_names = targets,
        .dtype = DTYPE_F32,
        .coef = coef,
        .feature_mean = mean,
        .feature_scale = scale,
        .target_mean = target_mean,
        .target_scale = target_scale,
        .bandwidths = ard ? bandwidths : NULL,
        .centers = centers,
    };
}

static int to_buf(void *context, const void *data, size_t size, struct err *err)
{
    (void)err;
    buf_add(context, data, size);
    return 0;
}

static struct buf write_file(const struct model_file *f, const struct json *more)
{
    struct buf image = BUF_INIT;
    assert_int_equal(model_file_write(f, more, to_buf, &image, NULL), 0);
    return image;
}

/* What is read is what was written; further metadata change nothing of the model. */
static void test_round_trip(void **state)
{
    (void)state;
    for (int ard = 0; ard < 2; ard++) {
        const struct model_file f = example(ard == 1);
        cleanup_json struct json *more = json_new_object();
        json_set_string(more, "name", "m");
        json_set_string(more, "a", "\"quoted\"");
        struct buf plain = write_file(&f, NULL), rich = write_file(&f, more), again = BUF_INIT;
        struct model_file back;
        struct tensors file;
        assert_int_equal(model_file_open(rich.data, rich.len, &back, &file, NULL), 0);
        assert_string_equal(tensors_metadata(&file, "a"), "\"quoted\"");
        assert_ptr_equal(back.kernel, f.kernel);
        assert_true(ard == 1 || back.bandwidth == f.bandwidth);
        assert_int_equal(back.m * back.d, M * D);
        assert_memory_equal(back.centers, centers, sizeof(centers));
        assert_memory_equal(back.coef, coef, sizeof(coef));
        assert_true((back.bandwidths != NULL) == (ard == 1));
        again = write_file(&back, NULL);
        assert_int_equal(again.len, plain.len);
        assert_memory_equal(again.data, plain.data, plain.len);
        tensors_deinit(&file);
        model_file_deinit(&back);
        buf_deinit(&plain);
        buf_deinit(&rich);
        buf_deinit(&again);
    }
}

/* What tells that another feature is missing tells of one that does not tell itself. */
static void test_indicates(void **state)
{
    (void)state;
    static const double fill[D] = {0.1, 0}, good[D] = {-1, 0};
    static const double bad[][D] = {{-1, 2}, {1, 0}, {0, -1}, {-1, 0.5}, {-1, -2}};
    struct model_file f = example(false), back;
    f.feature_fill = fill;
    f.feature_indicates = good;
    struct buf image = write_file(&f, NULL);
    assert_non_null(memmem(image.data, image.len, "\\\"version\\\":4", 13));
    assert_int_equal(model_file_open(image.data, image.len, &back, NULL, NULL), 0);
    assert_memory_equal(back.feature_indicates, good, sizeof(good));
    cleanup_json struct json *j = model_file_describe(&back);
    cleanup_mem char *text = json_print(j);
    assert_contains(text, "\"indicates\":[null,0],\"targets\"");
    model_file_deinit(&back);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct err err;
        f.feature_indicates = bad[i];
        struct buf damaged = write_file(&f, NULL);
        assert_int_equal(model_file_open(damaged.data, damaged.len, &back, NULL, &err),
                         -ERR_CORRUPT);
        assert_contains(err.detail, "tells of none of the others");
        buf_deinit(&damaged);
    }
    buf_deinit(&image);
}

/* A model that fills in what is missing says so by its version, for readers that know no such. */
static void test_fill(void **state)
{
    (void)state;
    static const double fill[D] = {0.1, -7}, factor[M] = {1, 2, 3, 4}, prior[1] = {2};
    for (int variance = 0; variance < 2; variance++) {
        struct model_file f = example(variance == 0), back;
        f.feature_fill = fill;
        f.p = variance;
        f.variance_factor = variance == 1 ? factor : NULL;
        f.prior_variance = f.noise_variance = variance == 1 ? prior : NULL;
        struct buf image = write_file(&f, NULL), again = BUF_INIT;
        assert_non_null(memmem(image.data, image.len, "\\\"version\\\":3", 13));
        assert_int_equal(model_file_open(image.data, image.len, &back, NULL, NULL), 0);
        assert_memory_equal(back.feature_fill, fill, sizeof(fill));
        assert_int_equal(back.p, variance);
        again = write_file(&back, NULL);
        assert_int_equal(again.len, image.len);
        assert_memory_equal(again.data, image.data, image.len);
        cleanup_json struct json *j = model_file_describe(&back);
        cleanup_mem char *text = json_print(j);
        assert_contains(text, "\"fill\":[0.1,-7],\"indicates\":null,\"targets\"");
        model_file_deinit(&back);
        buf_deinit(&again);
        char *version = memmem(image.data, image.len, "\\\"version\\\":3", 13);
        for (const char *other = "1245"; *other; other++) {
            struct err err;
            const int wanted = *other == '5' ? -ERR_UNSUPPORTED : -ERR_CORRUPT;
            version[12] = *other;
            assert_int_equal(model_file_open(image.data, image.len, &back, NULL, &err), wanted);
        }
        buf_deinit(&image);
    }
}

static void test_description(void **state)
{
    (void)state;
    const struct model_file f = example(true);
    cleanup_json struct json *j = model_file_describe(&f);
    cleanup_mem char *text = json_print(j);
    assert_string_equal(
        text, "{\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":[1,4]},"
              "\"task\":\"regression\",\"features\":[\"x0\",\"x1\"],"
              "\"fill\":null,\"indicates\":null,\"targets\":[\"y\"],\"classes\":null,\"centers\":4,"
              "\"precision\":\"float32\",\"variance\":null}");
}

/* In the place of the second of some numbers of the file. */
static void refuse_number(const double *at, double wrong, const char *part)
{
    struct model_file f = example(true);
    struct buf image = write_file(&f, NULL);
    char *there = memmem(image.data, image.len, at, 2 * sizeof *at);
    assert_non_null(there);
    memcpy(there + sizeof *at, &wrong, sizeof wrong);
    struct err err;
    assert_int_equal(model_file_open(image.data, image.len, &f, NULL, &err), -ERR_CORRUPT);
    assert_contains(err.detail, part);
    buf_deinit(&image);
}

static void test_numbers(void **state)
{
    (void)state;
    refuse_number(coef, 0.0 / 0.0 * 1.0, "the tensor \"coef\" holds infinity or NaN");
    refuse_number(mean, 1e308 * 10, "infinity or NaN");
    refuse_number(scale, 0, "not positive");
    refuse_number(bandwidths, -1, "not positive");
}

/* What could not be read again is not written. */
static void test_unwritable(void **state)
{
    (void)state;
    static const double coefficients[M] = {INFINITY};
    struct model_file empty = example(false), wide = example(false), far = example(false);
    empty.m = 0;
    wide.bandwidth = INFINITY;
    far.coef = coefficients;
    const struct {
        const struct model_file *f;
        const char *part;
    } cases[] = {{&empty, "no centers"}, {&wide, "bandwidth"}, {&far, "coef hold infinity or NaN"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf image = BUF_INIT;
        struct err err;
        assert_int_equal(model_file_write(cases[i].f, NULL, to_buf, &image, &err), -ERR_DIVERGED);
        assert_contains(err.detail, cases[i].part);
        assert_int_equal(image.len, 0);
    }
}

static void refuse(const struct model_file *f, const char *part)
{
    struct buf image = write_file(f, NULL);
    struct model_file back;
    struct err err;
    assert_int_equal(model_file_open(image.data, image.len, &back, NULL, &err), -ERR_CORRUPT);
    assert_contains(err.detail, part);
    buf_deinit(&image);
}

/* A model with a variance is of another version; without one readers of the first take it. */
static void test_variance(void **state)
{
    (void)state;
    enum { P = 3 };
    const double factor[M * P] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, prior = 4, noise = 0.5;
    struct model_file f = example(false), back;
    f.p = P;
    f.variance_factor = factor;
    f.prior_variance = &prior;
    f.noise_variance = &noise;
    struct buf image = write_file(&f, NULL);
    struct tensors file;
    assert_int_equal(model_file_open(image.data, image.len, &back, &file, NULL), 0);
    assert_contains(tensors_metadata(&file, "model"), "\"version\":2");
    assert_int_equal(back.p, P);
    assert_memory_equal(back.variance_factor, factor, sizeof(factor));
    cleanup_json struct json *j = model_file_describe(&back);
    cleanup_mem char *text = json_print(json_get(j, "variance"));
    assert_string_equal(text, "{\"directions\":3,\"prior\":[4],\"noise\":[0.5]}");
    tensors_deinit(&file);
    model_file_deinit(&back);
    buf_deinit(&image);
    const double negative = -1e-300;
    f.noise_variance = &negative;
    refuse(&f, "a variance is negative");
    f.noise_variance = NULL;
    refuse(&f, "too few or too many tensors");
    f.variance_factor = NULL;
    f.prior_variance = NULL;
    image = write_file(&f, NULL);
    assert_int_equal(model_file_open(image.data, image.len, &back, &file, NULL), 0);
    assert_contains(tensors_metadata(&file, "model"), "\"version\":1");
    assert_int_equal(back.p, 0);
    tensors_deinit(&file);
    model_file_deinit(&back);
    buf_deinit(&image);
}

static void test_names(void **state)
{
    (void)state;
    static char x0[] = "x0", none[] = "", y[] = "y";
    char *twice[] = {x0, x0}, *empty[] = {x0, none}, *classes[] = {y, y};
    struct model_file f = example(true);
    f.feature_names = twice;
    refuse(&f, "features/1 of its description: The name \"x0\" stands here twice.");
    f.feature_names = empty;
    refuse(&f, "features/1 of its description: A name must not be empty.");
    f = example(true);
    f.target_names = &empty[1];
    refuse(&f, "targets/0");
    f = example(true);
    f.task = TASK_CLASSIFICATION;
    f.class_labels = classes;
    refuse(&f, "two classes at least");
}

static void test_kernel_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *kernel;
        double gamma, coef0;
        int degree;
        const char *part; /* NULL: fine */
    } cases[] = {
        {"linear", 1, 0, 1, NULL},
        {"linear", 0, 0, 1, "kernel/gamma of its description: Expected a number greater than 0"},
        {"linear", -1, 0, 1, "kernel/gamma"},
        {"linear", 1, -1, 1, "kernel/coef0"},
        {"sigmoid", 1, -1, 1, NULL},
        {"polynomial", 1, -1, 2, "kernel/coef0"},
        {"polynomial", 1e31, 1, 2, "kernel/gamma"},
        {"polynomial", 1, 1, 20, NULL},
        {"polynomial", 1, 1, 21, "kernel/degree"},
        {"polynomial", 1, 1, 0, "kernel/degree"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model_file f = example(false);
        f.kernel = catalog_find(CATALOG_KERNELS, cases[i].kernel);
        f.gamma = cases[i].gamma;
        f.coef0 = cases[i].coef0;
        f.degree = cases[i].degree;
        if (cases[i].part != NULL) {
            refuse(&f, cases[i].part);
            continue;
        }
        struct buf image = write_file(&f, NULL);
        struct model_file back;
        assert_int_equal(model_file_open(image.data, image.len, &back, NULL, NULL), 0);
        model_file_deinit(&back);
        buf_deinit(&image);
    }
}

/* Centers that a bandwidth makes infinite predict nothing. */
static void test_least_bandwidth(void **state)
{
    (void)state;
    static const double least[D] = {1, 1e-39};
    struct model_file f = example(false);
    f.bandwidth = 5e-324;
    refuse(&f, "center 1 divided by the bandwidth");
    f.bandwidth = 1e-39; /* too small for float32 */
    refuse(&f, "center 1 divided by the bandwidth is infinity or NaN in float32");
    f.bandwidths = least;
    refuse(&f, "center 1 divided by the bandwidth");
}

/* Cut short or damaged at random: refused or read, never more. */
static void test_damage(void **state)
{
    (void)state;
    const struct model_file f = example(true);
    cleanup_json struct json *more = json_new_object();
    json_set_string(more, "sha256", "0123");
    struct buf image = write_file(&f, more);
    struct rng rng = rng_new(9, RNG_TEST);
    for (int i = 0; i < 5000; i++) {
        size_t len = (size_t)i;
        char *damaged =
            len < image.len ? mem_dup(image.data, len) : mutate(&rng, image.data, image.len, &len);
        struct model_file back;
        struct tensors file;
        if (model_file_open(damaged, len, &back, &file, NULL) == 0) {
            struct buf again = write_file(&back, NULL);
            cleanup_json struct json *j = model_file_describe(&back);
            assert_true(again.len > 0 && json_ok(j));
            buf_deinit(&again);
            tensors_deinit(&file);
            model_file_deinit(&back);
        }
        mem_free(damaged);
    }
    buf_deinit(&image);
}

TEST_MAIN(cmocka_unit_test(test_round_trip), cmocka_unit_test(test_description),
          cmocka_unit_test(test_fill), cmocka_unit_test(test_indicates),
          cmocka_unit_test(test_numbers), cmocka_unit_test(test_unwritable),
          cmocka_unit_test(test_names), cmocka_unit_test(test_kernel_parameters),
          cmocka_unit_test(test_least_bandwidth), cmocka_unit_test(test_variance),
          cmocka_unit_test(test_damage))
