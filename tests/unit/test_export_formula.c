/* The formula of exports, and the error that is measured with it, against the engine's reference.
 */
#include "export/formula.h"

#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/kernel.h"
#include "engine_fixture.h"
#include "export/onnx.h"
#include "export/sample.h"
#include "wire/model_file.h"

enum { M = 9, D = 3, T = 2, ROWS = 20 };

struct example {
    struct model_file f;
    double coef[M * T], mean[D], scale[D], target_mean[T], target_scale[T], bandwidths[D];
    double wide[M * D], X[ROWS * D];
    float narrow[M * D];
};

static void make(struct example *e, enum kernel_id id, enum dtype dtype, bool ard)
{
    struct rng rng = rng_new(7, RNG_TEST);
    for (int i = 0; i < M * T; i++) {
        e->coef[i] = rng_normal(&rng);
    }
    for (int i = 0; i < M * D; i++) {
        e->narrow[i] = (float)rng_normal(&rng);
        e->wide[i] = (double)e->narrow[i];
    }
    for (int i = 0; i < ROWS * D; i++) {
        e->X[i] = i < D ? e->wide[i] * 2.0 + 1.0 : 2.0 * rng_normal(&rng) + 1.0;
    }
    for (int j = 0; j < D; j++) {
        e->mean[j] = 1.0;
        e->scale[j] = 2.0;
        e->bandwidths[j] = 1.5 + j;
    }
    for (int j = 0; j < T; j++) {
        e->target_mean[j] = 10.0;
        e->target_scale[j] = 3.0 + j;
    }
    e->f = (struct model_file){
        .kernel = catalog_find(CATALOG_KERNELS, kernel_name(id)),
        .bandwidth = 1.7,
        .gamma = 0.3,
        .coef0 = 0.6,
        .degree = id == KERNEL_POLYNOMIAL ? 3 : 1,
        .task = TASK_REGRESSION,
        .m = M,
        .d = D,
        .t = T,
        .outputs = T,
        .dtype = dtype,
        .coef = e->coef,
        .feature_mean = e->mean,
        .feature_scale = e->scale,
        .target_mean = e->target_mean,
        .target_scale = e->target_scale,
        .bandwidths = ard && kernel_uses_distance(id) ? e->bandwidths : NULL,
        .centers = dtype == DTYPE_F32 ? (void *)e->narrow : (void *)e->wide,
    };
}

/* f(x) with the reference kernel. */
static double by_reference(const struct example *e, enum kernel_id id, const double *x, int j)
{
    const struct kernel k = {.id = id,
                             .d = D,
                             .bandwidth = e->f.bandwidth,
                             .bandwidths = e->f.bandwidths,
                             .gamma = e->f.gamma,
                             .coef0 = e->f.coef0,
                             .degree = e->f.degree};
    double sum = 0;
    for (int i = 0; i < M; i++) {
        double s[D];
        for (int c = 0; c < D; c++) {
            s[c] = (x[c] - e->mean[c]) / e->scale[c];
            s[c] = e->f.dtype == DTYPE_F32 ? (double)(float)s[c] : s[c];
        }
        sum += kernel_eval(&k, s, e->wide + i * D) * e->coef[i * T + j];
    }
    return e->target_mean[j] + e->target_scale[j] * sum;
}

/* Every kernel; the first row is a center, where distances by inner products round. */
static void test_against_the_reference(void **state)
{
    (void)state;
    for (int k = 0; k < 4 * KERNEL_COUNT_; k++) {
        const enum kernel_id id = (enum kernel_id)(k / 4);
        struct example e;
        double found[ROWS * T];
        make(&e, id, k % 2 == 0 ? DTYPE_F32 : DTYPE_F64, k % 4 < 2);
        assert_int_equal(formula_evaluate(&e.f, false, e.X, ROWS, found, NULL), 0);
        for (int i = 0; i < ROWS * T; i++) {
            const double expected = by_reference(&e, id, e.X + i / T * D, i % T);
            assert_true(fabs(found[i] - expected) <= 1e-12 * (10 + fabs(expected)));
        }
    }
}

static void test_narrow(void **state)
{
    (void)state;
    struct example e;
    double wide[ROWS], narrow[ROWS];
    for (int ard = 0; ard < 2; ard++) {
        make(&e, KERNEL_GAUSSIAN, DTYPE_F64, ard == 1);
        assert_false(onnx_svm_fits(&e.f));
        e.f.t = e.f.outputs = 1;
        assert_true(onnx_svm_fits(&e.f));
        assert_int_equal(formula_evaluate(&e.f, false, e.X, ROWS, wide, NULL), 0);
        assert_int_equal(formula_evaluate(&e.f, true, e.X, ROWS, narrow, NULL), 0);
        double largest = 0;
        for (int i = 0; i < ROWS; i++) {
            largest = fmax(largest, fabs(wide[i] - narrow[i]));
        }
        assert_true(largest > 1e-9 && largest < 1e-4); /* float32 sums of some ten */
    }
    make(&e, KERNEL_MATERN32, DTYPE_F64, false);
    e.f.t = 1;
    assert_false(onnx_svm_fits(&e.f));
}

static void test_measure(void **state)
{
    (void)state;
    struct example e;
    double served[ROWS * T];
    make(&e, KERNEL_GAUSSIAN, DTYPE_F64, false);
    const struct sample s = {.X = e.X, .rows = ROWS, .label = "dataset"};
    struct sample_error found;
    assert_int_equal(formula_evaluate(&e.f, false, e.X, ROWS, served, NULL), 0);
    assert_int_equal(sample_measure(&e.f, false, &s, served, &found, NULL), 0);
    assert_true(found.largest == 0.0 && found.rows == ROWS);
    served[5] += 0.25;
    assert_int_equal(sample_measure(&e.f, false, &s, served, &found, NULL), 0);
    assert_true(fabs(found.largest - 0.25) < 1e-12);
    served[7] = NAN;
    assert_int_equal(sample_measure(&e.f, false, &s, served, &found, NULL), 0);
    assert_true(isnan(found.largest));
    cleanup_json struct json *j = sample_error_to_json(&found);
    assert_int_equal(json_type(json_get(j, "max_abs_error")), JSON_NULL);
}

/* Without a data set the centers are taken, back in the features' units. */
static void test_sample_of_centers(void **state)
{
    (void)state;
    struct example e;
    struct sample s;
    make(&e, KERNEL_GAUSSIAN, DTYPE_F32, false);
    e.f.feature_names = fixture_names("x", D);
    const struct sample_source gone[] = {{.path = NULL},
                                         {.path = "/nonexistent", .label = "dataset"}};
    assert_int_equal(sample_take(&e.f, gone, 2, &s, NULL), 0);
    assert_string_equal(s.label, "centers");
    assert_int_equal(s.rows, M);
    for (int k = 0; k < M * D; k++) {
        assert_true(s.X[k] == e.wide[k] * 2.0 + 1.0);
    }
    sample_deinit(&s);
    names_free(e.f.feature_names, D);
}

TEST_MAIN(cmocka_unit_test(test_against_the_reference), cmocka_unit_test(test_narrow),
          cmocka_unit_test(test_measure), cmocka_unit_test(test_sample_of_centers))
