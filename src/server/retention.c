#include "server/retention.h"

#include <stdio.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "store/idempotency.h"

enum {
    FIRST_MS = 1000,
    EVERY_MS = 10000,
    BATCH = 200 /* answers removed at a time; each may be large */
};

struct retention {
    struct app *app;
    uv_timer_t timer;
};

static void complain(const struct app *app, const char *doing, const struct err *err)
{
    log_msg(&app->log, LOG_WARNING, "retention.failed", "doing", doing, "detail", err->detail,
            NULL);
}

static void expire_keys(const struct app *app)
{
    const int64_t oldest = clock_wall_ms() - (int64_t)(app->config.idempotency_ttl_s * 1e3);
    int64_t count;
    struct err err;
    if (idempotency_expire(app->store, oldest, BATCH, &count, &err) < 0) {
        complain(app, "remove answers kept under Idempotency-Keys", &err);
    }
}

static void on_timer(uv_timer_t *timer)
{
    const struct retention *r = timer->data;
    expire_keys(r->app);
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
    uv_timer_start(&r->timer, on_timer, FIRST_MS, EVERY_MS);
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
