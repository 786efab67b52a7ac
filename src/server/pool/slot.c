#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/pool/pool_internal.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS 5000
#define YOUNG_S 10.0 /* a worker that dies earlier doubles the back-off */
#define QUARANTINE_DOUBLINGS 5

const char *slot_kind_name(enum slot_kind k)
{
    return k == SLOT_TRAIN ? "train" : "serve";
}

const char *slot_state_name(enum slot_state s)
{
    static const char *const names[] = {"starting", "idle", "busy",
                                        "stopping", "down", "quarantined"};
    return names[s];
}

const struct slot_listener *slot__listener(const struct slot *s)
{
    return s->kind == SLOT_TRAIN ? &s->pool->options.train : &s->pool->options.serve;
}

void slot__count(const struct slot *s, enum metric what)
{
    metrics_count(s->pool->options.metrics, what, (int)s->kind, 0, 1);
}

/* "train:0" is the first of its kind. */
static void name(struct slot *s)
{
    int index = 0;
    for (int i = 0; i < s->pool->size; i++) {
        index += s->pool->slots[i]->kind == s->kind;
    }
    snprintf(s->name, sizeof s->name, "%s:%d", slot_kind_name(s->kind), index);
}

struct slot *slot__free(struct slot *s)
{
    if (s) {
        mem_free(s->device);
        mem_free(s->program);
        mem_free(s);
    }
    return NULL;
}

struct slot *slot__new(struct pool *p, const struct pool_place *place)
{
    struct slot *s = mem_zalloc(sizeof *s);
    if (!s) {
        return NULL;
    }
    s->pool = p;
    s->kind = place->kind;
    s->device = mem_strdup(place->device);
    s->program = mem_strdup(place->program);
    if (!s->device || !s->program) {
        return slot__free(s);
    }
    s->state = SLOT_DOWN;
    s->backoff_ms = BACKOFF_FIRST_MS;
    name(s);
    uv_timer_init(p->loop, &s->timer);
    s->timer.data = s;
    p->open_timers++;
    return s;
}

/* ---- the next start ---- */

static void start_later(struct slot *s);

static void on_start_timer(uv_timer_t *timer)
{
    struct slot *s = timer->data;
    struct err err;
    s->restarts++;
    slot__count(s, METRIC_WORKER_RESTARTS);
    s->quarantined_until_ms = 0;
    if (child__start(s, &err) < 0) {
        log_msg(s->pool->log, LOG_ERROR, "worker.start_failed", "worker", s->name, "detail",
                err.detail, NULL);
        start_later(s);
    }
}

static void start_later(struct slot *s)
{
    const bool young = clock_monotonic_s() - s->started < YOUNG_S;
    const uint64_t delay = young ? s->backoff_ms : BACKOFF_FIRST_MS;
    s->backoff_ms = delay * 2 < BACKOFF_MAX_MS ? delay * 2 : BACKOFF_MAX_MS;
    uv_timer_start(&s->timer, on_start_timer, delay, 0);
}

static void quarantine(struct slot *s, const char *why)
{
    const double factor =
        1u << (s->quarantines < QUARANTINE_DOUBLINGS ? s->quarantines : QUARANTINE_DOUBLINGS);
    const double delay_ms = 1e3 * s->pool->options.quarantine_s * factor;
    s->quarantines++;
    slot__count(s, METRIC_WORKER_QUARANTINES);
    s->losses = 0;
    s->state = SLOT_QUARANTINED;
    s->quarantined_until_ms = clock_wall_ms() + (int64_t)delay_ms;
    snprintf(s->quarantine, sizeof s->quarantine, "%s", why);
    log_msg(s->pool->log, LOG_ERROR, "worker.quarantined", "worker", s->name, "detail", why, NULL);
    uv_timer_start(&s->timer, on_start_timer, (uint64_t)delay_ms, 0);
}

/* What becomes of the slot. */
void slot__judge(struct slot *s, const struct child *c)
{
    char why[160];
    if (c->fault[0] != '\0') {
        quarantine(s, c->fault);
    } else if (s->losses >= s->pool->options.quarantine_after) {
        snprintf(why, sizeof why, "Its worker was lost with %d jobs in a row.", s->losses);
        quarantine(s, why);
    } else {
        start_later(s);
    }
}

/* ---- what others may know and say ---- */

const char *slot_name(const struct slot *s)
{
    return s->name;
}

enum slot_kind slot_kind(const struct slot *s)
{
    return s->kind;
}

enum slot_state slot_state(const struct slot *s)
{
    return s->state;
}

const char *slot_device(const struct slot *s)
{
    return s->device;
}

bool slot_takes(const struct slot *s, const char *wanted)
{
    const size_t kind = strcspn(s->device, ":");
    return strcmp(wanted, "auto") == 0 || strcmp(wanted, s->device) == 0 ||
           (strlen(wanted) == kind && strncmp(wanted, s->device, kind) == 0);
}

const struct plan_machine *slot_machine(const struct slot *s)
{
    return s->known ? &s->machine : NULL;
}

int slot_pid(const struct slot *s)
{
    return s->child ? uv_process_get_pid(&s->child->process) : 0;
}

int64_t slot_restarts(const struct slot *s)
{
    return s->restarts;
}

void *slot_user(const struct slot *s)
{
    return s->user;
}

void slot_set_user(struct slot *s, void *user)
{
    s->user = user;
}

void slot_set_busy(struct slot *s, bool busy)
{
    if (s->state == SLOT_IDLE || s->state == SLOT_BUSY) {
        s->state = busy ? SLOT_BUSY : SLOT_IDLE;
    }
}

int64_t slot_heard_ms(const struct slot *s)
{
    return s->heard_ms;
}

const char *slot_quarantine(const struct slot *s, int64_t *ret_until_ms)
{
    *ret_until_ms = s->quarantined_until_ms;
    return s->quarantined_until_ms != 0 ? s->quarantine : NULL;
}

void slot_did_job(struct slot *s)
{
    s->losses = s->quarantines = 0;
    s->lost_job[0] = '\0';
}

void slot_lost_job(struct slot *s, const char *job)
{
    if (strcmp(s->lost_job, job) != 0) {
        snprintf(s->lost_job, sizeof s->lost_job, "%s", job);
        s->losses++;
    }
}

void slot_kill(struct slot *s, int signal)
{
    if (s->child) {
        child__kill(s->child, signal);
    }
}
