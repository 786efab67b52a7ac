#include "server/turns.h"

#include <poll.h>
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
    double since; /* monotonic seconds: the end of the last wait */
    /* For a worker's answer, and for whatever else: one may be near where the other is not. */
    struct spin worker, others;
};

/* NULL: nobody looks. */
static struct spin *choose(struct turns *t)
{
    const int64_t questions = t->app->serving ? serving_questions(t->app->serving) : 0;
    if (questions > FEW_QUESTIONS) {
        return NULL;
    }
    return questions > 0 ? &t->worker : &t->others;
}

/* Until there is something for the loop, or a timer of it is due, whatever signals come meanwhile.
 * The loop itself finds what it was then, and has nothing to wait for. */
static void sleep_for(uv_loop_t *loop)
{
    struct pollfd p = {.fd = uv_backend_fd(loop), .events = POLLIN};
    int ms, ready = 0;
    while (ready <= 0 && (ms = uv_backend_timeout(loop)) != 0) {
        ready = poll(&p, 1, ms);
        uv_update_time(loop);
    }
}

static void wait_for(uv_loop_t *loop, struct spin *s)
{
    if (s) {
        spin_begin(s, uv_backend_fd(loop));
    }
    sleep_for(loop);
    if (s) {
        spin_end(s);
    }
}

static void on_prepare(uv_prepare_t *handle)
{
    struct turns *t = handle->data;
    metrics_observe(t->app->metrics, METRIC_LOOP_TURN_SECONDS, 0, 0,
                    clock_monotonic_s() - t->since);
    if (uv_backend_timeout(handle->loop) != 0) {
        wait_for(handle->loop, choose(t));
    }
    t->since = clock_monotonic_s();
}

int turns_begin(struct app *app, struct turns **ret, struct err *err)
{
    struct turns *t = mem_zalloc(sizeof *t);
    if (!t) {
        return err_no_memory(err);
    }
    *t = (struct turns){.app = app, .since = clock_monotonic_s()};
    spin_init(&t->worker, 1e-6 * (double)app->config.busy_poll_us);
    spin_init(&t->others, 1e-6 * (double)app->config.busy_poll_us);
    uv_prepare_init(app->loop, &t->prepare);
    t->prepare.data = t;
    uv_prepare_start(&t->prepare, on_prepare);
    uv_unref((uv_handle_t *)&t->prepare);
    *ret = t;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

struct turns *turns_end(struct turns *t)
{
    if (t) {
        uv_close((uv_handle_t *)&t->prepare, on_closed);
    }
    return NULL;
}
