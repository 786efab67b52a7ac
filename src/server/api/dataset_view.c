#include "server/api/dataset_view.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

static void add_strings(struct json *to, const char *key, char *const *texts, int64_t count)
{
    struct json *list = json_set_array(to, key);
    for (int64_t i = 0; i < count; i++) {
        json_push(list, json_new_string(texts[i]));
    }
}

/* Every column that is no target. There may be many of both, so the targets are marked first. */
static bool add_features(struct json *to, const struct dataset_info *info)
{
    bool *is_target cleanup_mem = mem_zarray((size_t)info->columns, sizeof(*is_target));
    if (is_target == NULL) {
        return false;
    }
    for (int64_t i = 0; i < info->targets; i++) {
        is_target[info->target_columns[i]] = true;
    }
    struct json *list = json_set_array(to, "features");
    for (int64_t i = 0; i < info->columns; i++) {
        if (!is_target[i]) {
            json_push(list, json_new_string(info->column_names[i]));
        }
    }
    return true;
}

/* One name, or an array when there are several. */
static void add_target(struct json *to, const struct dataset_info *info)
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

static struct json *view_of(const struct dataset_row *row, const struct dataset_info *info,
                            bool full)
{
    char created[CLOCK_STAMP_SIZE];
    clock_stamp(row->created_ms, created);
    struct json *view = json_new_object();
    json_set_string(view, "id", row->id);
    json_set_string(view, "object", "dataset");
    json_set_string(view, "name", row->name);
    json_set_int(view, "rows", row->rows);
    json_set_int(view, "columns", row->columns);
    if (full && !add_features(view, info)) {
        return json_free(view);
    }
    add_target(view, info);
    json_set_string(view, "task", task_name(info->task));
    add_strings(view, "classes", info->class_labels, info->classes);
    json_set_string(view, "dtype", dtype_name(info->dtype));
    json_set_int(view, "bytes", row->bytes);
    json_set_string(view, "sha256", row->sha256);
    json_set_string(view, "created_at", created);
    if (full) {
        add_strings(view, "warnings", info->warning_texts, info->warnings);
    }
    return view;
}

static int read_info(const struct dataset_row *row, struct dataset_info *ret, struct err *err)
{
    struct json *j cleanup_json = NULL;
    int rc = json_parse(row->info, strlen(row->info), &j, err);
    rc = rc == 0 ? dataset_info_from_json(j, ret, err) : rc;
    return rc == 0 || rc == -ERR_NO_MEMORY
               ? rc
               : err_set(err, ERR_CORRUPT, "A data set's description is damaged.");
}

struct json *dataset_view(const struct dataset_row *row, bool full, struct err *err)
{
    struct dataset_info info;
    if (read_info(row, &info, err) != 0) {
        return NULL;
    }
    struct json *view = view_of(row, &info, full);
    dataset_info_deinit(&info);
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
    add_strings(view, "columns", info->column_names, columns);
    struct json *list = json_set_array(view, "rows");
    for (int64_t i = 0; i < rows && i < info->rows; i++) {
        struct json *row = json_push(list, json_new_array());
        for (int64_t j = 0; j < columns; j++) {
            json_push(row, json_new_number(dataset_at(d, i, j)));
        }
    }
    return view;
}
