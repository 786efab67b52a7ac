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
#include "store/models.h"

struct app;
struct serving;

int serving_new(struct app *app, struct serving **ret, struct err *err);
struct serving *serving_free(struct serving *s);
struct slot_listener serving_listener(struct serving *s);

enum serving_state { SERVING_UNLOADED, SERVING_LOADING, SERVING_LOADED, SERVING_FAILED };
const char *serving_state_name(enum serving_state s);
enum serving_state serving_state(const struct serving *s, int64_t model_key);

/* done(context, err) is called once, with NULL when the model is ready. */
void serving_load(struct serving *s, const struct model_row *model,
                  void (*done)(void *context, const struct err *err), void *context);
void serving_unload(struct serving *s, int64_t model_key);

/* What a worker answered: predictions [rows, outputs], then scores [rows, scores]. Borrowed. */
struct serving_answer {
    const double *values;
    int64_t rows, outputs, scores;
};
/* Takes X (float64 [rows, d], mem_free). done is called exactly once, later. The handle may be
 * given to serving_forget, after which done is not called any more. -ERR_BUSY when the queue is
 * full. */
int serving_predict(struct serving *s, const struct model_row *model, double *X, int64_t rows,
                    int64_t d,
                    void (*done)(void *context, const struct serving_answer *answer,
                                 const struct err *err),
                    void *context, uint64_t *ret_handle, struct err *err);
void serving_forget(struct serving *s, uint64_t handle);
