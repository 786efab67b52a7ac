/* The model repository extension of the Open Inference Protocol: which models there are, load and
 * unload. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/app.h"
#include "server/serving/serving.h"

/* Names read from the store at a time. */
enum { PAGE = 100 };

/* The body, which may be empty, as an object of the given members. */
static int read_object(struct request *rq, const char *const *keys, struct json **ret,
                       struct err *err)
{
    if (rq->body.len == 0) {
        *ret = NULL;
        return 0;
    }
    int r = request_json_body(rq, ret, err);
    if (r == 0 && json_type(*ret) != JSON_OBJECT) {
        r = err_at(err, ERR_INVALID, "#", "The body is an object.");
    }
    r = r == 0 ? json_only_keys(*ret, keys, err) : r;
    if (r < 0) {
        *ret = json_free(*ret);
    }
    return r;
}

/* ---- the index ---- */

static void push_row(struct app *app, const struct model_row *row, bool ready_only, struct json *to)
{
    static const char *const states[] = {
        [SERVING_UNLOADED] = "UNAVAILABLE",
        [SERVING_LOADING] = "LOADING",
        [SERVING_LOADED] = "READY",
        [SERVING_FAILED] = "UNAVAILABLE",
    };
    const enum serving_state state = serving_state(app->serving, row->key);
    if (ready_only && state != SERVING_LOADED) {
        return;
    }
    char version[24];
    snprintf(version, sizeof version, "%lld", (long long)row->version);
    struct json *j = json_push(to, json_new_object());
    json_set_string(j, "name", row->name);
    json_set_string(j, "version", version);
    json_set_string(j, "state", states[state]);
    json_set_string(j, "reason",
                    state == SERVING_UNLOADED ? "unloaded; it is loaded when it is asked"
                    : state == SERVING_FAILED ? "it could not be loaded"
                                              : "");
}

static int push_name(struct app *app, const char *name, bool ready_only, struct json *to,
                     struct err *err)
{
    struct model_row *rows;
    int64_t count;
    const int r = models_versions_brief(app->store, name, &rows, &count, err);
    for (int64_t i = count; r == 0 && i > 0; i--) {
        push_row(app, &rows[i - 1], ready_only, to);
    }
    if (r == 0) {
        models_list_free(rows, count);
    }
    return r;
}

static int push_all(struct app *app, bool ready_only, struct json *to, struct err *err)
{
    cleanup_mem char *after = mem_strdup("");
    bool more = after != NULL;
    int r = after ? 0 : err_no_memory(err);
    while (r == 0 && more) {
        struct model_row *rows;
        int64_t count;
        const struct store_page page = {.after = after, .limit = PAGE};
        r = models_list(app->store, page, &rows, &count, &more, err);
        if (r < 0) {
            break;
        }
        for (int64_t i = 0; r == 0 && i < count; i++) {
            r = push_name(app, rows[i].name, ready_only, to, err);
        }
        mem_free(after);
        after = count > 0 ? mem_strdup(rows[count - 1].name) : NULL;
        more = more && after;
        models_list_free(rows, count);
    }
    return r;
}

/* POST /v2/repository/index */
void repository_index(struct request *rq)
{
    static const char *const keys[] = {"ready", NULL};
    cleanup_json struct json *body = NULL;
    struct err err;
    bool ready_only = false;
    int r = read_object(rq, keys, &body, &err);
    r = r == 0 && body ? json_take_bool(body, "ready", &ready_only, &err) : r;
    struct json *list = json_new_array();
    r = r == 0 ? push_all(rq->app, ready_only, list, &err) : r;
    if (r < 0) {
        json_free(list);
        reply_error(rq, &err);
    } else {
        reply_json(rq, 200, list);
    }
}

/* ---- load and unload ---- */

/* Triton's parameters give a model's files or configuration, which come from jobs here; that of
 * unload_dependents means nothing, as no model needs another. */
static int check_parameters(struct request *rq, struct err *err)
{
    static const char *const keys[] = {"parameters", NULL};
    static const char *const known[] = {"unload_dependents", NULL};
    cleanup_json struct json *body = NULL;
    bool ignored = false;
    int r = read_object(rq, keys, &body, err);
    const struct json *parameters = json_get(body, "parameters");
    if (r < 0 || !parameters) {
        return r;
    }
    if (json_type(parameters) != JSON_OBJECT) {
        return err_at(err, ERR_INVALID, "#/parameters", "Parameters are an object.");
    }
    r = json_only_keys(parameters, known, err);
    r = r == 0 ? json_take_bool(parameters, "unload_dependents", &ignored, err) : r;
    if (r < 0) {
        err_prefix(err, "#/parameters");
    }
    return r;
}

/* A request that waits for a model; outlives it when the client leaves first. */
struct waiting {
    struct request *rq; /* NULL once the client has left */
};

static void on_waiter_gone(struct request *rq)
{
    struct waiting *w = rq->deferral;
    w->rq = NULL;
}

static void on_loaded(void *context, const struct err *err)
{
    struct waiting *w = context;
    if (w->rq && err) {
        reply_error(w->rq, err);
    } else if (w->rq) {
        reply_empty(w->rq, 200);
    }
    mem_free(w);
}

/* POST /v2/repository/models/{name}/load: its newest version. */
void repository_load(struct request *rq)
{
    const struct served_model *model = NULL;
    struct err err;
    struct waiting *w = mem_zalloc(sizeof *w);
    int r = w ? check_parameters(rq, &err) : err_no_memory(&err);
    r = r == 0 ? served_find(rq->app->served, rq->param[0], NULL, &model, &err) : r;
    if (r < 0) {
        mem_free(w);
        reply_error(rq, &err);
        return;
    }
    w->rq = rq;
    rq->deferral = w;
    rq->on_gone = on_waiter_gone;
    serving_load(rq->app->serving, model, on_loaded, w);
    served_release(model);
}

/* POST /v2/repository/models/{name}/unload: all its versions, which the next start does not load
 * again either. */
void repository_unload(struct request *rq)
{
    struct model_row *rows;
    int64_t count;
    struct err err;
    int r = check_parameters(rq, &err);
    r = r == 0 ? models_versions_brief(rq->app->store, rq->param[0], &rows, &count, &err) : r;
    if (r < 0) {
        reply_error(rq, &err);
        return;
    }
    r = models_unpin(rq->app->store, rq->param[0], &err);
    for (int64_t i = 0; r == 0 && i < count; i++) {
        serving_unload(rq->app->serving, rows[i].key);
    }
    models_list_free(rows, count);
    if (r < 0) {
        reply_error(rq, &err);
    } else {
        reply_empty(rq, 200);
    }
}
