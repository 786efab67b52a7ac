/* The model repository extension of the Open Inference Protocol: which models there are, load and
 * unload. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/app.h"
#include "server/serving/serving.h"
#include "store/models.h"

/* Versions in the index, which is made at once and has no pages. */
enum { INDEX_MAX = 10000 };

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

static void push_version(struct json *to, const char *name, int64_t number,
                         enum serving_state state)
{
    static const char *const states[] = {
        [SERVING_UNLOADED] = "UNAVAILABLE",
        [SERVING_LOADING] = "LOADING",
        [SERVING_LOADED] = "READY",
        [SERVING_FAILED] = "UNAVAILABLE",
    };
    char version[24];
    snprintf(version, sizeof version, "%lld", (long long)number);
    struct json *j = json_push(to, json_new_object());
    json_set_string(j, "name", name);
    json_set_string(j, "version", version);
    json_set_string(j, "state", states[state]);
    json_set_string(j, "reason",
                    state == SERVING_UNLOADED ? "unloaded; it is loaded when it is asked"
                    : state == SERVING_FAILED ? "it could not be loaded"
                                              : "");
}

static int push_all(struct app *app, struct json *to, struct err *err)
{
    struct model_row *rows;
    int64_t count;
    const int r = models_all_brief(app->store, INDEX_MAX + 1, &rows, &count, err);
    if (r < 0) {
        return r;
    }
    for (int64_t i = 0; i < count && count <= INDEX_MAX; i++) {
        push_version(to, rows[i].name, rows[i].version, serving_state(app->serving, rows[i].key));
    }
    models_list_free(rows, count);
    return count <= INDEX_MAX
               ? 0
               : err_set(err, ERR_TOO_LARGE,
                         "There are more than %d versions, and the index has no pages: ask for "
                         "those that are loaded, {\"ready\": true}, or GET /v1/models.",
                         INDEX_MAX);
}

struct ready {
    const struct served_model **models;
    int64_t count, room;
    bool failed;
};

static void note_ready(void *context, const struct served_model *model)
{
    struct ready *r = context;
    if (r->count == r->room) {
        const int64_t room = 2 * r->room + 16;
        const struct served_model **more = mem_regrow(r->models, (size_t)room, sizeof(*r->models));
        if (more == NULL) {
            r->failed = true;
            return;
        }
        r->models = more;
        r->room = room;
    }
    r->models[r->count++] = model;
}

static int by_name(const void *a, const void *b)
{
    const struct served_model *x = *(const struct served_model *const *)a;
    const struct served_model *y = *(const struct served_model *const *)b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->version > y->version) - (x->version < y->version);
}

static int push_ready(struct app *app, struct json *to, struct err *err)
{
    struct ready r = {.models = NULL};
    serving_visit(app->serving, note_ready, &r);
    if (r.count > 0) {
        qsort(r.models, (size_t)r.count, sizeof(*r.models), by_name);
    }
    for (int64_t i = 0; i < r.count; i++) {
        push_version(to, r.models[i]->name, r.models[i]->version, SERVING_LOADED);
    }
    mem_free(r.models);
    return r.failed ? err_no_memory(err) : 0;
}

/* POST /v2/repository/index */
void repository_index(struct request *rq)
{
    static const char *const keys[] = {"ready", NULL};
    cleanup_json struct json *body = NULL;
    struct err err;
    bool ready = false;
    int r = read_object(rq, keys, &body, &err);
    r = r == 0 && body ? json_take_bool(body, "ready", &ready, &err) : r;
    struct json *list = json_new_array();
    if (r == 0) {
        r = ready ? push_ready(rq->app, list, &err) : push_all(rq->app, list, &err);
    }
    if (r == 0) {
        reply_json(rq, 200, list);
        return;
    }
    json_free(list);
    if (r == -ERR_TOO_LARGE) { /* not the request */
        reply_problem(rq, 422, &err);
    } else {
        reply_error(rq, &err);
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
