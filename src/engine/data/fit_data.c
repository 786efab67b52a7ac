#include "engine/data/fit_data.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/ram.h"
#include "engine/data/standardize.h"

void fit_data_deinit(struct fit_data *f)
{
    columns_deinit(&f->columns);
    columns_deinit(&f->tested_columns);
    split_deinit(&f->split);
    mem_free(f->feature_mean);
    mem_free(f->feature_scale);
    mem_free(f->target_mean);
    mem_free(f->target_scale);
    mem_free(f->constant);
    mem_free(f->X);
    mem_free(f->Y);
    mem_free(f->X_test);
    mem_free(f->truth);
    mem_free(f->truth_class);
    *f = (struct fit_data){0};
}

/* Columns of both data sets, the split, and the sizes. */
static int resolve(const struct job_spec *spec, struct fit_data *f, struct err *err)
{
    int r = job_spec_check_columns(spec, &f->train->info, err);
    if (r == 0) {
        r = columns_resolve(spec, &f->train->info, &f->columns, err);
    }
    if (r == 0) {
        r = columns_match(&f->columns, &f->train->info, &f->tested->info, &f->tested_columns, err);
    }
    if (r == 0) {
        r = split_make(spec, &f->columns, f->train, f->tested, &f->split, err);
    }
    f->dtype = spec->precision == PRECISION_FLOAT32 ? DTYPE_F32 : DTYPE_F64;
    f->n = f->split.n;
    f->m = f->split.m;
    f->d = f->columns.d;
    f->t = f->columns.task == TASK_CLASSIFICATION ? f->columns.classes : f->columns.targets;
    return r;
}

/* Linux grants what it does not have and kills the process that uses it: rows are loaded only where
 * there is room for them. */
static int check_memory(const struct fit_data *f, struct err *err)
{
    const double values = (double)(f->n + f->m) * (double)f->d * (double)dtype_size(f->dtype);
    const double bytes = values + (double)f->n * (double)f->t * (double)sizeof(double);
    const double room = (double)ram_available();
    if (f->streamed || bytes <= room) {
        return 0;
    }
    return err_set(err, ERR_NO_MEMORY,
                   "The standardised rows take %.3g GB, and %.3g GB are available. A restricted "
                   "model (`centers`) reads them from the disk instead.",
                   bytes / 1e9, room / 1e9);
}

static int allocate(struct fit_data *f, struct err *err)
{
    const size_t d = (size_t)f->d, t = (size_t)f->t;
    int64_t numbers;
    if (__builtin_mul_overflow(f->n, f->t, &numbers)) {
        return err_no_memory(err);
    }
    f->feature_mean = mem_zarray(d, sizeof(double));
    f->feature_scale = mem_zarray(d, sizeof(double));
    f->target_mean = mem_zarray(t, sizeof(double));
    f->target_scale = mem_zarray(t, sizeof(double));
    f->constant = mem_zarray(t, sizeof(bool));
    f->Y = f->streamed ? NULL : mem_array((size_t)numbers, sizeof(double));
    const bool ok = f->feature_mean && f->feature_scale && f->target_mean && f->target_scale &&
                    f->constant && (f->Y || f->streamed);
    return ok ? 0 : err_no_memory(err);
}

/* A distance is the same wherever the origin is, and float32 holds small numbers better: points of
 * a distance kernel are centered even where nobody asked for standardised features, then about a
 * point that few rows far out do not move. */
static bool wants_center(const struct job_spec *spec)
{
    return spec->standardize.features || spec->kernel.method == NULL ||
           spec->kernel.method->has_bandwidth;
}

/* feature_mean and feature_scale. */
static int measure_features(const struct job_spec *spec, struct fit_data *f, struct err *err)
{
    int r = 0;
    if (wants_center(spec)) {
        standardize_columns(f->train, f->split.train, f->n, f->columns.features, f->d,
                            f->feature_mean, f->feature_scale);
    }
    if (wants_center(spec) && !spec->standardize.features) {
        r = standardize_origin(f->train, f->split.train, f->n, f->columns.features, f->d,
                               f->feature_mean, err);
    }
    for (int64_t j = 0; r == 0 && j < f->d; j++) {
        if (!spec->standardize.features) {
            f->feature_scale[j] = 1.0;
        }
        if (!isfinite(f->feature_mean[j]) || !isfinite(f->feature_scale[j])) {
            return err_at(err, ERR_INVALID, "#/standardize/features",
                          "The values of feature \"%.64s\" are too large to standardise.",
                          f->train->info.column_names[f->columns.features[j]]);
        }
    }
    return r;
}

static int load_features(const struct job_spec *spec, struct fit_data *f, struct err *err)
{
    int r = measure_features(spec, f, err);
    if (r < 0 || f->streamed) {
        return r;
    }
    r = standardize_gather(f->train, f->split.train, f->n, f->columns.features, f->d,
                           f->feature_mean, f->feature_scale, f->dtype, &f->X, err);
    if (r == 0) {
        r = standardize_gather(f->tested, f->split.test, f->m, f->tested_columns.features, f->d,
                               f->feature_mean, f->feature_scale, f->dtype, &f->X_test, err);
    }
    return r;
}

/* Within 2^-60 to 2^60 numbers, their squares and sums of those are far from the ends of float32.
 */
enum { MODERATE_EXPONENT = 60 };

/* The scale of targets that are not standardised: 1, or where their squares might vanish or
 * overflow, so that no residual could be told from 0, the power of two that brings the largest of
 * them to [1, 2). Such a factor changes no digit of a solve. */
static double moderate_scale(const struct sequence *y)
{
    double largest = 0;
    int exponent = 0;
    for (int64_t i = 0; i < y->n; i++) {
        largest = fmax(largest, fabs(y->at(y->context, i)));
    }
    frexp(largest, &exponent);
    return abs(exponent) > MODERATE_EXPONENT ? ldexp(1.0, exponent - 1) : 1.0;
}

/* Target j of the training rows, raw: a number, or whether a row is of class j. */
struct target {
    const struct fit_data *f;
    int64_t j;
};

static double target_at(const void *context, int64_t i)
{
    const struct target *t = context;
    const struct fit_data *f = t->f;
    const bool classes = f->columns.task == TASK_CLASSIFICATION;
    const double y = columns_target(&f->columns, f->train, f->split.train[i], classes ? 0 : t->j);
    return classes ? (double)(y == (double)t->j) : y;
}

/* Mean and scale of target j, as far as they are asked for. */
static int scale_target(const struct job_spec *spec, struct fit_data *f, int64_t j, struct err *err)
{
    const struct target target = {.f = f, .j = j};
    const struct sequence y = {.at = target_at, .context = &target, .n = f->n};
    double mean, scale;
    f->constant[j] = standardize_sequence(&y, &mean, &scale);
    const bool wanted = spec->standardize.target;
    f->target_mean[j] = wanted ? mean : 0.0;
    if (!wanted) {
        scale = moderate_scale(&y);
    }
    f->target_scale[j] = f->columns.task == TASK_REGRESSION ? scale : 1.0;
    if (!isfinite(f->target_mean[j]) || !isfinite(f->target_scale[j])) {
        return err_at(err, ERR_INVALID, "#/standardize/target",
                      "The target's values are too large to standardise.");
    }
    return 0;
}

static int load_targets(const struct job_spec *spec, struct fit_data *f, struct err *err)
{
    int r = 0;
    for (int64_t j = 0; r == 0 && j < f->t; j++) {
        const struct target target = {.f = f, .j = j};
        r = scale_target(spec, f, j, err);
        for (int64_t i = 0; r == 0 && !f->streamed && i < f->n; i++) {
            f->Y[i + j * f->n] = (target_at(&target, i) - f->target_mean[j]) / f->target_scale[j];
        }
    }
    return r;
}

static int unknown_class(const struct fit_data *f, int64_t row, struct err *err)
{
    const struct dataset_info *info = &f->tested->info;
    const int64_t code = (int64_t)dataset_at(f->tested, row, f->tested_columns.target[0]);
    const char *label = code >= 0 && code < info->classes ? info->class_labels[code] : "?";
    return err_at(err, ERR_INVALID, "#/test/dataset",
                  "Row %" PRId64
                  " of the test data set has the class \"%.64s\", which the training "
                  "data set does not have.",
                  row + 1, label);
}

static int load_truth(struct fit_data *f, struct err *err)
{
    const bool classes = f->columns.task == TASK_CLASSIFICATION;
    f->truth = mem_array(classes ? 0 : (size_t)(f->m * f->t), sizeof(double));
    f->truth_class = mem_array(classes ? (size_t)f->m : 0, sizeof(int64_t));
    if (f->truth == NULL || f->truth_class == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < f->m; i++) {
        const int64_t row = f->split.test[i];
        if (classes) {
            f->truth_class[i] = (int64_t)columns_target(&f->tested_columns, f->tested, row, 0);
            if (f->truth_class[i] < 0) {
                return unknown_class(f, row, err);
            }
            continue;
        }
        for (int64_t j = 0; j < f->t; j++) {
            f->truth[i + j * f->m] = columns_target(&f->tested_columns, f->tested, row, j);
        }
    }
    return 0;
}

int fit_data_load(const struct job_spec *spec, const struct dataset *train,
                  const struct dataset *test, struct fit_data *ret, struct err *err)
{
    struct fit_data f = {.train = train, .tested = train, .streamed = spec->centers.method != NULL};
    if (spec->test.kind == SPEC_TEST_DATASET) {
        if (test == NULL) {
            return err_at(err, ERR_INVALID, "#/test/dataset", "The test data set is missing.");
        }
        f.tested = test;
    }
    int r = resolve(spec, &f, err);
    if (r == 0) {
        r = check_memory(&f, err);
    }
    if (r == 0) {
        r = allocate(&f, err);
    }
    if (r == 0) {
        r = load_features(spec, &f, err);
    }
    if (r == 0) {
        r = load_targets(spec, &f, err);
    }
    if (r == 0) {
        r = load_truth(&f, err);
    }
    if (r < 0) {
        fit_data_deinit(&f);
        return r;
    }
    *ret = f;
    return 0;
}

int fit_data_metrics(const struct fit_data *f, double *P, struct metrics *ret, struct err *err)
{
    for (int64_t j = 0; j < f->t; j++) {
        for (int64_t i = 0; i < f->m; i++) {
            P[i + j * f->m] = f->target_mean[j] + f->target_scale[j] * P[i + j * f->m];
        }
    }
    if (f->columns.task == TASK_CLASSIFICATION) {
        return metrics_classification(P, f->truth_class, f->m, f->t, ret, err);
    }
    *ret = metrics_regression(P, f->truth, f->m, f->t);
    return 0;
}
