#include "server/turns.h"

#include <math.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/spin.h"
#include "server/app.h"
#include "server/metrics.h"
#include "server/serving/serving.h"

/* Questions at which the loop still looks: more keep it busy enough, and their clients need the
 * processor, where they are on this machine. */
#define FEW_QUESTIONS 2

struct turns {
    struct app *app;
    uv_prepare_t prepare;
    uv_check_t check;
    double since, idle; /* seconds, at the end of the last turn */
    /* For a worker's answer, and for whatever else: one may be near where the other is not. */
    struct spin worker, others;
    struct spin *waiting; /* the present wait's; NULL: none */
    int open;             /* handles */
};

static void observe(struct turns *t)
{
    const double now = clock_monotonic_s();
    const double idle = 1e-9 * (double)uv_metrics_idle_time(t->app->loop);
    metrics_observe(t->app->metrics, METRIC_LOOP_TURN_SECONDS, 0, 0,
                    fmax(now - t->since - (idle - t->idle), 0.0));
    t->idle = idle;
}

static struct spin *choose(struct turns *t)
{
    const int64_t questions = t->app->serving ? serving_questions(t->app->serving) : 0;
    if (questions > FEW_QUESTIONS) {
        return NULL;
    }
    return questions > 0 ? &t->worker : &t->others;
}

static void on_prepare(uv_prepare_t *handle)
{
    struct turns *t = handle->data;
    observe(t);
    if (uv_backend_timeout(handle->loop) != 0) { /* the loop is about to sleep */
        t->waiting = choose(t);
    }
    if (t->waiting) {
        spin_begin(t->waiting, uv_backend_fd(handle->loop));
    }
    t->since = clock_monotonic_s();
}

/* How long the loop was in on_prepare and asleep: what its callbacks did since is no waiting. */
static double waited(const struct turns *t)
{
    const double idle = 1e-9 * (double)uv_metrics_idle_time(t->app->loop);
    return t->since - t->waiting->began_s + (idle - t->idle);
}

static void on_check(uv_check_t *handle)
{
    struct turns *t = handle->data;
    if (t->waiting) {
        spin_waited(t->waiting, waited(t));
        t->waiting = NULL;
    }
}

int turns_begin(struct app *app, struct turns **ret, struct err *err)
{
    struct turns *t = mem_zalloc(sizeof *t);
    if (!t) {
        return err_no_memory(err);
    }
    uv_loop_t *loop = app->loop;
    *t = (struct turns){.app = app, .since = clock_monotonic_s(), .open = 2};
    t->idle = 1e-9 * (double)uv_metrics_idle_time(loop);
    spin_init(&t->worker, 1e-6 * (double)app->config.busy_poll_us);
    spin_init(&t->others, 1e-6 * (double)app->config.busy_poll_us);
    uv_prepare_init(loop, &t->prepare);
    uv_check_init(loop, &t->check);
    t->prepare.data = t->check.data = t;
    uv_prepare_start(&t->prepare, on_prepare);
    uv_check_start(&t->check, on_check);
    uv_unref((uv_handle_t *)&t->prepare);
    uv_unref((uv_handle_t *)&t->check);
    *ret = t;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct turns *t = handle->data;
    if (--t->open == 0) {
        mem_free(t);
    }
}

struct turns *turns_end(struct turns *t)
{
    if (t) {
        uv_close((uv_handle_t *)&t->prepare, on_closed);
        uv_close((uv_handle_t *)&t->check, on_closed);
    }
    return NULL;
}
