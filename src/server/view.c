#include "server/view.h"

#include "base/clock.h"

void view_set_stamp(struct json *obj, const char *key, int64_t wall_ms)
{
    char stamp[CLOCK_STAMP_SIZE];
    if (wall_ms != 0) {
        clock_stamp(wall_ms, stamp);
    }
    json_set_string(obj, key, wall_ms != 0 ? stamp : NULL);
}

void view_set_text(struct json *obj, const char *key, const char *json_text)
{
    const bool some = json_text != NULL && json_text[0] != '\0';
    json_set(obj, key, some ? json_new_text(json_text) : json_new_null());
}

/* Numbers where 0 means "not yet". */
static void set_positive(struct json *obj, const char *key, int64_t value, int64_t least)
{
    if (value >= least) {
        json_set_int(obj, key, value);
    } else {
        json_set(obj, key, json_new_null());
    }
}

static void set_job_times(struct json *j, const struct job_row *r)
{
    view_set_stamp(j, "created_at", r->created_ms);
    view_set_stamp(j, "queued_at", r->queued_ms);
    view_set_stamp(j, "started_at", r->started_ms);
    view_set_stamp(j, "finished_at", r->finished_ms);
}

struct json *view_job(const struct job_row *r, int64_t queue_position, struct json *waiting_for)
{
    struct json *j = json_new_object();
    json_set_string(j, "id", r->id);
    json_set_string(j, "object", "job");
    json_set_string(j, "status", job_status_name(r->status));
    json_set_string(j, "reason", r->reason);
    json_set_string(j, "model", r->model);
    set_positive(j, "model_version", r->model_version, 1);
    json_set_string(j, "dataset", r->dataset);
    view_set_text(j, "spec", r->spec);
    set_job_times(j, r);
    set_positive(j, "queue_position", queue_position, 0);
    json_set(j, "waiting_for", waiting_for != NULL ? waiting_for : json_new_null());
    view_set_text(j, "plan", r->plan);
    json_set_int(j, "attempt", r->attempt);
    view_set_stamp(j, "next_attempt_at", r->next_attempt_ms);
    json_set_string(j, "worker", r->worker);
    json_set_string(j, "device", r->device);
    view_set_text(j, "progress", r->progress);
    view_set_text(j, "result", r->result);
    view_set_text(j, "promotion", r->promotion);
    json_set(j, "webhook", json_new_null());
    view_set_text(j, "error", r->error);
    return j;
}

struct json *view_event(const struct event_row *r)
{
    struct json *j = json_new_object();
    json_set_int(j, "id", r->id);
    json_set_string(j, "object", "event");
    json_set_string(j, "job", r->job);
    view_set_stamp(j, "created_at", r->created_ms);
    json_set_string(j, "level", r->level);
    json_set_string(j, "type", r->type);
    json_set_string(j, "message", r->message);
    view_set_text(j, "data", r->data);
    return j;
}

struct json *view_model(const struct model_row *r, const char *state, struct json *aliases)
{
    struct json *j = json_new_object();
    json_set_string(j, "object", "model_version");
    json_set_string(j, "name", r->name);
    json_set_int(j, "version", r->version);
    json_set_string(j, "state", state);
    json_set(j, "aliases", aliases);
    json_set_string(j, "job", r->job[0] ? r->job : NULL);
    json_set_string(j, "dataset", r->dataset[0] ? r->dataset : NULL);
    json_set_int(j, "bytes", r->bytes);
    json_set_string(j, "sha256", r->sha256);
    view_set_stamp(j, "created_at", r->created_ms);
    view_set_text(j, "description", r->description);
    return j;
}

struct json *view_list(struct json *data, const char *first_id, const char *last_id, bool more)
{
    struct json *j = json_new_object();
    json_set_string(j, "object", "list");
    json_set(j, "data", data);
    json_set_string(j, "first_id", first_id);
    json_set_string(j, "last_id", last_id);
    json_set_bool(j, "has_more", more);
    return j;
}
