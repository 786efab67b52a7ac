#include "server/serving/serving.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"

#define CALLS_MAX 1024 /* predictions waiting or at work, of all models together */
#define CALLS_MAX_BYTES (512u << 20)
#define CALL_ATTEMPTS 2 /* a prediction that takes two workers down is not tried a third time */

/* Somebody who waits for a model to be ready. */
struct waiter {
    struct waiter *next;
    void (*done)(void *context, const struct err *err);
    void *context;
};

/* A model in a serving worker, on its way there, or waiting for one (slot NULL). */
struct entry {
    struct entry *next;
    struct serving *serving;
    int64_t key, bytes;
    char text_key[24]; /* the key as frames carry it */
    enum serving_state state;
    struct slot *slot;
    uint64_t load; /* number of the present attempt: answers to an earlier one do not count */
    int64_t next_chunk;
    int64_t unsent; /* bytes */
    struct waiter *waiters;
};

/* A chunk on its way into the socket. It may outlive its entry. */
struct transfer {
    struct serving *serving;
    int64_t key;
    uint64_t load;
    void *data;
};

struct call {
    struct call *next;
    uint64_t handle;
    int64_t key;
    struct slot *slot; /* NULL: not sent yet */
    int attempts;
    struct serving_ask ask; /* holds the model */
};

struct serving {
    struct app *app;
    struct entry *entries;
    struct call *calls; /* oldest first */
    uint64_t last_handle;
    int64_t call_count;
    size_t call_bytes;
};

int serving_new(struct app *app, struct serving **ret, struct err *err)
{
    struct serving *s = mem_zalloc(sizeof *s);
    if (!s) {
        return err_no_memory(err);
    }
    s->app = app;
    *ret = s;
    return 0;
}

const char *serving_state_name(enum serving_state s)
{
    static const char *const names[] = {"unloaded", "loading", "loaded", "failed"};
    return names[s];
}

/* ---- entries ---- */

static struct entry *find_entry(const struct serving *s, int64_t key)
{
    for (struct entry *e = s->entries; e; e = e->next) {
        if (e->key == key) {
            return e;
        }
    }
    return NULL;
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

enum serving_state serving_state(const struct serving *s, int64_t model_key)
{
    const struct entry *e = find_entry(s, model_key);
    return e ? e->state : SERVING_UNLOADED;
}

static struct entry *add_entry(struct serving *s, const struct served_model *model)
{
    struct entry *e = mem_zalloc(sizeof *e);
    if (e) {
        e->serving = s;
        e->key = model->key;
        e->bytes = model->bytes;
        snprintf(e->text_key, sizeof e->text_key, "%lld", (long long)model->key);
        e->next = s->entries;
        s->entries = e;
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

static void remove_entry(struct entry *e, const struct err *err)
{
    struct entry **link = &e->serving->entries;
    while (*link != e) {
        link = &(*link)->next;
    }
    *link = e->next;
    wake(e, err);
    mem_free(e);
}

/* ---- calls ---- */

static size_t call_size(const struct call *c)
{
    return (size_t)c->ask.rows * (size_t)c->ask.model->d * sizeof(double);
}

static void call_end(struct serving *s, struct call **link, const struct serving_answer *answer,
                     const struct err *err)
{
    struct call *c = *link;
    *link = c->next;
    s->call_count--;
    s->call_bytes -= call_size(c);
    if (c->ask.done) {
        c->ask.done(c->ask.context, answer, err);
    }
    served_release(c->ask.model);
    mem_free(c->ask.X);
    mem_free(c);
}

/* Ends every call of the model (key) that has not been sent. */
static void fail_waiting_calls(struct serving *s, int64_t key, const struct err *err)
{
    struct call **link = &s->calls;
    while (*link) {
        if ((*link)->key == key && !(*link)->slot) {
            call_end(s, link, NULL, err);
        } else {
            link = &(*link)->next;
        }
    }
}

static bool is_late(const struct serving_ask *ask)
{
    return ask->deadline_s > 0.0 && clock_monotonic_s() >= ask->deadline_s;
}

static int too_late(struct err *err)
{
    return err_set(err, ERR_DEADLINE, "The deadline passed before a worker took the prediction.");
}

static int send_call(struct call *c, const struct entry *e, struct err *err)
{
    if (is_late(&c->ask)) {
        return too_late(err);
    }
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "model", e->text_key);
    json_set_int(j, "rows", c->ask.rows);
    int r =
        slot_send(e->slot, FRAME_PREDICT, c->handle, j, c->ask.X, call_size(c), NULL, NULL, err);
    if (r == 0) {
        c->slot = e->slot;
        c->attempts++;
    }
    return r;
}

/* A lost worker is told of by the pool: what could not be sent to it waits for that. */
static void send_waiting_calls(struct entry *e)
{
    struct call **link = &e->serving->calls;
    while (*link) {
        struct err err;
        struct call *c = *link;
        const bool waiting = c->key == e->key && !c->slot;
        const int r = waiting ? send_call(c, e, &err) : 0;
        if (r < 0 && r != -ERR_WORKER_LOST) {
            call_end(e->serving, link, NULL, &err);
        } else {
            link = &c->next;
        }
    }
}

/* ---- loading ---- */

/* Also takes back what has arrived of a model. */
static void send_unload(const struct entry *e)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "model", e->text_key);
    slot_send(e->slot, FRAME_UNLOAD, 0, j, NULL, 0, NULL, NULL, NULL);
}

static void fail_load(struct entry *e, const struct err *err)
{
    if (e->slot) {
        send_unload(e);
    }
    e->state = SERVING_FAILED;
    e->slot = NULL;
    fail_waiting_calls(e->serving, e->key, err);
    wake(e, err);
}

static void send_next_chunk(struct entry *e);

static void on_chunk_sent(void *context)
{
    struct transfer *t = context;
    struct entry *e = find_entry(t->serving, t->key);
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
    int r = slot_send(e->slot, FRAME_CHUNK_DATA, e->load, j, data, size, on_chunk_sent, t, err);
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

/* The ready worker with the fewest models, or NULL. */
static struct slot *choose_slot(const struct serving *s)
{
    struct slot *best = NULL;
    int64_t least = 0;
    for (int i = 0; s->app->pool && i < pool_size(s->app->pool); i++) {
        struct slot *slot = pool_slot(s->app->pool, i);
        if (slot_kind(slot) != SLOT_SERVE || slot_state(slot) != SLOT_IDLE) {
            continue;
        }
        int64_t held = 0;
        for (const struct entry *e = s->entries; e; e = e->next) {
            held += e->slot == slot;
        }
        if (!best || held < least) {
            best = slot;
            least = held;
        }
    }
    return best;
}

static void begin_load(struct entry *e)
{
    e->state = SERVING_LOADING;
    e->slot = choose_slot(e->serving);
    e->load = ++e->serving->last_handle;
    e->next_chunk = 0;
    e->unsent = e->bytes;
    if (!e->slot) {
        return; /* Taken up when a worker is ready. */
    }
    struct err err;
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "model", e->text_key);
    json_set_int(j, "bytes", e->bytes);
    int r = slot_send(e->slot, FRAME_LOAD, e->load, j, NULL, 0, NULL, NULL, &err);
    if (r == 0) {
        send_next_chunk(e);
    } else if (r != -ERR_WORKER_LOST) {
        fail_load(e, &err);
    }
}

/* The model's entry, loading if it was not there; NULL on lack of memory. */
static struct entry *need(struct serving *s, const struct served_model *model)
{
    struct entry *e = find_entry(s, model->key);
    if (!e) {
        e = add_entry(s, model);
    }
    if (e && (e->state == SERVING_UNLOADED || e->state == SERVING_FAILED)) {
        begin_load(e);
    }
    return e;
}

void serving_load(struct serving *s, const struct served_model *model,
                  void (*done)(void *context, const struct err *err), void *context)
{
    struct err err;
    struct waiter *w = mem_zalloc(sizeof *w);
    struct entry *e = w ? need(s, model) : NULL;
    if (!e) {
        mem_free(w);
        err_no_memory(&err);
        done(context, &err);
        return;
    }
    if (e->state != SERVING_LOADING) {
        mem_free(w);
        err_set(&err, ERR_IO, "The model could not be loaded.");
        done(context, e->state == SERVING_LOADED ? NULL : &err);
        return;
    }
    *w = (struct waiter){.next = e->waiters, .done = done, .context = context};
    e->waiters = w;
}

void serving_unload(struct serving *s, int64_t model_key)
{
    struct entry *e = find_entry(s, model_key);
    if (!e) {
        return;
    }
    struct err err;
    err_set(&err, ERR_CONFLICT, "The model was unloaded.");
    if (e->slot) { /* Calls already sent are before it in the socket. */
        send_unload(e);
    }
    fail_waiting_calls(s, model_key, &err);
    remove_entry(e, &err);
}

/* ---- predictions ---- */

static int check_queue(const struct serving *s, size_t size, struct err *err)
{
    if (size > FRAME_PAYLOAD_MAX) {
        return err_at(err, ERR_TOO_LARGE, "#/instances",
                      "A request holds at most %u MiB of numbers; send fewer rows at a time.",
                      FRAME_PAYLOAD_MAX >> 20);
    }
    if (s->call_count >= CALLS_MAX || s->call_bytes + size > CALLS_MAX_BYTES) {
        return err_set(err, ERR_BUSY, "Too many predictions are waiting; try again later.");
    }
    return 0;
}

/* Behind those that are as urgent. */
static void add_call(struct serving *s, struct call *c)
{
    struct call **link = &s->calls;
    while (*link && (*link)->ask.priority >= c->ask.priority) {
        link = &(*link)->next;
    }
    c->next = *link;
    *link = c;
    s->call_count++;
    s->call_bytes += call_size(c);
}

static int check_ask(const struct serving *s, const struct serving_ask *ask, struct err *err)
{
    const size_t size = (size_t)ask->rows * (size_t)ask->model->d * sizeof *ask->X;
    return is_late(ask) ? too_late(err) : check_queue(s, size, err);
}

int serving_predict(struct serving *s, const struct serving_ask *ask, uint64_t *ret_handle,
                    struct err *err)
{
    int r = check_ask(s, ask, err);
    struct call *c = r == 0 ? mem_zalloc(sizeof *c) : NULL;
    if (r < 0 || !c) {
        mem_free(ask->X);
        return r < 0 ? r : err_no_memory(err);
    }
    *c = (struct call){.handle = ++s->last_handle, .key = ask->model->key, .ask = *ask};
    served_hold(ask->model);
    *ret_handle = c->handle;
    add_call(s, c);
    struct entry *e = need(s, ask->model);
    if (!e) {
        serving_forget(s, c->handle);
        return err_no_memory(err);
    }
    if (e->state == SERVING_LOADED) {
        send_waiting_calls(e);
    }
    return 0;
}

static struct call **find_call(struct serving *s, uint64_t handle)
{
    for (struct call **link = &s->calls; *link; link = &(*link)->next) {
        if ((*link)->handle == handle) {
            return link;
        }
    }
    return NULL;
}

void serving_forget(struct serving *s, uint64_t handle)
{
    struct call **link = find_call(s, handle);
    if (link) {
        (*link)->ask.done = NULL;
        if (!(*link)->slot) {
            call_end(s, link, NULL, NULL);
        }
    }
}

/* ---- frames ---- */

static void error_from_json(const struct json *j, struct err *ret)
{
    const char *code = json_string(json_get(j, "code"));
    const char *detail = json_string(json_get(j, "detail"));
    err_set(ret, err_from_name(code ? code : ""), "%s", detail ? detail : "The worker failed.");
}

static void on_loaded(struct serving *s, const struct frame *f)
{
    struct entry *e = find_text(s, json_string(json_get(f->json, "model")));
    const struct json *error = json_get(f->json, "error");
    if (!e || e->load != f->request || e->state != SERVING_LOADING) {
        return;
    }
    if (error) {
        struct err err;
        error_from_json(error, &err);
        fail_load(e, &err);
        return;
    }
    e->state = SERVING_LOADED;
    send_waiting_calls(e);
    wake(e, NULL);
}

static void on_prediction(struct serving *s, const struct frame *f)
{
    struct call **link = find_call(s, f->request);
    if (!link || !f->json) {
        return;
    }
    struct err err;
    const struct json *error = json_get(f->json, "error");
    const struct serving_ask *ask = &(*link)->ask;
    const struct served_model *m = ask->model;
    const double *values = f->payload;
    const struct serving_answer a = {
        .model = m,
        .rows = ask->rows,
        .values = values,
        .scores = ask->scores && m->classes > 0 ? values + ask->rows * m->outputs : NULL,
    };
    if (error) {
        error_from_json(error, &err);
    } else if (f->payload_size != (size_t)ask->rows * (size_t)(m->outputs + m->classes) * 8) {
        error = f->json;
        err_set(&err, ERR_INTERNAL, "The worker's answer does not fit the request.");
    }
    if (!error && (*link)->slot) {
        slot_did_job((*link)->slot);
    }
    call_end(s, link, error ? NULL : &a, error ? &err : NULL);
}

static void on_frame(void *context, struct slot *slot, struct frame *f)
{
    struct serving *s = context;
    (void)slot;
    if (f->type == FRAME_LOADED && f->json) {
        on_loaded(s, f);
    } else if (f->type == FRAME_PREDICTION) {
        on_prediction(s, f);
    }
}

/* ---- workers come and go ---- */

static void on_ready(void *context, struct slot *slot)
{
    struct serving *s = context;
    (void)slot;
    for (struct entry *e = s->entries; e; e = e->next) {
        if (e->state == SERVING_LOADING && !e->slot) {
            begin_load(e);
        }
    }
}

/* Calls the worker took down with it are tried on another one, or end. */
static void recall(struct serving *s, const struct slot *slot, const struct err *err)
{
    struct call **link = &s->calls;
    while (*link) {
        struct call *c = *link;
        if (c->slot == slot && (!c->ask.done || c->attempts >= CALL_ATTEMPTS)) {
            call_end(s, link, NULL, err);
            continue;
        }
        if (c->slot == slot) {
            c->slot = NULL;
        }
        link = &c->next;
    }
}

static bool has_calls(const struct serving *s, int64_t key)
{
    for (const struct call *c = s->calls; c; c = c->next) {
        if (c->key == key) {
            return true;
        }
    }
    return false;
}

static void on_lost(void *context, struct slot *slot, const struct slot_end *end)
{
    struct serving *s = context;
    struct err err;
    err_set(&err, ERR_WORKER_LOST, "The serving worker ended unexpectedly: %s.", end->cause);
    recall(s, slot, &err);
    struct entry *next;
    for (struct entry *e = s->entries; e; e = next) {
        next = e->next;
        if (e->slot != slot) {
            continue;
        }
        e->slot = NULL;
        if (e->waiters || has_calls(s, e->key)) {
            begin_load(e);
        } else {
            remove_entry(e, &err);
        }
    }
}

struct slot_listener serving_listener(struct serving *s)
{
    return (struct slot_listener){
        .context = s, .ready = on_ready, .frame = on_frame, .lost = on_lost};
}

struct serving *serving_free(struct serving *s)
{
    if (!s) {
        return NULL;
    }
    struct err err;
    err_set(&err, ERR_BUSY, "The server is stopping.");
    while (s->calls) {
        call_end(s, &s->calls, NULL, &err);
    }
    while (s->entries) {
        remove_entry(s->entries, &err);
    }
    mem_free(s);
    return NULL;
}
