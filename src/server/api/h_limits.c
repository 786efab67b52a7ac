/* What bounds the predictions of one model: its own limits, and the daemon's where it has none. */
#include <stdio.h>

#include "server/api/handlers.h"
#include "server/api/models.h"
#include "server/app.h"
#include "server/serving/serving.h"
#include "store/limits.h"

#define DEADLINE_MAX_S 86400

/* The members of the body that are whole numbers. */
static const struct limit {
    const char *key;
    size_t at; /* in struct limits_row */
    int64_t least, most;
} limits[] = {
    {"batch_rows", offsetof(struct limits_row, batch_rows), 1, 1048576},
    {"batch_delay_us", offsetof(struct limits_row, batch_delay_us), 0, 10000000},
    {"queue", offsetof(struct limits_row, queue), 1, 1048576},
};
enum { LIMITS = sizeof limits / sizeof *limits };

static int64_t *field(struct limits_row *row, const struct limit *l)
{
    return (int64_t *)(void *)((char *)row + l->at);
}

/* ---- views ---- */

static void set_own(struct json *j, struct limits_row own)
{
    struct json *list = json_set_array(j, "own");
    for (int i = 0; i < LIMITS; i++) {
        if (*field(&own, &limits[i]) != LIMITS_UNSET) {
            json_push(list, json_new_string(limits[i].key));
        }
    }
    if (own.deadline_us != LIMITS_UNSET) {
        json_push(list, json_new_string("deadline_s"));
    }
}

struct json *limits_view(struct app *app, const char *name)
{
    struct limits_row own;
    struct model_limits all;
    if (limits_get(app->store, name, &own, NULL) < 0) {
        return NULL;
    }
    all = serving_limits_of(app->serving, &own);
    struct json *j = json_new_object();
    json_set_string(j, "object", "model_limits");
    json_set_string(j, "model", name);
    json_set_int(j, "batch_rows", all.batch_rows);
    json_set_int(j, "batch_delay_us", all.batch_delay_us);
    json_set_int(j, "queue", all.queue);
    json_set(j, "deadline_s",
             all.deadline_s > 0.0 ? json_new_number(all.deadline_s) : json_new_null());
    set_own(j, own);
    return j;
}

/* GET /v1/models/{name}/limits */
void limits_show(struct request *rq)
{
    if (models_exist(rq)) {
        reply_tagged(rq, limits_view(rq->app, rq->param[0]));
    }
}

/* ---- changes ---- */

static bool is_given(const struct json *body, const char *key)
{
    const struct json *j = json_get(body, key);
    return j && json_type(j) != JSON_NULL;
}

static int take_limit(const struct json *body, const struct limit *l, int64_t *ret, struct err *err)
{
    if (!is_given(body, l->key)) {
        return 0;
    }
    char pointer[32];
    const int r = json_take_int(body, l->key, ret, err);
    if (r < 0 || (*ret >= l->least && *ret <= l->most)) {
        return r;
    }
    snprintf(pointer, sizeof pointer, "#/%s", l->key);
    return err_at(err, ERR_INVALID, pointer, "Expected a number from %lld to %lld, or null.",
                  (long long)l->least, (long long)l->most);
}

static int take_deadline(const struct json *body, int64_t *ret_us, struct err *err)
{
    double seconds = 0.0;
    if (!is_given(body, "deadline_s")) {
        return 0;
    }
    const int r = json_take_number(body, "deadline_s", &seconds, err);
    if (r < 0) {
        return r;
    }
    if (seconds < 1e-6 || seconds > DEADLINE_MAX_S) {
        return err_at(err, ERR_INVALID, "#/deadline_s",
                      "Expected seconds from 0.000001 to %d, or null.", DEADLINE_MAX_S);
    }
    *ret_us = (int64_t)(1e6 * seconds + 0.5);
    return 0;
}

static int read_limits(struct request *rq, struct limits_row *ret, struct err *err)
{
    static const char *const keys[] = {"batch_rows", "batch_delay_us", "queue", "deadline_s", NULL};
    cleanup_json struct json *body = NULL;
    int r = request_is_json(rq, err);
    r = r == 0 ? request_json_body(rq, &body, err) : r;
    if (r == 0 && json_type(body) != JSON_OBJECT) {
        r = err_at(err, ERR_INVALID, "#", "Expected an object of limits.");
    }
    r = r == 0 ? json_only_keys(body, keys, err) : r;
    for (int i = 0; r == 0 && i < LIMITS; i++) {
        r = take_limit(body, &limits[i], field(ret, &limits[i]), err);
    }
    return r == 0 ? take_deadline(body, &ret->deadline_us, err) : r;
}

/* PUT /v1/models/{name}/limits: what is not given is the daemon's again. */
void limits_put(struct request *rq)
{
    struct limits_row row = {LIMITS_UNSET, LIMITS_UNSET, LIMITS_UNSET, LIMITS_UNSET};
    struct err err;
    int r = read_limits(rq, &row, &err);
    r = r == 0 ? limits_set(rq->app->store, rq->param[0], &row, &err) : r;
    if (r < 0) {
        reply_error(rq, &err);
        return;
    }
    serving_limits_changed(rq->app->serving);
    reply_json(rq, 200, limits_view(rq->app, rq->param[0]));
}
