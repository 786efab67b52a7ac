#include "wire/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "wire/field.h"
#include "wire/names.h"

static const char *const task_names[] = {
    [TASK_AUTO] = "auto",
    [TASK_REGRESSION] = "regression",
    [TASK_CLASSIFICATION] = "classification",
};

const char *task_name(enum task t)
{
    return task_names[t];
}

int task_parse(const char *name, enum task *ret, struct err *err)
{
    for (size_t i = 0; i < sizeof(task_names) / sizeof(task_names[0]); i++) {
        if (strcmp(task_names[i], name) == 0) {
            *ret = (enum task)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "Expected \"auto\", \"regression\" or \"classification\".");
}

void dataset_info_deinit(struct dataset_info *info)
{
    names_free(info->column_names, info->columns);
    mem_free(info->target_columns);
    names_free(info->class_labels, info->classes);
    names_free(info->warning_texts, info->warnings);
    mem_free(info->missing.fill);
    mem_free(info->missing.made_up);
    mem_free(info->missing.indicates);
    dataset_words_deinit(&info->words);
    *info = (struct dataset_info){.rows = 0};
}

static void write_indicates(struct json *to, const struct dataset_info *info)
{
    struct json *list = json_set_array(to, "indicates");
    for (int64_t i = 0; i < info->columns; i++) {
        const int64_t of = info->missing.indicates[i];
        json_push(list, of >= 0 ? json_new_number((double)of) : json_new_null());
    }
}

static void write_missing(struct json *to, const struct dataset_info *info)
{
    const struct dataset_missing *m = &info->missing;
    struct json *j = json_set_object(to, "missing");
    json_set_int(j, "dropped_rows", m->dropped_rows);
    json_set_int(j, "filled", m->filled);
    if (m->fill == NULL) {
        json_set(j, "fill", json_new_null());
        json_set(j, "made_up", json_new_null());
        return;
    }
    struct json *list = json_set_array(j, "fill");
    struct json *counts = json_set_array(j, "made_up");
    for (int64_t i = 0; i < info->columns; i++) {
        json_push(list, isfinite(m->fill[i]) ? json_new_number(m->fill[i]) : json_new_null());
        json_push(counts, json_new_number((double)m->made_up[i]));
    }
    if (m->indicates != NULL) {
        write_indicates(j, info);
    }
}

int dataset_info_to_json(const struct dataset_info *info, struct json **ret, struct err *err)
{
    struct json *j cleanup_json = json_new_object();
    json_set_int(j, "rows", info->rows);
    json_set_int(j, "columns", info->columns);
    json_set_string(j, "dtype", dtype_name(info->dtype));
    names_write(j, "column_names", info->column_names, info->columns);
    struct json *targets = json_set_array(j, "target_columns");
    for (int64_t i = 0; i < info->targets; i++) {
        json_push(targets, json_new_number((double)info->target_columns[i]));
    }
    json_set_string(j, "task", task_name(info->task));
    json_set_int(j, "classes", info->classes);
    names_write(j, "class_labels", info->class_labels, info->classes);
    names_write(j, "warnings", info->warning_texts, info->warnings);
    if (info->missing.allowed) {
        write_missing(j, info);
    }
    dataset_words_write(j, &info->words);
    if (!json_ok(j)) {
        return err_no_memory(err);
    }
    *ret = j;
    j = NULL;
    return 0;
}

static int read_count(const struct json *j, const char *key, int64_t least, int64_t *ret,
                      struct err *err)
{
    const struct json *found = json_get(j, key);
    int64_t v = 0;
    if (!field_count(found, &v) || v < least) {
        return field_wrong(err, key, FIELD_WHOLE, found, "a whole number of at least %" PRId64,
                           least);
    }
    *ret = v;
    return 0;
}

/* rows, columns and their names, element type. */
static int read_matrix(const struct json *j, struct dataset_info *info, struct err *err)
{
    int64_t columns = 0;
    int rc = read_count(j, "rows", 1, &info->rows, err);
    rc = rc < 0 ? rc : read_count(j, "columns", 1, &columns, err);
    const char *name = NULL;
    rc = rc < 0 ? rc : field_text(j, "dtype", &name, err);
    if (rc < 0) {
        return rc;
    }
    if (dtype_parse(name, &info->dtype, NULL) < 0) {
        return field_wrong(err, "dtype", FIELD_WHOLE, json_get(j, "dtype"),
                           "\"float32\" or \"float64\"");
    }
    rc = names_read(j, "column_names", 1, DATASET_COLUMNS_MAX, &info->column_names, &info->columns,
                    err);
    if (rc < 0) {
        return rc;
    }
    if (info->columns != columns) {
        return field_error(err, "column_names", FIELD_WHOLE,
                           "There are %" PRId64 " names for %" PRId64 " columns.", info->columns,
                           columns);
    }
    return names_check_distinct(info->column_names, info->columns, "column_names", err);
}

/* Fills targets[0..count) and refuses what is out of range or there twice. */
static int read_positions(const struct json *list, int64_t columns, int64_t *targets,
                          struct err *err)
{
    char *seen cleanup_mem = mem_zalloc((size_t)columns);
    if (seen == NULL) {
        return err_no_memory(err);
    }
    int64_t i = 0;
    for (const struct json *item = json_first(list); item != NULL; item = json_next(item), i++) {
        int64_t column = 0;
        if (!field_count(item, &column) || column >= columns || seen[column]) {
            return field_wrong(err, "target_columns", i, item,
                               "the index of a column that is not there twice");
        }
        seen[column] = 1;
        targets[i] = column;
    }
    return 0;
}

static int read_targets(const struct json *j, struct dataset_info *info, struct err *err)
{
    const struct json *list = json_get(j, "target_columns");
    if (list == NULL || json_type(list) != JSON_ARRAY || json_size(list) < 1 ||
        json_size(list) > info->columns) {
        return field_wrong(err, "target_columns", FIELD_WHOLE, list,
                           "an array of one or more column indices");
    }
    info->targets = json_size(list);
    info->target_columns = mem_zarray((size_t)info->targets, sizeof(*info->target_columns));
    if (info->target_columns == NULL) {
        return err_no_memory(err);
    }
    return read_positions(list, info->columns, info->target_columns, err);
}

static int read_classes(const struct json *j, struct dataset_info *info, struct err *err)
{
    const char *name = NULL;
    int64_t classes = 0;
    int rc = field_text(j, "task", &name, err);
    rc = rc < 0 ? rc : read_count(j, "classes", 0, &classes, err);
    if (rc < 0) {
        return rc;
    }
    if (task_parse(name, &info->task, NULL) < 0 || info->task == TASK_AUTO) {
        return field_wrong(err, "task", FIELD_WHOLE, json_get(j, "task"),
                           "\"regression\" or \"classification\"");
    }
    rc = names_read(j, "class_labels", 0, DATASET_CLASSES_MAX, &info->class_labels, &info->classes,
                    err);
    if (rc < 0) {
        return rc;
    }
    const bool classify = info->task == TASK_CLASSIFICATION;
    if (classes != info->classes || (classes > 0) != classify || (classify && info->targets > 1)) {
        return field_error(err, "classes", FIELD_WHOLE,
                           "The classes do not fit their labels, the task or the targets.");
    }
    return names_check_distinct(info->class_labels, info->classes, "class_labels", err);
}

/* A number for each column, or null. */
static int read_fill(const struct json *list, struct dataset_info *info, struct err *err)
{
    if (list != NULL && json_type(list) == JSON_NULL) {
        return 0;
    }
    if (list == NULL || json_type(list) != JSON_ARRAY || json_size(list) != info->columns) {
        return field_wrong(err, "fill", FIELD_WHOLE, list, "null, or an element for each column");
    }
    double *fill = info->missing.fill = mem_array((size_t)info->columns, sizeof(*fill));
    if (fill == NULL) {
        return err_no_memory(err);
    }
    for (const struct json *item = json_first(list); item != NULL; item = json_next(item), fill++) {
        const bool number = json_type(item) == JSON_NUMBER;
        if (!number && json_type(item) != JSON_NULL) {
            return field_wrong(err, "fill", fill - info->missing.fill, item, "a number or null");
        }
        *fill = number ? json_number(item) : NAN;
    }
    return 0;
}

/* A count for each column, where there is a fill value. */
static int read_made_up(const struct json *list, struct dataset_info *info, struct err *err)
{
    const bool none = info->missing.fill == NULL;
    const bool null = list != NULL && json_type(list) == JSON_NULL;
    if (none && null) {
        return 0;
    }
    if (none || list == NULL || json_type(list) != JSON_ARRAY || json_size(list) != info->columns) {
        return field_wrong(err, "made_up", FIELD_WHOLE, list, "of the form of \"fill\"");
    }
    int64_t *count = info->missing.made_up = mem_array((size_t)info->columns, sizeof(*count));
    if (count == NULL) {
        return err_no_memory(err);
    }
    for (const struct json *item = json_first(list); item != NULL;
         item = json_next(item), count++) {
        if (!field_count(item, count) || *count > info->rows) {
            return field_wrong(err, "made_up", count - info->missing.made_up, item,
                               "a number of rows");
        }
    }
    return 0;
}

/* Of each column another one, which is none of those itself, or null; only with fill values. */
static int read_indicates(const struct json *list, struct dataset_info *info, struct err *err)
{
    if (list == NULL) {
        return 0;
    }
    if (info->missing.fill == NULL || json_type(list) != JSON_ARRAY ||
        json_size(list) != info->columns) {
        return field_wrong(err, "indicates", FIELD_WHOLE, list, "an element for each column");
    }
    int64_t *of = info->missing.indicates = mem_array((size_t)info->columns, sizeof(*of));
    if (of == NULL) {
        return err_no_memory(err);
    }
    int64_t i = 0;
    for (const struct json *item = json_first(list); item != NULL; item = json_next(item), i++) {
        of[i] = -1;
        if (json_type(item) != JSON_NULL &&
            (!field_count(item, &of[i]) || of[i] >= info->columns)) {
            return field_wrong(err, "indicates", i, item, "a column or null");
        }
    }
    for (i = 0; i < info->columns; i++) {
        if (of[i] >= 0 && of[of[i]] >= 0) {
            return field_error(err, "indicates", i, "The column tells of one that tells itself.");
        }
    }
    return 0;
}

static int read_missing(const struct json *j, struct dataset_info *info, struct err *err)
{
    static const char *const keys[] = {"dropped_rows", "filled",    "fill",
                                       "made_up",      "indicates", NULL};
    const struct json *missing = NULL;
    int rc = field_object(j, "missing", &missing, err);
    if (rc < 0 || missing == NULL) {
        return rc;
    }
    struct dataset_missing *m = &info->missing;
    m->allowed = true;
    rc = json_only_keys(missing, keys, err);
    rc = rc < 0 ? rc : read_count(missing, "dropped_rows", 0, &m->dropped_rows, err);
    rc = rc < 0 ? rc : read_count(missing, "filled", 0, &m->filled, err);
    rc = rc < 0 ? rc : read_fill(json_get(missing, "fill"), info, err);
    rc = rc < 0 ? rc : read_made_up(json_get(missing, "made_up"), info, err);
    rc = rc < 0 ? rc : read_indicates(json_get(missing, "indicates"), info, err);
    if (rc < 0) {
        err_prefix(err, "#/missing");
    }
    return rc;
}

int dataset_info_from_json(const struct json *j, struct dataset_info *ret, struct err *err)
{
    static const char *const keys[] = {"rows",     "columns", "dtype",        "column_names",
                                       "task",     "classes", "class_labels", "target_columns",
                                       "warnings", "missing", "words",        NULL};
    if (j == NULL || json_type(j) != JSON_OBJECT) {
        return err_set(err, ERR_INVALID, "The description of a data set is a JSON object.");
    }
    struct dataset_info info = {.rows = 0};
    int rc = json_only_keys(j, keys, err);
    rc = rc < 0 ? rc : read_matrix(j, &info, err);
    rc = rc < 0 ? rc : read_targets(j, &info, err);
    rc = rc < 0 ? rc : read_classes(j, &info, err);
    rc = rc < 0 ? rc
                : names_read(j, "warnings", 0, DATASET_WARNINGS_MAX, &info.warning_texts,
                             &info.warnings, err);
    rc = rc < 0 ? rc : read_missing(j, &info, err);
    rc = rc < 0 ? rc : dataset_words_read(j, info.column_names, info.columns, &info.words, err);
    if (rc < 0) {
        dataset_info_deinit(&info);
        return rc;
    }
    *ret = info;
    return 0;
}

int64_t dataset_info_column(const struct dataset_info *info, const char *name)
{
    for (int64_t i = 0; i < info->columns; i++) {
        if (strcmp(info->column_names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static int read_description(const struct tensors *t, struct dataset_info *ret, struct err *err)
{
    const char *text = tensors_metadata(t, "dataset");
    if (text == NULL) {
        return err_set(err, ERR_CORRUPT, "The file does not describe a data set.");
    }
    struct err cause = {.code = ERR_OK};
    struct json *j cleanup_json = NULL;
    int rc = json_parse(text, strlen(text), &j, &cause);
    rc = rc < 0 ? rc : dataset_info_from_json(j, ret, &cause);
    if (rc == -ERR_NO_MEMORY) {
        return err_no_memory(err);
    }
    if (rc < 0) {
        return err_set(err, ERR_CORRUPT, "The data set's description is damaged: %.300s",
                       cause.detail);
    }
    return 0;
}

/* What is not as long as a digest is none, and fits no matrix. */
static void read_sha256(const struct tensors *t, struct dataset *d)
{
    const char *text = tensors_metadata(t, DATASET_SHA256);
    snprintf(d->sha256, sizeof(d->sha256), "%s", text != NULL ? text : "");
}

static int find_matrix(const struct tensors *t, struct dataset *d, struct err *err)
{
    const struct tensor_info *m = tensors_find(t, "data");
    if (m == NULL || t->count != 1 || m->dims != 2 || m->dtype != d->info.dtype ||
        m->shape[0] != d->info.rows || m->shape[1] != d->info.columns) {
        return err_set(err, ERR_CORRUPT, "The data set's matrix does not fit its description.");
    }
    d->data = m->data;
    return 0;
}

int dataset_open(const char *path, struct dataset **ret, struct err *err)
{
    struct dataset *d = mem_zalloc(sizeof(*d));
    if (d == NULL) {
        return err_no_memory(err);
    }
    struct tensors t = {.count = 0};
    int rc = file_map_open(path, &d->map, err);
    rc = rc < 0 ? rc : tensors_open(d->map.data, d->map.size, &t, err);
    rc = rc < 0 ? rc : read_description(&t, &d->info, err);
    rc = rc < 0 ? rc : find_matrix(&t, d, err);
    read_sha256(&t, d);
    tensors_deinit(&t);
    if (rc < 0) {
        dataset_free(d);
        return rc;
    }
    *ret = d;
    return 0;
}

struct dataset *dataset_free(struct dataset *d)
{
    if (d != NULL) {
        dataset_info_deinit(&d->info);
        file_map_close(&d->map);
    }
    return mem_free(d);
}

double dataset_at(const struct dataset *d, int64_t row, int64_t column)
{
    const int64_t at = row * d->info.columns + column;
    return d->info.dtype == DTYPE_F32 ? (double)((const float *)d->data)[at]
                                      : ((const double *)d->data)[at];
}

static int check_digest(const struct dataset *d, struct err *err)
{
    const size_t size = (size_t)d->info.rows * (size_t)d->info.columns * dtype_size(d->info.dtype);
    char found[SHA256_HEX_SIZE];
    if (d->sha256[0] == '\0') {
        return 0;
    }
    if (!sha256_text(d->data, size, found)) {
        return err_no_memory(err);
    }
    return strcmp(found, d->sha256) == 0
               ? 0
               : err_set(err, ERR_CORRUPT, "The numbers do not have the digest of their file.");
}

int dataset_check(const struct dataset *d, struct err *err)
{
    const struct dataset_info *info = &d->info;
    const int64_t label = info->task == TASK_CLASSIFICATION ? info->target_columns[0] : -1;
    const int rc = check_digest(d, err);
    for (int64_t i = 0; rc == 0 && i < info->rows; i++) {
        for (int64_t j = 0; j < info->columns; j++) {
            const double v = dataset_at(d, i, j);
            const bool code = j != label || (v >= 0 && v < (double)info->classes && floor(v) == v);
            if (!isfinite(v) || !code) {
                return err_set(err, ERR_CORRUPT, "Row %lld of the column \"%.64s\" holds %s.",
                               (long long)i + 1, info->column_names[j],
                               isfinite(v) ? "no class" : "what is no number");
            }
        }
    }
    return rc;
}
