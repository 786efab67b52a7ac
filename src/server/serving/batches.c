#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/serving/internal.h"

#define COPY_BYTES ((size_t)64 << 10)  /* of a batch that is copied where it cannot go at once */
#define BATCH_BYTES ((size_t)16 << 20) /* of a batch of several questions, and of its answer */

/* A batch is full when it has the most rows that are sent together, or so many rows of so many
 * bytes of its model (a millisecond of work or more) that others beside them would make no row
 * cheaper. */
#define FULL_BYTES ((int64_t)256 << 20)

enum {
    AWAY_MAX = 2,      /* batches at a worker: it finds the next one when it has done one */
    CALL_ATTEMPTS = 2, /* a question that takes two workers down is not tried a third time */
};

bool call_is_late(const struct serving_ask *ask, double now_s)
{
    return ask->deadline_s > 0.0 && now_s >= ask->deadline_s;
}

int call_too_late(struct err *err)
{
    return err_set(err, ERR_DEADLINE,
                   "The deadline passed before there was an answer (X-Request-Timeout, the "
                   "model's deadline_s, or --request-deadline-s).");
}

/* The entry that sent it, if the model is still loaded as it was then. */
static struct entry *sender(const struct serving *s, const struct batch *b)
{
    struct entry *e = entry_find(s, b->model->key);
    return e && e->load == b->load ? e : NULL;
}

/* ---- building ---- */

static bool is_full(const struct entry *e, int64_t rows, bool variance)
{
    const double bytes = (double)bytes_of_row(e->model, variance);
    return rows >= e->limits.batch_rows ||
           (rows >= FULL_ROWS && (double)rows * bytes >= FULL_BYTES);
}

/* Questions that waited while a worker was lost, or whose batch was refused, go alone: one of them
 * may be the cause. */
static bool fits(const struct entry *e, const struct batch *b, const struct call *c)
{
    const struct served_model *m = c->ask.model;
    const int64_t left = call_left(c), rows = b->rows + left;
    const int64_t out = answer_width(m, b->variance), width = m->d > out ? m->d : out;
    return !is_full(e, b->rows, b->variance) && rows <= e->limits.batch_rows && c->attempts == 0 &&
           b->calls->attempts == 0 && left <= piece_rows(e, b->variance) &&
           (size_t)rows * (size_t)width * sizeof(double) <= BATCH_BYTES;
}

static void join_batch(struct batch *b, struct call ***tail, struct call *c, int64_t rows)
{
    c->batch = b;
    c->away = rows;
    **tail = c;
    *tail = &c->next;
    b->rows += rows;
}

/* Moves the first questions of the queue into the batch: the very first, or a piece of it, which
 * says whether it is one of variances, and those of its kind that follow. They overtake questions
 * of the other kind, which are first in the next batch, but none that is more urgent than they are.
 */
static void gather(struct entry *e, struct batch *b)
{
    struct call **tail = &b->calls, **link = &e->first;
    const struct call *overtaken = NULL;
    b->variance = e->first && e->first->ask.variance;
    const int64_t most = piece_rows(e, b->variance);
    while (*link) {
        struct call *c = *link;
        if (c->ask.variance != b->variance) {
            overtaken = overtaken ? overtaken : c;
            link = &c->next;
        } else if ((overtaken && overtaken->ask.priority > c->ask.priority) ||
                   (b->calls && !fits(e, b, c))) {
            break;
        } else {
            queue_remove(e, link);
            join_batch(b, &tail, c, call_left(c) < most ? call_left(c) : most);
        }
    }
}

/* All rows, one question behind the other. */
static double *join(const struct batch *b)
{
    const size_t d = (size_t)b->model->d;
    double *X = mem_array((size_t)b->rows * d, sizeof *X);
    double *to = X;
    for (const struct call *c = b->calls; X && c; c = c->next) {
        const size_t count = (size_t)c->away * d;
        memcpy(to, c->ask.X + (size_t)c->answered * d, count * sizeof *X);
        to += count;
    }
    return X;
}

static void on_sent(void *context)
{
    mem_free(context);
}

static int send_batch(const struct entry *e, const struct batch *b, struct err *err)
{
    double *X = join(b);
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "model", e->text_key);
    json_set_int(j, "rows", b->rows);
    if (b->variance) {
        json_set_bool(j, "variance", true);
    }
    if (b->calls->answered > 0) {
        json_set_int(j, "first_row", b->calls->answered);
    }
    if (!X || !json_ok(j)) {
        mem_free(X);
        return err_no_memory(err);
    }
    const size_t size = (size_t)b->rows * (size_t)b->model->d * sizeof *X;
    const bool small = size <= COPY_BYTES;
    const int r = slot_send(e->lane->slot, FRAME_PREDICT, b->number, j, X, size,
                            small ? NULL : on_sent, X, err);
    if (r < 0 || small) {
        mem_free(X);
    }
    return r;
}

static void count_batch(struct serving *s, const struct batch *b, struct entry *e)
{
    struct metrics_registry *m = s->app->metrics;
    int requests = 0;
    for (struct call *c = b->calls; c; c = c->next) {
        c->attempts++;
        requests++;
        e->stats.queue_s += b->sent_s - c->waits_s;
        if (c->answered == 0) {
            metrics_observe(m, METRIC_PREDICTION_QUEUE_SECONDS, 0, 0, b->sent_s - c->waits_s);
        }
    }
    e->stats.batches++;
    metrics_observe(m, METRIC_BATCH_ROWS, 0, 0, (double)b->rows);
    metrics_observe(m, METRIC_BATCH_REQUESTS, 0, 0, requests);
}

/* Its questions end. */
static void batch_end(struct serving *s, struct batch *b, const struct err *err)
{
    while (b->calls) {
        struct call *c = b->calls;
        b->calls = c->next;
        call_end(s, c, NULL, err);
    }
    served_release(b->model);
    mem_free(b);
}

/* Its questions wait again, or end where they took part too often or nobody wants the answer. */
static void batch_return(struct serving *s, struct batch *b, const struct err *err)
{
    struct call *back = NULL; /* in reverse, for each goes in front of those before it */
    while (b->calls) {
        struct call *c = b->calls;
        b->calls = c->next;
        c->next = back;
        back = c;
    }
    struct entry *e = entry_find(s, b->model->key);
    while (back) {
        struct call *c = back;
        back = c->next;
        c->batch = NULL;
        if (e && c->ask.done && c->attempts < CALL_ATTEMPTS) {
            queue_add(e, c, true);
        } else {
            call_end(s, c, NULL, err);
        }
    }
    served_release(b->model);
    mem_free(b);
}

static void append(struct lane *lane, struct batch *b)
{
    struct batch **link = &lane->batches;
    while (*link) {
        link = &(*link)->next;
    }
    *link = b;
    lane->away++;
}

/* False: the worker takes nothing, and its end will be told. */
static bool send_next(struct serving *s, struct entry *e)
{
    struct err err;
    struct batch *b = mem_zalloc(sizeof *b);
    if (!b) {
        err_no_memory(&err);
        queue_fail(e, &err);
        return true;
    }
    *b = (struct batch){.number = ++s->last_number,
                        .load = e->load,
                        .model = served_hold(e->model),
                        .sent_s = clock_monotonic_s()};
    gather(e, b);
    const int r = send_batch(e, b, &err);
    if (r == -ERR_WORKER_LOST) {
        batch_return(s, b, &err);
        return false;
    }
    if (r < 0) {
        batch_end(s, b, &err);
        return true;
    }
    count_batch(s, b, e);
    append(e->lane, b);
    e->away++;
    return true;
}

/* ---- when ---- */

/* From when on the model's next batch may go. */
static double due_s(const struct entry *e)
{
    return is_full(e, e->rows, e->first->ask.variance)
               ? 0.0
               : e->first->arrived_s + 1e-6 * (double)e->limits.batch_delay_us;
}

/* A worker that is at work gets a second batch only when that is full or of another model: else it
 * would miss the questions that are about to come. */
static bool may_go(const struct entry *e)
{
    const struct lane *lane = e->lane;
    return lane->away == 0 ||
           (lane->away < AWAY_MAX && (e->away == 0 || is_full(e, e->rows, e->first->ask.variance)));
}

static bool more_urgent(const struct entry *a, const struct entry *b)
{
    const struct call *x = a->first, *y = b->first;
    return x->ask.priority != y->ask.priority ? x->ask.priority > y->ask.priority
                                              : x->waits_s < y->waits_s;
}

/* The model whose questions go next, or NULL; *next is the least moment that is waited for. */
static struct entry *choose(const struct serving *s, double now_s, double *next)
{
    struct entry *best = NULL;
    for (struct entry *e = s->busy; e; e = e->busy_next) {
        if (e->state != SERVING_LOADED || slot_state(e->lane->slot) != SLOT_IDLE || !may_go(e)) {
            continue;
        }
        const double due = due_s(e);
        if (due > now_s) {
            *next = *next > 0.0 && *next < due ? *next : due;
        } else if (!best || more_urgent(e, best)) {
            best = e;
        }
    }
    return best;
}

void batches_send(struct serving *s)
{
    double next = 0.0;
    struct entry *e;
    while (s->busy && (e = choose(s, clock_monotonic_s(), &next)) != NULL) {
        if (!send_next(s, e)) {
            break;
        }
    }
    if (next > 0.0) {
        turn_at(s->turn, next);
    }
    metrics_gauge(s->app->metrics, METRIC_PREDICTIONS_WAITING, 0, 0, (double)s->waiting);
}

/* ---- answers ---- */

static struct batch *take_batch(struct lane *lane, uint64_t number)
{
    for (struct batch **link = &lane->batches; *link; link = &(*link)->next) {
        struct batch *b = *link;
        if (b->number == number) {
            *link = b->next;
            lane->away--;
            return b;
        }
    }
    return NULL;
}

/* Each question gets its rows. True: some have rows left, which wait. */
static bool deal(struct serving *s, struct batch *b, const double *values)
{
    const struct served_model *m = b->model;
    const double *scores = values + b->rows * m->outputs;
    const double *variances = scores + b->rows * m->classes;
    bool left = false;
    while (b->calls) {
        struct call *c = b->calls;
        b->calls = c->next;
        const int64_t rows = c->away;
        const struct serving_answer a = {
            .model = c->ask.model,
            .rows = rows,
            .values = values,
            .scores = m->classes > 0 ? scores : NULL,
            .variances = b->variance ? variances : NULL,
        };
        values += rows * m->outputs;
        scores += rows * m->classes;
        variances += b->variance ? rows * m->variances : 0;
        left = piece_take(s, c, &a) || left;
    }
    batch_end(s, b, NULL);
    return left;
}

static int check_answer(const struct batch *b, const struct frame *f, struct err *err)
{
    const struct json *error = json_get(f->json, "error");
    if (error) {
        const int r = serving_error(error, err);
        if (r == -ERR_INVALID) {
            snprintf(err->pointer, sizeof err->pointer, "#"); /* what is wrong is in the body */
        }
        return r;
    }
    const struct served_model *m = b->model;
    const int64_t width = answer_width(m, b->variance);
    if (f->payload_size != (size_t)b->rows * (size_t)width * sizeof(double)) {
        return err_set(err, ERR_INTERNAL, "The worker's answer does not fit the request.");
    }
    return 0;
}

/* One question's rows may be the fault of all: each is asked again, alone. */
static bool worth_parting(const struct batch *b, int r)
{
    return r == -ERR_INVALID && b->calls && b->calls->next;
}

void batches_take(struct serving *s, struct lane *lane, struct frame *f)
{
    struct batch *b = f->json ? take_batch(lane, f->request) : NULL;
    if (!b) {
        return;
    }
    struct err err;
    struct entry *e = sender(s, b);
    const double seconds = clock_monotonic_s() - b->sent_s;
    const double worked = json_number(json_get(f->json, "seconds"));
    const int r = check_answer(b, f, &err);
    if (e) {
        e->away--;
        e->stats.compute_s += worked;
    }
    metrics_observe(s->app->metrics, METRIC_BATCH_SECONDS, 0, 0, seconds);
    if (worth_parting(b, r)) {
        batch_return(s, b, &err);
        batches_send(s);
        return;
    }
    batches_send(s); /* before the answers, so that the worker has work meanwhile */
    if (e && r == 0) {
        piece_timed(e, b->variance, b->rows, worked);
        entry_grown(e, json_int(json_get(f->json, "bytes")));
    }
    if (r < 0) {
        batch_end(s, b, &err);
    } else {
        slot_did_job(lane->slot);
        metrics_count(s->app->metrics, METRIC_PREDICTION_ROWS, 0, 0, (double)b->rows);
        if (deal(s, b, f->payload)) {
            batches_send(s);
        }
    }
}

/* ---- ends ---- */

void batches_recall(struct serving *s, struct lane *lane, const struct err *err)
{
    struct batch *b = lane->batches, *back = NULL;
    lane->batches = NULL;
    lane->away = 0;
    while (b) { /* the newest first, for each goes in front of those before it */
        struct batch *next = b->next;
        b->next = back;
        back = b;
        b = next;
    }
    while (back) {
        struct batch *next = back->next;
        struct entry *e = sender(s, back);
        if (e) {
            e->away--;
        }
        batch_return(s, back, err);
        back = next;
    }
}

void batches_free(struct serving *s, struct lane *lane, const struct err *err)
{
    while (lane->batches) {
        struct batch *b = lane->batches;
        lane->batches = b->next;
        batch_end(s, b, err);
    }
}
