/*
 * The serving room without workers: questions wait in the order of their urgency, in bounded
 * queues, until their deadline or their clients' end; models come and go within the budget of
 * memory. What goes to workers and comes back is tested over HTTP (tests/http/test_serving.py).
 */
#include <uv.h>

#include "server/serving/internal.h"
#include "store/limits.h"
#include "store_fixture.h"

enum { D = 2, MODELS = 4 };

struct room {
    struct fixture *f;
    uv_loop_t loop;
    struct app app;
    struct serving *s;
    const struct served_model *models[MODELS];
};

static const struct served_model *model_described(int64_t key, const char *name, const char *text)
{
    struct model_row row = {.key = key,
                            .name = mem_strdup(name),
                            .version = key,
                            .description = mem_strdup(text),
                            .bytes = 1000};
    const struct served_model *m = NULL;
    assert_int_equal(served_of_row(&row, &m, NULL), 0);
    return m;
}

static const struct served_model *model_of(int64_t key, const char *name)
{
    return model_described(key, name,
                           "{\"features\":[\"a\",\"b\"],\"targets\":[\"y\"],\"centers\":10}");
}

static struct serving_limits usual(void)
{
    return (struct serving_limits){
        .batch_rows = 64, .batch_delay_us = 5, .model_queue = 3, .queue = 5};
}

static struct room *room_open(struct fixture *f, struct serving_limits limits)
{
    struct room *r = mem_zalloc(sizeof *r);
    r->f = f;
    assert_int_equal(uv_loop_init(&r->loop), 0);
    r->app.loop = &r->loop;
    r->app.store = f->store;
    OK(serving_new(&r->app, &limits, &r->s, &f->err));
    for (int i = 0; i < MODELS; i++) {
        r->models[i] = model_of(i + 1, i == MODELS - 1 ? "other" : "m");
    }
    return r;
}

static void room_close(struct room *r)
{
    serving_free(r->s);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    for (int i = 0; i < MODELS; i++) {
        served_release(r->models[i]);
    }
    mem_free(r);
}

/* What became of a question: 0 while it waits, else the code of its error. */
static void tell(void *context, const struct serving_answer *answer, const struct err *err)
{
    int *told = context;
    assert_null(answer);
    assert_int_equal(*told, 0);
    *told = (int)err->code;
}

static int ask(struct room *r, int model, int priority, double deadline_s, int *told,
               uint64_t *ret_handle)
{
    struct serving_ask a = {.model = r->models[model],
                            .X = mem_zarray(D, sizeof(double)),
                            .rows = 1,
                            .priority = priority,
                            .deadline_s = deadline_s,
                            .done = tell,
                            .context = told};
    *told = 0;
    return serving_predict(r->s, &a, ret_handle, &r->f->err);
}

static struct entry *entry_of(const struct room *r, int model)
{
    struct entry *e = entry_find(r->s, r->models[model]->key);
    assert_non_null(e);
    return e;
}

/* The questions wait in this order. */
static void check_order(const struct room *r, int model, const uint64_t *handles, int count)
{
    const struct entry *e = entry_of(r, model);
    const struct call *c = e->first;
    for (int i = 0; i < count; i++, c = c->next) {
        assert_non_null(c);
        assert_int_equal(c->handle, handles[i]);
        assert_true(i + 1 < count || e->last == c);
    }
    assert_null(c);
    assert_int_equal(e->calls, count);
    assert_int_equal(e->rows, count);
}

/* ---- a worker that is ready and takes everything ---- */

enum slot_state __wrap_slot_state(const struct slot *s);
int __wrap_slot_send(struct slot *s, enum frame_type type, uint64_t request, const struct json *j,
                     const void *payload, size_t size, void (*sent)(void *context), void *context,
                     struct err *err);

enum slot_state __wrap_slot_state(const struct slot *s)
{
    (void)s;
    return SLOT_IDLE;
}

int __wrap_slot_send(struct slot *s, enum frame_type type, uint64_t request, const struct json *j,
                     const void *payload, size_t size, void (*sent)(void *context), void *context,
                     struct err *err)
{
    (void)s, (void)type, (void)request, (void)j, (void)payload, (void)size, (void)err;
    if (sent) {
        sent(context);
    }
    return 0;
}

static void add_lane(struct room *r)
{
    struct lane *lane = mem_zalloc(sizeof *lane);
    assert_non_null(lane);
    *lane = (struct lane){.next = r->s->lanes};
    r->s->lanes = lane;
}

/* ---- questions ---- */

static void test_the_urgent_go_first(void **state)
{
    struct serving_limits limits = usual();
    limits.model_queue = 5;
    struct room *r = room_open(*state, limits);
    static const int priorities[] = {0, 5, 0, -1, 5};
    static const int order[] = {1, 4, 0, 2, 3};
    uint64_t handles[5], expected[5];
    int told[5];
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask(r, 0, priorities[i], 0.0, &told[i], &handles[i]), 0);
    }
    for (int i = 0; i < 5; i++) {
        expected[i] = handles[order[i]];
    }
    check_order(r, 0, expected, 5);
    serving_forget(r->s, expected[4]); /* the last one; the queue's end is the one before */
    check_order(r, 0, expected, 4);
    serving_forget(r->s, expected[0]);
    check_order(r, 0, expected + 1, 3);
    assert_int_equal(serving_questions(r->s), 3);
    serving_forget(r->s, expected[0]); /* a second time: nothing */
    assert_int_equal(serving_questions(r->s), 3);
    room_close(r);
    for (int i = 0; i < 5; i++) { /* who left is not told; the others are: the server stops */
        assert_int_equal(told[i], i == 1 || i == 3 ? 0 : ERR_BUSY);
    }
}

/* What comes back from a lost worker goes in front of its equals. */
static void test_what_waits_again(void **state)
{
    struct room *r = room_open(*state, usual());
    uint64_t handles[3];
    int told[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(r, 0, i == 0 ? 1 : 0, 0.0, &told[i], &handles[i]), 0);
    }
    struct entry *e = entry_of(r, 0);
    struct call *last = e->last;
    queue_remove(e, &e->first->next->next);
    check_order(r, 0, handles, 2);
    queue_add(e, last, true);
    check_order(r, 0, (const uint64_t[]){handles[0], handles[2], handles[1]}, 3);
    room_close(r);
}

static void test_queues_are_bounded(void **state)
{
    struct room *r = room_open(*state, usual());
    uint64_t handles[6];
    int told[6];
    for (int i = 0; i < 3; i++) {
        assert_false(serving_crowded(r->s, 1));
        assert_int_equal(ask(r, 0, 0, 0.0, &told[i], &handles[i]), 0);
    }
    assert_true(serving_crowded(r->s, 1));
    assert_int_equal(ask(r, 0, 9, 0.0, &told[3], &handles[3]), -ERR_BUSY);
    assert_contains(r->f->err.detail, "for this model");
    assert_int_equal(ask(r, 1, 0, 0.0, &told[3], &handles[3]), 0); /* another version */
    assert_int_equal(ask(r, 2, 0, 0.0, &told[4], &handles[4]), 0);
    assert_false(serving_crowded(r->s, 3));
    assert_int_equal(ask(r, 2, 0, 0.0, &told[5], &handles[5]), -ERR_BUSY); /* five in all */
    serving_forget(r->s, handles[4]);
    assert_int_equal(ask(r, 2, 0, 0.0, &told[5], &handles[5]), 0);
    assert_true(serving_retry_s(r->s, 1) >= 1);
    room_close(r);
}

/* Runs the loop until the question was told something. */
static void wait_for(struct room *r, const int *told)
{
    while (*told == 0) {
        uv_run(&r->loop, UV_RUN_ONCE);
    }
}

static void test_deadlines(void **state)
{
    struct room *r = room_open(*state, usual());
    const double now = clock_monotonic_s();
    uint64_t handles[4];
    int told[4];
    assert_int_equal(ask(r, 0, 0, now + 3600.0, &told[0], &handles[0]), 0);
    assert_int_equal(ask(r, 0, 0, now + 0.02, &told[1], &handles[1]), 0);
    assert_int_equal(ask(r, 0, 0, now + 0.01, &told[2], &handles[2]), 0); /* sooner than those */
    assert_int_equal(ask(r, 0, 0, now - 1.0, &told[3], &handles[3]), -ERR_DEADLINE);
    wait_for(r, &told[2]);
    wait_for(r, &told[1]);
    assert_int_equal(told[2], ERR_DEADLINE);
    assert_int_equal(told[1], ERR_DEADLINE);
    assert_true(clock_monotonic_s() >= now + 0.02);
    check_order(r, 0, handles, 1);
    room_close(r);
    assert_int_equal(told[0], ERR_BUSY);
}

/* ---- limits of a model ---- */

static void publish(struct fixture *f, const char *name)
{
    int64_t key, version;
    OK(models_stage_import(f->store, name, &key, &f->err));
    OK(models_stage_chunk(f->store, key, "model", 5, &f->err));
    OK(models_stage_seal(f->store, key, "{}", SHA, 5, &f->err));
    OK(models_publish_import(f->store, key, 1, NULL, &version, &f->err));
}

static void test_limits_of_a_model(void **state)
{
    struct fixture *f = *state;
    struct room *r = room_open(f, usual());
    struct limits_row own = {LIMITS_UNSET, LIMITS_UNSET, 1, 10000};
    int told[3];
    uint64_t handles[3];
    for (int i = 0; i < MODELS; i++) { /* their keys are those of the room's */
        publish(f, i == MODELS - 1 ? "other" : "m");
    }
    OK(limits_set(f->store, "m", &own, &f->err));
    const double now = clock_monotonic_s();
    assert_int_equal(ask(r, 0, 0, 0.0, &told[0], &handles[0]), 0);
    assert_int_equal(entry_of(r, 0)->limits.batch_rows, 64);
    assert_int_equal(entry_of(r, 0)->limits.batch_delay_us, 5);
    assert_int_equal(ask(r, 0, 0, 0.0, &told[1], &handles[1]), -ERR_BUSY);
    assert_int_equal(ask(r, 3, 0, 0.0, &told[1], &handles[1]), 0); /* another model's */
    assert_int_equal(ask(r, 3, 0, 0.0, &told[2], &handles[2]), 0);
    wait_for(r, &told[0]); /* without a deadline of its own */
    assert_int_equal(told[0], ERR_DEADLINE);
    assert_true(clock_monotonic_s() >= now + 0.01);
    own = (struct limits_row){7, 0, 2, LIMITS_UNSET};
    OK(limits_set(f->store, "m", &own, &f->err));
    serving_limits_changed(r->s); /* from now on */
    assert_int_equal(entry_of(r, 0)->limits.batch_rows, 7);
    assert_int_equal(entry_of(r, 3)->limits.batch_rows, 64);
    assert_int_equal(ask(r, 0, 0, 0.0, &told[0], &handles[0]), 0);
    assert_int_equal(told[1] + told[2], 0);
    room_close(r);
}

/* ---- models ---- */

static void ignore(void *context, const struct err *err)
{
    int *told = context;
    *told = err ? (int)err->code : -1;
}

/* As when a worker has said that it holds the model. */
static void load(struct room *r, int model, double asked_s)
{
    int told = 0;
    serving_load(r->s, r->models[model], ignore, &told);
    assert_int_equal(told, 0); /* it waits for a worker */
    struct entry *e = entry_of(r, model);
    mem_free(e->waiters);
    e->waiters = NULL;
    e->state = SERVING_LOADED;
    e->asked_s = asked_s;
}

static int refused(struct room *r, int model)
{
    int told = 0;
    serving_load(r->s, r->models[model], ignore, &told);
    return told;
}

static int64_t bytes_of_one(struct fixture *f)
{
    struct room *r = room_open(f, usual());
    load(r, 0, 1.0);
    const int64_t bytes = entry_of(r, 0)->bytes;
    room_close(r);
    return bytes;
}

/* The longest unused goes, but none that is pinned, or that somebody waits for. */
static void test_memory_is_shared(void **state)
{
    struct serving_limits limits = usual();
    limits.memory_bytes = 3 * bytes_of_one(*state) + 1;
    struct room *r = room_open(*state, limits);
    uint64_t handle;
    int told;
    load(r, 0, 1.0);
    load(r, 1, 2.0);
    load(r, 2, 3.0);
    serving_pin(r->s, 1, true);
    load(r, 3, 4.0); /* in the second's place: the first is pinned */
    assert_int_equal(serving_state(r->s, 1), SERVING_LOADED);
    assert_int_equal(serving_state(r->s, 2), SERVING_UNLOADED);
    assert_int_equal(serving_state(r->s, 3), SERVING_LOADED);
    entry_of(r, 3)->away = 1;
    entry_of(r, 2)->state = SERVING_LOADING;
    assert_int_equal(ask(r, 2, 0, 0.0, &told, &handle), 0);
    assert_int_equal(refused(r, 1), ERR_BUSY); /* all others are at work */
    entry_of(r, 3)->away = 0;
    load(r, 1, 5.0);
    assert_int_equal(serving_state(r->s, 4), SERVING_UNLOADED);
    serving_pin(r->s, 2, true);
    serving_pin(r->s, 3, true);
    assert_int_equal(refused(r, 3), ERR_CONFLICT); /* it fits beside the pinned ones never */
    serving_unload(r->s, 1);
    assert_false(serving_pinned(r->s, 1));
    load(r, 3, 6.0);
    room_close(r);
    assert_int_equal(told, ERR_BUSY);
}

/* Idle models stay where all of them together would not make room enough. */
static void test_none_leaves_in_vain(void **state)
{
    struct serving_limits limits = usual();
    limits.memory_bytes = 3 * bytes_of_one(*state);
    struct room *r = room_open(*state, limits);
    load(r, 0, 1.0);
    load(r, 1, 2.0);
    struct entry *busy = entry_of(r, 1);
    busy->bytes = limits.memory_bytes;
    busy->away = 1;
    assert_int_equal(refused(r, 2), ERR_BUSY);
    assert_int_equal(serving_state(r->s, 1), SERVING_LOADED);
    busy->bytes = limits.memory_bytes / 3 * 2;
    load(r, 2, 3.0); /* in the first one's place */
    assert_int_equal(serving_state(r->s, 1), SERVING_UNLOADED);
    busy->away = 0;
    room_close(r);
}

static int64_t bytes_with(struct room *r, int64_t key, int directions)
{
    char text[160];
    int told = 0;
    snprintf(text, sizeof text,
             "{\"features\":[\"a\",\"b\"],\"targets\":[\"y\"],\"centers\":10,"
             "\"variance\":{\"directions\":%d}}",
             directions);
    const struct served_model *m = model_described(key, "varied", text);
    serving_load(r->s, m, ignore, &told);
    const int64_t bytes = entry_find(r->s, key)->bytes;
    served_release(m);
    return bytes;
}

/* Until the worker has said what it takes, a model's factor counts, and a row of it. */
static void test_a_factor_takes_memory(void **state)
{
    struct room *r = room_open(*state, usual());
    const int64_t some = bytes_with(r, 8, 40), more = bytes_with(r, 9, 47);
    assert_int_equal(more - some, 7 * (10 + 1) * 8);
    room_close(r);
}

/* A model that grows with its batches takes the place of others. */
static void test_models_grow(void **state)
{
    struct serving_limits limits = usual();
    limits.memory_bytes = 3 * bytes_of_one(*state);
    struct room *r = room_open(*state, limits);
    load(r, 0, 1.0);
    load(r, 1, 2.0);
    struct entry *e = entry_of(r, 1);
    const int64_t before = e->bytes;
    entry_grown(e, before - 1);
    assert_int_equal(serving_bytes(r->s, 2), before);
    entry_grown(e, 2 * before);
    assert_int_equal(serving_bytes(r->s, 2), 2 * before);
    assert_int_equal(serving_state(r->s, 1), SERVING_LOADED);
    entry_grown(e, 2 * before + 1);
    assert_int_equal(serving_state(r->s, 1), SERVING_UNLOADED);
    entry_grown(e, 4 * before); /* it is at work: it stays, alone */
    assert_int_equal(serving_bytes(r->s, 2), 4 * before);
    room_close(r);
}

/* ---- turns ---- */

struct counts {
    int ends, dues;
};

static void count_end(void *context)
{
    ((struct counts *)context)->ends++;
}

static void count_due(void *context)
{
    ((struct counts *)context)->dues++;
}

static void test_turns(void **state)
{
    static const struct turn_ops ops = {.end = count_end, .due = count_due};
    struct counts n = {.ends = 0};
    struct turn *t = NULL;
    uv_loop_t loop;
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(turn_new(&loop, &ops, &n, &t, NULL), 0);
    turn_ask(t);
    turn_ask(t);
    assert_int_equal(n.ends, 0);
    uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(n.ends, 1);
    const double now = clock_monotonic_s();
    turn_at(t, now + 3600.0);
    turn_at(t, now + 0.02); /* the earlier one counts, whichever came first */
    turn_at(t, now + 1800.0);
    while (n.dues == 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_true(clock_monotonic_s() >= now + 0.02 && clock_monotonic_s() < now + 1800.0);
    turn_at(t, now); /* it has passed */
    while (n.dues == 1) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(n.ends, 1);
    turn_free(t);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

struct waiting {
    struct room *r;
    int told, asks_again;
};

/* Who waited for one model has done with all of them, or asks for it once more. */
static void stop_waiting(void *context, const struct err *err)
{
    struct waiting *w = context;
    assert_non_null(err);
    w->told++;
    if (w->asks_again > 0) {
        w->asks_again--;
        serving_load(w->r->s, w->r->models[0], stop_waiting, w);
        return;
    }
    for (int i = 0; i < MODELS; i++) {
        serving_unload(w->r->s, w->r->models[i]->key);
    }
}

/* They wait for a worker, but the store has none of them: their loads fail, and take others along.
 */
static void test_loads_fail_when_a_worker_is_ready(void **state)
{
    for (int again = 0; again < 2; again++) {
        struct room *r = room_open(*state, usual());
        struct waiting w = {.r = r, .asks_again = again};
        for (int i = 0; i < MODELS; i++) {
            serving_load(r->s, r->models[i], stop_waiting, &w);
        }
        assert_int_equal(w.told, 0);
        add_lane(r);
        entries_ready(r->s);
        assert_int_equal(w.told, MODELS + again);
        assert_null(r->s->entries);
        room_close(r);
    }
}

static void test_loads_fail_when_a_worker_is_lost(void **state)
{
    struct room *r = room_open(*state, usual());
    struct waiting w = {.r = r};
    struct err lost;
    for (int i = 0; i < MODELS; i++) {
        serving_load(r->s, r->models[i], stop_waiting, &w);
    }
    add_lane(r);
    for (int i = 0; i < MODELS; i++) {
        entry_of(r, i)->lane = r->s->lanes;
    }
    err_set(&lost, ERR_WORKER_LOST, "It was lost.");
    entries_recall(r->s, r->s->lanes, &lost);
    assert_int_equal(w.told, MODELS);
    assert_null(r->s->entries);
    room_close(r);
}

TEST_MAIN(STORE_TEST(test_the_urgent_go_first), STORE_TEST(test_what_waits_again),
          STORE_TEST(test_queues_are_bounded), STORE_TEST(test_deadlines),
          STORE_TEST(test_limits_of_a_model), STORE_TEST(test_memory_is_shared),
          STORE_TEST(test_none_leaves_in_vain), STORE_TEST(test_a_factor_takes_memory),
          STORE_TEST(test_models_grow), STORE_TEST(test_loads_fail_when_a_worker_is_ready),
          STORE_TEST(test_loads_fail_when_a_worker_is_lost), cmocka_unit_test(test_turns))
