/* GET /v1/devices: what the workers compute on, as they told of it, and what it does now. */
#include <string.h>

#include "base/ram.h"
#include "server/api/handlers.h"
#include "server/app.h"
#include "server/jobs/trainer.h"
#include "server/pool/pool.h"
#include "server/process.h"

/* Whether the slot is the first of those whose worker has this device. */
static bool is_first(const struct pool *pool, int at)
{
    const char *device = slot_device(pool_slot(pool, at));
    for (int i = 0; i < at; i++) {
        if (strcmp(slot_device(pool_slot(pool, i)), device) == 0) {
            return false;
        }
    }
    return true;
}

static bool shares(const struct slot *s, const char *device)
{
    return strcmp(slot_device(s), device) == 0;
}

/* The one of its workers that has said most of it; NULL: none has said anything. */
static const struct plan_machine *machine_of(const struct pool *pool, const char *device)
{
    const struct plan_machine *best = NULL;
    for (int i = 0; i < pool_size(pool); i++) {
        const struct slot *s = pool_slot(pool, i);
        const struct plan_machine *m = shares(s, device) ? slot_machine(s) : NULL;
        if (m != NULL && (best == NULL || m->rates.bytes > best->rates.bytes)) {
            best = m;
        }
    }
    return best;
}

/* Of memory of its own only the size is known; the host's is asked for now. */
static void set_memory(struct json *to, const struct plan_machine *m, int64_t resident)
{
    struct json *j = json_set_object(to, "memory");
    if (m->own_memory) {
        json_set_int(j, "total_bytes", m->device_bytes);
        json_set(j, "free_bytes", json_new_null());
        json_set(j, "workers_bytes", json_new_null());
        return;
    }
    json_set_int(j, "total_bytes", ram_limit());
    json_set_int(j, "free_bytes", ram_available());
    json_set_int(j, "workers_bytes", resident);
}

static void add_device(struct json *list, const struct app *app, const char *device,
                       const struct plan_machine *m)
{
    struct json *j = json_push(list, json_new_object());
    int64_t resident = 0, busy = 0;
    double entries = 0.0;
    json_set_string(j, "object", "device");
    json_set_string(j, "name", device);
    json_set_int(j, "threads", m->threads);
    struct json *workers = json_set_array(j, "workers");
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (shares(s, device)) {
            json_push(workers, json_new_string(slot_name(s)));
            resident += slot_pid(s) > 0 ? process_resident_bytes(slot_pid(s)) : 0;
            entries += slot_kind(s) == SLOT_TRAIN ? trainer_entries_per_s(s) : 0.0;
            busy += slot_state(s) == SLOT_BUSY;
        }
    }
    json_set_int(j, "busy_workers", busy);
    set_memory(j, m, resident);
    json_set_number(j, "kernel_entries_per_s", entries);
    plan_rates_write(&m->rates, j);
}

/* GET /v1/devices */
void system_devices(struct request *rq)
{
    const struct pool *pool = rq->app->pool;
    struct json *j = json_new_object();
    json_set_string(j, "object", "list");
    struct json *data = json_set_array(j, "data");
    for (int i = 0; i < pool_size(pool); i++) {
        const char *device = slot_device(pool_slot(pool, i));
        const struct plan_machine *m = is_first(pool, i) ? machine_of(pool, device) : NULL;
        if (m != NULL) {
            add_device(data, rq->app, device, m);
        }
    }
    reply_json(rq, 200, j);
}
