#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "plan/plan_served.h"
#include "server/serving/internal.h"
#include "store/limits.h"

/* What a worker needs beside numbers, until it has said so itself. */
#define MODEL_OVERHEAD_BYTES (64 << 10)

const char *serving_state_name(enum serving_state s)
{
    static const char *const names[] = {"unloaded", "loading", "loaded", "failed"};
    return names[s];
}

int serving_error(const struct json *j, struct err *ret)
{
    const char *code = json_string(json_get(j, "code"));
    const char *detail = json_string(json_get(j, "detail"));
    return err_set(ret, err_from_name(code ? code : ""), "%s",
                   detail ? detail : "The worker failed.");
}

/* ---- entries ---- */

struct entry *entry_find(const struct serving *s, int64_t key)
{
    struct entry *e = s->buckets[(uint64_t)key % SERVING_BUCKETS];
    while (e && e->key != key) {
        e = e->next_in_bucket;
    }
    return e;
}

static struct entry *find_text(const struct serving *s, const char *text_key)
{
    for (struct entry *e = s->entries; text_key && e; e = e->next) {
        if (strcmp(e->text_key, text_key) == 0) {
            return e;
        }
    }
    return NULL;
}

static bool takes_memory(const struct entry *e)
{
    return e->state == SERVING_LOADED || e->state == SERVING_LOADING;
}

static void tell_gauges(const struct serving *s)
{
    int64_t loaded = 0, bytes = 0;
    for (const struct entry *e = s->entries; e; e = e->next) {
        loaded += e->state == SERVING_LOADED;
        bytes += e->state == SERVING_LOADED ? e->bytes : 0;
    }
    metrics_gauge(s->app->metrics, METRIC_MODELS_LOADED, 0, 0, (double)loaded);
    metrics_gauge(s->app->metrics, METRIC_MODELS_BYTES, 0, 0, (double)bytes);
}

static int64_t or_else(int64_t own, int64_t usual)
{
    return own == LIMITS_UNSET ? usual : own;
}

struct model_limits serving_limits_of(const struct serving *s, const struct limits_row *own)
{
    return (struct model_limits){
        .batch_rows = or_else(own->batch_rows, s->limits.batch_rows),
        .batch_delay_us = or_else(own->batch_delay_us, s->limits.batch_delay_us),
        .queue = or_else(own->queue, s->limits.model_queue),
        .own_queue = own->queue != LIMITS_UNSET,
        .deadline_s = (double)or_else(own->deadline_us, 0) / 1e6,
    };
}

static int find_limits(struct entry *e, struct err *err)
{
    struct limits_row own;
    const int r = limits_of_version(e->serving->app->store, e->key, &own, err);
    if (r == 0) {
        e->limits = serving_limits_of(e->serving, &own);
    }
    return r;
}

void serving_limits_changed(struct serving *s)
{
    for (struct entry *e = s->entries; e; e = e->next) {
        find_limits(e, NULL); /* what cannot be read stays as it was */
    }
    turn_ask(s->turn); /* what waits may be due */
}

/* NULL with *err. */
static struct entry *add_entry(struct serving *s, const struct served_model *model, struct err *err)
{
    struct entry *e = mem_zalloc(sizeof *e);
    if (!e) {
        err_no_memory(err);
    } else {
        e->serving = s;
        e->key = model->key;
        if (find_limits(e, err) < 0) {
            return mem_free(e);
        }
        e->model = served_hold(model);
        e->asked_s = e->pace.since_s = clock_monotonic_s();
        snprintf(e->text_key, sizeof e->text_key, "%lld", (long long)model->key);
        e->next = s->entries;
        s->entries = e;
        struct entry **bucket = &s->buckets[(uint64_t)e->key % SERVING_BUCKETS];
        e->next_in_bucket = *bucket;
        *bucket = e;
    }
    return e;
}

/* Tells everybody who waits for the model; err NULL: it is ready. */
static void wake(struct entry *e, const struct err *err)
{
    struct waiter *w = e->waiters;
    e->waiters = NULL;
    while (w) {
        struct waiter *next = w->next;
        w->done(w->context, err);
        mem_free(w);
        w = next;
    }
}

void entry_remove(struct entry *e, const struct err *err)
{
    struct serving *s = e->serving;
    struct entry **link = &s->entries;
    while (*link != e) {
        link = &(*link)->next;
    }
    *link = e->next;
    link = &s->buckets[(uint64_t)e->key % SERVING_BUCKETS];
    while (*link != e) {
        link = &(*link)->next_in_bucket;
    }
    *link = e->next_in_bucket;
    s->deleted -= e->deleted;
    wake(e, err);
    served_release(e->model);
    mem_free(e);
    tell_gauges(s);
}

/* Also takes back what has arrived of a model. */
static void send_unload(const struct entry *e)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "model", e->text_key);
    slot_send(e->lane->slot, FRAME_UNLOAD, 0, j, NULL, 0, NULL, NULL, NULL);
    metrics_count(e->serving->app->metrics, METRIC_MODEL_UNLOADS, 0, 0, 1);
}

static void unload(struct entry *e, const struct err *err)
{
    if (e->lane) { /* Batches already sent are before it in the socket. */
        send_unload(e);
    }
    queue_fail(e, err);
    entry_remove(e, err);
}

/* ---- room ---- */

static bool may_leave(const struct entry *e)
{
    return e->state == SERVING_LOADED && !e->pinned && e->calls == 0 && e->away == 0;
}

static struct entry *longest_unused(const struct serving *s, const struct entry *but)
{
    struct entry *best = NULL;
    for (struct entry *e = s->entries; e; e = e->next) {
        if (e != but && may_leave(e) && (!best || e->asked_s < best->asked_s)) {
            best = e;
        }
    }
    return best;
}

/* Of all others; idle is what unload_others may take. */
static void sum_bytes(const struct serving *s, const struct entry *but, int64_t *ret_all,
                      int64_t *ret_pinned, int64_t *ret_idle)
{
    *ret_all = *ret_pinned = *ret_idle = 0;
    for (const struct entry *e = s->entries; e; e = e->next) {
        const int64_t bytes = e != but && takes_memory(e) ? e->bytes : 0;
        *ret_all += bytes;
        *ret_pinned += e->pinned ? bytes : 0;
        *ret_idle += may_leave(e) ? bytes : 0;
    }
}

static int no_room(const struct entry *e, int64_t pinned, struct err *err)
{
    const struct serving *s = e->serving;
    metrics_count(s->app->metrics, METRIC_SHED, SHED_MODELS, 0, 1);
    return err_set(err, ERR_CONFLICT,
                   "The model needs %lld bytes of memory; all models together may take %lld "
                   "(--serve-memory-bytes), of which pinned ones hold %lld.",
                   (long long)e->bytes, (long long)s->limits.memory_bytes, (long long)pinned);
}

/* Unloads others until the model fits beside `all` bytes of them; false: those that are left are at
 * work or pinned. */
static bool unload_others(struct entry *e, int64_t all)
{
    struct serving *s = e->serving;
    while (all + e->bytes > s->limits.memory_bytes) {
        struct err gone;
        struct entry *victim = longest_unused(s, e);
        if (!victim) {
            return false;
        }
        all -= victim->bytes;
        err_set(&gone, ERR_CONFLICT, "The model was unloaded to make room for another.");
        unload(victim, &gone);
    }
    return true;
}

/* Others go only where that is enough. */
static int make_room(struct entry *e, struct err *err)
{
    const struct serving *s = e->serving;
    int64_t all, pinned, idle;
    sum_bytes(s, e, &all, &pinned, &idle);
    if (s->limits.memory_bytes == 0) {
        return 0;
    }
    if (e->bytes > s->limits.memory_bytes - pinned) {
        return no_room(e, pinned, err);
    }
    const bool enough = all - idle <= s->limits.memory_bytes - e->bytes;
    return enough && unload_others(e, all)
               ? 0
               : err_set(err, ERR_BUSY,
                         "There is no memory for the model (--serve-memory-bytes) while others "
                         "are at work; try again later.");
}

/* ---- loading ---- */

static void count_load(const struct entry *e, enum metric_load how)
{
    metrics_count(e->serving->app->metrics, METRIC_MODEL_LOADS, (int)how, 0, 1);
    metrics_observe(e->serving->app->metrics, METRIC_MODEL_LOAD_SECONDS, 0, 0,
                    clock_monotonic_s() - e->load_s);
}

static void fail_load(struct entry *e, const struct err *err)
{
    if (e->lane) {
        send_unload(e);
    }
    count_load(e, LOAD_FAILED);
    e->state = SERVING_FAILED;
    e->failure = *err;
    e->lane = NULL;
    if (err->code == ERR_NOT_FOUND && !e->deleted) { /* the store has it no longer */
        e->deleted = true;
        e->serving->deleted++;
    }
    if (e->deleted && e->serving->turn) {
        turn_ask(e->serving->turn); /* it leaves then: callers still look at it */
    }
    queue_fail(e, err);
    wake(e, err);
}

static void send_next_chunk(struct entry *e);

static void on_chunk_sent(void *context)
{
    struct transfer *t = context;
    struct entry *e = entry_find(t->serving, t->key);
    if (e && e->state == SERVING_LOADING && e->load == t->load) {
        send_next_chunk(e);
    }
    mem_free(t->data);
    mem_free(t);
}

static int send_chunk(struct entry *e, void *data, size_t size, struct err *err)
{
    struct transfer *t = mem_zalloc(sizeof *t);
    if (!t) {
        mem_free(data);
        return err_no_memory(err);
    }
    *t = (struct transfer){.serving = e->serving, .key = e->key, .load = e->load, .data = data};
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "model", e->text_key);
    int r =
        slot_send(e->lane->slot, FRAME_CHUNK_DATA, e->load, j, data, size, on_chunk_sent, t, err);
    if (r < 0) {
        mem_free(data);
        mem_free(t);
    }
    return r;
}

static void send_next_chunk(struct entry *e)
{
    void *data;
    size_t size;
    struct err err;
    int r = models_chunk(e->serving->app->store, e->key, e->next_chunk, &data, &size, &err);
    if (r == 1) {
        e->next_chunk++;
        e->unsent -= (int64_t)size;
        r = send_chunk(e, data, size, &err);
    } else if (r == 0 && e->unsent > 0) {
        r = err_set(&err, ERR_CORRUPT, "The stored model is incomplete.");
    }
    if (r < 0 && r != -ERR_WORKER_LOST) {
        fail_load(e, &err);
    }
}

/* The ready worker whose models take the least memory, or NULL. */
static struct lane *choose_lane(const struct serving *s)
{
    struct lane *best = NULL;
    int64_t least = 0;
    for (struct lane *lane = s->lanes; lane; lane = lane->next) {
        if (slot_state(lane->slot) != SLOT_IDLE) {
            continue;
        }
        int64_t held = 0;
        for (const struct entry *e = s->entries; e; e = e->next) {
            held += e->lane == lane ? e->bytes : 0;
        }
        if (!best || held < least) {
            best = lane;
            least = held;
        }
    }
    return best;
}

static void begin_load(struct entry *e)
{
    struct serving *s = e->serving;
    e->state = SERVING_LOADING;
    e->lane = choose_lane(s);
    e->load = ++s->last_number;
    e->load_s = clock_monotonic_s();
    e->away = 0;
    e->next_chunk = 0;
    e->unsent = e->model->bytes;
    e->stats = (struct serving_stats){.requests = 0};
    if (!e->lane) {
        return; /* Taken up when a worker is ready. */
    }
    struct err err;
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "model", e->text_key);
    json_set_int(j, "bytes", e->model->bytes);
    int r = slot_send(e->lane->slot, FRAME_LOAD, e->load, j, NULL, 0, NULL, NULL, &err);
    if (r == 0) {
        send_next_chunk(e);
    } else if (r != -ERR_WORKER_LOST) {
        fail_load(e, &err);
    }
}

/* Before the worker has said what it takes. */
static int64_t estimate(const struct served_model *m)
{
    const char *kernel = json_string(json_get(json_get(m->description, "kernel"), "name"));
    const struct plan_served sizes = {.centers = m->centers,
                                      .d = m->d,
                                      .outputs = m->classes > 0 ? m->classes : m->outputs,
                                      .directions = m->directions,
                                      .point_bytes = m->float32 ? (int64_t)sizeof(float)
                                                                : (int64_t)sizeof(double),
                                      .l1 = kernel != NULL && strcmp(kernel, "laplacian_l1") == 0};
    const int64_t bytes = plan_served_bytes(&sizes);
    return (bytes > m->bytes ? bytes : m->bytes) + MODEL_OVERHEAD_BYTES;
}

void entry_grown(struct entry *e, int64_t bytes)
{
    int64_t all, pinned, idle;
    if (bytes <= e->bytes) {
        return;
    }
    e->bytes = bytes;
    sum_bytes(e->serving, e, &all, &pinned, &idle);
    if (e->serving->limits.memory_bytes > 0) {
        unload_others(e, all); /* else it stands as it is: the model is at work */
    }
    tell_gauges(e->serving);
}

struct entry *entry_need(struct serving *s, const struct served_model *model, struct err *err)
{
    struct entry *e = entry_find(s, model->key);
    if (e && takes_memory(e)) {
        return e;
    }
    e = e ? e : add_entry(s, model, err);
    if (!e) {
        return NULL;
    }
    e->bytes = estimate(model);
    if (make_room(e, err) < 0) {
        entry_remove(e, err);
        return NULL;
    }
    begin_load(e);
    return e;
}

void entry_loaded(struct serving *s, const struct frame *f)
{
    struct entry *e = find_text(s, json_string(json_get(f->json, "model")));
    const struct json *error = json_get(f->json, "error");
    struct err err;
    if (!e || e->load != f->request || e->state != SERVING_LOADING) {
        return;
    }
    if (error) {
        serving_error(error, &err);
        fail_load(e, &err);
        return;
    }
    e->bytes = json_int(json_get(f->json, "bytes"));
    if (make_room(e, &err) < 0) { /* It takes more than was thought. */
        fail_load(e, &err);
        return;
    }
    e->state = SERVING_LOADED;
    count_load(e, LOAD_OK);
    tell_gauges(s);
    batches_send(s);
    wake(e, NULL);
}

/* ---- workers come and go ---- */

/* Those of the lane, where NULL stands for those that have none and wait for one. A load that began
 * after `before` does not count: callbacks of a load that fails may remove any entry and begin
 * others, so that who goes through all of them begins anew after each. */
static struct entry *next_of_lane(const struct serving *s, const struct lane *lane, uint64_t before)
{
    struct entry *e = s->entries;
    while (e && (e->lane != lane || e->load > before || (!lane && e->state != SERVING_LOADING))) {
        e = e->next;
    }
    return e;
}

void entries_ready(struct serving *s)
{
    const uint64_t before = s->last_number;
    struct entry *e;
    while ((e = next_of_lane(s, NULL, before)) != NULL) {
        begin_load(e);
    }
}

void entries_recall(struct serving *s, struct lane *lane, const struct err *err)
{
    const uint64_t before = s->last_number;
    struct entry *e;
    while ((e = next_of_lane(s, lane, before)) != NULL) {
        e->lane = NULL;
        if (e->waiters || e->calls > 0 || e->pinned) {
            begin_load(e);
        } else {
            entry_remove(e, err);
        }
    }
}

/* ---- what others ask for ---- */

void serving_load(struct serving *s, const struct served_model *model,
                  void (*done)(void *context, const struct err *err), void *context)
{
    struct err err;
    struct waiter *w = mem_zalloc(sizeof *w);
    struct entry *e = w ? entry_need(s, model, &err) : NULL;
    if (!e) {
        if (!w) {
            err_no_memory(&err);
        }
        mem_free(w);
        done(context, &err);
        return;
    }
    e->asked_s = clock_monotonic_s();
    if (e->state != SERVING_LOADING) {
        mem_free(w);
        done(context, e->state == SERVING_LOADED ? NULL : &e->failure);
        return;
    }
    *w = (struct waiter){.next = e->waiters, .done = done, .context = context};
    e->waiters = w;
}

void serving_pin(struct serving *s, int64_t model_key, bool pinned)
{
    struct entry *e = entry_find(s, model_key);
    if (e) {
        e->pinned = pinned;
    }
}

void serving_unload(struct serving *s, int64_t model_key)
{
    struct entry *e = entry_find(s, model_key);
    if (!e) {
        return;
    }
    e->pinned = false;
    if (e->calls > 0) { /* Who asks for it loads it: they were here before. */
        if (e->lane) {
            send_unload(e);
        }
        begin_load(e);
        return;
    }
    struct err err;
    err_set(&err, ERR_CONFLICT, "The model was unloaded.");
    unload(e, &err);
}

static void leave(struct entry *e)
{
    struct err err;
    err_set(&err, ERR_NOT_FOUND, "The model has been deleted.");
    unload(e, &err);
}

void serving_delete(struct serving *s, int64_t model_key)
{
    struct entry *e = entry_find(s, model_key);
    if (!e) {
        return;
    }
    e->pinned = false;
    if (e->state != SERVING_LOADED || (e->calls == 0 && e->away == 0)) {
        leave(e);
    } else if (!e->deleted) {
        e->deleted = true;
        s->deleted++;
    }
}

static struct entry *next_to_leave(const struct serving *s)
{
    struct entry *e = s->deleted > 0 ? s->entries : NULL;
    while (e && !(e->deleted && e->calls == 0 && e->away == 0)) {
        e = e->next;
    }
    return e;
}

void entries_sweep(struct serving *s)
{
    struct entry *e;
    while ((e = next_to_leave(s)) != NULL) {
        leave(e);
    }
}

enum serving_state serving_state(const struct serving *s, int64_t model_key)
{
    const struct entry *e = entry_find(s, model_key);
    return e ? e->state : SERVING_UNLOADED;
}

bool serving_pinned(const struct serving *s, int64_t model_key)
{
    const struct entry *e = entry_find(s, model_key);
    return e && e->pinned;
}

int64_t serving_bytes(const struct serving *s, int64_t model_key)
{
    const struct entry *e = entry_find(s, model_key);
    return e && e->state == SERVING_LOADED ? e->bytes : 0;
}

struct serving_stats serving_statistics(const struct serving *s, int64_t model_key)
{
    const struct entry *e = entry_find(s, model_key);
    return e ? e->stats : (struct serving_stats){.requests = 0};
}

void serving_visit(const struct serving *s,
                   void (*visit)(void *context, const struct served_model *model), void *context)
{
    for (const struct entry *e = s->entries; e; e = e->next) {
        if (e->state == SERVING_LOADED) {
            visit(context, e->model);
        }
    }
}
