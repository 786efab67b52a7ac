#include "server/api/dataset_view.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "ingest/ingest.h"
#include "server/app.h"
#include "server/described.h"

/* A list of names as text: there may be many, of which no tree is made. `but` (NULL: none) marks
 * those that are left out. */
static void set_names(struct json *to, const char *key, char *const *names, int64_t count,
                      const bool *but)
{
    struct buf list = BUF_INIT;
    buf_char(&list, '[');
    for (int64_t i = 0; i < count; i++) {
        if (but == NULL || !but[i]) {
            buf_str(&list, list.len > 1 ? "," : "");
            buf_json_string(&list, names[i]);
        }
    }
    buf_char(&list, ']');
    json_set(to, key, list.failed ? NULL : json_new_text(list.data));
    buf_deinit(&list);
}

/* Every column that is no target. There may be many of both, so the targets are marked first. */
static void set_features(struct json *to, const struct dataset_info *info)
{
    bool *is_target cleanup_mem = mem_zarray((size_t)info->columns, sizeof(*is_target));
    for (int64_t i = 0; is_target != NULL && i < info->targets; i++) {
        is_target[info->target_columns[i]] = true;
    }
    if (is_target != NULL) {
        set_names(to, "features", info->column_names, info->columns, is_target);
    } else {
        json_set(to, "features", NULL);
    }
}

/* One name, or an array when there are several. */
static void set_target(struct json *to, const struct dataset_info *info)
{
    if (info->targets == 1) {
        json_set_string(to, "target", info->column_names[info->target_columns[0]]);
        return;
    }
    struct json *list = json_set_array(to, "target");
    for (int64_t i = 0; i < info->targets; i++) {
        json_push(list, json_new_string(info->column_names[info->target_columns[i]]));
    }
}

/* null where the upload did not take them. */
static void set_missing(struct json *to, const struct dataset_missing *m)
{
    if (!m->allowed) {
        json_set(to, "missing", json_new_null());
        return;
    }
    struct json *j = json_set_object(to, "missing");
    json_set_string(j, "rule",
                    ingest_missing_name(m->indicates != NULL ? INGEST_MISSING_INDICATE
                                        : m->fill != NULL    ? INGEST_MISSING_FILL
                                                             : INGEST_MISSING_DROP));
    json_set_int(j, "dropped_rows", m->dropped_rows);
    json_set_int(j, "filled", m->filled);
}

char *dataset_summary(const struct dataset_info *info)
{
    struct json *j cleanup_json = json_new_object();
    set_target(j, info);
    json_set_string(j, "task", task_name(info->task));
    set_names(j, "classes", info->class_labels, info->classes, NULL);
    json_set_string(j, "dtype", dtype_name(info->dtype));
    return json_print(j);
}

static struct json *view_of(const struct dataset_row *row, const struct dataset_info *info,
                            const char *summary)
{
    char created[CLOCK_STAMP_SIZE];
    clock_stamp(row->created_ms, created);
    struct json *view = json_new_object();
    json_set_string(view, "id", row->id);
    json_set_string(view, "object", "dataset");
    json_set_string(view, "name", row->name);
    json_set_int(view, "rows", row->rows);
    json_set_int(view, "columns", row->columns);
    if (info != NULL) {
        set_features(view, info);
    }
    json_add_members(view, summary);
    json_set_int(view, "bytes", row->bytes);
    json_set_string(view, "sha256", row->sha256);
    json_set_string(view, "created_at", created);
    if (info != NULL) {
        set_missing(view, &info->missing);
        set_names(view, "warnings", info->warning_texts, info->warnings, NULL);
    }
    return view;
}

char *dataset_text(const struct dataset_row *row, const struct dataset_info *info)
{
    char *summary cleanup_mem = dataset_summary(info);
    struct json *view cleanup_json = summary != NULL ? view_of(row, info, summary) : NULL;
    return json_print(view);
}

char *dataset_known_text(struct app *app, const struct dataset_row *row, struct err *err)
{
    const struct dataset_info *info;
    if (described_find(app->described, row->id, &info, err) != 0) {
        return NULL;
    }
    char *text = dataset_text(row, info);
    if (text == NULL) {
        err_no_memory(err);
    }
    return text;
}

/* Of a row that an older version has made. */
static struct json *view_without_summary(const struct dataset_row *row, struct err *err)
{
    struct dataset_info info;
    if (described_read(row->info, &info, err) != 0) {
        return NULL;
    }
    char *summary cleanup_mem = dataset_summary(&info);
    struct json *view = summary != NULL ? view_of(row, NULL, summary) : NULL;
    dataset_info_deinit(&info);
    if (view == NULL) {
        err_no_memory(err);
    }
    return view;
}

struct json *dataset_brief_view(const struct dataset_row *row, struct err *err)
{
    if (row->summary == NULL) {
        return view_without_summary(row, err);
    }
    struct json *view = view_of(row, NULL, row->summary);
    if (view == NULL) {
        err_no_memory(err);
    }
    return view;
}

struct json *dataset_preview_view(const char *id, const struct dataset *d, int64_t rows)
{
    const struct dataset_info *info = &d->info;
    const int64_t columns =
        info->columns < DATASET_PREVIEW_COLUMNS ? info->columns : DATASET_PREVIEW_COLUMNS;
    struct json *view = json_new_object();
    json_set_string(view, "dataset", id);
    set_names(view, "columns", info->column_names, columns, NULL);
    struct json *list = json_set_array(view, "rows");
    for (int64_t i = 0; i < rows && i < info->rows; i++) {
        struct json *row = json_push(list, json_new_array());
        for (int64_t j = 0; j < columns; j++) {
            json_push(row, json_new_number(dataset_at(d, i, j)));
        }
    }
    return view;
}
