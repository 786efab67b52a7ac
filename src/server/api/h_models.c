#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "server/api/aliases.h"
#include "server/api/handlers.h"
#include "server/api/models.h"
#include "server/app.h"
#include "server/serving/serving.h"
#include "server/view.h"
#include "store/aliases.h"
#include "wire/spec.h"

static bool names_alias(const struct request *rq)
{
    return strstr(rq->route->pattern, "/{alias}") != NULL;
}

int models_find_served(struct request *rq, const struct served_model **ret, struct err *err)
{
    return names_alias(rq)
               ? served_find_alias(rq->app->served, rq->param[0], rq->param[1], ret, err)
               : served_find(rq->app->served, rq->param[0], rq->param[1], ret, err);
}

int models_find(struct request *rq, struct model_row *ret, struct err *err)
{
    int64_t version = 0;
    int r = rq->param[1] ? served_path_version(rq->param[1], &version, err) : 0;
    return r < 0 ? r : models_get(rq->app->store, rq->param[0], version, ret, err);
}

bool models_exist(struct request *rq)
{
    struct model_row newest;
    struct err err;
    if (models_get(rq->app->store, rq->param[0], 0, &newest, &err) < 0) {
        reply_error(rq, &err);
        return false;
    }
    model_row_deinit(&newest);
    return true;
}

struct json *models_view(struct app *app, const struct model_row *row)
{
    const int64_t bytes = serving_bytes(app->serving, row->key);
    struct json *j = view_model(row, serving_state_name(serving_state(app->serving, row->key)),
                                aliases_names(app, row->key));
    json_set_bool(j, "pinned", serving_pinned(app->serving, row->key));
    json_set(j, "memory_bytes", bytes > 0 ? json_new_number((double)bytes) : json_new_null());
    return j;
}

static struct json *view_rows(struct app *app, const struct model_row *rows, int64_t count)
{
    struct json *data = json_new_array();
    for (int64_t i = 0; i < count; i++) {
        json_push(data, models_view(app, &rows[i]));
    }
    return data;
}

/* GET /v1/models */
void models_index(struct request *rq)
{
    const char *after = request_query(rq, "after");
    struct store_page page = {.after = after ? after : "", .limit = 20};
    struct model_row *rows;
    int64_t count;
    bool more;
    struct err err;
    int r = after == NULL || spec_name_valid(after)
                ? request_query_int(rq, "limit", 1, 100, &page.limit, &err)
                : err_at(&err, ERR_INVALID, "#/query/after", "after must be the name of a model.");
    if (r == 0) {
        r = models_list(rq->app->store, page, &rows, &count, &more, &err);
    }
    if (r < 0) {
        reply_error(rq, &err);
        return;
    }
    struct json *data = view_rows(rq->app, rows, count);
    reply_json(
        rq, 200,
        view_list(data, count ? rows[0].name : NULL, count ? rows[count - 1].name : NULL, more));
    models_list_free(rows, count);
}

/* GET /v1/models/{name}: the newest versions, or those that are older than `after`. */
void models_show(struct request *rq)
{
    struct model_row *rows;
    int64_t count, after = 0;
    bool more;
    const char *reason = NULL;
    struct err err;
    int r = request_query_int(rq, "after", 1, INT64_MAX, &after, &err);
    if (r == 0) {
        r = models_versions(rq->app->store, rq->param[0], after, &rows, &count, &more, &err);
    }
    if (r < 0) {
        reply_error(rq, &err);
        return;
    }
    struct json *j = json_new_object();
    json_set_string(j, "object", "model");
    json_set_string(j, "name", rq->param[0]);
    json_set_bool(j, "ready", app_ready(rq->app, &reason)); /* KServe's member, version 1 */
    json_set(j, "aliases", aliases_views(rq->app, rq->param[0]));
    json_set(j, "limits", limits_view(rq->app, rq->param[0]));
    json_set(j, "versions", view_rows(rq->app, rows, count));
    json_set_bool(j, "has_more", more);
    reply_tagged(rq, j);
    models_list_free(rows, count);
}

static void reply_version(struct request *rq)
{
    struct model_row row;
    struct err err;
    if (models_find(rq, &row, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    reply_json(rq, 200, models_view(rq->app, &row));
    model_row_deinit(&row);
}

/* GET /v1/models/{name}/versions/{version} */
void models_version(struct request *rq)
{
    struct model_row row;
    struct err err;
    if (models_find(rq, &row, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    reply_tagged(rq, models_view(rq->app, &row));
    model_row_deinit(&row);
}

/* DELETE /v1/models/{name}/versions/{version} */
void models_remove(struct request *rq)
{
    struct model_row row;
    struct err err;
    int r = models_find(rq, &row, &err);
    if (r == 0) {
        r = models_delete(rq->app->store, row.name, row.version, &err);
        if (r == 0) {
            served_changed(rq->app->served);
            serving_delete(rq->app->serving, row.key);
        }
        model_row_deinit(&row);
    }
    if (r < 0) {
        reply_error(rq, &err);
    } else {
        reply_empty(rq, 204);
    }
}

/* ---- load and unload ---- */

/* A request that waits for a model; outlives it when the client leaves first. */
struct waiting {
    struct app *app;
    struct request *rq; /* NULL once the client has left */
    int64_t key;
    enum { PIN_AS_IT_IS, PIN_YES, PIN_NO } pin;
};

static void on_waiter_gone(struct request *rq)
{
    struct waiting *w = rq->deferral;
    w->rq = NULL;
}

static int set_pin(struct app *app, int64_t key, bool pinned, struct err *err)
{
    const int r = models_pin(app->store, key, pinned, err);
    if (r == 0) {
        serving_pin(app->serving, key, pinned);
    }
    return r;
}

static void refuse_load(struct request *rq, const struct err *err)
{
    if (err->code == ERR_BUSY) {
        request_shed(rq, SHED_MODELS, serving_retry_s(rq->app->serving, 0));
    }
    reply_error(rq, err);
}

static void on_loaded(void *context, const struct err *failure)
{
    struct waiting *w = context;
    struct err err;
    if (!failure && w->pin != PIN_AS_IT_IS &&
        set_pin(w->app, w->key, w->pin == PIN_YES, &err) < 0) {
        failure = &err;
    }
    if (w->rq && failure) {
        refuse_load(w->rq, failure);
    } else if (w->rq) {
        reply_version(w->rq);
    }
    mem_free(w);
}

/* {"pin": true}; there may be no body. */
static int read_load(struct request *rq, struct waiting *w, struct err *err)
{
    static const char *const keys[] = {"pin", NULL};
    cleanup_json struct json *body = NULL;
    bool pin = false;
    if (rq->body.len == 0) {
        return 0;
    }
    int r = request_json_body(rq, &body, err);
    if (r == 0 && json_type(body) != JSON_OBJECT) {
        r = err_at(err, ERR_INVALID, "#", "The body is an object.");
    }
    r = r == 0 ? json_only_keys(body, keys, err) : r;
    r = r == 0 ? json_take_bool(body, "pin", &pin, err) : r;
    if (r == 0 && json_get(body, "pin")) {
        w->pin = pin ? PIN_YES : PIN_NO;
    }
    return r;
}

/* POST …/load */
void models_load(struct request *rq)
{
    const struct served_model *model;
    struct err err;
    struct waiting *w = mem_zalloc(sizeof *w);
    int r = w ? read_load(rq, w, &err) : err_no_memory(&err);
    r = r == 0 ? served_find(rq->app->served, rq->param[0], rq->param[1], &model, &err) : r;
    if (r < 0) {
        mem_free(w);
        reply_error(rq, &err);
        return;
    }
    w->app = rq->app;
    w->rq = rq;
    w->key = model->key;
    rq->deferral = w;
    rq->on_gone = on_waiter_gone;
    serving_load(rq->app->serving, model, on_loaded, w);
    served_release(model);
}

/* POST …/unload: also not loaded by the next start any more. */
void models_unload(struct request *rq)
{
    struct model_row row;
    struct err err;
    if (models_find(rq, &row, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    if (set_pin(rq->app, row.key, false, &err) < 0) {
        reply_error(rq, &err);
    } else {
        serving_unload(rq->app->serving, row.key);
        reply_json(rq, 200, models_view(rq->app, &row));
    }
    model_row_deinit(&row);
}
