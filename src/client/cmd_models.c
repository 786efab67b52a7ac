/* krr models, load, unload, alias, export, import. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "client/api.h"
#include "client/args.h"
#include "client/model_name.h"
#include "client/show.h"

static const char *text_of(const struct json *obj, const char *key)
{
    return json_string(json_get(obj, key));
}

static void version_row(struct table *t, const struct json *v)
{
    char value[SHOW_CELL];
    const struct json *about = json_get(v, "description");
    const struct json *metrics = json_get(json_get(about, "result"), "metrics");
    table_cell(t, text_of(v, "name"));
    snprintf(value, sizeof value, "%.0f", json_number(json_get(v, "version")));
    table_cell(t, value);
    table_cell(t, text_of(v, "state"));
    table_cell(t, text_of(json_get(about, "kernel"), "name"));
    show_member(metrics, "smape", value);
    table_cell(t, value);
    show_member(metrics, "r2", value);
    table_cell(t, value);
    show_member(metrics, "accuracy", value);
    table_cell(t, value);
    show_bytes(json_number(json_get(v, "bytes")), value);
    table_cell(t, value);
    table_cell(t, text_of(v, "created_at"));
}

static bool print_versions(const struct json *list)
{
    static const char *const heads[] = {"model", "version",  "state", "kernel", "SMAPE",
                                        "R2",    "accuracy", "size",  "created"};
    struct table t;
    table_begin(&t, 9, heads);
    for (const struct json *v = list ? json_first(list) : NULL; v; v = json_next(v)) {
        version_row(&t, v);
    }
    return table_end(&t);
}

/* Where the list goes on. */
static void tell_more(const struct json *answer, const struct json *versions)
{
    char after[SHOW_CELL];
    const struct json *last = NULL;
    for (const struct json *v = versions ? json_first(versions) : NULL; v; v = json_next(v)) {
        last = v;
    }
    if (!last || !json_bool(json_get(answer, "has_more"))) {
        return;
    }
    if (json_get(answer, "versions")) {
        show_member(last, "version", after);
        show_line(stderr, "more: --after %s", after);
    } else {
        show_line(stderr, "more: --after %s", text_of(answer, "last_id"));
    }
}

enum exit_code cmd_models(struct client *c, const struct args *args)
{
    const char *name = args_operand(args, 0);
    cleanup_json struct json *answer = NULL;
    struct buf path = BUF_INIT;
    buf_str(&path, "/v1/models");
    if (name) {
        api_path_add(&path, name);
    } else {
        api_query_add(&path, "limit", args_get(args, "limit"));
    }
    api_query_add(&path, "after", args_get(args, "after"));
    const enum exit_code code = api_json(c, "GET", path.failed ? NULL : path.data, NULL, &answer);
    buf_deinit(&path);
    if (code != EXIT_DONE || c->json) {
        return code == EXIT_DONE ? api_print(answer) : code;
    }
    const struct json *list = json_get(answer, name ? "versions" : "data");
    const bool ok = print_versions(list);
    tell_more(answer, list);
    return ok ? EXIT_DONE : EXIT_LOCAL;
}

/* POST to a version (NAME@VERSION), and what it is like then. */
static enum exit_code post_version(struct client *c, const char *which, const char *action)
{
    cleanup_json struct json *answer = NULL;
    struct buf path = BUF_INIT;
    if (!model_name_path(which, &path) || !strstr(path.data, "/versions/")) {
        buf_deinit(&path);
        complain("%s: expected MODEL@VERSION", which);
        return EXIT_USAGE;
    }
    buf_str(&path, action);
    const enum exit_code code = api_json(c, "POST", path.failed ? NULL : path.data, NULL, &answer);
    buf_deinit(&path);
    if (code != EXIT_DONE || c->json) {
        return code == EXIT_DONE ? api_print(answer) : code;
    }
    const char *state = text_of(answer, "state");
    show_line(stdout, "%s", state ? state : "");
    return EXIT_DONE;
}

enum exit_code cmd_load(struct client *c, const struct args *args)
{
    return post_version(c, args_operand(args, 0), "/load");
}

enum exit_code cmd_unload(struct client *c, const struct args *args)
{
    return post_version(c, args_operand(args, 0), "/unload");
}

static void alias_row(struct table *t, const struct json *alias)
{
    char value[SHOW_CELL];
    table_cell(t, text_of(alias, "alias"));
    show_member(alias, "version", value);
    table_cell(t, value);
    table_cell(t, text_of(alias, "moved_at"));
}

/* One alias, or a model's list of them. */
static enum exit_code print_aliases(const struct json *answer)
{
    static const char *const heads[] = {"alias", "version", "moved"};
    const struct json *list = json_get(answer, "data");
    struct table t;
    table_begin(&t, 3, heads);
    if (!list) {
        alias_row(&t, answer);
    }
    for (const struct json *one = list ? json_first(list) : NULL; one; one = json_next(one)) {
        alias_row(&t, one);
    }
    return table_end(&t) ? EXIT_DONE : EXIT_LOCAL;
}

enum exit_code cmd_alias(struct client *c, const struct args *args)
{
    const char *version = args_operand(args, 2);
    cleanup_json struct json *body = version ? json_new_object() : NULL;
    cleanup_json struct json *answer = NULL;
    struct json *number = NULL;
    struct buf path = BUF_INIT;
    buf_str(&path, "/v1/models");
    api_path_add(&path, args_operand(args, 0));
    buf_str(&path, "/aliases");
    if (args_operand(args, 1)) {
        api_path_add(&path, args_operand(args, 1));
    }
    if (version && json_parse(version, strlen(version), &number, NULL) < 0) {
        buf_deinit(&path);
        complain("%s is not the number of a version", version);
        return EXIT_USAGE;
    }
    if (version) {
        json_set(body, "version", number);
    }
    const char *method = version ? "PUT" : "GET";
    const enum exit_code code = api_json(c, method, path.failed ? NULL : path.data, body, &answer);
    buf_deinit(&path);
    if (code != EXIT_DONE) {
        return code;
    }
    return c->json ? api_print(answer) : print_aliases(answer);
}

/* ---- export and import ---- */

struct sink {
    FILE *file;
    const char *path;
    int64_t bytes;
    struct meter meter;
};

static bool on_bytes(void *context, const void *data, size_t size)
{
    struct sink *s = context;
    char done[SHOW_CELL];
    s->bytes += (int64_t)size;
    show_bytes((double)s->bytes, done);
    meter_show(&s->meter, -1, done);
    if (fwrite(data, 1, size, s->file) != size) {
        complain("%s: %s", s->path, strerror(errno));
        return false;
    }
    return true;
}

static enum exit_code receive(struct client *c, struct buf *path, struct sink *s)
{
    const struct http_ask ask = {.method = "GET",
                                 .path = path->data,
                                 .accept = "application/octet-stream, */*;q=0.9",
                                 .sink = on_bytes,
                                 .context = s};
    struct http_reply reply = {.status = 0};
    meter_begin(&s->meter, c->quiet);
    enum exit_code code = path->failed ? EXIT_LOCAL : api_call(c, &ask, &reply);
    meter_end(&s->meter);
    http_reply_deinit(&reply);
    if (fflush(s->file) != 0 && code == EXIT_DONE) {
        complain("%s: %s", s->path, strerror(errno));
        code = EXIT_LOCAL;
    }
    return code;
}

static enum exit_code tell_file(const struct sink *s)
{
    cleanup_json struct json *said = json_new_object();
    json_set_string(said, "output", s->path);
    json_set_int(said, "bytes", s->bytes);
    return api_print(said);
}

/* Into a file beside the wanted one, which takes its name when it is whole. */
static enum exit_code receive_file(struct client *c, struct buf *path, const char *name)
{
    struct buf part = BUF_INIT;
    buf_str(&part, name);
    buf_str(&part, ".part");
    struct sink s = {.path = name, .file = part.failed ? NULL : fopen(part.data, "wb")};
    enum exit_code code = EXIT_LOCAL;
    if (!s.file) {
        complain("%s: %s", name, strerror(errno));
    } else {
        code = receive(c, path, &s);
        if (fclose(s.file) != 0 || (code == EXIT_DONE && rename(part.data, name) < 0)) {
            complain("%s: %s", name, strerror(errno));
            code = EXIT_LOCAL;
        }
        if (code != EXIT_DONE) {
            unlink(part.data);
        }
    }
    buf_deinit(&part);
    return code == EXIT_DONE && c->json ? tell_file(&s) : code;
}

enum exit_code cmd_export(struct client *c, const struct args *args)
{
    const char *name = args_get(args, "output");
    struct buf path = BUF_INIT;
    enum exit_code code;
    const char *format = args_get(args, "format");
    if (!model_name_path(args_operand(args, 0), &path) || !strstr(path.data, "/versions/")) {
        complain("%s: expected MODEL@VERSION", args_operand(args, 0));
        code = EXIT_USAGE;
    } else if (!name && isatty(STDOUT_FILENO)) {
        complain("a model is not for a terminal: say --output FILE");
        code = EXIT_USAGE;
    } else {
        buf_str(&path, "/export");
        api_query_add(&path, "format", format ? format : "safetensors");
        struct sink s = {.file = stdout, .path = "standard output"};
        code = name ? receive_file(c, &path, name) : receive(c, &path, &s);
    }
    buf_deinit(&path);
    return code;
}

enum exit_code cmd_import(struct client *c, const struct args *args)
{
    const char *from = args_operand(args, 1);
    FILE *file = fopen(from, "rb");
    struct stat st;
    if (!file || fstat(fileno(file), &st) < 0 || !S_ISREG(st.st_mode)) {
        complain("%s: %s", from, file ? "is not a file" : strerror(errno));
        if (file) {
            fclose(file);
        }
        return EXIT_LOCAL;
    }
    struct buf path = BUF_INIT;
    struct http_reply reply = {.status = 0};
    buf_str(&path, "/v1/models");
    api_path_add(&path, args_operand(args, 0));
    buf_str(&path, "/import");
    const struct http_ask ask = {.method = "POST",
                                 .path = path.data,
                                 .content_type = "application/octet-stream",
                                 .accept = "application/json",
                                 .file = file,
                                 .file_size = (int64_t)st.st_size};
    cleanup_json struct json *model = NULL;
    enum exit_code code = path.failed ? EXIT_LOCAL : api_call(c, &ask, &reply);
    if (code == EXIT_DONE) {
        code = api_parse(&reply, &model);
    }
    if (code == EXIT_DONE) {
        code = api_print(model);
    }
    http_reply_deinit(&reply);
    buf_deinit(&path);
    fclose(file);
    return code;
}
