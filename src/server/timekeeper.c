#include "server/timekeeper.h"

#include <stdio.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "store/jobs.h"

enum { LOOK_MS = 1000, JUMP_MS = 250 };

struct timekeeper {
    struct app *app;
    uv_timer_t timer;
    int64_t first_ms; /* wall clock less monotonic clock, at the start */
    int64_t ahead_ms; /* the same, when it was looked at last */
};

static int64_t monotonic_ms(void)
{
    return (int64_t)(clock_monotonic_s() * 1e3);
}

/* What the store cannot move now is moved when it is looked at next. */
void timekeeper_look(struct timekeeper *k)
{
    const int64_t ahead_ms = clock_wall_ms() - monotonic_ms();
    const int64_t jump_ms = ahead_ms - k->ahead_ms;
    struct err err;
    if (jump_ms > -JUMP_MS && jump_ms < JUMP_MS) { /* the clock is being slewed, or ticks */
        k->ahead_ms = ahead_ms;
        return;
    }
    if (jobs_shift_attempts(k->app->store, jump_ms, &err) < 0) {
        return;
    }
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%.3f", (double)jump_ms / 1e3);
    log_msg(&k->app->log, LOG_WARNING, "clock.jumped", "seconds", seconds, NULL);
    k->ahead_ms = ahead_ms;
}

int64_t timekeeper_cautious_ms(const struct timekeeper *k)
{
    const int64_t wall_ms = clock_wall_ms();
    const int64_t steady_ms = monotonic_ms() + k->first_ms;
    return wall_ms < steady_ms ? wall_ms : steady_ms;
}

static void on_timer(uv_timer_t *timer)
{
    timekeeper_look(timer->data);
}

int timekeeper_new(struct app *app, struct timekeeper **ret, struct err *err)
{
    struct timekeeper *k = mem_zalloc(sizeof *k);
    if (!k) {
        return err_no_memory(err);
    }
    k->app = app;
    k->first_ms = k->ahead_ms = clock_wall_ms() - monotonic_ms();
    uv_timer_init(app->loop, &k->timer);
    k->timer.data = k;
    uv_timer_start(&k->timer, on_timer, LOOK_MS, LOOK_MS);
    uv_unref((uv_handle_t *)&k->timer);
    *ret = k;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

struct timekeeper *timekeeper_stop(struct timekeeper *k)
{
    if (k) {
        uv_close((uv_handle_t *)&k->timer, on_closed);
    }
    return NULL;
}
