/*
 * Loaded models and predictions.
 *
 * A model is loaded into a serving worker on first use (its chunks stream from the store, the next
 * one when the last was taken) and has predicted once before it counts as loaded; requests wait
 * meanwhile. Models share a budget of memory: for a new one those go that were not asked for the
 * longest, but not pinned ones, nor any that is at work. When a worker is lost its models are
 * unloaded, but for pinned ones and those that somebody waits for, which are loaded anew.
 *
 * Questions to one model are answered in batches (internal.h). Their queue is bounded, for each
 * model and for all; who comes then is refused, and told when to come again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/pool/pool.h"
#include "server/serving/served.h"

struct app;
struct serving;

struct serving_limits {
    int64_t batch_rows;     /* of a model without limits of its own: most rows sent together; one
                               request may hold more */
    int64_t batch_delay_us; /* how long the first request of a batch waits for others; 0: not */
    int64_t model_queue;    /* most requests that wait for one model */
    int64_t queue;          /* most requests, of all models, waiting or at work */
    int64_t memory_bytes;   /* that loaded models may take, all workers together; 0: no limit */
};

/* Of the versions of one model, each by itself. */
struct model_limits {
    int64_t batch_rows, batch_delay_us, queue; /* as above */
    bool own_queue;    /* the queue's is the model's own, else the daemon's */
    double deadline_s; /* from when a request was read to its answer, at most; 0: none */
};
struct limits_row;
/* `own` (store/limits.h), and what it leaves open as the daemon has it. */
struct model_limits serving_limits_of(const struct serving *s, const struct limits_row *own);
/* The store's have changed: they hold for what comes from now on. */
void serving_limits_changed(struct serving *s);

int serving_new(struct app *app, const struct serving_limits *limits, struct serving **ret,
                struct err *err);
/* The loop must run once more for its handles to be closed. */
struct serving *serving_free(struct serving *s);
struct slot_listener serving_listener(struct serving *s);

enum serving_state { SERVING_UNLOADED, SERVING_LOADING, SERVING_LOADED, SERVING_FAILED };
const char *serving_state_name(enum serving_state s);
enum serving_state serving_state(const struct serving *s, int64_t model_key);

/* What a model has done since it was loaded; all 0 when it is not. */
struct serving_stats {
    int64_t requests, failed, rows, batches;
    int64_t last_ms;            /* wall clock, of the last answer; 0: none */
    double queue_s, compute_s;  /* sums: over requests, over batches; the worker's own time */
    double success_s, failed_s; /* sums over requests, from arrival to answer */
};
struct serving_stats serving_statistics(const struct serving *s, int64_t model_key);
/* Calls `visit` for each loaded model, in no order; it changes nothing here. */
void serving_visit(const struct serving *s,
                   void (*visit)(void *context, const struct served_model *model), void *context);
bool serving_pinned(const struct serving *s, int64_t model_key);
/* Bytes of memory of a loaded model, 0 when it is not. */
int64_t serving_bytes(const struct serving *s, int64_t model_key);

/* done(context, err) is called once, with NULL when the model is ready. -ERR_CONFLICT: it does not
 * fit the budget; -ERR_BUSY: it does not at present. */
void serving_load(struct serving *s, const struct served_model *model,
                  void (*done)(void *context, const struct err *err), void *context);
/* A loaded or loading model that is pinned stays until it is unloaded or unpinned. */
void serving_pin(struct serving *s, int64_t model_key, bool pinned);
/* Also unpins it. Predictions that wait for it load it again; loads that wait end with
 * -ERR_CONFLICT. */
void serving_unload(struct serving *s, int64_t model_key);
/* The store has it no longer. Where it is loaded, who asked before is answered, then it leaves;
 * else who waits is told -ERR_NOT_FOUND. */
void serving_delete(struct serving *s, int64_t model_key);

/* What a worker answered. Borrowed. */
struct serving_answer {
    const struct served_model *model;
    int64_t rows;
    const double *values;    /* [rows, model->outputs]: targets in their own units, or the class */
    const double *scores;    /* [rows, model->classes]; NULL: not asked for, or a regression */
    const double *variances; /* [rows, model->variances]; NULL: not asked for */
};

/* Predictions to be made. */
struct serving_ask {
    const struct served_model *model; /* held until `done` */
    double *X;                        /* [rows, model->d] row-major, finite; taken (mem_free) */
    int64_t rows;                     /* from 1 */
    double deadline_s; /* clock_monotonic_s() from which on the answer is of no use; 0: none. The
                        * answer is then -ERR_DEADLINE; what has not been sent to a worker by then
                        * is not computed any more. */
    int priority;      /* larger ones go first */
    bool scores;       /* of a classification */
    bool variance;     /* only of models that have one */
    /* Called exactly once, later, unless serving_forget comes first. -ERR_DEADLINE: it passed;
     * -ERR_BUSY, -ERR_WORKER_LOST (twice), and what loading says. */
    void (*done)(void *context, const struct serving_answer *answer, const struct err *err);
    void *context;
};
/* Takes ask->X also on failure: -ERR_BUSY when the queue is full, -ERR_DEADLINE, -ERR_TOO_LARGE.
 * Then done is not called. */
int serving_predict(struct serving *s, const struct serving_ask *ask, uint64_t *ret_handle,
                    struct err *err);
void serving_forget(struct serving *s, uint64_t handle);
/* That wait or are at work. */
int64_t serving_questions(const struct serving *s);
/* Whether the model's own queue is full, so that asking for another model may well succeed. */
bool serving_crowded(const struct serving *s, int64_t model_key);
/* Whole seconds, from 1, after which who was refused for -ERR_BUSY may find room, by how fast
 * questions were answered of late: those to the model where its own queue is full, else all. */
int serving_retry_s(const struct serving *s, int64_t model_key);
