#include "server/http/http_loop.h"

#include <uv.h>

#include "base/mem.h"

enum { SWEEP_MS = 1000 };

struct http_loop {
    const struct http_loop_ops *ops;
    void *context;
    uv_poll_t poll;
    uv_timer_t wake;
    uv_idle_t at_once; /* for a delay of 0: a timer that starts itself again with 0 never lets the
                        * loop go on (libuv 1.44) */
    uv_timer_t sweep;
    uv_timer_t alarm; /* for a deadline before the next sweep */
    int open;         /* handles not closed yet */
};

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct http_loop *l = handle->data;
    (void)status;
    (void)events;
    l->ops->run(l->context);
}

static void on_wake(uv_timer_t *handle)
{
    struct http_loop *l = handle->data;
    l->ops->run(l->context);
}

static void on_idle(uv_idle_t *handle)
{
    struct http_loop *l = handle->data;
    uv_idle_stop(handle);
    l->ops->run(l->context);
}

static void on_sweep(uv_timer_t *handle)
{
    struct http_loop *l = handle->data;
    l->ops->sweep(l->context);
}

static void on_closed(uv_handle_t *handle)
{
    struct http_loop *l = handle->data;
    l->open--;
    if (l->open == 0) {
        l->ops->closed(l->context);
        mem_free(l);
    }
}

int http_loop_open(void *loop, int fd, const struct http_loop_ops *ops, void *context,
                   struct http_loop **ret, struct err *err)
{
    struct http_loop *l = mem_zalloc(sizeof(*l));
    if (l == NULL) {
        return err_no_memory(err);
    }
    *l = (struct http_loop){.ops = ops, .context = context, .open = 5};
    const int rc = uv_poll_init(loop, &l->poll, fd);
    if (rc != 0) {
        mem_free(l);
        return err_set(err, ERR_IO, "Could not watch the server's sockets: %s.", uv_strerror(rc));
    }
    uv_timer_init(loop, &l->wake);
    uv_idle_init(loop, &l->at_once);
    uv_timer_init(loop, &l->sweep);
    uv_timer_init(loop, &l->alarm);
    l->poll.data = l->wake.data = l->at_once.data = l->sweep.data = l->alarm.data = l;
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
    uv_timer_start(&l->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    *ret = l;
    return 0;
}

void http_loop_wake(struct http_loop *l, long delay_ms)
{
    if (delay_ms == 0) {
        uv_idle_start(&l->at_once, on_idle);
    } else if (delay_ms > 0) {
        uv_timer_start(&l->wake, on_wake, (uint64_t)delay_ms, 0);
    } else {
        uv_timer_stop(&l->wake);
    }
}

void http_loop_alarm(struct http_loop *l, long delay_ms)
{
    const uint64_t due = uv_timer_get_due_in(&l->alarm);
    if (!uv_is_active((uv_handle_t *)&l->alarm) || (uint64_t)delay_ms < due) {
        uv_timer_start(&l->alarm, on_sweep, (uint64_t)delay_ms, 0);
    }
}

void http_loop_close(struct http_loop *l)
{
    uv_close((uv_handle_t *)&l->poll, on_closed);
    uv_close((uv_handle_t *)&l->wake, on_closed);
    uv_close((uv_handle_t *)&l->at_once, on_closed);
    uv_close((uv_handle_t *)&l->sweep, on_closed);
    uv_close((uv_handle_t *)&l->alarm, on_closed);
}
