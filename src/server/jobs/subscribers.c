#include "server/jobs/subscribers.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http.h"
#include "server/jobs/waits.h"
#include "server/metrics.h"
#include "server/rate.h"
#include "server/view.h"
#include "store/events.h"
#include "store/jobs.h"

#define HEARTBEAT_MS 15000
#define PAGE_EVENTS 100
/* A listener with more than this not yet taken waits for the next notice or tick. */
#define PENDING_ENOUGH (256u << 10)
#define CATCH_UP_MS 200
/* How long what a worker tells may wait to be written to disk together with what follows. */
#define SOON_MS 10

struct listener {
    struct listener *next, **link; /* in the set's list */
    struct subscribers *set;
    struct stream *stream;
    char job[ID_SIZE];
    int64_t sent; /* id of the last event sent */
    bool behind;  /* there may be more in the log than was sent */
    bool ended;
};

struct subscribers {
    struct app *app;
    struct listener *first;
    int count;
    struct rate rate; /* how fast they make room */
    uv_timer_t heartbeat, catch_up, soon;
    int open_timers;
};

static void unlink_listener(struct listener *l)
{
    l->set->count--;
    rate_add(&l->set->rate, clock_monotonic_s(), 1.0);
    *l->link = l->next;
    if (l->next) {
        l->next->link = l->link;
    }
}

static void on_closed(void *context)
{
    struct listener *l = context;
    unlink_listener(l);
    mem_free(l);
}

static void end_listener(struct listener *l)
{
    l->ended = true;
    l->behind = false;
    stream_end(l->stream);
}

/* What the client has not been sent it asks for when it comes back, with the last id it saw. */
static void turn_away(struct listener *l)
{
    if (!l->ended) {
        stream_comment(l->stream, "the server is stopping; come back");
        end_listener(l);
    }
}

/* ---- pages of the log ---- */

/* Some events of a job as they go over the wire: read and printed once for all listeners that have
 * come as far. Valid while nothing else is written. */
struct page {
    char job[ID_SIZE];
    int64_t after;
    struct event_row *rows;
    char **texts; /* NULL on lack of memory */
    int64_t count;
    bool whole; /* the log has no more, and none will come */
};

static void page_free(struct page *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        mem_free(p->texts[i]);
    }
    mem_free(p->texts);
    events_list_free(p->rows, p->count);
    *p = (struct page){.count = 0};
}

static bool job_is_final(struct subscribers *s, const char *job)
{
    bool final = true; /* Deleted: nothing will come any more. */
    jobs_final(s->app->store, job, &final, NULL);
    return final;
}

static int print_events(struct page *p)
{
    p->texts = mem_zarray((size_t)p->count, sizeof *p->texts);
    for (int64_t i = 0; p->texts && i < p->count; i++) {
        cleanup_json struct json *j = view_event(&p->rows[i]);
        p->texts[i] = j ? json_print(j) : NULL;
    }
    return p->texts || p->count == 0 ? 0 : -ERR_NO_MEMORY;
}

/* The status is read before the log: what is final before the last page was read is complete. */
static int page_read(struct subscribers *s, const struct listener *l, struct page *p)
{
    page_free(p);
    snprintf(p->job, sizeof p->job, "%s", l->job);
    p->after = l->sent;
    const bool final = job_is_final(s, l->job);
    int r = events_list(s->app->store, l->job, l->sent, PAGE_EVENTS, &p->rows, &p->count, NULL);
    if (r == 0 && print_events(p) < 0) {
        events_list_free(p->rows, p->count);
        p->rows = NULL;
        p->count = 0;
        r = -ERR_NO_MEMORY;
    }
    p->whole = final && p->count < PAGE_EVENTS;
    return r;
}

static bool page_fits(const struct page *p, const struct listener *l)
{
    return p->after == l->sent && strcmp(p->job, l->job) == 0;
}

/* ---- listeners ---- */

static void send_page(struct listener *l, const struct page *p)
{
    for (int64_t i = 0; i < p->count && p->texts[i]; i++) {
        stream_event(l->stream, p->rows[i].id, p->rows[i].type, p->texts[i]);
        l->sent = p->rows[i].id;
        metrics_count(l->set->app->metrics, METRIC_LISTENER_EVENTS, 0, 0, 1);
    }
}

/* *p is a page read before, or empty, and then one that was read for this listener. */
static void pump(struct listener *l, struct page *p)
{
    while (!l->ended) {
        if (stream_pending(l->stream) > PENDING_ENOUGH) {
            l->behind = true;
            return;
        }
        if (!page_fits(p, l) && page_read(l->set, l, p) < 0) {
            end_listener(l);
            return;
        }
        const int64_t count = p->count;
        const bool whole = p->whole;
        send_page(l, p);
        if (whole) {
            end_listener(l);
        } else if (count < PAGE_EVENTS) {
            l->behind = false;
            return;
        }
    }
}

/* Only what is durable may be told. */
static void pump_all(struct subscribers *s, const char *job)
{
    struct page page = {.count = 0};
    app_settle(s->app, NULL);
    for (struct listener *l = s->first; l; l = l->next) {
        if (job ? strcmp(l->job, job) == 0 : l->behind) {
            pump(l, &page);
        }
    }
    page_free(&page);
}

void subscribers_notify(struct subscribers *s, const char *job)
{
    waits_notify(s->app->waits, job);
    pump_all(s, job);
}

static void on_soon(uv_timer_t *timer)
{
    struct subscribers *s = timer->data;
    pump_all(s, NULL);
}

void subscribers_expect(struct subscribers *s, const char *job)
{
    for (struct listener *l = s->first; l; l = l->next) {
        l->behind = l->behind || (!l->ended && strcmp(l->job, job) == 0);
    }
    if (!uv_is_active((uv_handle_t *)&s->soon)) {
        uv_timer_start(&s->soon, on_soon, SOON_MS, 0);
    }
}

int subscribers_count(const struct subscribers *s)
{
    return s->count;
}

static bool anybody_behind(const struct subscribers *s)
{
    for (const struct listener *l = s->first; l; l = l->next) {
        if (l->behind) {
            return true;
        }
    }
    return false;
}

static void on_catch_up(uv_timer_t *timer)
{
    struct subscribers *s = timer->data;
    if (anybody_behind(s)) {
        pump_all(s, NULL);
    }
}

static void on_heartbeat(uv_timer_t *timer)
{
    struct subscribers *s = timer->data;
    for (struct listener *l = s->first; l; l = l->next) {
        if (!l->ended) {
            stream_comment(l->stream, "still here");
        }
    }
}

int subscribers_new(struct app *app, struct subscribers **ret, struct err *err)
{
    struct subscribers *s = mem_zalloc(sizeof *s);
    if (!s) {
        return err_no_memory(err);
    }
    s->app = app;
    s->open_timers = 3;
    uv_timer_init(app->loop, &s->heartbeat);
    uv_timer_init(app->loop, &s->catch_up);
    uv_timer_init(app->loop, &s->soon);
    s->heartbeat.data = s->catch_up.data = s->soon.data = s;
    uv_timer_start(&s->heartbeat, on_heartbeat, HEARTBEAT_MS, HEARTBEAT_MS);
    uv_timer_start(&s->catch_up, on_catch_up, CATCH_UP_MS, CATCH_UP_MS);
    uv_unref((uv_handle_t *)&s->heartbeat);
    uv_unref((uv_handle_t *)&s->catch_up);
    *ret = s;
    return 0;
}

void subscribers_drain(struct subscribers *s)
{
    for (struct listener *l = s->first; l; l = l->next) {
        turn_away(l);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct subscribers *s = handle->data;
    s->open_timers--;
}

void subscribers_stop(struct subscribers *s)
{
    if (!s || uv_is_closing((uv_handle_t *)&s->heartbeat)) {
        return;
    }
    for (struct listener *l = s->first; l; l = l->next) {
        if (!l->ended) {
            end_listener(l);
        }
    }
    uv_close((uv_handle_t *)&s->heartbeat, on_timer_closed);
    uv_close((uv_handle_t *)&s->catch_up, on_timer_closed);
    uv_close((uv_handle_t *)&s->soon, on_timer_closed);
}

struct subscribers *subscribers_free(struct subscribers *s)
{
    while (s && s->first) { /* Streams that http_stop did not get to close. */
        struct listener *l = s->first;
        unlink_listener(l);
        mem_free(l);
    }
    mem_free(s);
    return NULL;
}

void subscribers_add(struct subscribers *s, struct request *rq, const char *job, int64_t after)
{
    struct err err;
    if (s->count >= s->app->config.max_listeners) {
        request_shed(rq, SHED_LISTENERS, rate_retry_after_s(&s->rate, clock_monotonic_s(), 1.0));
        err_set(&err, ERR_BUSY, "%d event streams (--max-listeners) are open; try again later.",
                s->count);
        reply_error(rq, &err);
        return;
    }
    struct listener *l = mem_zalloc(sizeof *l);
    if (!l) {
        err_no_memory(&err);
        reply_error(rq, &err);
        return;
    }
    l->set = s;
    l->sent = after;
    snprintf(l->job, sizeof l->job, "%s", job);
    l->stream = reply_stream(rq, on_closed, l);
    if (!l->stream) {
        mem_free(l);
        return;
    }
    l->next = s->first;
    l->link = &s->first;
    if (l->next) {
        l->next->link = &l->next;
    }
    s->first = l;
    s->count++;
    stream_comment(l->stream, "events follow"); /* Sends the headers at once. */
    struct page page = {.count = 0};
    pump(l, &page);
    page_free(&page);
    if (s->app->draining) {
        turn_away(l);
    }
}
