/*
 * Work that takes longer than a few milliseconds, done on a thread of the loop's pool.
 */
#pragma once

#include "base/err.h"
#include "server/http/http.h"

struct app;

struct offload_ops {
    /* On the other thread: touches nothing but the context. */
    void (*work)(void *context);
    /* Back on the loop's thread, always called once. rq is the request that waited; NULL: none did,
     * or its client left meanwhile, and what nobody waits for is to be undone. */
    void (*done)(struct app *app, struct request *rq, void *context);
};

/* rq may be NULL; otherwise it is deferred. On failure nothing was started. */
int offload(struct app *app, struct request *rq, const struct offload_ops *ops, void *context,
            struct err *err);

/* Removes a file for which nobody waits, and closes fd (-1: none), which may be the last hold on
 * its blocks: giving many of them back takes long. */
void offload_discard(struct app *app, int fd, const char *path);
