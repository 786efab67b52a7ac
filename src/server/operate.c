#include "server/operate.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/keys.h"
#include "store/maintain.h"
#include "store/shrink.h"
#include "wire/dataset.h"
#include "wire/model_file.h"

static void database_path(const struct config *c, char ret[APP_PATH_MAX])
{
    snprintf(ret, APP_PATH_MAX, "%s/krrd.db", c->data_dir);
}

static int print_answer(const struct json *j, int code)
{
    cleanup_mem char *text = j ? json_print(j) : NULL;
    return text && puts(text) >= 0 && fflush(stdout) == 0 ? code : 1;
}

int operate_backup(const struct config *c, const char *to)
{
    char path[APP_PATH_MAX];
    struct err err;
    database_path(c, path);
    if (store_backup(path, to, &err) < 0) {
        fprintf(stderr, "krrd backup: %s\n", err.detail);
        return 1;
    }
    cleanup_json struct json *j = json_new_object();
    json_set_bool(j, "ok", true);
    json_set_string(j, "file", to);
    return print_answer(j, 0);
}

/* ---- check ---- */

struct checking {
    const struct config *config;
    struct json *problems;
};

static int check_dataset(void *context, const char *id, int64_t rows, int64_t columns,
                         struct err *err)
{
    const struct checking *c = context;
    char path[APP_PATH_MAX];
    struct dataset *d = NULL;
    snprintf(path, sizeof path, "%s/datasets/%s.krds", c->config->data_dir, id);
    const int r = dataset_open(path, &d, err);
    if (r < 0) {
        return r;
    }
    const bool same = d->info.rows == rows && d->info.columns == columns;
    const int rc =
        same ? dataset_check(d, err)
             : err_set(err, ERR_CORRUPT,
                       "Its file does not have as many rows and columns as its row says.");
    dataset_free(d);
    return rc;
}

/* As the serving worker opens it, but for what it takes to predict. */
static int check_model(void *context, const char *description, const void *file, size_t size,
                       struct err *err)
{
    (void)context;
    struct model_file model = {.m = 0};
    cleanup_json struct json *j = NULL;
    const int rc = model_file_open(file, size, &model, NULL, err);
    if (rc < 0) {
        return rc;
    }
    const bool fits = description && json_parse(description, strlen(description), &j, NULL) == 0 &&
                      json_size(json_get(j, "features")) == model.d &&
                      json_size(json_get(j, "targets")) == model.outputs;
    model_file_deinit(&model);
    return fits ? 0 : err_set(err, ERR_CORRUPT, "The description of its row does not fit it.");
}

static void add_problem(void *context, const char *kind, const char *id, const char *detail)
{
    const struct checking *c = context;
    struct json *j = json_push(c->problems, json_new_object());
    json_set_string(j, "kind", kind);
    json_set_string(j, "id", id);
    json_set_string(j, "detail", detail);
}

int operate_check(const struct config *config)
{
    char path[APP_PATH_MAX];
    struct err err;
    cleanup_json struct json *answer = json_new_object();
    cleanup_json struct json *problems = json_new_array();
    struct checking c = {.config = config, .problems = problems};
    struct store_check check = {
        .dataset = check_dataset, .model = check_model, .problem = add_problem, .context = &c};
    database_path(config, path);
    if (store_check(path, &check, &err) < 0) {
        add_problem(&c, "database", "", err.detail);
    }
    const bool ok = problems && json_size(problems) == 0;
    json_set_bool(answer, "ok", ok);
    json_set_int(answer, "datasets", check.datasets);
    json_set_int(answer, "models", check.models);
    json_set(answer, "problems", problems);
    problems = NULL;
    return print_answer(answer, ok ? 0 : 1);
}

/* ---- compact ---- */

int operate_compact(const struct config *c)
{
    char path[APP_PATH_MAX];
    int64_t before = 0, after = 0;
    struct err err;
    database_path(c, path);
    if (store_compact(path, &before, &after, &err) < 0) {
        fprintf(stderr, "krrd compact: %s\n", err.detail);
        return 1;
    }
    cleanup_json struct json *j = json_new_object();
    json_set_bool(j, "ok", true);
    json_set_int(j, "bytes_before", before);
    json_set_int(j, "bytes_after", after);
    return print_answer(j, 0);
}

/* ---- key ---- */

int operate_key(const struct config *c, const char *name, const char *scopes)
{
    char text[KEY_TEXT_SIZE];
    struct err err;
    if (c->api_keys[0] == '\0') {
        fprintf(stderr, "krrd key: name the file with --api-keys.\n");
        return 1;
    }
    if (keys_add(c->api_keys, name, scopes, text, &err) < 0) {
        fprintf(stderr, "krrd key: %s\n", err.detail);
        return 1;
    }
    return puts(text) >= 0 && fflush(stdout) == 0 ? 0 : 1;
}
