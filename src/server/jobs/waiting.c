#include "server/jobs/waiting.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/app.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/trainer.h"
#include "server/pool/pool.h"
#include "server/view.h"

/* The training workers that may take a job, by what they are at. */
struct census {
    int all, idle, busy, quarantined;
    int64_t until_ms; /* the first quarantine ends */
};

static struct census count(const struct app *app, const struct job_row *job)
{
    struct census c = {.all = 0};
    for (int i = 0; app->pool != NULL && i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (slot_kind(s) != SLOT_TRAIN || !slot_takes(s, job->wanted_device)) {
            continue;
        }
        int64_t until_ms = 0;
        c.all++;
        c.idle += slot_state(s) == SLOT_IDLE;
        c.busy += slot_state(s) == SLOT_BUSY;
        if (slot_quarantine(s, &until_ms) != NULL) {
            c.quarantined++;
            c.until_ms = c.until_ms == 0 || until_ms < c.until_ms ? until_ms : c.until_ms;
        }
    }
    return c;
}

static struct json *say(const char *code, const char *detail, int64_t until_ms)
{
    struct json *j = json_new_object();
    json_set_string(j, "code", code);
    json_set_string(j, "detail", detail);
    view_set_stamp(j, "until", until_ms);
    return j;
}

static struct json *for_worker(const struct census *c, int64_t position)
{
    char text[128];
    if (c->busy > 0) {
        snprintf(text, sizeof text, "%d of %d training workers are at work; %lld %s first.",
                 c->busy, c->all, (long long)position, position == 1 ? "job comes" : "jobs come");
        return say("worker_busy", text, 0);
    }
    if (c->quarantined > 0) {
        return say("worker_quarantined",
                   "No training worker is up: the device of one is in quarantine.", c->until_ms);
    }
    return say("no_worker", "No training worker is up.", 0);
}

static struct json *for_memory(const struct app *app, const struct job_row *job)
{
    char text[192];
    struct dispatch_memory m;
    switch (dispatch_lack(trainer_dispatch(app->trainer), app, job, &m)) {
    case DISPATCH_MEMORY:
        snprintf(
            text, sizeof text,
            "The job needs %.3g GB of memory more than its worker has, and %.3g GB are free%s.",
            m.needed / 1e9, m.free / 1e9, m.ours ? "; jobs at work have the rest" : "");
        return say("memory", text, 0);
    case DISPATCH_TURN:
        return say("memory", "A job that comes first waits for memory.", 0);
    case DISPATCH_NOTHING:
        break;
    }
    return NULL;
}

struct json *waiting_for(const struct app *app, const struct job_row *job, int64_t queue_position)
{
    if (job->status != JOB_QUEUED) {
        return NULL;
    }
    if (app->draining) {
        return say("draining", "The server is being stopped; the job waits for its next start.", 0);
    }
    if (job->next_attempt_ms > clock_wall_ms()) {
        return say("retry_delay", "Its worker was lost: the next attempt begins later.",
                   job->next_attempt_ms);
    }
    const struct census c = count(app, job);
    return c.idle > 0 ? for_memory(app, job)
                      : for_worker(&c, queue_position > 0 ? queue_position : 0);
}
