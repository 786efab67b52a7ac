/*
 * Work that takes longer than a few milliseconds, done on a thread of the loop's pool. How many
 * threads it has is said in app.c, unless by UV_THREADPOOL_SIZE in the environment.
 */
#pragma once

#include "base/err.h"
#include "server/http/http.h"

struct app;
struct offloaded;

struct offload_ops {
    /* On the other thread: touches nothing but the context. */
    void (*work)(void *context);
    /* Back on the loop's thread, always called once. rq is the request that waited; NULL: none did,
     * or its client left meanwhile, and what nobody waits for is to be undone. */
    void (*done)(struct app *app, struct request *rq, void *context);
    /* (optional) On the loop's thread while the other one may be at work: the client left. */
    void (*left)(void *context);
    /* For a line alone, instead of work and done: the client left, or the server stops, before the
     * work began. */
    void (*dropped)(struct app *app, void *context);
};

/* Work of one kind, of which `most` are with the pool at once, so that it leaves threads to others,
 * and beside them `most_brief` of what takes less than a second. The rest waits here: what would
 * end first, had it begun when it came, is next. So brief work passes by long work, which waits for
 * what came later no longer than it takes itself. Zeroes but for the two. */
struct offload_line {
    int most, most_brief;
    int running, running_brief;
    struct offloaded *first; /* of those that wait */
};

/* rq may be NULL; otherwise it is deferred. On failure nothing was started. */
int offload(struct app *app, struct request *rq, const struct offload_ops *ops, void *context,
            struct err *err);

/* What work is likely to take, roughly, and whether it surely takes less than a second. */
struct offload_cost {
    double seconds;
    bool brief;
};

/* The same by a line: at once where there is room, else when it is its turn. rq is not NULL, for it
 * is what drops the work when the client leaves. */
int offload_in_line(struct app *app, struct offload_line *line, struct request *rq,
                    struct offload_cost cost, const struct offload_ops *ops, void *context,
                    struct err *err);

/* Removes a file for which nobody waits, and closes fd (-1: none), which may be the last hold on
 * its blocks: giving many of them back takes long. */
void offload_discard(struct app *app, int fd, const char *path);
