#include "server/jobs/subscribers.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/mem.h"
#include "server/app.h"
#include "server/http/http.h"
#include "server/jobs/waits.h"
#include "server/metrics.h"
#include "server/view.h"
#include "store/events.h"
#include "store/jobs.h"

#define HEARTBEAT_MS 15000
#define BATCH_EVENTS 100
/* A listener with more than this not yet taken waits for the next notice or tick. */
#define PENDING_ENOUGH (256u << 10)
#define CATCH_UP_MS 200

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
    uv_timer_t heartbeat, catch_up;
    int open_timers;
};

static void unlink_listener(struct listener *l)
{
    l->set->count--;
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

static bool job_is_final(struct subscribers *s, const char *job)
{
    struct job_row row;
    if (jobs_get(s->app->store, job, &row, NULL) < 0) {
        return true; /* Deleted: nothing will come any more. */
    }
    const bool final = job_status_final(row.status);
    job_row_deinit(&row);
    return final;
}

static void send_event(struct listener *l, const struct event_row *e)
{
    cleanup_json struct json *j = view_event(e);
    cleanup_mem char *text = json_print(j);
    if (text) {
        stream_event(l->stream, e->id, e->type, text);
        l->sent = e->id;
        metrics_count(l->set->app->metrics, METRIC_LISTENER_EVENTS, 0, 0, 1);
    }
}

/* One batch from the log: how many events, or < 0. */
static int64_t send_batch(struct listener *l)
{
    struct event_row *rows;
    int64_t count;
    if (events_list(l->set->app->store, l->job, l->sent, BATCH_EVENTS, &rows, &count, NULL) < 0) {
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        send_event(l, &rows[i]);
    }
    events_list_free(rows, count);
    return count;
}

/* The status is read before the log: what is final before the last batch was read is complete. */
static void pump(struct listener *l)
{
    while (!l->ended) {
        if (stream_pending(l->stream) > PENDING_ENOUGH) {
            l->behind = true;
            return;
        }
        const bool final = job_is_final(l->set, l->job);
        const int64_t count = send_batch(l);
        if (count < 0 || (count < BATCH_EVENTS && final)) {
            end_listener(l);
        } else if (count < BATCH_EVENTS) {
            l->behind = false;
            return;
        }
    }
}

int subscribers_count(const struct subscribers *s)
{
    return s->count;
}

void subscribers_notify(struct subscribers *s, const char *job)
{
    waits_notify(s->app->waits, job);
    for (struct listener *l = s->first; l; l = l->next) {
        if (strcmp(l->job, job) == 0) {
            pump(l);
        }
    }
}

static void on_catch_up(uv_timer_t *timer)
{
    struct subscribers *s = timer->data;
    for (struct listener *l = s->first; l; l = l->next) {
        if (l->behind) {
            pump(l);
        }
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
    s->open_timers = 2;
    uv_timer_init(app->loop, &s->heartbeat);
    uv_timer_init(app->loop, &s->catch_up);
    s->heartbeat.data = s->catch_up.data = s;
    uv_timer_start(&s->heartbeat, on_heartbeat, HEARTBEAT_MS, HEARTBEAT_MS);
    uv_timer_start(&s->catch_up, on_catch_up, CATCH_UP_MS, CATCH_UP_MS);
    uv_unref((uv_handle_t *)&s->heartbeat);
    uv_unref((uv_handle_t *)&s->catch_up);
    *ret = s;
    return 0;
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
    struct listener *l = mem_zalloc(sizeof *l);
    if (!l) {
        struct err err;
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
    pump(l);
}
