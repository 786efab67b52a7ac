#include "server/jobs/room.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/ram.h"
#include "server/app.h"
#include "server/jobs/run.h"
#include "server/pool/pool.h"

static double number(const struct json *from, const char *key)
{
    const struct json *j = from != NULL ? json_get(from, key) : NULL;
    return j != NULL && json_type(j) == JSON_NUMBER ? json_number(j) : 0;
}

/* A device's own memory is its worker's alone. */
double room_needed(const char *plan)
{
    cleanup_json struct json *j = NULL;
    if (plan == NULL || json_parse(plan, strlen(plan), &j, NULL) < 0) {
        return 0;
    }
    const struct json *memory = json_get(j, "memory");
    return number(memory, number(memory, "device_bytes") > 0 ? "host_bytes" : "reserved_bytes");
}

static double resident(const struct slot *s)
{
    const int pid = slot_pid(s);
    return pid > 0 ? (double)ram_resident_of(pid) : 0;
}

double room_needed_beside(const char *plan, const struct slot *s)
{
    return fmax(room_needed(plan) - resident(s), 0);
}

struct room room_look(const struct app *app)
{
    double all = 0, promised = 0, passing = 0;
    for (int i = 0; app->pool != NULL && i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        const struct run *run = slot_kind(s) == SLOT_TRAIN ? slot_user(s) : NULL;
        const struct plan_machine *machine = slot_machine(s);
        const double has = slot_kind(s) == SLOT_TRAIN ? resident(s) : 0;
        all += has;
        if (run != NULL) {
            promised += fmax(run->needed - has, 0);
            passing += fmax(has - (machine != NULL ? (double)machine->base_bytes : 0), 0);
        }
    }
    const int64_t given = app->config.train_memory_bytes;
    const double free = (double)ram_available();
    const double left = given > 0 ? fmin(free, (double)given - all) : free;
    return (struct room){.free = left - promised, .later = left + passing};
}
