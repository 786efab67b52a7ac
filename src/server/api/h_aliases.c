#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/api/aliases.h"
#include "server/api/handlers.h"
#include "server/api/models.h"
#include "server/app.h"
#include "server/metrics.h"
#include "server/serving/served.h"
#include "server/serving/serving.h"
#include "server/view.h"
#include "store/aliases.h"
#include "wire/spec.h"

/* ---- views ---- */

static struct json *view_alias(const struct alias_row *r)
{
    struct json *j = json_new_object();
    json_set_string(j, "object", "alias");
    json_set_string(j, "model", r->name);
    json_set_string(j, "alias", r->alias);
    json_set_int(j, "version", r->version);
    json_set_int(j, "moves", r->moves);
    view_set_stamp(j, "moved_at", r->moved_ms);
    return j;
}

static void set_version(struct json *j, const char *key, int64_t version)
{
    json_set(j, key, version > 0 ? json_new_number((double)version) : json_new_null());
}

static struct json *view_move(const struct alias_move *m)
{
    struct json *j = json_new_object();
    json_set_int(j, "number", m->number);
    json_set_string(j, "kind", m->kind);
    set_version(j, "from", m->from);
    set_version(j, "to", m->to);
    view_set_stamp(j, "moved_at", m->moved_ms);
    json_set_string(j, "request", m->request[0] ? m->request : NULL);
    json_set_string(j, "job", m->job[0] ? m->job : NULL);
    return j;
}

struct json *aliases_names(struct app *app, int64_t key)
{
    struct alias_row *rows;
    int64_t count;
    if (aliases_of_version(app->store, key, &rows, &count, NULL) < 0) {
        return NULL;
    }
    struct json *j = json_new_array();
    for (int64_t i = 0; i < count; i++) {
        json_push(j, json_new_string(rows[i].alias));
    }
    aliases_list_free(rows, count);
    return j;
}

struct json *aliases_views(struct app *app, const char *name)
{
    struct alias_row *rows;
    int64_t count;
    if (aliases_list(app->store, name, &rows, &count, NULL) < 0) {
        return NULL;
    }
    struct json *j = json_new_array();
    for (int64_t i = 0; i < count; i++) {
        json_push(j, view_alias(&rows[i]));
    }
    aliases_list_free(rows, count);
    return j;
}

/* ---- looking ---- */

/* GET /v1/models/{name}/aliases */
void aliases_index(struct request *rq)
{
    if (!models_exist(rq)) {
        return;
    }
    struct json *j = json_new_object();
    json_set_string(j, "object", "list");
    json_set(j, "data", aliases_views(rq->app, rq->param[0]));
    reply_tagged(rq, j);
}

static void set_tag(struct request *rq, const struct alias_row *row)
{
    char tag[32];
    snprintf(tag, sizeof tag, "\"%lld\"", (long long)row->moves);
    request_set_header(rq, "ETag", tag);
    request_set_header(rq, "Cache-Control", "private, no-cache");
}

static void add_history(struct json *j, const struct alias_move *moves, int64_t count)
{
    struct json *list = json_set_array(j, "history");
    for (int64_t i = 0; i < count; i++) {
        json_push(list, view_move(&moves[i]));
    }
}

/* GET /v1/models/{name}/aliases/{alias} */
void aliases_show(struct request *rq)
{
    struct alias_row row;
    struct alias_move *moves;
    int64_t count;
    struct err err;
    if (aliases_get(rq->app->store, rq->param[0], rq->param[1], &row, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    if (aliases_history(rq->app->store, rq->param[0], rq->param[1], ALIASES_HISTORY_PAGE_MAX,
                        &moves, &count, &err) < 0) {
        reply_error(rq, &err);
    } else {
        struct json *j = view_alias(&row);
        add_history(j, moves, count);
        aliases_history_free(moves, count);
        set_tag(rq, &row);
        reply_json(rq, 200, j);
    }
    alias_row_deinit(&row);
}

/* ---- conditions ---- */

static void refuse_condition(struct request *rq)
{
    struct err err;
    err_set(&err, ERR_CONFLICT, "The alias is not what the request expects it to be.");
    reply_problem(rq, 412, &err);
}

/* What the request expects of the alias, which `row` is now (NULL: there is none). false: not that;
 * the request is answered. */
static bool read_condition(struct request *rq, const struct alias_row *row, int64_t *ret)
{
    char tag[32] = "";
    const bool match = request_header(rq, "If-Match") != NULL;
    const bool none = request_header(rq, "If-None-Match") != NULL;
    if (row) {
        snprintf(tag, sizeof tag, "\"%lld\"", (long long)row->moves);
    }
    if ((match && (!row || !request_matches_tag(rq, tag))) ||
        (none && row && request_has_tag(rq, tag))) {
        refuse_condition(rq);
        return false;
    }
    *ret = !match && !none ? ALIAS_ANY : row ? row->moves : ALIAS_ABSENT;
    return true;
}

/* ---- moving ---- */

/* A move that waits for its version to be loaded. Outlives its request where the client leaves. */
struct moving {
    struct app *app;
    struct request *rq; /* NULL once the client has left: then nothing moves */
    bool rollback, new;
    int64_t expected, version;
};

static void on_gone(struct request *rq)
{
    struct moving *m = rq->deferral;
    m->rq = NULL;
}

static void count_move(struct app *app, enum alias_kind kind)
{
    metrics_count(app->metrics, METRIC_ALIAS_MOVES, (int)kind, 0, 1);
}

static void tell_moved(const struct moving *m, const struct alias_row *row)
{
    char version[24];
    snprintf(version, sizeof version, "%lld", (long long)row->version);
    log_msg(&m->app->log, LOG_INFO, "alias.moved", "model", row->name, "alias", row->alias,
            "version", version, "request", m->rq->id, NULL);
    count_move(m->app, m->rollback ? ALIAS_ROLLBACK : ALIAS_SET);
    served_changed(m->app->served);
}

static void reply_alias(const struct moving *m, const struct alias_row *row)
{
    struct request *rq = m->rq;
    set_tag(rq, row);
    if (m->new) {
        request_set_header(rq, "Location", rq->path);
    }
    reply_json(rq, m->new ? 201 : 200, view_alias(row));
}

static void move(const struct moving *m)
{
    struct request *rq = m->rq;
    const struct alias_change c = {
        .name = rq->param[0], .alias = rq->param[1], .expected = m->expected, .request = rq->id};
    struct alias_row row;
    struct err err;
    const int64_t now = clock_wall_ms();
    const int r = m->rollback ? aliases_rollback(m->app->store, &c, now, &row, &err)
                              : aliases_set(m->app->store, &c, m->version, now, &row, &err);
    if (r < 0) {
        reply_error(rq, &err);
    } else if (r == ALIAS_OTHER) {
        refuse_condition(rq);
    } else {
        if (r != ALIAS_STANDS) {
            tell_moved(m, &row);
        }
        reply_alias(m, &row);
        alias_row_deinit(&row);
    }
}

static void refuse_load(const struct moving *m, const struct err *cause)
{
    struct err err;
    if (cause->code == ERR_BUSY || cause->code == ERR_NO_MEMORY) {
        reply_error(m->rq, cause);
        return;
    }
    err_set(&err, ERR_CONFLICT, "The alias has not moved: version %lld cannot be loaded: %s",
            (long long)m->version, cause->detail);
    reply_error(m->rq, &err);
}

static void on_loaded(void *context, const struct err *err)
{
    struct moving *m = context;
    if (m->rq && err) {
        refuse_load(m, err);
    } else if (m->rq) {
        move(m);
    }
    mem_free(m);
}

/* Loads the version, then moves the alias there. */
static int begin(struct request *rq, const struct moving *wish, struct err *err)
{
    const struct served_model *model;
    char version[24];
    snprintf(version, sizeof version, "%lld", (long long)wish->version);
    const int r = served_find(rq->app->served, rq->param[0], version, &model, err);
    if (r < 0) {
        return r;
    }
    struct moving *m = mem_dup(wish, sizeof *wish);
    if (m) {
        m->app = rq->app;
        m->rq = rq;
        rq->deferral = m;
        rq->on_gone = on_gone;
        serving_load(rq->app->serving, model, on_loaded, m);
    }
    served_release(model);
    return m ? 0 : err_no_memory(err);
}

static int read_version(struct request *rq, int64_t *ret, struct err *err)
{
    static const char *const keys[] = {"version", NULL};
    struct json *j cleanup_json = NULL;
    int r = request_json_body(rq, &j, err);
    if (r == 0 && json_type(j) != JSON_OBJECT) {
        r = err_at(err, ERR_INVALID, "#", "Expected an object with the member \"version\".");
    }
    r = r == 0 ? json_only_keys(j, keys, err) : r;
    r = r == 0 ? json_take_int(j, "version", ret, err) : r;
    if (r == 0 && *ret < 1) {
        r = err_at(err, ERR_INVALID, "#/version", "Expected the number of a version, from 1.");
    }
    return r;
}

static int check_name(const char *alias, struct err *err)
{
    return spec_name_valid(alias)
               ? 0
               : err_at(err, ERR_INVALID, "#/path/alias",
                        "An alias has 1 to %d letters, digits, '.', '_' and '-', and begins with "
                        "a letter or digit.",
                        SPEC_NAME_MAX);
}

/* The alias as it is; *ret_there tells whether there is one. */
static int find(struct request *rq, struct alias_row *ret, bool *ret_there, struct err *err)
{
    const int r = aliases_get(rq->app->store, rq->param[0], rq->param[1], ret, err);
    *ret_there = r == 0;
    return r == -ERR_NOT_FOUND ? 0 : r;
}

/* PUT /v1/models/{name}/aliases/{alias} */
void aliases_put(struct request *rq)
{
    struct moving wish = {.version = 0};
    struct alias_row row = {.version = 0};
    struct err err;
    bool there = false;
    int r = request_is_json(rq, &err);
    r = r == 0 ? check_name(rq->param[1], &err) : r;
    r = r == 0 ? read_version(rq, &wish.version, &err) : r;
    r = r == 0 ? find(rq, &row, &there, &err) : r;
    wish.new = !there;
    if (r < 0 || (read_condition(rq, there ? &row : NULL, &wish.expected) &&
                  (r = begin(rq, &wish, &err)) < 0)) {
        reply_error(rq, &err);
    }
    alias_row_deinit(&row);
}

/* POST /v1/models/{name}/aliases/{alias}/rollback. The move is bound to the alias as it is now: who
 * asks for one step back does not get two where somebody else asks as well. */
void aliases_undo(struct request *rq)
{
    struct moving wish = {.rollback = true};
    struct alias_row row;
    struct err err;
    int r = aliases_get(rq->app->store, rq->param[0], rq->param[1], &row, &err);
    if (r < 0) {
        reply_error(rq, &err);
        return;
    }
    if (read_condition(rq, &row, &wish.expected)) {
        wish.expected = row.moves;
        r = aliases_previous(rq->app->store, row.name, row.alias, &wish.version, &err);
        r = r == 0 ? begin(rq, &wish, &err) : r;
        if (r < 0) {
            reply_error(rq, &err);
        }
    }
    alias_row_deinit(&row);
}

/* DELETE /v1/models/{name}/aliases/{alias} */
void aliases_remove(struct request *rq)
{
    struct alias_change c = {.name = rq->param[0], .alias = rq->param[1], .request = rq->id};
    struct alias_row row;
    struct err err;
    int r = aliases_get(rq->app->store, c.name, c.alias, &row, &err);
    if (r < 0) {
        reply_error(rq, &err);
        return;
    }
    if (read_condition(rq, &row, &c.expected)) {
        r = aliases_delete(rq->app->store, &c, clock_wall_ms(), &err);
        if (r < 0) {
            reply_error(rq, &err);
        } else if (r == ALIAS_OTHER) {
            refuse_condition(rq);
        } else {
            count_move(rq->app, ALIAS_DELETE);
            served_changed(rq->app->served);
            reply_empty(rq, 204);
        }
    }
    alias_row_deinit(&row);
}
