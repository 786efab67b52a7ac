/* job_spec_check_columns, _tested, _centers, _start: a spec against the columns of data sets. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "wire/field.h"
#include "wire/names.h"
#include "wire/spec.h"

/* Missing columns named in one error text. */
enum { NAMES_SHOWN = 5 };

/* So many names are looked for one by one, more in an index of all columns. */
enum { FEW_NAMES = 8 };

enum role { ROLE_NONE, ROLE_TARGET, ROLE_MASK, ROLE_FEATURE };

static const char *const role_names[] = {
    [ROLE_NONE] = "unused",
    [ROLE_TARGET] = "a target",
    [ROLE_MASK] = "the mask",
    [ROLE_FEATURE] = "a feature",
};

/* Names looked for among those of a data set, of which there may be many: an index is made when it
 * is needed first. */
struct lookup {
    char *const *names; /* [count] */
    int64_t count, found;
    struct name_index index;
};

static void lookup_deinit(struct lookup *l)
{
    name_index_deinit(&l->index);
}

#define cleanup_lookup __attribute__((cleanup(lookup_deinit)))

static int64_t look_through(const struct lookup *l, const char *name)
{
    int64_t i = 0;
    while (i < l->count && strcmp(l->names[i], name) != 0) {
        i++;
    }
    return i < l->count ? i : -1;
}

/* *ret: the first of that name, or -1. It is looked for at `likely` before anywhere else (-1:
 * nowhere). */
static int lookup_find(struct lookup *l, const char *name, int64_t likely, int64_t *ret,
                       struct err *err)
{
    int rc = 0;
    if (likely >= 0 && likely < l->count && strcmp(l->names[likely], name) == 0) {
        *ret = likely;
    } else if (++l->found <= FEW_NAMES) {
        *ret = look_through(l, name);
    } else {
        rc = l->index.entries == NULL ? name_index_init(&l->index, l->names, l->count, err) : 0;
        *ret = rc == 0 ? name_index_find(&l->index, name) : -1;
    }
    return rc;
}

struct columns {
    struct lookup names;
    unsigned char *roles; /* [columns] */
};

static int assign(struct columns *c, const char *name, enum role role, const char *key,
                  int64_t position, struct err *err)
{
    int64_t at = -1;
    const int rc = lookup_find(&c->names, name, -1, &at, err);
    if (rc < 0) {
        return rc;
    }
    if (at < 0) {
        return field_error(err, key, position, "The data set has no column \"%.64s\".", name);
    }
    if (c->roles[at] != ROLE_NONE) {
        return field_error(err, key, position, "The column \"%.64s\" is %s already.", name,
                           role_names[c->roles[at]]);
    }
    c->roles[at] = (unsigned char)role;
    return 0;
}

static int assign_targets(const struct job_spec *spec, const struct dataset_info *info,
                          struct columns *c, struct err *err)
{
    for (int64_t i = 0; spec->targets == 0 && i < info->targets; i++) {
        c->roles[info->target_columns[i]] = ROLE_TARGET;
    }
    for (int64_t i = 0; i < spec->targets; i++) {
        const int64_t position = spec->targets == 1 ? FIELD_WHOLE : i;
        const int rc = assign(c, spec->target_names[i], ROLE_TARGET, "target", position, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int assign_mask(const struct job_spec *spec, struct columns *c, struct err *err)
{
    if (spec->test.kind != SPEC_TEST_MASK) {
        return 0;
    }
    const int rc = assign(c, spec->test.mask, ROLE_MASK, "mask", FIELD_WHOLE, err);
    if (rc < 0) {
        err_prefix(err, "#/test");
    }
    return rc;
}

static bool predicts(const struct job_spec *spec, const char *column)
{
    for (int64_t i = 0; i < spec->targets; i++) {
        if (strcmp(spec->target_names[i], column) == 0) {
            return true;
        }
    }
    return false;
}

void job_spec_mark_siblings(const struct job_spec *spec, const struct dataset_info *info,
                            bool *siblings)
{
    int64_t predicted = 0;
    for (int64_t i = 0; i < info->targets; i++) {
        predicted += predicts(spec, info->column_names[info->target_columns[i]]);
    }
    for (int64_t i = 0; predicted > 0 && i < info->targets; i++) {
        const int64_t column = info->target_columns[i];
        siblings[column] = !predicts(spec, info->column_names[column]);
    }
}

static int assign_features(const struct job_spec *spec, const struct dataset_info *info,
                           struct columns *c, struct err *err)
{
    bool *siblings cleanup_mem = mem_zarray((size_t)info->columns, sizeof(*siblings));
    if (siblings == NULL) {
        return err_no_memory(err);
    }
    job_spec_mark_siblings(spec, info, siblings);
    for (int64_t i = 0; i < spec->features; i++) {
        const int rc = assign(c, spec->feature_names[i], ROLE_FEATURE, "features", i, err);
        if (rc < 0) {
            return rc;
        }
    }
    for (int64_t i = 0; spec->features == 0 && i < c->names.count; i++) {
        if (c->roles[i] == ROLE_NONE && !siblings[i]) {
            c->roles[i] = ROLE_FEATURE;
        }
    }
    return 0;
}

static int check_features(const struct job_spec *spec, const struct columns *c, struct err *err)
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
                       const struct columns *c)
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
static int64_t first_target(const struct dataset_info *info, const struct columns *c)
{
    int64_t i = 0;
    while (i + 1 < info->columns && c->roles[i] != ROLE_TARGET) {
        i++;
    }
    return i;
}

static int check_task(const struct job_spec *spec, const struct dataset_info *info,
                      const struct columns *c, struct err *err)
{
    if (spec->task == TASK_CLASSIFICATION &&
        (info->task != TASK_CLASSIFICATION || !own_target(spec, info, c))) {
        return no_classes(info, first_target(info, c), err);
    }
    return 0;
}

/* Once the task is known to fit: "auto" classifies where the target is the class column. */
static bool classifies(const struct job_spec *spec, const struct dataset_info *info,
                       const struct columns *c)
{
    return info->task == TASK_CLASSIFICATION && spec->task != TASK_REGRESSION &&
           own_target(spec, info, c);
}

/* Else the job would be trained, and its model could not be told of. */
static int check_names(const struct job_spec *spec, const struct dataset_info *info,
                       const struct columns *c, struct err *err)
{
    int64_t size = 0;
    for (int64_t i = 0; i < info->columns; i++) {
        const int times = c->roles[i] == ROLE_FEATURE ? 1 : c->roles[i] == ROLE_TARGET ? 2 : 0;
        size += times > 0 ? times * name_json_size(info->column_names[i]) : 0;
    }
    for (int64_t i = 0; i < info->classes && classifies(spec, info, c); i++) {
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

/* What was filled in would be learned, or would decide who tests. Rows without a target of the
 * upload's own have been left out. `of`: whose rows, where they are others than the job's. */
static int check_filled(const struct dataset_info *info, int64_t column, enum role role,
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
static int check_indicator(const struct dataset_info *info, const struct columns *c, int64_t column,
                           struct err *err)
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

static int check_all_filled(const struct dataset_info *info, const struct columns *c,
                            struct err *err)
{
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < info->columns; i++) {
        rc = check_filled(info, i, (enum role)c->roles[i], NULL, err);
        rc = rc == 0 ? check_indicator(info, c, i, err) : rc;
    }
    return rc;
}

/* Of the rows that test, whose targets have other places there. */
static int check_tested_filled(const struct dataset_info *info, const struct columns *c,
                               const struct dataset_info *tested, struct err *err)
{
    cleanup_lookup struct lookup there = {.names = tested->column_names, .count = tested->columns};
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < info->columns; i++) {
        int64_t at = -1;
        if (c->roles[i] == ROLE_TARGET) {
            rc = lookup_find(&there, info->column_names[i], i, &at, err);
            rc = rc == 0 && at >= 0
                     ? check_filled(tested, at, ROLE_TARGET, " of the test data set", err)
                     : rc;
        }
    }
    return rc;
}

static int check_promotion(const struct job_spec *spec, const struct dataset_info *info,
                           const struct columns *c, struct err *err)
{
    const bool tested = spec->test.kind != SPEC_TEST_FRACTION || spec->test.fraction > 0;
    return promote_check(&spec->promote, classifies(spec, info, c) ? info->classes : 0, tested,
                         err);
}

static int check_metric(const struct job_spec *spec, const struct dataset_info *info,
                        const struct columns *c, struct err *err)
{
    const enum search_metric metric = spec->search.metric;
    if (!spec->search.wanted || metric == SEARCH_AUTO || metric == SEARCH_EVIDENCE) {
        return 0;
    }
    const bool classes = classifies(spec, info, c);
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

static int columns_init(const struct dataset_info *info, struct columns *ret, struct err *err)
{
    ret->roles = mem_zalloc((size_t)info->columns);
    ret->names = (struct lookup){.names = info->column_names, .count = info->columns};
    return ret->roles == NULL ? err_no_memory(err) : 0;
}

static void columns_deinit(struct columns *c)
{
    lookup_deinit(&c->names);
    mem_free(c->roles);
}

static int assign_all(const struct job_spec *spec, const struct dataset_info *info,
                      struct columns *c, struct err *err)
{
    int rc = assign_targets(spec, info, c, err);
    rc = rc < 0 ? rc : assign_mask(spec, c, err);
    return rc < 0 ? rc : assign_features(spec, info, c, err);
}

int job_spec_check_columns(const struct job_spec *spec, const struct dataset_info *info,
                           struct err *err)
{
    __attribute__((cleanup(columns_deinit))) struct columns c = {.roles = NULL};
    int rc = columns_init(info, &c, err);
    rc = rc < 0 ? rc : assign_all(spec, info, &c, err);
    rc = rc < 0 ? rc : check_features(spec, &c, err);
    rc = rc < 0 ? rc : check_all_filled(info, &c, err);
    rc = rc < 0 ? rc : check_task(spec, info, &c, err);
    rc = rc < 0 ? rc : check_names(spec, info, &c, err);
    rc = rc < 0 ? rc : check_metric(spec, info, &c, err);
    return rc < 0 ? rc : check_promotion(spec, info, &c, err);
}

/* The job's features and targets have to be among the columns there; the first that are not are
 * named together. */
static int find_missing(const struct columns *c, const struct dataset_info *info,
                        const struct dataset_info *tested, struct err *err)
{
    cleanup_lookup struct lookup there = {.names = tested->column_names, .count = tested->columns};
    cleanup_buf struct buf names = BUF_INIT;
    int64_t missing = 0;
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < info->columns; i++) {
        const char *name = info->column_names[i];
        const bool wanted = c->roles[i] == ROLE_FEATURE || c->roles[i] == ROLE_TARGET;
        int64_t at = -1;
        rc = wanted ? lookup_find(&there, name, i, &at, err) : 0;
        if (rc == 0 && wanted && at < 0 && ++missing <= NAMES_SHOWN) {
            buf_printf(&names, "%s\"%.48s\"", missing > 1 ? ", " : "", name);
        }
    }
    if (rc == 0 && missing > 0) {
        rc = err_at(err, ERR_INVALID, "#/test/dataset",
                    "The test data set lacks columns of the training data: %s%s.",
                    names.failed ? "" : names.data, missing > NAMES_SHOWN ? " and more" : "");
    }
    return rc;
}

/* Every class of a data set has a row there. */
static int check_tested_classes(const struct dataset_info *info, const struct dataset_info *tested,
                                struct err *err)
{
    const char *target = info->column_names[info->target_columns[0]];
    if (tested->task != TASK_CLASSIFICATION ||
        strcmp(tested->column_names[tested->target_columns[0]], target) != 0) {
        return err_at(err, ERR_INVALID, "#/test/dataset",
                      "The test data set's target holds numbers, not classes; upload it for "
                      "classification.");
    }
    cleanup_lookup struct lookup known = {.names = info->class_labels, .count = info->classes};
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < tested->classes; i++) {
        int64_t at = -1;
        rc = lookup_find(&known, tested->class_labels[i], i, &at, err);
        if (rc == 0 && at < 0) {
            rc = err_at(err, ERR_INVALID, "#/test/dataset",
                        "The test data set has the class \"%.64s\", which the training data set "
                        "does not have.",
                        tested->class_labels[i]);
        }
    }
    return rc;
}

int job_spec_check_tested(const struct job_spec *spec, const struct dataset_info *info,
                          const struct dataset_info *tested, struct err *err)
{
    __attribute__((cleanup(columns_deinit))) struct columns c = {.roles = NULL};
    int rc = columns_init(info, &c, err);
    rc = rc < 0 ? rc : assign_all(spec, info, &c, err);
    rc = rc < 0 ? rc : find_missing(&c, info, tested, err);
    rc = rc < 0 ? rc : check_tested_filled(info, &c, tested, err);
    return rc == 0 && classifies(spec, info, &c) ? check_tested_classes(info, tested, err) : rc;
}

int job_spec_check_centers(const struct job_spec *spec, const struct dataset_info *info,
                           const struct dataset_info *centers, struct err *err)
{
    __attribute__((cleanup(columns_deinit))) struct columns c = {.roles = NULL};
    cleanup_lookup struct lookup there = {.names = centers->column_names,
                                          .count = centers->columns};
    int rc = columns_init(info, &c, err);
    rc = rc < 0 ? rc : assign_all(spec, info, &c, err);
    for (int64_t i = 0; rc == 0 && i < info->columns; i++) {
        const char *name = info->column_names[i];
        int64_t at = -1;
        rc = c.roles[i] == ROLE_FEATURE ? lookup_find(&there, name, i, &at, err) : 0;
        if (rc == 0 && c.roles[i] == ROLE_FEATURE && at < 0) {
            rc = err_at(err, ERR_INVALID, "#/centers/dataset",
                        "The data set of the centers has no column \"%.64s\", a feature of the "
                        "job.",
                        name);
        }
    }
    return rc;
}

/* Names of the job's features, in their order, borrowed; `ret` has room for info->columns. */
static int64_t list_features(const struct job_spec *spec, const struct dataset_info *info,
                             const struct columns *c, const char **ret)
{
    int64_t count = 0;
    for (int64_t i = 0; i < spec->features; i++) {
        ret[count++] = spec->feature_names[i];
    }
    for (int64_t i = 0; spec->features == 0 && i < info->columns; i++) {
        if (c->roles[i] == ROLE_FEATURE) {
            ret[count++] = info->column_names[i];
        }
    }
    return count;
}

static const char start_pointer[] = "#/warm_start";

static int check_start_features(const struct start_model *m, const char *const *names,
                                int64_t count, struct err *err)
{
    if (m->features != count) {
        return err_at(err, ERR_INVALID, start_pointer,
                      "The earlier model has %" PRId64 " features, this job has %" PRId64 ".",
                      m->features, count);
    }
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(m->feature_names[i], names[i]) != 0) {
            return err_at(err, ERR_INVALID, start_pointer,
                          "Feature %" PRId64 " of the earlier model is \"%.64s\", of this job "
                          "\"%.64s\".",
                          i + 1, m->feature_names[i], names[i]);
        }
    }
    return 0;
}

static int check_start_classes(const struct start_model *m, const struct dataset_info *info,
                               struct err *err)
{
    if (m->classes != info->classes) {
        return err_at(err, ERR_INVALID, start_pointer,
                      "The earlier model has %" PRId64 " classes, this job has %" PRId64 ".",
                      m->classes, info->classes);
    }
    for (int64_t i = 0; i < m->classes; i++) {
        if (strcmp(m->class_labels[i], info->class_labels[i]) != 0) {
            return err_at(err, ERR_INVALID, start_pointer,
                          "Class %" PRId64 " of the earlier model is \"%.64s\", of this job "
                          "\"%.64s\".",
                          i + 1, m->class_labels[i], info->class_labels[i]);
        }
    }
    return 0;
}

static int check_start_targets(const struct job_spec *spec, const struct start_model *m,
                               const struct dataset_info *info, const struct columns *c,
                               struct err *err)
{
    const bool classes = classifies(spec, info, c);
    if ((m->classes > 0) != classes) {
        return err_at(err, ERR_INVALID, start_pointer, "The earlier model is of another task: %s.",
                      task_name(m->classes > 0 ? TASK_CLASSIFICATION : TASK_REGRESSION));
    }
    const int64_t targets = spec->targets > 0 ? spec->targets : info->targets;
    if (!classes && m->targets != targets) {
        return err_at(err, ERR_INVALID, start_pointer,
                      "The earlier model has %" PRId64 " targets, this job has %" PRId64 ".",
                      m->targets, targets);
    }
    return classes ? check_start_classes(m, info, err) : 0;
}

int job_spec_check_start(const struct job_spec *spec, const struct dataset_info *info,
                         const struct start_model *m, struct err *err)
{
    __attribute__((cleanup(columns_deinit))) struct columns c = {.roles = NULL};
    cleanup_mem const char **names = mem_array((size_t)info->columns, sizeof(*names));
    int rc = names != NULL ? columns_init(info, &c, err) : err_no_memory(err);
    rc = rc < 0 ? rc : assign_all(spec, info, &c, err);
    if (rc == 0) {
        const int64_t count = list_features(spec, info, &c, names);
        rc = check_start_features(m, names, count, err);
    }
    return rc < 0 ? rc : check_start_targets(spec, m, info, &c, err);
}
