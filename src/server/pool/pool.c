#include <signal.h>

#include "base/mem.h"
#include "server/pool/pool_internal.h"

/* ---- leases ---- */

static void on_beat_timer(uv_timer_t *timer)
{
    struct pool *p = timer->data;
    for (int i = 0; i < p->size; i++) {
        if (p->slots[i]->child) {
            child__check_lease(p->slots[i]);
        }
    }
}

static void watch_leases(struct pool *p)
{
    const double interval_ms = 1e3 * p->options.lease_s / LEASE_BEATS;
    const uint64_t ms = interval_ms > 1.0 ? (uint64_t)interval_ms : 1;
    uv_timer_start(&p->beats, on_beat_timer, ms, ms);
}

/* ---- starting ---- */

static int add_slots(struct pool *p, const struct pool_options *o, struct err *err)
{
    for (int i = 0; i < o->count; i++) {
        struct slot *s = slot__new(p, &o->places[i]);
        if (!s) {
            return err_no_memory(err);
        }
        p->slots[p->size++] = s;
    }
    return 0;
}

static struct pool *pool_alloc(void *loop, const struct log *log, const struct pool_options *o)
{
    struct pool *p = mem_zalloc(sizeof *p);
    if (!p) {
        return NULL;
    }
    p->loop = loop;
    p->log = log;
    p->options = *o;
    p->options.places = NULL;
    p->slots = mem_zarray((size_t)o->count, sizeof *p->slots);
    uv_timer_init(p->loop, &p->grace);
    p->grace.data = p;
    uv_timer_init(p->loop, &p->beats);
    p->beats.data = p;
    p->open_timers = 2;
    return p;
}

int pool_new(void *loop, const struct log *log, const struct pool_options *o, struct pool **ret,
             struct err *err)
{
    struct pool *p = pool_alloc(loop, log, o);
    if (!p) {
        return err_no_memory(err);
    }
    int r = p->slots ? add_slots(p, o, err) : err_no_memory(err);
    for (int i = 0; r == 0 && i < p->size; i++) {
        r = child__start(p->slots[i], err);
    }
    watch_leases(p);
    *ret = p; /* also when half-built: the caller stops and frees it */
    return r;
}

/* ---- stopping ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct pool *p = handle->data;
    p->open_timers--;
    pool__maybe_stopped(p);
}

static void on_slot_timer_closed(uv_handle_t *handle)
{
    struct slot *s = handle->data;
    s->pool->open_timers--;
    pool__maybe_stopped(s->pool);
}

static void on_grace(uv_timer_t *timer)
{
    struct pool *p = timer->data;
    for (int i = 0; i < p->size; i++) {
        slot_kill(p->slots[i], SIGKILL);
    }
}

/* The timers close when the last child is gone; `stopped` is told after them. */
void pool__maybe_stopped(struct pool *p)
{
    if (!p->stopping || p->alive > 0) {
        return;
    }
    if (!uv_is_closing((uv_handle_t *)&p->grace)) {
        uv_close((uv_handle_t *)&p->grace, on_timer_closed);
        uv_close((uv_handle_t *)&p->beats, on_timer_closed);
        for (int i = 0; i < p->size; i++) {
            uv_close((uv_handle_t *)&p->slots[i]->timer, on_slot_timer_closed);
        }
    } else if (p->open_timers == 0 && p->stopped) {
        p->stopped(p->stopped_context);
    }
}

void pool_stop(struct pool *p, double grace_s, void (*stopped)(void *context), void *context)
{
    p->stopping = true;
    p->stopped = stopped;
    p->stopped_context = context;
    uv_timer_start(&p->grace, on_grace, (uint64_t)(grace_s * 1000.0), 0);
    for (int i = 0; i < p->size; i++) {
        struct slot *s = p->slots[i];
        uv_timer_stop(&s->timer);
        if (s->child) {
            s->state = SLOT_STOPPING;
            slot_send(s, FRAME_QUIT, 0, NULL, NULL, 0, NULL, NULL, NULL);
        }
    }
    pool__maybe_stopped(p);
}

struct pool *pool_free(struct pool *p)
{
    if (p) {
        for (int i = 0; i < p->size; i++) {
            slot__free(p->slots[i]);
        }
        mem_free(p->slots);
        mem_free(p);
    }
    return NULL;
}

int pool_size(const struct pool *p)
{
    return p->size;
}

struct slot *pool_slot(const struct pool *p, int index)
{
    return p->slots[index];
}
