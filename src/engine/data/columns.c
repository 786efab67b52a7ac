#include "engine/data/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/dataset_match.h"
#include "wire/names.h"

void columns_deinit(struct columns *c)
{
    mem_free(c->features);
    mem_free(c->target);
    mem_free(c->meaning);
    *c = (struct columns){.mask = -1};
}

static int find_columns(const struct dataset_info *info, char *const *names, int64_t count,
                        const char *pointer, int64_t *ret, struct err *err)
{
    cleanup_name_index struct name_index index = {0};
    int r = name_index_init(&index, info->column_names, info->columns, err);
    for (int64_t i = 0; r == 0 && i < count; i++) {
        ret[i] = name_index_find(&index, names[i]);
        if (ret[i] < 0) {
            r = err_at(err, ERR_INVALID, pointer, "The data set has no column \"%.64s\".",
                       names[i]);
        }
    }
    return r;
}

static int resolve_targets(const struct job_spec *spec, const struct dataset_info *info,
                           struct columns *c, struct err *err)
{
    c->targets = spec->targets > 0 ? spec->targets : info->targets;
    c->target = mem_array((size_t)c->targets, sizeof(*c->target));
    if (c->target == NULL) {
        return err_no_memory(err);
    }
    if (spec->targets == 0) {
        memcpy(c->target, info->target_columns, (size_t)c->targets * sizeof(*c->target));
        return 0;
    }
    return find_columns(info, spec->target_names, c->targets, "#/target", c->target, err);
}

/* Every column that is neither target nor mask nor a sibling of the target. */
static int remaining_features(const struct job_spec *spec, const struct dataset_info *info,
                              struct columns *c, struct err *err)
{
    cleanup_mem bool *taken = mem_zarray((size_t)info->columns, sizeof(*taken));
    c->features = mem_array((size_t)info->columns, sizeof(*c->features));
    if (taken == NULL || c->features == NULL) {
        return err_no_memory(err);
    }
    const int r = job_spec_mark_siblings(spec, info, taken, err);
    if (r < 0) {
        return r;
    }
    for (int64_t j = 0; j < c->targets; j++) {
        taken[c->target[j]] = true;
    }
    if (c->mask >= 0) {
        taken[c->mask] = true;
    }
    for (int64_t j = 0; j < info->columns; j++) {
        if (!taken[j]) {
            c->features[c->d++] = j;
        }
    }
    return c->d > 0 ? 0 : err_at(err, ERR_INVALID, "#/features", "No column is left for features.");
}

static int resolve_features(const struct job_spec *spec, const struct dataset_info *info,
                            struct columns *c, struct err *err)
{
    if (spec->features == 0) {
        return remaining_features(spec, info, c, err);
    }
    c->d = spec->features;
    c->features = mem_array((size_t)c->d, sizeof(*c->features));
    if (c->features == NULL) {
        return err_no_memory(err);
    }
    return find_columns(info, spec->feature_names, c->d, "#/features", c->features, err);
}

static bool is_class_column(const struct dataset_info *info, int64_t column)
{
    return info->task == TASK_CLASSIFICATION && info->targets == 1 &&
           info->target_columns[0] == column;
}

/* A label that an upload takes for a number, "+1" and ".5" as well: decimal and finite, of which
 * strtod takes more ("nan", "0x1f"). */
static bool read_label(const char *label, double *ret)
{
    char *end = NULL;
    const bool decimal = strspn(label, "+-.0123456789eE") == strlen(label);
    *ret = decimal ? strtod(label, &end) : 0.0;
    return decimal && end != label && *end == '\0' && isfinite(*ret);
}

/* The number a label is, for regression on a column of class codes. */
static int numeric_meanings(const struct dataset_info *info, struct columns *c, struct err *err)
{
    c->meaning = mem_array((size_t)info->classes, sizeof(*c->meaning));
    if (c->meaning == NULL) {
        return err_no_memory(err);
    }
    c->meanings = info->classes;
    for (int64_t i = 0; i < info->classes; i++) {
        if (!read_label(info->class_labels[i], &c->meaning[i])) {
            return err_at(err, ERR_INVALID, "#/task",
                          "The target has the label \"%.64s\", which is not a number; regression "
                          "needs numbers.",
                          info->class_labels[i]);
        }
    }
    return 0;
}

static int resolve_task(const struct job_spec *spec, const struct dataset_info *info,
                        struct columns *c, struct err *err)
{
    const bool class_column = c->targets == 1 && is_class_column(info, c->target[0]);
    c->task = spec->task;
    if (c->task == TASK_AUTO) {
        c->task = class_column ? TASK_CLASSIFICATION : TASK_REGRESSION;
    }
    if (c->task == TASK_REGRESSION) {
        return class_column ? numeric_meanings(info, c, err) : 0;
    }
    if (!class_column) {
        return err_at(err, ERR_INVALID, "#/task", "The target holds numbers, not classes.");
    }
    c->classes = info->classes;
    c->labels = info->class_labels;
    return 0;
}

int columns_resolve(const struct job_spec *spec, const struct dataset_info *info,
                    struct columns *ret, struct err *err)
{
    struct columns c = {.mask = -1};
    if (spec->test.kind == SPEC_TEST_MASK) {
        c.mask = dataset_info_column(info, spec->test.mask);
    }
    int r = resolve_targets(spec, info, &c, err);
    if (r == 0) {
        r = resolve_features(spec, info, &c, err);
    }
    if (r == 0) {
        r = resolve_task(spec, info, &c, err);
    }
    if (r < 0) {
        columns_deinit(&c);
        return r;
    }
    *ret = c;
    return 0;
}

/* Classes of the training data for the codes of the other, by their labels. */
static int match_classes(const struct columns *c, const struct dataset_info *other,
                         struct columns *ret, struct err *err)
{
    if (!is_class_column(other, ret->target[0])) {
        return err_at(err, ERR_INVALID, "#/test/dataset",
                      "The test data set's target holds numbers, not classes; upload it for "
                      "classification.");
    }
    ret->meaning = mem_array((size_t)other->classes, sizeof(*ret->meaning));
    if (ret->meaning == NULL) {
        return err_no_memory(err);
    }
    ret->meanings = other->classes;
    for (int64_t i = 0; i < other->classes; i++) {
        ret->meaning[i] = -1;
        for (int64_t k = 0; k < c->classes; k++) {
            if (strcmp(other->class_labels[i], c->labels[k]) == 0) {
                ret->meaning[i] = (double)k;
            }
        }
    }
    return 0;
}

/* Either list may be NULL. */
static int match_lists(const struct columns *c, struct dataset_match *m, int64_t *ret_features,
                       int64_t *ret_targets, struct err *err)
{
    int r = 0;
    for (int64_t j = 0; r == 0 && ret_features != NULL && j < c->d; j++) {
        r = dataset_match_feature(m, c->features[j], &ret_features[j], err);
    }
    for (int64_t j = 0; r == 0 && ret_targets != NULL && j < c->targets; j++) {
        r = dataset_match_target(m, c->target[j], &ret_targets[j], err);
    }
    return r;
}

static int match_columns(const struct columns *c, const struct dataset_info *train,
                         const struct dataset_info *other, struct columns *ret, struct err *err)
{
    ret->features = mem_array((size_t)c->d, sizeof(*ret->features));
    ret->target = mem_array((size_t)c->targets, sizeof(*ret->target));
    if (ret->features == NULL || ret->target == NULL) {
        return err_no_memory(err);
    }
    struct dataset_match m;
    dataset_match_init(&m, train, other);
    int r = match_lists(c, &m, ret->features, ret->target, err);
    r = r < 0 ? r : dataset_match_end(&m, "#/test/dataset", "The test data set", err);
    dataset_match_deinit(&m);
    return r;
}

int columns_match(const struct columns *c, const struct dataset_info *train,
                  const struct dataset_info *other, struct columns *ret, struct err *err)
{
    struct columns m = *c;
    m.features = m.target = NULL;
    m.meaning = NULL;
    m.meanings = 0;
    m.mask = -1;
    int r = match_columns(c, train, other, &m, err);
    if (r == 0 && c->task == TASK_CLASSIFICATION) {
        r = match_classes(c, other, &m, err);
    } else if (r == 0 && c->targets == 1 && is_class_column(other, m.target[0])) {
        r = numeric_meanings(other, &m, err);
    }
    if (r < 0) {
        columns_deinit(&m);
        return r;
    }
    *ret = m;
    return 0;
}

int columns_match_centers(const struct columns *c, const struct dataset_info *train,
                          const struct dataset_info *other, int64_t **ret, struct err *err)
{
    int64_t *features = mem_array((size_t)c->d, sizeof(*features));
    if (features == NULL) {
        return err_no_memory(err);
    }
    struct dataset_match m;
    dataset_match_init(&m, train, other);
    int r = match_lists(c, &m, features, NULL, err);
    r = r < 0 ? r : dataset_match_end(&m, "#/centers/dataset", "The data set of the centers", err);
    dataset_match_deinit(&m);
    if (r < 0) {
        mem_free(features);
        return r;
    }
    *ret = features;
    return 0;
}

double columns_target(const struct columns *c, const struct dataset *ds, int64_t row, int64_t j)
{
    const double value = dataset_at(ds, row, c->target[j]);
    if (c->meaning == NULL) {
        return value;
    }
    const bool known = value >= 0 && value < (double)c->meanings;
    return known ? c->meaning[(int64_t)value] : -1.0;
}
