#include "server/jobs/retention.h"

#include <stdio.h>
#include <uv.h>

#include "base/mem.h"
#include "server/app.h"
#include "server/timekeeper.h"
#include "store/aliases.h"
#include "store/events.h"
#include "store/idempotency.h"

enum {
    FIRST_MS = 1000,
    EVERY_MS = 10000,
    SOON_MS = 100,    /* when there is more to remove */
    KEYS_BATCH = 200, /* answers removed at a time; each may be large */
    EVENTS_BATCH = 1000,
    ALIASES_BATCH = 50
};

/* How long it is known what became of an alias that was deleted, in seconds. */
#define ENDED_ALIASES_S (30 * 86400.0)

struct retention {
    struct app *app;
    uv_timer_t timer;
    struct alias_place place; /* among the histories of aliases */
};

static void complain(const struct app *app, const char *doing, const struct err *err)
{
    log_msg(&app->log, LOG_WARNING, "retention.failed", "doing", doing, "detail", err->detail,
            NULL);
}

/* Wall milliseconds so many seconds ago. */
static int64_t moment(const struct app *app, double seconds)
{
    return timekeeper_cautious_ms(app->timekeeper) - (int64_t)(seconds * 1e3);
}

/* true: there may be more to remove; so the others. */
static bool expire_keys(const struct app *app)
{
    int64_t count;
    struct err err;
    if (idempotency_expire(app->store, moment(app, app->config.idempotency_ttl_s), KEYS_BATCH,
                           &count, &err) < 0) {
        complain(app, "remove answers kept under Idempotency-Keys", &err);
        return false;
    }
    return count == KEYS_BATCH;
}

static bool sweep_events(const struct app *app)
{
    const double seconds = app->config.keep_events_s;
    const struct events_kept kept = {
        .finished_since_ms = seconds > 0.0 ? moment(app, seconds) : INT64_MIN,
        .newest = app->config.keep_events,
    };
    int64_t count;
    struct err err;
    if (seconds <= 0.0 && kept.newest == 0) {
        return false;
    }
    if (events_sweep(app->store, &kept, EVENTS_BATCH, &count, &err) < 0) {
        complain(app, "remove events of finished jobs", &err);
        return false;
    }
    return count == EVENTS_BATCH;
}

static void sweep_aliases(struct retention *r)
{
    int64_t count;
    struct err err;
    if (aliases_sweep(r->app->store, &r->place, ALIASES_BATCH, moment(r->app, ENDED_ALIASES_S),
                      &count, &err) < 0) {
        complain(r->app, "forget the moves of deleted aliases", &err);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct retention *r = timer->data;
    sweep_aliases(r);
    const bool keys = expire_keys(r->app);
    const bool events = sweep_events(r->app);
    uv_timer_start(timer, on_timer, keys || events ? SOON_MS : EVERY_MS, 0);
}

int retention_new(struct app *app, struct retention **ret, struct err *err)
{
    struct retention *r = mem_zalloc(sizeof(*r));
    if (r == NULL) {
        return err_no_memory(err);
    }
    r->app = app;
    uv_timer_init(app->loop, &r->timer);
    r->timer.data = r;
    uv_timer_start(&r->timer, on_timer, FIRST_MS, 0);
    uv_unref((uv_handle_t *)&r->timer);
    *ret = r;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

struct retention *retention_stop(struct retention *r)
{
    if (r != NULL) {
        uv_close((uv_handle_t *)&r->timer, on_closed);
    }
    return NULL;
}
