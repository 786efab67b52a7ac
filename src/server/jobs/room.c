#include "server/jobs/room.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/ram.h"
#include "server/app.h"
#include "server/jobs/run.h"
#include "server/pool/pool.h"

/* Workers' processes differ by some pages from one start to the next: where nothing is at work, a
 * job that was admitted with what was known of them then may have so much more of the bound. */
#define SLACK (1.0 / 64.0)

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
    return pid > 0 ? (double)ram_own_of(pid) : 0;
}

/* What an idle worker counts for in the bound: its process as it was before its first job, for it
 * gives back what jobs leave. */
static double idle_bytes(const struct slot *s, double has)
{
    const struct plan_machine *machine = slot_machine(s);
    return machine != NULL ? fmin(has, (double)machine->base_bytes) : has;
}

struct room room_look(const struct app *app)
{
    struct room room = {.system = (double)ram_available(), .given = INFINITY};
    double all = 0;
    for (int i = 0; app->pool != NULL && i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (slot_kind(s) != SLOT_TRAIN) {
            continue;
        }
        const struct run *run = slot_user(s);
        const double has = resident(s), idle = idle_bytes(s, has);
        all += run != NULL ? has : idle;
        room.promised += run != NULL ? fmax(run->needed - has, 0) : 0;
        room.passing += run != NULL ? has - idle : 0;
    }
    const double given = (double)app->config.train_memory_bytes;
    if (given > 0) {
        const bool alone = room.promised + room.passing <= 0;
        room.given = given * (alone ? 1 + SLACK : 1) - all;
    }
    return room;
}

struct room_share room_for(const struct room *room, const struct slot *idle)
{
    const double has = resident(idle);
    const double most = fmin(has + room->system, idle_bytes(idle, has) + room->given);
    const double now = fmax(most - room->promised, has);
    return (struct room_share){.has = has, .now = now, .later = fmax(now, most + room->passing)};
}
