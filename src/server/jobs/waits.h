/*
 * Requests that wait for a job to end (Prefer: wait=N): deferred, at no cost to the loop, until the
 * job has a final status, its time is over, or the daemon stops; then they are answered with what
 * there is. At most --max-waits at once.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct app;
struct request;
struct waits;

int waits_new(struct app *app, struct waits **ret, struct err *err);
/* Frees it too, when the loop runs next; after http_stop, so that nobody waits. NULL is fine. */
struct waits *waits_stop(struct waits *w);

/* Defers rq, which `answer` will answer. -ERR_BUSY: too many wait already. */
int waits_add(struct waits *w, struct request *rq, const char *job, int64_t seconds,
              void (*answer)(struct request *rq), struct err *err);
int waits_count(const struct waits *w);
int waits_retry_after_s(const struct waits *w); /* until one more may wait, likely */

/* The job may have ended. */
void waits_notify(struct waits *w, const char *job);
/* Nobody waits any longer. */
void waits_end(struct waits *w);
