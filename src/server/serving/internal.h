/*
 * What the files of the serving room share: serving.c (questions and the queue), batches.c (what
 * goes to workers and comes back), pieces.c (questions that take more than one batch), models.c
 * (who holds which model).
 *
 * A question waits in its model's queue, the more urgent ones first. When the model's worker has no
 * batch, the first questions go out together, those that arrived in one turn of the loop at least;
 * while the batch is away the next one gathers. The worker computes a batch as one matrix; a row's
 * bits do not depend on what else is in it. Variances cost many times what predictions do: the
 * questions of a batch all want them, or none does. A question of more work than others should wait
 * for goes in pieces, a batch for each: between two of them it waits behind those that are as
 * urgent, so that they wait for a piece, and what nobody wants any more ends with one.
 */
#pragma once

#include "base/clock.h"
#include "server/app.h"
#include "server/metrics.h"
#include "server/serving/serving.h"
#include "server/serving/turn.h"

struct batch;
struct lane;

/* Questions answered a second, lately. */
struct pace {
    double rate;      /* 0: not known */
    int64_t answered; /* since since_s */
    double since_s;
};

enum { SERVING_BUCKETS = 256 };

/* Somebody who waits for a model to be ready. */
struct waiter {
    struct waiter *next;
    void (*done)(void *context, const struct err *err);
    void *context;
};

/* A question: waiting (batch NULL) in its model's queue, or sent. */
struct call {
    struct call *next; /* in the queue or in the batch */
    struct batch *batch;
    struct entry *entry; /* while it waits */
    uint64_t handle;
    double arrived_s;
    double waits_s;         /* since when it waits: it arrived, or a piece of it came back */
    int attempts;           /* how often its present piece was sent */
    int64_t answered;       /* rows, by pieces before */
    int64_t away;           /* rows in its batch */
    double *numbers;        /* room for the answer, as a worker's; NULL: no piece came back yet */
    struct serving_ask ask; /* holds the model; done NULL: nobody wants the answer any more */
};

/* A model in a serving worker, on its way there, or waiting for one (lane NULL). */
struct entry {
    struct entry *next, *next_in_bucket;
    struct entry *busy_prev, *busy_next; /* among those with questions that wait */
    struct serving *serving;
    const struct served_model *model;
    int64_t key;
    int64_t bytes; /* of memory: an estimate until the worker has said what it takes */
    struct model_limits limits;
    char text_key[24]; /* the key as frames carry it */
    enum serving_state state;
    bool pinned;
    bool deleted; /* from the store: it leaves when it has answered what it was asked */
    struct lane *lane;
    uint64_t load; /* number of the present attempt: answers to an earlier one do not count */
    int64_t next_chunk;
    int64_t unsent; /* bytes */
    double asked_s; /* when it was last of use */
    double load_s;  /* when its load began */
    struct waiter *waiters;
    struct call *first, *last; /* questions that wait */
    int64_t calls, rows;       /* of them */
    int64_t away;              /* batches */
    double row_s[2];           /* seconds of a row in the last large batch, without and with
                                * variances; 0: not known */
    struct serving_stats stats;
    struct pace pace;   /* of its questions */
    struct err failure; /* SERVING_FAILED: why */
};

/* A chunk on its way into the socket. It may outlive its entry. */
struct transfer {
    struct serving *serving;
    int64_t key;
    uint64_t load;
    void *data;
};

/* One frame with the rows of several questions of one model. */
struct batch {
    struct batch *next; /* of its lane */
    uint64_t number, load;
    const struct served_model *model; /* held */
    struct call *calls;               /* all of them want variances, or none does */
    int64_t rows;
    bool variance;
    double sent_s;
};

/* A worker's slot, as long as the daemon runs. */
struct lane {
    struct lane *next;
    struct slot *slot;
    struct batch *batches; /* that are away, oldest first */
    int away;
};

/* Calls by handle. A handle is the place, and in the upper half how often it was used. */
struct places {
    struct call **calls;
    uint32_t *uses;
    int64_t *free;
    int64_t count, room;
};

struct serving {
    struct app *app;
    struct serving_limits limits;
    struct turn *turn; /* NULL once it stops */
    struct lane *lanes;
    struct entry *entries;
    struct entry *buckets[SERVING_BUCKETS]; /* by key */
    struct entry *busy;                     /* those with questions that wait */
    int deleted;                            /* of the entries */
    struct places places;
    uint64_t last_number; /* of loads and batches */
    size_t call_bytes;
    int64_t waiting;  /* questions */
    struct pace pace; /* of all models */
};

/* Numbers of a row in the worker's answer. */
static inline int64_t answer_width(const struct served_model *m, bool variance)
{
    return m->outputs + m->classes + (variance ? m->variances : 0);
}

static inline size_t answer_bytes(const struct serving_ask *ask)
{
    const int64_t width = answer_width(ask->model, ask->variance);
    return (size_t)ask->rows * (size_t)width * sizeof(double);
}

enum { FULL_ROWS = 256 }; /* from so many rows on a batch takes as much time as it has rows */

/* That a question holds, with its answer where that may gather piece by piece. */
static inline size_t ask_bytes(const struct serving_ask *ask)
{
    const size_t X = (size_t)ask->rows * (size_t)ask->model->d * sizeof(double);
    return X + (ask->rows > FULL_ROWS ? answer_bytes(ask) : 0);
}

/* Rows that have no answer yet. */
static inline int64_t call_left(const struct call *c)
{
    return c->ask.rows - c->answered;
}

/* ---- serving.c ---- */

/* Tells the asker, and frees it. It is in no list any more. */
void call_end(struct serving *s, struct call *c, const struct serving_answer *answer,
              const struct err *err);
/* Into its model's queue, behind those that are as urgent, or `again`: in front of them. */
void queue_add(struct entry *e, struct call *c, bool again);
void queue_remove(struct entry *e, struct call **link);
/* Ends every question that waits for the model. */
void queue_fail(struct entry *e, const struct err *err);

/* ---- batches.c ---- */

/* Sends what can be sent. */
void batches_send(struct serving *s);
void batches_take(struct serving *s, struct lane *lane, struct frame *f);
/* The lane's worker is lost: its questions wait again, or end. */
void batches_recall(struct serving *s, struct lane *lane, const struct err *err);
void batches_free(struct serving *s, struct lane *lane, const struct err *err);
/* The error that a worker tells of; returns its code. */
int serving_error(const struct json *j, struct err *ret);
bool call_is_late(const struct serving_ask *ask, double now_s);
int call_too_late(struct err *err);

/* ---- pieces.c ---- */

/* Bytes of the model that a row of such a question goes through. */
int64_t bytes_of_row(const struct served_model *m, bool variance);
/* The most rows of one question that go at once. */
int64_t piece_rows(const struct entry *e, bool variance);
/* How long a batch took. */
void piece_timed(struct entry *e, bool variance, int64_t rows, double seconds);
/* The answer to the rows that were away: the question ends, or its next rows wait (true). */
bool piece_take(struct serving *s, struct call *c, const struct serving_answer *part);

/* ---- models.c ---- */

struct entry *entry_find(const struct serving *s, int64_t key);
/* Loading, if it was not there; NULL: *err says why there is no room. */
struct entry *entry_need(struct serving *s, const struct served_model *model, struct err *err);
void entry_loaded(struct serving *s, const struct frame *f);
/* The worker says that a loaded model takes so many bytes by now. */
void entry_grown(struct entry *e, int64_t bytes);
/* The lane's worker is lost. */
void entries_recall(struct serving *s, struct lane *lane, const struct err *err);
/* A lane is ready: loads that wait for one begin. */
void entries_ready(struct serving *s);
void entry_remove(struct entry *e, const struct err *err);
/* Those that were deleted and have nothing left to answer leave. */
void entries_sweep(struct serving *s);
