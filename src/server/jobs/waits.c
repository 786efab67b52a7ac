#include "server/jobs/waits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http.h"
#include "server/rate.h"
#include "store/jobs.h"

struct waiter {
    struct waiter *next, **link;
    struct waits *set;
    struct request *request;
    void (*answer)(struct request *rq);
    char job[ID_SIZE];
    double deadline; /* monotonic seconds */
};

struct waits {
    struct app *app;
    struct waiter *first;
    int count;
    struct rate rate; /* how fast they make room */
    uv_timer_t timer; /* for the earliest deadline */
};

static void waiter_free(struct waiter *w)
{
    *w->link = w->next;
    if (w->next != NULL) {
        w->next->link = w->link;
    }
    w->set->count--;
    rate_add(&w->set->rate, clock_monotonic_s(), 1.0);
    mem_free(w);
}

static void on_gone(struct request *rq)
{
    waiter_free(rq->deferral);
}

static void end(struct waiter *w)
{
    struct request *rq = w->request;
    void (*answer)(struct request *) = w->answer;
    rq->on_gone = NULL;
    waiter_free(w);
    answer(rq);
}

static void arm(struct waits *s);

static void on_timer(uv_timer_t *timer)
{
    struct waits *s = timer->data;
    const double now = clock_monotonic_s();
    for (struct waiter *w = s->first, *next; w != NULL; w = next) {
        next = w->next;
        if (w->deadline <= now) {
            end(w);
        }
    }
    arm(s);
}

static void arm(struct waits *s)
{
    double earliest = INFINITY;
    for (const struct waiter *w = s->first; w != NULL; w = w->next) {
        earliest = fmin(earliest, w->deadline);
    }
    if (isfinite(earliest)) {
        const double ms = ceil(fmax(earliest - clock_monotonic_s(), 0.0) * 1e3);
        uv_update_time(s->timer.loop);
        uv_timer_start(&s->timer, on_timer, (uint64_t)ms, 0);
    } else {
        uv_timer_stop(&s->timer);
    }
}

int waits_new(struct app *app, struct waits **ret, struct err *err)
{
    struct waits *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->app = app;
    uv_timer_init(app->loop, &s->timer);
    s->timer.data = s;
    *ret = s;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

struct waits *waits_stop(struct waits *s)
{
    if (s != NULL) {
        uv_close((uv_handle_t *)&s->timer, on_closed);
    }
    return NULL;
}

int waits_add(struct waits *s, struct request *rq, const char *job, int64_t seconds,
              void (*answer)(struct request *rq), struct err *err)
{
    if (s->count >= s->app->config.max_waits) {
        return err_set(err, ERR_BUSY,
                       "%d requests (--max-waits) wait for jobs already; try again later.",
                       s->count);
    }
    struct waiter *w = mem_zalloc(sizeof(*w));
    if (w == NULL) {
        return err_no_memory(err);
    }
    *w = (struct waiter){.next = s->first, .link = &s->first, .set = s, .request = rq};
    w->answer = answer;
    w->deadline = clock_monotonic_s() + (double)seconds;
    snprintf(w->job, sizeof(w->job), "%s", job);
    if (w->next != NULL) {
        w->next->link = &w->next;
    }
    s->first = w;
    s->count++;
    rq->deferral = w;
    rq->on_gone = on_gone;
    arm(s);
    return 0;
}

int waits_retry_after_s(const struct waits *s)
{
    return rate_retry_after_s(&s->rate, clock_monotonic_s(), 1.0);
}

int waits_count(const struct waits *s)
{
    return s->count;
}

/* What is deleted will not change any more either. */
static bool has_ended(const struct waits *s, const char *job)
{
    bool final = true;
    jobs_final(s->app->store, job, &final, NULL);
    return final;
}

void waits_notify(struct waits *s, const char *job)
{
    bool known = false, ended = false;
    for (struct waiter *w = s->first, *next; w != NULL; w = next) {
        next = w->next;
        if (strcmp(w->job, job) == 0) {
            ended = known ? ended : has_ended(s, job);
            known = true;
            if (ended) {
                end(w);
            }
        }
    }
}

void waits_end(struct waits *s)
{
    while (s->first != NULL) {
        end(s->first);
    }
}
