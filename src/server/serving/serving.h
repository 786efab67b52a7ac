/*
 * Loaded models and predictions. A model is loaded into a serving worker on first use (its chunks
 * stream from the store, the next one when the last was taken), requests wait meanwhile; when the
 * worker is lost its models are unloaded and waiting requests are loaded anew or fail with
 * ERR_WORKER_LOST.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "server/pool/pool.h"
#include "server/serving/served.h"

struct app;
struct serving;

int serving_new(struct app *app, struct serving **ret, struct err *err);
struct serving *serving_free(struct serving *s);
struct slot_listener serving_listener(struct serving *s);

enum serving_state { SERVING_UNLOADED, SERVING_LOADING, SERVING_LOADED, SERVING_FAILED };
const char *serving_state_name(enum serving_state s);
enum serving_state serving_state(const struct serving *s, int64_t model_key);

/* done(context, err) is called once, with NULL when the model is ready. */
void serving_load(struct serving *s, const struct served_model *model,
                  void (*done)(void *context, const struct err *err), void *context);
void serving_unload(struct serving *s, int64_t model_key);

/* What a worker answered. Borrowed. */
struct serving_answer {
    const struct served_model *model;
    int64_t rows;
    const double *values; /* [rows, model->outputs]: targets in their own units, or the class */
    const double *scores; /* [rows, model->classes]; NULL: not asked for, or a regression */
};

/* Predictions to be made. */
struct serving_ask {
    const struct served_model *model; /* held until `done` */
    double *X;                        /* [rows, model->d] row-major, finite; taken (mem_free) */
    int64_t rows;                     /* from 1 */
    double deadline_s; /* clock_monotonic_s() from which on the answer is of no use; 0: none. What
                        * has not been sent to a worker by then is not computed any more. */
    int priority;      /* larger ones go first */
    bool scores;       /* of a classification */
    /* Called exactly once, later, unless serving_forget comes first. -ERR_DEADLINE: it passed;
     * -ERR_BUSY, -ERR_WORKER_LOST, -ERR_CONFLICT (the model was unloaded) and what loading says. */
    void (*done)(void *context, const struct serving_answer *answer, const struct err *err);
    void *context;
};
/* Takes ask->X also on failure: -ERR_BUSY when the queue is full, -ERR_DEADLINE, -ERR_TOO_LARGE.
 * Then done is not called. */
int serving_predict(struct serving *s, const struct serving_ask *ask, uint64_t *ret_handle,
                    struct err *err);
void serving_forget(struct serving *s, uint64_t handle);
