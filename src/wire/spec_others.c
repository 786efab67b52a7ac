/* job_spec_check_tested, _centers and _start: a spec against what else it names. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "wire/dataset_match.h"
#include "wire/spec_roles.h"

/* Of the rows that test, whose targets have other places there. */
static int check_tested_filled(const struct dataset_info *info, const struct spec_roles *c,
                               const struct dataset_info *tested, struct err *err)
{
    cleanup_name_lookup struct name_lookup there = {.names = tested->column_names,
                                                    .count = tested->columns};
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < info->columns; i++) {
        int64_t at = -1;
        if (c->roles[i] == ROLE_TARGET) {
            rc = name_lookup_find(&there, info->column_names[i], i, &at, err);
            rc = rc == 0 && at >= 0
                     ? spec__check_filled(tested, at, ROLE_TARGET, " of the test data set", err)
                     : rc;
        }
    }
    return rc;
}

/* The job's features, and its targets where they are wanted, have to be among the columns there. */
static int match_roles(const struct spec_roles *c, bool targets, struct dataset_match *m,
                       struct err *err)
{
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < m->info->columns; i++) {
        int64_t at = -1;
        if (c->roles[i] == ROLE_FEATURE) {
            rc = dataset_match_feature(m, i, &at, err);
        } else if (targets && c->roles[i] == ROLE_TARGET) {
            rc = dataset_match_target(m, i, &at, err);
        }
    }
    return rc;
}

static int check_match(const struct spec_roles *c, bool targets, const struct dataset_info *info,
                       const struct dataset_info *other, struct err *err)
{
    struct dataset_match m;
    dataset_match_init(&m, info, other);
    int rc = match_roles(c, targets, &m, err);
    rc = rc < 0 ? rc
                : dataset_match_end(&m, targets ? "#/test/dataset" : "#/centers/dataset",
                                    targets ? "The test data set" : "The data set of the centers",
                                    err);
    dataset_match_deinit(&m);
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
    cleanup_name_lookup struct name_lookup known = {.names = info->class_labels,
                                                    .count = info->classes};
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < tested->classes; i++) {
        int64_t at = -1;
        rc = name_lookup_find(&known, tested->class_labels[i], i, &at, err);
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
    cleanup_roles struct spec_roles c = {.roles = NULL};
    int rc = spec__assign_roles(spec, info, &c, err);
    rc = rc < 0 ? rc : check_match(&c, true, info, tested, err);
    rc = rc < 0 ? rc : check_tested_filled(info, &c, tested, err);
    return rc == 0 && spec__classifies(spec, info, &c) ? check_tested_classes(info, tested, err)
                                                       : rc;
}

int job_spec_check_centers(const struct job_spec *spec, const struct dataset_info *info,
                           const struct dataset_info *centers, struct err *err)
{
    cleanup_roles struct spec_roles c = {.roles = NULL};
    const int rc = spec__assign_roles(spec, info, &c, err);
    return rc < 0 ? rc : check_match(&c, false, info, centers, err);
}

/* Names of the job's features, in their order, borrowed; `ret` has room for info->columns. */
static int64_t list_features(const struct job_spec *spec, const struct dataset_info *info,
                             const struct spec_roles *c, const char **ret)
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
                               const struct dataset_info *info, const struct spec_roles *c,
                               struct err *err)
{
    const bool classes = spec__classifies(spec, info, c);
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
    cleanup_roles struct spec_roles c = {.roles = NULL};
    cleanup_mem const char **names = mem_array((size_t)info->columns, sizeof(*names));
    int rc = names != NULL ? spec__assign_roles(spec, info, &c, err) : err_no_memory(err);
    if (rc == 0) {
        const int64_t count = list_features(spec, info, &c, names);
        rc = check_start_features(m, names, count, err);
    }
    return rc < 0 ? rc : check_start_targets(spec, m, info, &c, err);
}
