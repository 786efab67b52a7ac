/* job_spec_check_columns: a spec against the columns of its data set. */
#include <inttypes.h>
#include <string.h>

#include "wire/field.h"
#include "wire/spec_roles.h"

static int check_features(const struct job_spec *spec, const struct spec_roles *c, struct err *err)
{
    int64_t features = 0;
    for (int64_t i = 0; i < c->names.count; i++) {
        features += c->roles[i] == ROLE_FEATURE;
    }
    if (features == 0) {
        return field_error(err, "features", FIELD_WHOLE, "No column is left to be a feature.");
    }
    if (spec->kernel.kind == SPEC_BANDWIDTH_PER_FEATURE &&
        spec->kernel.bandwidth_count != features) {
        return err_at(err, ERR_INVALID, "#/kernel/bandwidth",
                      "There are %" PRId64 " bandwidths for %" PRId64 " features.",
                      spec->kernel.bandwidth_count, features);
    }
    return 0;
}

static bool own_target(const struct job_spec *spec, const struct dataset_info *info,
                       const struct spec_roles *c)
{
    return spec->targets == 0 ||
           (spec->targets == 1 && c->roles[info->target_columns[0]] == ROLE_TARGET);
}

static int no_classes(const struct dataset_info *info, int64_t target, struct err *err)
{
    const char *name = info->column_names[target];
    const int64_t of = info->missing.indicates != NULL ? info->missing.indicates[target] : -1;
    const int word = (int)strcspn(name, "=");
    if (of >= 0) {
        return field_error(
            err, "task", FIELD_WHOLE,
            "The target \"%.64s\" is 0 and 1 and tells where \"%.64s\" is missing: it "
            "takes a regression.",
            name, info->column_names[of]);
    }
    if (word > 0 && name[word] == '=') { /* as one-hot encoding names the columns that it makes */
        return field_error(
            err, "task", FIELD_WHOLE,
            "The target \"%.64s\" holds numbers, not classes. Where one_hot made it of "
            "the words of a column \"%.*s\", upload the table with that as its "
            "target, for its words are classes; as it is it takes a regression.",
            name, word < 64 ? word : 64, name);
    }
    return field_error(err, "task", FIELD_WHOLE,
                       "The target \"%.64s\" holds numbers, not classes; upload the data set for "
                       "classification with this target.",
                       name);
}

/* The first target of the job. */
static int64_t first_target(const struct dataset_info *info, const struct spec_roles *c)
{
    int64_t i = 0;
    while (i + 1 < info->columns && c->roles[i] != ROLE_TARGET) {
        i++;
    }
    return i;
}

static int check_task(const struct job_spec *spec, const struct dataset_info *info,
                      const struct spec_roles *c, struct err *err)
{
    if (spec->task == TASK_CLASSIFICATION &&
        (info->task != TASK_CLASSIFICATION || !own_target(spec, info, c))) {
        return no_classes(info, first_target(info, c), err);
    }
    return 0;
}

bool spec__classifies(const struct job_spec *spec, const struct dataset_info *info,
                      const struct spec_roles *c)
{
    return info->task == TASK_CLASSIFICATION && spec->task != TASK_REGRESSION &&
           own_target(spec, info, c);
}

/* Else the job would be trained, and its model could not be told of. */
static int check_names(const struct job_spec *spec, const struct dataset_info *info,
                       const struct spec_roles *c, struct err *err)
{
    int64_t size = 0;
    for (int64_t i = 0; i < info->columns; i++) {
        const int times = c->roles[i] == ROLE_FEATURE ? 1 : c->roles[i] == ROLE_TARGET ? 2 : 0;
        size += times > 0 ? times * name_json_size(info->column_names[i]) : 0;
    }
    for (int64_t i = 0; i < info->classes && spec__classifies(spec, info, c); i++) {
        size += 2 * name_json_size(info->class_labels[i]);
    }
    return size <= SPEC_NAMES_BYTES_MAX
               ? 0
               : field_error(err, "features", FIELD_WHOLE,
                             "The names of all features, targets and classes take %" PRId64
                             " bytes together, and a model keeps %d at most: shorten them, or take "
                             "fewer columns.",
                             size, SPEC_NAMES_BYTES_MAX);
}

int spec__check_filled(const struct dataset_info *info, int64_t column, enum role role,
                       const char *of, struct err *err)
{
    const int64_t *made_up = info->missing.made_up;
    const char *at = of != NULL ? "#/test/dataset" : role == ROLE_MASK ? "#/test/mask" : "#/target";
    if (made_up == NULL || made_up[column] == 0 || (role != ROLE_TARGET && role != ROLE_MASK)) {
        return 0;
    }
    return err_at(err, ERR_INVALID, at,
                  "The column \"%.64s\"%s has no value in %" PRId64 " of %" PRId64
                  " rows, which were filled in: %s takes only what the table says. Upload it with "
                  "missing=drop, or %s.",
                  info->column_names[column], of != NULL ? of : "", made_up[column], info->rows,
                  role == ROLE_MASK ? "a mask" : "a target",
                  role == ROLE_MASK ? "with a mask in every row"
                                    : "with this column as its target, which leaves them out");
}

/* What tells that another column is missing is made in questions, of that one. */
static int check_indicator(const struct dataset_info *info, const struct spec_roles *c,
                           int64_t column, struct err *err)
{
    const int64_t *indicates = info->missing.indicates;
    const int64_t of = indicates != NULL ? indicates[column] : -1;
    if (of < 0 || c->roles[column] != ROLE_FEATURE || c->roles[of] == ROLE_FEATURE) {
        return 0;
    }
    return err_at(
        err, ERR_INVALID, "#/features",
        "The feature \"%.64s\" tells where \"%.64s\" is missing, which must be a feature, "
        "too.",
        info->column_names[column], info->column_names[of]);
}

static int check_all_filled(const struct dataset_info *info, const struct spec_roles *c,
                            struct err *err)
{
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < info->columns; i++) {
        rc = spec__check_filled(info, i, (enum role)c->roles[i], NULL, err);
        rc = rc == 0 ? check_indicator(info, c, i, err) : rc;
    }
    return rc;
}

static int check_promotion(const struct job_spec *spec, const struct dataset_info *info,
                           const struct spec_roles *c, struct err *err)
{
    const bool tested = spec->test.kind != SPEC_TEST_FRACTION || spec->test.fraction > 0;
    return promote_check(&spec->promote, spec__classifies(spec, info, c) ? info->classes : 0,
                         tested, err);
}

static int check_metric(const struct job_spec *spec, const struct dataset_info *info,
                        const struct spec_roles *c, struct err *err)
{
    const enum search_metric metric = spec->search.metric;
    if (!spec->search.wanted || metric == SEARCH_AUTO || metric == SEARCH_EVIDENCE) {
        return 0;
    }
    const bool classes = spec__classifies(spec, info, c);
    if (search_metric_classifies(metric) != classes) {
        return err_at(err, ERR_INVALID, "#/search/metric", "The metric \"%s\" does not judge a %s.",
                      search_metric_name(metric), classes ? "classification" : "regression");
    }
    if (metric == SEARCH_AUC && info->classes != 2) {
        return err_at(err, ERR_INVALID, "#/search/metric",
                      "The metric \"auc\" is defined for two classes; the target has %" PRId64 ".",
                      info->classes);
    }
    return 0;
}

int job_spec_check_columns(const struct job_spec *spec, const struct dataset_info *info,
                           struct err *err)
{
    cleanup_roles struct spec_roles c = {.roles = NULL};
    int rc = spec__assign_roles(spec, info, &c, err);
    rc = rc < 0 ? rc : check_features(spec, &c, err);
    rc = rc < 0 ? rc : check_all_filled(info, &c, err);
    rc = rc < 0 ? rc : check_task(spec, info, &c, err);
    rc = rc < 0 ? rc : check_names(spec, info, &c, err);
    rc = rc < 0 ? rc : check_metric(spec, info, &c, err);
    return rc < 0 ? rc : check_promotion(spec, info, &c, err);
}
