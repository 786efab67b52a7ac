#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/sort.h"
#include "engine/fit/fit_parts.h"

/* Rows that are looked at for where the values of a column lie. */
enum { SAMPLE_ROWS = 256 };

/* A deviation that is so many times as wide as the middle half of the values comes from a few of
 * them: standardised, the others differ by less than a kernel that spans the rows can tell. */
static const double far_out = 1e3;
/* Of what rows differ by: float32 leaves a millionth of it out, usually. */
static const double lost_share = 0.01;

static void warn_about_constant_targets(const struct fit *f)
{
    const struct fit_data *data = &f->data;
    const bool classes = data->columns.task == TASK_CLASSIFICATION;
    int64_t constant = 0, first = -1;
    for (int64_t j = 0; j < data->t; j++) {
        constant += data->constant[j];
        first = data->constant[j] && first < 0 ? j : first;
    }
    if (constant == 0) {
        return;
    }
    if (classes && constant < data->t) {
        fit__say(f, "warning",
                 "%" PRId64 " of %" PRId64 " classes, \"%.64s\" among them, have no "
                 "training row and will never be predicted.",
                 constant, data->t, data->columns.labels[first]);
    } else if (classes) {
        fit__say(f, "warning",
                 "All training rows have the same class: the model predicts it always.");
    } else {
        char more[64] = "";
        if (constant > 1) {
            snprintf(more, sizeof(more), " So are %" PRId64 " more.", constant - 1);
        }
        fit__say(f, "warning",
                 "The target \"%.64s\" is constant on the training rows: the model predicts that "
                 "constant always.%s",
                 data->train->info.column_names[data->columns.target[first]], more);
    }
}

/* The middle half of a column's values. */
struct middle {
    double low, high;
};

/* The columns of a fit that are features, or targets. */
struct kind {
    const char *name; /* the singular */
    int64_t count;
    const int64_t *columns; /* of the data set */
    const double *scale;    /* [count] */
    bool targets;
};

static double value_of(const struct fit_data *data, const struct kind *kind, int64_t j, int64_t row)
{
    return kind->targets ? columns_target(&data->columns, data->train, row, j)
                         : dataset_at(data->train, row, kind->columns[j]);
}

/* Of training rows that lie evenly over all. */
static struct middle middle_of(const struct fit_data *data, const struct kind *kind, int64_t j)
{
    double values[SAMPLE_ROWS];
    const int64_t n = data->n, count = n < SAMPLE_ROWS ? n : SAMPLE_ROWS;
    for (int64_t k = 0; k < count; k++) {
        const int64_t row = count < n ? (int64_t)((double)n / (double)count * (double)k) : k;
        values[k] = value_of(data, kind, j, data->split.train[row]);
    }
    sort_f64(values, count);
    return (struct middle){values[count / 4], values[count - 1 - count / 4]};
}

/* Not where half of the values are equal, as in columns that are 0 but for a few rows: there the
 * others are what the column has to say. */
static bool is_dominated(double scale, const struct middle *m)
{
    return m->high > m->low && scale > far_out * (m->high - m->low);
}

static void warn_about_far_values(const struct fit *f, const struct kind *kind)
{
    int64_t found = 0, first = 0;
    struct middle middle = {0, 0};
    for (int64_t j = 0; j < kind->count; j++) {
        const struct middle m = middle_of(&f->data, kind, j);
        if (is_dominated(kind->scale[j], &m)) {
            first = found == 0 ? j : first;
            middle = found == 0 ? m : middle;
            found++;
        }
    }
    if (found == 0) {
        return;
    }
    char more[64] = "";
    if (found > 1) {
        snprintf(more, sizeof(more), " The same holds for %" PRId64 " more.", found - 1);
    }
    fit__say(f, "warning",
             "The %s \"%.64s\" is ruled by few values far out: half of its values lie between %.4g "
             "and %.4g, but their standard deviation is %.4g. Standardised, all but those few are "
             "nearly equal; are they right?%s",
             kind->name, f->data.train->info.column_names[kind->columns[first]], middle.low,
             middle.high, kind->scale[first], more);
}

/* Whether what float32 makes of a feature, as it is to be stored, leaves out what sampled rows
 * differ by. */
static bool is_lost(const struct fit_data *data, const struct kind *kind, int64_t j)
{
    const int64_t n = data->n, count = n < SAMPLE_ROWS ? n : SAMPLE_ROWS;
    double low = INFINITY, high = -INFINITY, off = 0;
    for (int64_t k = 0; k < count; k++) {
        const int64_t row = (int64_t)((double)n / (double)count * (double)k);
        const double value =
            (value_of(data, kind, j, data->split.train[row]) - data->feature_mean[j]) /
            data->feature_scale[j];
        low = fmin(low, value);
        high = fmax(high, value);
        off = fmax(off, fabs(value - (double)(float)value));
    }
    return high > low && off > lost_share * (high - low);
}

static void warn_about_lost_features(const struct fit *f, const struct kind *kind)
{
    int64_t found = 0, first = 0;
    for (int64_t j = 0; j < kind->count; j++) {
        if (is_lost(&f->data, kind, j)) {
            first = found == 0 ? j : first;
            found++;
        }
    }
    if (found > 0) {
        fit__say(f, "warning",
                 "In float32 the feature \"%.64s\"%s loses what its rows differ by: its values are "
                 "too small, or too far from 0. Standardise the features, or take precision "
                 "\"float64\".",
                 f->data.train->info.column_names[kind->columns[first]],
                 found > 1 ? ", as others do," : "");
    }
}

void fit__warn(const struct fit *f)
{
    const struct fit_data *data = &f->data;
    warn_about_constant_targets(f);
    const struct kind features = {"feature", data->d, data->columns.features, data->feature_scale,
                                  false};
    const struct kind targets = {"target", data->t, data->columns.target, data->target_scale, true};
    if (f->spec->standardize.features) {
        warn_about_far_values(f, &features);
    } else if (f->spec->precision == PRECISION_FLOAT32) {
        warn_about_lost_features(f, &features);
    }
    if (f->spec->standardize.target && data->columns.task == TASK_REGRESSION) {
        warn_about_far_values(f, &targets);
    }
}

void fit__warn_of_centers(const struct fit *f)
{
    const struct centers *c = &f->centers.chosen;
    if (c->limited_by == NULL) {
        return;
    }
    fit__say(f, "warning",
             "The regularization asks for leverage scores from %" PRId64
             " rows; by default they are "
             "from %" PRId64 ", and less close. The parameter `%s` of the centers takes more; a "
             "larger `regularization` of theirs asks for fewer.",
             c->asked, c->scored, c->limited_by);
}

/* The targets with R2 below 0 on the test rows: how many, and the one that is worst. Of those that
 * are constant on the training rows that is known. */
static int64_t worse_than_mean(const struct fit *f, int64_t *ret_worst, double *ret_r2)
{
    const int64_t m = f->data.m;
    int64_t found = 0;
    *ret_r2 = 0;
    for (int64_t j = 0; j < f->data.t; j++) {
        const double r2 = metrics_regression(f->predicted + j * m, f->data.truth + j * m, m, 1).r2;
        const bool worse = r2 < 0 && !f->data.constant[j];
        found += worse;
        if (worse && r2 < *ret_r2) {
            *ret_worst = j;
            *ret_r2 = r2;
        }
    }
    return found;
}

/* What the job has not done yet. */
static const char *advice(const struct job_spec *spec)
{
    const struct method_def *m = spec->kernel.method;
    const bool open = m == NULL || (m->has_bandwidth && (spec->kernel.kind == SPEC_BANDWIDTH_AUTO ||
                                                         spec->search.bandwidths > 0));
    if (open && (spec->search.wanted || spec->open_regularization)) {
        return "Look";
    }
    return open ? "Search for the regularization, or look"
                : "Leave kernel and bandwidth open, search for the regularization, or look";
}

void fit__warn_of_metrics(const struct fit *f)
{
    int64_t worst = 0, found;
    double r2;
    if (f->data.columns.task != TASK_REGRESSION || f->data.m == 0 ||
        (found = worse_than_mean(f, &worst, &r2)) == 0) {
        return;
    }
    char more[64] = "";
    if (found > 1) {
        snprintf(more, sizeof(more), ", and for %" PRId64 " more", found - 1);
    }
    fit__say(f, "warning",
             "On the test rows the model is worse than the mean of their targets, for the target "
             "\"%.64s\" (R2 %.3g)%s. %s whether the features tell anything of the target.",
             f->data.train->info.column_names[f->data.columns.target[worst]], r2, more,
             advice(f->spec));
}
