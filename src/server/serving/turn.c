#include "server/serving/turn.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"

struct turn {
    const struct turn_ops *ops;
    void *context;
    uv_check_t check;
    uv_idle_t idle; /* keeps the loop from sleeping before the end of a turn that has begun */
    uv_poll_t poll; /* of the timer */
    int timer;
    bool asked;
    double when_s; /* 0: none */
    int open;      /* handles */
};

static void on_check(uv_check_t *check)
{
    struct turn *t = check->data;
    uv_check_stop(&t->check);
    uv_idle_stop(&t->idle);
    t->asked = false;
    t->ops->end(t->context);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
    struct turn *t = poll->data;
    uint64_t times;
    (void)status;
    (void)events;
    if (read(t->timer, &times, sizeof times) == (ssize_t)sizeof times) {
        t->when_s = 0.0;
        t->ops->due(t->context);
    }
}

void turn_ask(struct turn *t)
{
    if (!t->asked) {
        t->asked = true;
        uv_check_start(&t->check, on_check);
        uv_idle_start(&t->idle, on_idle);
    }
}

void turn_at(struct turn *t, double when_s)
{
    if (t->when_s > 0.0 && t->when_s <= when_s) {
        return;
    }
    const int64_t ns = when_s > 1e-9 ? (int64_t)(1e9 * when_s) : 1; /* 0 would stop it */
    const struct itimerspec at = {
        .it_value = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}};
    t->when_s = when_s;
    timerfd_settime(t->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

int turn_new(void *loop, const struct turn_ops *ops, void *context, struct turn **ret,
             struct err *err)
{
    struct turn *t = mem_zalloc(sizeof *t);
    if (!t) {
        return err_no_memory(err);
    }
    *t = (struct turn){.ops = ops, .context = context, .open = 3};
    t->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (t->timer < 0) {
        mem_free(t);
        return err_errno(err, "create a timer");
    }
    const int r = uv_poll_init(loop, &t->poll, t->timer);
    if (r != 0) {
        close(t->timer);
        mem_free(t);
        return err_set(err, ERR_INTERNAL, "A timer cannot be watched: %s.", uv_strerror(r));
    }
    uv_check_init(loop, &t->check);
    uv_idle_init(loop, &t->idle);
    t->check.data = t->idle.data = t->poll.data = t;
    uv_poll_start(&t->poll, UV_READABLE, on_timer);
    *ret = t;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct turn *t = handle->data;
    if (--t->open == 0) {
        close(t->timer);
        mem_free(t);
    }
}

struct turn *turn_free(struct turn *t)
{
    if (t) {
        uv_close((uv_handle_t *)&t->check, on_closed);
        uv_close((uv_handle_t *)&t->idle, on_closed);
        uv_close((uv_handle_t *)&t->poll, on_closed);
    }
    return NULL;
}
