/* krr train, krr watch, krr upload. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "client/api.h"
#include "client/args.h"
#include "client/plan.h"
#include "client/show.h"
#include "client/spec.h"
#include "client/upload.h"
#include "client/watch.h"

#define NAME_ROOM 128

/* The file's name without folders and endings, of what a model's name may hold. */
static void model_name(const char *path, char ret[NAME_ROOM])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t n = 0;
    for (; name[n] && name[n] != '.' && n + 1 < NAME_ROOM; n++) {
        const char c = name[n];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '_' || c == '-';
        ret[n] = plain ? c : '_';
    }
    ret[n] = '\0';
    if (n == 0 || strcmp(path, "-") == 0) {
        snprintf(ret, NAME_ROOM, "model");
    }
}

static void tell_dataset(const struct client *c, const struct json *d)
{
    if (c->quiet) {
        return;
    }
    const char *id = json_string(json_get(d, "id"));
    const char *task = json_string(json_get(d, "task"));
    const int64_t features = json_size(json_get(d, "features"));
    show_line(stderr, "%s: %.0f rows, %lld feature%s, %s", id ? id : "?",
              json_number(json_get(d, "rows")), (long long)features, features == 1 ? "" : "s",
              task ? task : "");
    const struct json *warnings = json_get(d, "warnings");
    for (const struct json *w = warnings ? json_first(warnings) : NULL; w; w = json_next(w)) {
        const char *said =
            json_type(w) == JSON_STRING ? json_string(w) : json_string(json_get(w, "detail"));
        show_line(stderr, "warning: %s", said ? said : "");
    }
}

/* The first option that says how a file is read, which means nothing without one; NULL: none. A
 * target is one of the job, too. */
static const char *needs_file(const struct args *args)
{
    const struct option_row *row = upload_options;
    while (row->name && (strcmp(row->name, "target") == 0 || !args_has(args, row->name))) {
        row++;
    }
    return row->name;
}

/* The data set's id: the one that was named, or that of the file that is sent first. */
static enum exit_code find_dataset(struct client *c, const struct args *args, char *ret,
                                   size_t room)
{
    const char *path = args_operand(args, 0);
    const char *named = args_get(args, "dataset");
    if (named && path) {
        complain("give a file or --dataset, not both");
        return EXIT_USAGE;
    }
    if (!path && needs_file(args)) {
        complain("--%s is about a file that is sent, and there is none", needs_file(args));
        return EXIT_USAGE;
    }
    snprintf(ret, room, "%s", named ? named : "");
    if (!path) {
        return EXIT_DONE;
    }
    cleanup_json struct json *dataset = NULL;
    const enum exit_code code = upload_file(c, args, path, &dataset);
    if (code == EXIT_DONE) {
        const char *id = json_string(json_get(dataset, "id"));
        snprintf(ret, room, "%s", id ? id : "");
        tell_dataset(c, dataset);
    }
    return code;
}

static enum exit_code finish(struct client *c, const char *job)
{
    cleanup_json struct json *ended = NULL;
    const enum exit_code code = watch_job(c, job, &ended);
    return code == EXIT_DONE ? watch_report(c, ended) : code;
}

/* Many rows, or a short time budget, have a model on centers, which the server chooses where
 * nothing was said of them. */
static void tell_centers(const struct json *asked, const struct json *job)
{
    const struct json *spec = json_get(job, "spec"), *taken = json_get(spec, "centers");
    const struct json *budget = json_get(json_get(spec, "stop"), "time_budget_s");
    if (json_get(asked, "centers") == NULL && taken && json_type(taken) == JSON_OBJECT) {
        const char *method = json_string(json_get(taken, "method"));
        show_line(stderr,
                  "%s: a model on %.0f centers (%s); --centers takes another number, and a solver "
                  "of full models none",
                  budget && json_type(budget) == JSON_NUMBER ? "many rows in such a time"
                                                             : "many rows",
                  json_number(json_get(taken, "count")), method ? method : "");
    }
}

/* A job that is not waited for says so here; else its events do. */
static void tell_warnings(const struct json *job)
{
    const struct json *warnings = json_get(json_get(job, "plan"), "warnings");
    for (const struct json *w = json_first(warnings); w; w = json_next(w)) {
        const char *detail = json_string(json_get(w, "detail"));
        show_line(stderr, "warning: %s", detail ? detail : "");
    }
}

static enum exit_code submit(struct client *c, const struct args *args, const struct json *spec)
{
    cleanup_json struct json *job = NULL;
    const bool plan = args_has(args, "plan");
    const char *path = plan ? "/v1/jobs?validate_only=true" : "/v1/jobs";
    const enum exit_code code = api_json(c, "POST", path, spec, &job);
    const char *id = job ? json_string(json_get(job, "id")) : NULL;
    if (code != EXIT_DONE || plan || args_has(args, "no-wait")) {
        if (code == EXIT_DONE && !c->quiet) {
            tell_centers(spec, job);
            tell_warnings(job);
        }
        if (code == EXIT_DONE && c->json) {
            return api_print(job);
        }
        if (code == EXIT_DONE && plan) {
            plan_print(job);
        } else if (code == EXIT_DONE) {
            show_line(stdout, "%s", id ? id : "");
        }
        return code;
    }
    if (!id) {
        complain("the server's answer has no id");
        return EXIT_UNREACHABLE;
    }
    if (!c->quiet) {
        show_line(stderr, "%s", id);
        tell_centers(spec, job);
    }
    return finish(c, id);
}

enum exit_code cmd_train(struct client *c, const struct args *args)
{
    char dataset[NAME_ROOM], name[NAME_ROOM];
    const char *path = args_operand(args, 0);
    const char *model = args_get(args, "model");
    if (!path && !args_has(args, "dataset") && !args_has(args, "spec")) {
        complain("give a file, --dataset or --spec");
        return EXIT_USAGE;
    }
    model_name(path ? path : "", name);
    cleanup_json struct json *spec = NULL;
    /* What is wrong with the options is told before anything is sent. */
    enum exit_code code = spec_build(args, &spec);
    if (code == EXIT_DONE) {
        code = find_dataset(c, args, dataset, sizeof dataset);
    }
    if (code != EXIT_DONE) {
        return code;
    }
    if (dataset[0]) {
        json_set_string(spec, "dataset", dataset);
    }
    if (model || !json_get(spec, "model")) {
        json_set_string(spec, "model", model ? model : name);
    }
    code = submit(c, args, spec);
    if (code == EXIT_REFUSED && path) {
        fprintf(stderr, "  the table is there already: --dataset %s instead of %s\n", dataset,
                path);
    }
    return code;
}

enum exit_code cmd_watch(struct client *c, const struct args *args)
{
    return finish(c, args_operand(args, 0));
}

enum exit_code cmd_upload(struct client *c, const struct args *args)
{
    cleanup_json struct json *dataset = NULL;
    const enum exit_code code = upload_file(c, args, args_operand(args, 0), &dataset);
    if (code != EXIT_DONE) {
        return code;
    }
    tell_dataset(c, dataset);
    const char *id = json_string(json_get(dataset, "id"));
    if (c->json) {
        return api_print(dataset);
    }
    show_line(stdout, "%s", id ? id : "");
    return EXIT_DONE;
}
