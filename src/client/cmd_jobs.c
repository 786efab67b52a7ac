/* krr jobs, job, cancel, pause, resume, datasets, delete, status, health. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "client/api.h"
#include "client/args.h"
#include "client/model_name.h"
#include "client/show.h"

static const char *text_of(const struct json *obj, const char *key)
{
    return json_string(json_get(obj, key));
}

/* GET of a list: --json prints it, else print makes rows of a table of it. */
static enum exit_code show_list(struct client *c, struct buf *path, int columns,
                                const char *const *heads,
                                void (*row)(struct table *t, const struct json *item))
{
    cleanup_json struct json *list = NULL;
    const enum exit_code code = api_json(c, "GET", path->failed ? NULL : path->data, NULL, &list);
    buf_deinit(path);
    if (code != EXIT_DONE || c->json) {
        return code == EXIT_DONE ? api_print(list) : code;
    }
    struct table t;
    const struct json *data = json_get(list, "data");
    table_begin(&t, columns, heads);
    for (const struct json *item = data ? json_first(data) : NULL; item; item = json_next(item)) {
        row(&t, item);
    }
    const bool ok = table_end(&t);
    const char *last = text_of(list, "last_id");
    if (json_bool(json_get(list, "has_more")) && last) {
        show_line(stderr, "more: --after %s", last);
    }
    return ok ? EXIT_DONE : EXIT_LOCAL;
}

static void add_page(struct buf *path, const struct args *args)
{
    api_query_add(path, "limit", args_get(args, "limit"));
    api_query_add(path, "after", args_get(args, "after"));
}

/* Of what the job found, or else of where it is: what a search has solved leaves no progress. */
static void found_cell(struct table *t, const struct json *found, const struct json *progress,
                       const char *key)
{
    char value[SHOW_CELL];
    const struct json *number = json_get(found, key);
    show_member(json_type(number) == JSON_NUMBER ? found : progress, key, value);
    table_cell(t, value);
}

static void job_row(struct table *t, const struct json *job)
{
    char fraction[SHOW_CELL];
    const struct json *result = json_get(job, "result");
    const struct json *progress = json_get(job, "progress");
    const struct json *done = json_get(progress, "fraction");
    table_cell(t, text_of(job, "id"));
    table_cell(t, text_of(job, "status"));
    table_cell(t, text_of(job, "model"));
    snprintf(fraction, sizeof fraction, done ? "%.0f %%" : "-", 100 * json_number(done));
    table_cell(t, fraction);
    found_cell(t, result, progress, "relative_residual");
    found_cell(t, json_get(result, "metrics"), progress, "smape");
    table_cell(t, text_of(job, "created_at"));
}

enum exit_code cmd_jobs(struct client *c, const struct args *args)
{
    static const char *const heads[] = {"id",       "status", "model",  "done",
                                        "residual", "SMAPE",  "created"};
    struct buf path = BUF_INIT;
    buf_str(&path, "/v1/jobs");
    api_query_add(&path, "status", args_get(args, "status"));
    api_query_add(&path, "model", args_get(args, "model"));
    api_query_add(&path, "order", args_get(args, "order"));
    add_page(&path, args);
    return show_list(c, &path, 7, heads, job_row);
}

static void dataset_row(struct table *t, const struct json *d)
{
    char value[SHOW_CELL];
    table_cell(t, text_of(d, "id"));
    table_cell(t, text_of(d, "name"));
    snprintf(value, sizeof value, "%.0f", json_number(json_get(d, "rows")));
    table_cell(t, value);
    snprintf(value, sizeof value, "%.0f", json_number(json_get(d, "columns")));
    table_cell(t, value);
    table_cell(t, text_of(d, "task"));
    show_bytes(json_number(json_get(d, "bytes")), value);
    table_cell(t, value);
    table_cell(t, text_of(d, "created_at"));
}

enum exit_code cmd_datasets(struct client *c, const struct args *args)
{
    static const char *const heads[] = {"id", "name", "rows", "columns", "task", "size", "created"};
    struct buf path = BUF_INIT;
    buf_str(&path, "/v1/datasets");
    add_page(&path, args);
    return show_list(c, &path, 7, heads, dataset_row);
}

/* ---- one job ---- */

static enum exit_code on_job(struct client *c, const char *method, const char *job,
                             const char *action, struct json **ret)
{
    struct buf path = BUF_INIT;
    buf_str(&path, "/v1/jobs");
    api_path_add(&path, job);
    buf_str(&path, action);
    const enum exit_code code = api_json(c, method, path.failed ? NULL : path.data, NULL, ret);
    buf_deinit(&path);
    return code;
}

/* The job as JSON: there is no better form for all that it holds. */
enum exit_code cmd_job(struct client *c, const struct args *args)
{
    cleanup_json struct json *job = NULL;
    const enum exit_code code = on_job(c, "GET", args_operand(args, 0), "", &job);
    return code == EXIT_DONE ? api_print(job) : code;
}

static enum exit_code act(struct client *c, const struct args *args, const char *action)
{
    cleanup_json struct json *job = NULL;
    const enum exit_code code = on_job(c, "POST", args_operand(args, 0), action, &job);
    if (code != EXIT_DONE || c->json) {
        return code == EXIT_DONE ? api_print(job) : code;
    }
    const char *status = text_of(job, "status");
    show_line(stdout, "%s", status ? status : "");
    return EXIT_DONE;
}

enum exit_code cmd_cancel(struct client *c, const struct args *args)
{
    return act(c, args, "/cancel");
}

enum exit_code cmd_pause(struct client *c, const struct args *args)
{
    return act(c, args, "/pause");
}

enum exit_code cmd_resume(struct client *c, const struct args *args)
{
    return act(c, args, "/resume");
}

/* ---- the rest ---- */

/* By the id's prefix; else what a model's name may stand for (model_name.h). */
static bool deletion_path(struct buf *path, const char *id)
{
    if (strncmp(id, "job_", 4) == 0 || strncmp(id, "ds_", 3) == 0) {
        buf_str(path, id[0] == 'j' ? "/v1/jobs" : "/v1/datasets");
        api_path_add(path, id);
        return true;
    }
    return model_name_path(id, path);
}

static enum exit_code delete_path(struct client *c, const struct buf *path)
{
    cleanup_json struct json *nothing = NULL;
    return api_json(c, "DELETE", path->failed ? NULL : path->data, NULL, &nothing);
}

/* Versions behind aliases answer questions: nothing of the model goes before its aliases did. */
static bool has_aliases(const char *name, const struct json *model)
{
    const struct json *aliases = json_get(model, "aliases");
    const struct json *first = aliases ? json_first(aliases) : NULL;
    if (first) {
        const char *alias = text_of(first, "alias");
        complain("%s has the alias %s: delete it first (%s:%s)", name, alias ? alias : "-", name,
                 alias ? alias : "-");
    }
    return first != NULL;
}

/* Page by page, always the first: the versions of the one before are gone. */
static enum exit_code delete_model(struct client *c, const char *name, const struct buf *path)
{
    enum exit_code code = EXIT_DONE;
    for (bool more = true; more && code == EXIT_DONE;) {
        cleanup_json struct json *model = NULL;
        code = api_json(c, "GET", path->failed ? NULL : path->data, NULL, &model);
        if (code == EXIT_DONE && has_aliases(name, model)) {
            code = EXIT_REFUSED;
        }
        const struct json *list = code == EXIT_DONE ? json_get(model, "versions") : NULL;
        more = json_bool(json_get(model, "has_more"));
        for (const struct json *v = list ? json_first(list) : NULL; v && code == EXIT_DONE;
             v = json_next(v)) {
            struct buf one = BUF_INIT;
            buf_printf(&one, "%s/versions/%.0f", path->data, json_number(json_get(v, "version")));
            code = delete_path(c, &one);
            buf_deinit(&one);
        }
    }
    return code;
}

static enum exit_code delete_one(struct client *c, const char *id)
{
    cleanup_json struct json *said = c->json ? json_new_object() : NULL;
    struct buf path = BUF_INIT;
    enum exit_code code = EXIT_USAGE;
    if (!deletion_path(&path, id)) {
        complain("%s is no job_…, ds_…, MODEL@VERSION, MODEL:ALIAS or MODEL", id);
    } else if (strncmp(path.data ? path.data : "", "/v1/models/", 11) == 0 && !strpbrk(id, "@:")) {
        code = delete_model(c, id, &path);
    } else {
        code = delete_path(c, &path);
    }
    buf_deinit(&path);
    if (code == EXIT_DONE && said) {
        json_set_string(said, "deleted", id);
        code = api_print(said);
    }
    return code;
}

enum exit_code cmd_delete(struct client *c, const struct args *args)
{
    enum exit_code code = EXIT_DONE;
    for (int i = 0; code == EXIT_DONE && i < args->operand_count; i++) {
        code = delete_one(c, args_operand(args, i));
    }
    return code;
}

static void worker_row(struct table *t, const struct json *w)
{
    table_cell(t, text_of(w, "name"));
    table_cell(t, text_of(w, "state"));
    table_cell(t, text_of(w, "device"));
    table_cell(t, text_of(w, "job"));
    table_cell(t, text_of(w, "quarantine_reason"));
}

enum exit_code cmd_status(struct client *c, const struct args *args)
{
    static const char *const heads[] = {"worker", "state", "device", "job", "quarantine"};
    struct buf path = BUF_INIT;
    (void)args;
    buf_str(&path, "/v1/workers");
    return show_list(c, &path, 5, heads, worker_row);
}

/* "1.50 G" */
static void rate_cell(struct table *t, const struct json *obj, const char *key)
{
    const struct json *v = obj ? json_get(obj, key) : NULL;
    const bool known = v && json_type(v) == JSON_NUMBER && json_number(v) > 0;
    char text[SHOW_CELL];
    show_rate(known ? json_number(v) : NAN, text);
    table_cell(t, text);
}

static void device_row(struct table *t, const struct json *d)
{
    const struct json *memory = json_get(d, "memory");
    const struct json *rates = json_get(d, "rates");
    const struct json *left = json_get(memory, "free_bytes");
    char text[SHOW_CELL];
    table_cell(t, text_of(d, "name"));
    snprintf(text, sizeof text, "%.0f of %lld", json_number(json_get(d, "busy_workers")),
             (long long)json_size(json_get(d, "workers")));
    table_cell(t, text);
    show_bytes(json_number(json_get(memory, "total_bytes")), text);
    table_cell(t, text);
    const bool known = left && json_type(left) == JSON_NUMBER;
    show_bytes(known ? json_number(left) : 0, text);
    table_cell(t, known ? text : NULL);
    rate_cell(t, d, "kernel_entries_per_s");
    rate_cell(t, rates, "kernel_values_float32_per_s");
    rate_cell(t, rates, "kernel_values_float64_per_s");
}

enum exit_code cmd_devices(struct client *c, const struct args *args)
{
    static const char *const heads[] = {"device",    "busy",        "memory",     "free",
                                        "entries/s", "float32 1/s", "float64 1/s"};
    struct buf path = BUF_INIT;
    (void)args;
    buf_str(&path, "/v1/devices");
    return show_list(c, &path, 7, heads, device_row);
}

enum exit_code cmd_health(struct client *c, const struct args *args)
{
    const struct http_ask ask = {.method = "GET", .path = "/v2/health/ready"};
    struct http_reply reply = {.status = 0};
    cleanup_json struct json *answer = NULL;
    struct err err;
    (void)args;
    const int r = http_call(c->http, &ask, &reply, &err);
    const bool known = r == 0 && reply.body.len > 0 &&
                       json_parse(reply.body.data, reply.body.len, &answer, NULL) == 0 &&
                       json_get(answer, "ready");
    const bool ready = known && json_bool(json_get(answer, "ready"));
    enum exit_code code = ready ? EXIT_DONE : known ? EXIT_SERVER : EXIT_UNREACHABLE;
    if (r < 0) {
        code = api_no_answer(&err);
    } else if (!known) {
        code = api_refused(&reply);
    } else if (c->json) {
        api_print(answer);
    } else if (ready && !c->quiet) {
        puts("ready");
    } else if (!ready) {
        const char *reason = text_of(answer, "reason");
        complain("%s", reason ? reason : "the server is not ready");
    }
    http_reply_deinit(&reply);
    return code;
}
