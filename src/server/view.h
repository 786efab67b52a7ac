/* How rows look as JSON: one function a resource, used by handlers and event streams alike. All
 * return a new tree, or NULL on lack of memory. */
#pragma once

#include "base/json.h"
#include "store/datasets.h"
#include "store/events.h"
#include "store/jobs.h"
#include "store/models.h"

/* queue_position: -1 when not queued. Takes waiting_for, which may be NULL. */
struct json *view_job(const struct job_row *r, int64_t queue_position, struct json *waiting_for);
struct json *view_event(const struct event_row *r);
/* state: "loaded", "unloaded", "loading", "failed". Takes aliases, an array of names. */
struct json *view_model(const struct model_row *r, const char *state, struct json *aliases);

/* {"object":"list","data":[…],"first_id","last_id","has_more"}; takes data, ids may be NULL. */
struct json *view_list(struct json *data, const char *first_id, const char *last_id, bool more);

/* Milliseconds as a stamp; 0 is null. */
void view_set_stamp(struct json *obj, const char *key, int64_t wall_ms);
/* The member's JSON text as the store has it, which printed it once; NULL is null. */
void view_set_text(struct json *obj, const char *key, const char *json_text);
