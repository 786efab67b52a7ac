#include "server/serving/serving.h"

#include "base/mem.h"
#include "server/serving/internal.h"

#define CALLS_MAX_BYTES (512u << 20)

enum {
    RATE_GAP_S = 4,    /* without an answer: what was counted before says nothing any more */
    RATE_WINDOW_S = 1, /* answers are counted for so long at least */
    RETRY_MAX_S = 60,
    PLACE_BITS = 32,
};

/* ---- handles ---- */

/* Room for as many questions as there may be, so that it never grows. */
static int places_init(struct places *p, int64_t room, struct err *err)
{
    p->calls = mem_zarray((size_t)room, sizeof *p->calls);
    p->uses = mem_zarray((size_t)room, sizeof *p->uses);
    p->free = mem_array((size_t)room, sizeof *p->free);
    if (!p->calls || !p->uses || !p->free) {
        return err_no_memory(err);
    }
    p->room = room;
    for (int64_t i = 0; i < room; i++) {
        p->free[i] = room - 1 - i;
    }
    return 0;
}

static void places_deinit(struct places *p)
{
    mem_free(p->calls);
    mem_free(p->uses);
    mem_free(p->free);
}

static void place_take(struct places *p, struct call *c)
{
    const int64_t at = p->free[p->room - 1 - p->count];
    p->count++;
    p->calls[at] = c;
    p->uses[at]++;
    c->handle = (uint64_t)p->uses[at] << PLACE_BITS | (uint64_t)at;
}

static void place_give(struct places *p, const struct call *c)
{
    const int64_t at = (int64_t)(uint32_t)c->handle;
    p->calls[at] = NULL;
    p->count--;
    p->free[p->room - 1 - p->count] = at;
}

static struct call *place_find(const struct places *p, uint64_t handle)
{
    const int64_t at = (int64_t)(uint32_t)handle;
    struct call *c = at < p->room ? p->calls[at] : NULL;
    return c && c->handle == handle ? c : NULL;
}

/* ---- the queue ---- */

void queue_add(struct entry *e, struct call *c, bool again)
{
    const int priority = c->ask.priority;
    struct call **link = &e->first;
    if (e->last && !again && e->last->ask.priority >= priority) {
        link = &e->last->next;
    }
    while (*link &&
           ((*link)->ask.priority > priority || (!again && (*link)->ask.priority == priority))) {
        link = &(*link)->next;
    }
    c->next = *link;
    *link = c;
    if (!c->next) {
        e->last = c;
    }
    c->entry = e;
    e->rows += call_left(c);
    e->serving->waiting++;
    if (e->calls++ == 0) {
        e->busy_prev = NULL;
        e->busy_next = e->serving->busy;
        if (e->busy_next) {
            e->busy_next->busy_prev = e;
        }
        e->serving->busy = e;
    }
}

static void leave_busy(struct entry *e)
{
    if (e->busy_prev) {
        e->busy_prev->busy_next = e->busy_next;
    } else {
        e->serving->busy = e->busy_next;
    }
    if (e->busy_next) {
        e->busy_next->busy_prev = e->busy_prev;
    }
}

void queue_remove(struct entry *e, struct call **link)
{
    struct call *c = *link;
    *link = c->next;
    if (e->last == c) {
        e->last = NULL;
        for (struct call *at = e->first; at; at = at->next) {
            e->last = at;
        }
    }
    c->next = NULL;
    c->entry = NULL;
    e->rows -= call_left(c);
    e->serving->waiting--;
    if (--e->calls == 0) {
        leave_busy(e);
    }
}

void queue_fail(struct entry *e, const struct err *err)
{
    while (e->first) {
        struct call *c = e->first;
        queue_remove(e, &e->first);
        call_end(e->serving, c, NULL, err);
    }
}

/* ---- ends ---- */

/* How many were answered a second, over the last second or so. Time in which nobody asked is none
 * in which answers were slow. */
static void count_answer(struct pace *p, double now_s)
{
    const double passed = now_s - p->since_s;
    if (passed > RATE_GAP_S) {
        *p = (struct pace){.answered = 1, .since_s = now_s};
        return;
    }
    p->answered++;
    if (passed >= RATE_WINDOW_S) {
        p->rate = (double)p->answered / passed;
        p->answered = 0;
        p->since_s = now_s;
    }
}

static enum metric_prediction how_it_ended(const struct err *err)
{
    if (!err) {
        return PREDICTION_OK;
    }
    const bool shed = err->code == ERR_DEADLINE || err->code == ERR_BUSY;
    return shed ? PREDICTION_SHED : PREDICTION_FAILED;
}

static void count_end(struct serving *s, const struct call *c, const struct err *err)
{
    const double now = clock_monotonic_s();
    const double seconds = now - c->arrived_s;
    const enum metric_prediction how = how_it_ended(err);
    metrics_count(s->app->metrics, METRIC_PREDICTIONS, (int)how, 0, 1);
    metrics_observe(s->app->metrics, METRIC_PREDICTION_SECONDS, (int)how, 0, seconds);
    struct entry *e = entry_find(s, c->ask.model->key);
    if (e && !err) {
        e->stats.requests++;
        e->stats.rows += c->ask.rows;
        e->stats.success_s += seconds;
        e->stats.last_ms = clock_wall_ms();
    } else if (e) {
        e->stats.failed++;
        e->stats.failed_s += seconds;
    }
    if (e) {
        count_answer(&e->pace, now);
    }
    count_answer(&s->pace, now);
}

void call_end(struct serving *s, struct call *c, const struct serving_answer *answer,
              const struct err *err)
{
    place_give(&s->places, c);
    s->call_bytes -= ask_bytes(&c->ask);
    if (s->deleted > 0 && s->turn) {
        turn_ask(s->turn); /* it may be the last that such a model had to answer */
    }
    if (c->ask.done) {
        count_end(s, c, err);
        c->ask.done(c->ask.context, answer, err);
    }
    served_release(c->ask.model);
    mem_free(c->ask.X);
    mem_free(c->numbers);
    mem_free(c);
}

/* ---- questions ---- */

static int busy(const struct serving *s, struct err *err, const char *what)
{
    metrics_count(s->app->metrics, METRIC_PREDICTIONS, PREDICTION_SHED, 0, 1);
    return err_set(err, ERR_BUSY, "Too many predictions are waiting%s; try again later.", what);
}

/* The model's own comes first, so that a model that is asked too much is refused as such
 * (serving_crowded), whatever else is full. */
static int check_queues(const struct serving *s, int64_t model_key, struct err *err)
{
    if (serving_crowded(s, model_key)) {
        return busy(s, err,
                    entry_find(s, model_key)->limits.own_queue
                        ? " for this model (its limit \"queue\")"
                        : " for this model (--serve-model-queue)");
    }
    return s->places.count < s->places.room ? 0 : busy(s, err, " (--serve-queue)");
}

static int check_ask(const struct serving *s, const struct serving_ask *ask, struct err *err)
{
    const size_t size = (size_t)ask->rows * (size_t)ask->model->d * sizeof *ask->X;
    if (size > FRAME_PAYLOAD_MAX) {
        return err_at(err, ERR_TOO_LARGE, "#/instances",
                      "A request holds at most %u MiB of numbers; send fewer rows at a time.",
                      FRAME_PAYLOAD_MAX >> 20);
    }
    if (answer_bytes(ask) > FRAME_PAYLOAD_MAX) {
        return err_at(err, ERR_TOO_LARGE, "#/instances",
                      "The answer would exceed %u MiB; send fewer rows at a time.",
                      FRAME_PAYLOAD_MAX >> 20);
    }
    if (call_is_late(ask, clock_monotonic_s())) {
        return call_too_late(err);
    }
    const int r = check_queues(s, ask->model->key, err);
    if (r == 0 && s->call_bytes + ask_bytes(ask) > CALLS_MAX_BYTES) {
        return busy(s, err, ", with all the numbers that may wait");
    }
    return r;
}

static int place_call(struct serving *s, struct call *c, struct err *err)
{
    struct entry *e = entry_need(s, c->ask.model, err);
    if (!e) {
        return -(int)err->code;
    }
    if (e->state == SERVING_FAILED) {
        *err = e->failure;
        return -(int)err->code;
    }
    if (e->limits.deadline_s > 0.0) {
        const double last = c->arrived_s + e->limits.deadline_s;
        const double asked = c->ask.deadline_s;
        c->ask.deadline_s = asked > 0.0 && asked < last ? asked : last;
    }
    place_take(&s->places, c);
    s->call_bytes += ask_bytes(&c->ask);
    served_hold(c->ask.model);
    queue_add(e, c, false);
    e->asked_s = c->arrived_s;
    return 0;
}

int serving_predict(struct serving *s, const struct serving_ask *ask, uint64_t *ret_handle,
                    struct err *err)
{
    struct err why;
    int r = check_ask(s, ask, &why);
    struct call *c = r == 0 ? mem_zalloc(sizeof *c) : NULL;
    if (c) {
        const double now = clock_monotonic_s();
        *c = (struct call){.ask = *ask, .arrived_s = now, .waits_s = now};
        r = place_call(s, c, &why);
    } else if (r == 0) {
        r = err_no_memory(&why);
    }
    if (r < 0) {
        mem_free(ask->X);
        mem_free(c);
        if (err) {
            *err = why;
        }
        return r;
    }
    *ret_handle = c->handle;
    turn_ask(s->turn);
    if (c->ask.deadline_s > 0.0) {
        turn_at(s->turn, c->ask.deadline_s);
    }
    return 0;
}

static struct call **link_of(struct entry *e, const struct call *c)
{
    struct call **link = &e->first;
    while (*link != c) {
        link = &(*link)->next;
    }
    return link;
}

void serving_forget(struct serving *s, uint64_t handle)
{
    struct call *c = place_find(&s->places, handle);
    if (!c) {
        return;
    }
    metrics_count(s->app->metrics, METRIC_PREDICTIONS, PREDICTION_GONE, 0, 1);
    c->ask.done = NULL; /* Of one that is away the place in the batch is kept. */
    if (!c->batch) {
        queue_remove(c->entry, link_of(c->entry, c));
        call_end(s, c, NULL, NULL);
    }
}

int64_t serving_questions(const struct serving *s)
{
    return s->places.count;
}

bool serving_crowded(const struct serving *s, int64_t model_key)
{
    const struct entry *e = entry_find(s, model_key);
    return e && e->calls >= e->limits.queue;
}

int serving_retry_s(const struct serving *s, int64_t model_key)
{
    const struct entry *e = serving_crowded(s, model_key) ? entry_find(s, model_key) : NULL;
    const double rate = e ? e->pace.rate : s->pace.rate;
    const int64_t before = e ? e->calls : s->places.count;
    const double seconds = rate > 0.0 ? (double)before / rate : 1.0;
    return seconds < 1.0 ? 1 : seconds > RETRY_MAX_S ? RETRY_MAX_S : (int)seconds;
}

/* ---- time ---- */

/* One that is away is answered too, although its batch comes back. */
static void expire(struct serving *s, struct call *c)
{
    struct err err;
    call_too_late(&err);
    if (c->batch) {
        void (*done)(void *, const struct serving_answer *, const struct err *) = c->ask.done;
        c->ask.done = NULL;
        count_end(s, c, &err);
        done(c->ask.context, NULL, &err);
    } else {
        queue_remove(c->entry, link_of(c->entry, c));
        call_end(s, c, NULL, &err);
    }
}

static void on_due(void *context)
{
    struct serving *s = context;
    const double now = clock_monotonic_s();
    double next = 0.0;
    for (int64_t i = 0; i < s->places.room; i++) {
        struct call *c = s->places.calls[i];
        if (!c || !c->ask.done || c->ask.deadline_s <= 0.0) {
            continue;
        }
        if (c->ask.deadline_s <= now) {
            expire(s, c);
        } else if (next <= 0.0 || c->ask.deadline_s < next) {
            next = c->ask.deadline_s;
        }
    }
    if (next > 0.0) {
        turn_at(s->turn, next);
    }
    batches_send(s);
}

static void on_turn(void *context)
{
    batches_send(context);
    entries_sweep(context);
}

/* ---- workers ---- */

static void on_ready(void *context, struct slot *slot)
{
    struct serving *s = context;
    struct lane *lane = slot_user(slot);
    if (!lane) {
        lane = mem_zalloc(sizeof *lane);
        if (!lane) {
            return; /* It takes no part until it is replaced. */
        }
        *lane = (struct lane){.next = s->lanes, .slot = slot};
        s->lanes = lane;
        slot_set_user(slot, lane);
    }
    entries_ready(s);
}

static void on_frame(void *context, struct slot *slot, struct frame *f)
{
    struct serving *s = context;
    if (f->type == FRAME_LOADED && f->json) {
        entry_loaded(s, f);
    } else if (f->type == FRAME_PREDICTION && slot_user(slot)) {
        batches_take(s, slot_user(slot), f);
    }
}

static void on_lost(void *context, struct slot *slot, const struct slot_end *end)
{
    struct serving *s = context;
    struct err err;
    err_set(&err, ERR_WORKER_LOST, "The serving worker ended unexpectedly: %s.", end->cause);
    if (slot_user(slot)) {
        batches_recall(s, slot_user(slot), &err);
        entries_recall(s, slot_user(slot), &err);
    }
}

struct slot_listener serving_listener(struct serving *s)
{
    return (struct slot_listener){
        .context = s, .ready = on_ready, .frame = on_frame, .lost = on_lost};
}

int serving_new(struct app *app, const struct serving_limits *limits, struct serving **ret,
                struct err *err)
{
    static const struct turn_ops ops = {.end = on_turn, .due = on_due};
    struct serving *s = mem_zalloc(sizeof *s);
    if (!s) {
        return err_no_memory(err);
    }
    s->app = app;
    s->limits = *limits;
    s->pace.since_s = clock_monotonic_s();
    int r = places_init(&s->places, limits->queue, err);
    r = r == 0 ? turn_new(app->loop, &ops, s, &s->turn, err) : r;
    if (r < 0) {
        return serving_free(s), r;
    }
    *ret = s;
    return 0;
}

struct serving *serving_free(struct serving *s)
{
    if (!s) {
        return NULL;
    }
    struct err err;
    err_set(&err, ERR_BUSY, "The server is stopping.");
    while (s->lanes) {
        struct lane *next = s->lanes->next;
        batches_free(s, s->lanes, &err);
        mem_free(s->lanes);
        s->lanes = next;
    }
    while (s->entries) {
        queue_fail(s->entries, &err);
        entry_remove(s->entries, &err);
    }
    turn_free(s->turn);
    places_deinit(&s->places);
    mem_free(s);
    return NULL;
}
