#include "server/api/handlers.h"
#include "server/app.h"
#include "server/jobs/trainer.h"
#include "server/pool/pool.h"
#include "server/view.h"

static struct json *view(const struct slot *s)
{
    const char *job = slot_kind(s) == SLOT_TRAIN ? trainer_job(s) : NULL;
    struct json *j = json_new_object();
    json_set_string(j, "name", slot_name(s));
    json_set_string(j, "kind", slot_kind_name(slot_kind(s)));
    json_set_string(j, "state", slot_state_name(slot_state(s)));
    if (slot_pid(s) > 0) {
        json_set_int(j, "pid", slot_pid(s));
    } else {
        json_set(j, "pid", json_new_null());
    }
    json_set_string(j, "device", slot_device(s));
    json_set_string(j, "job", job);
    json_set_int(j, "restarts", slot_restarts(s));
    int64_t until_ms;
    const char *why = slot_quarantine(s, &until_ms);
    json_set_string(j, "quarantine_reason", why);
    view_set_stamp(j, "quarantined_until", until_ms);
    view_set_stamp(j, "last_seen_at", slot_heard_ms(s));
    return j;
}

/* GET /v1/workers */
void system_workers(struct request *rq)
{
    struct json *j = json_new_object();
    json_set_string(j, "object", "list");
    struct json *data = json_set_array(j, "data");
    for (int i = 0; i < pool_size(rq->app->pool); i++) {
        json_push(data, view(pool_slot(rq->app->pool, i)));
    }
    reply_json(rq, 200, j);
}
