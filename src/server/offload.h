/*
 * Work that takes longer than a few milliseconds, done on a thread of the loop's pool for one
 * request, which is deferred meanwhile.
 */
#pragma once

#include "base/err.h"
#include "server/http.h"

struct app;

struct offload_ops {
    /* On the other thread: may touch the context alone. */
    void (*work)(void *context);
    /* Back on the loop's thread, always called once: answers rq, or, where rq is NULL because the
     * client left meanwhile, undoes what nobody waits for. Frees the context. */
    void (*done)(struct app *app, struct request *rq, void *context);
};

/* Defers rq. On failure nothing was started and the context stays the caller's. */
int offload(struct request *rq, const struct offload_ops *ops, void *context, struct err *err);
