/*
 * Listeners of jobs' event streams. A listener is fed from the durable log alone: on a notice it
 * reads the events after the last one it has sent, so replay and live events are one path, and a
 * slow client is paced by what it has taken. The stream ends after the event of a final status.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct app;
struct request;
struct subscribers;

int subscribers_new(struct app *app, struct subscribers **ret, struct err *err);
/* The daemon stops: ends every stream after what was sent to it, and those to come likewise; their
 * clients come back with the last id. */
void subscribers_drain(struct subscribers *s);
/* Ends every stream and the heartbeat; call before http_stop and before the loop ends. */
void subscribers_stop(struct subscribers *s);
struct subscribers *subscribers_free(struct subscribers *s);

/* Answers rq with the job's stream from the events after `after`. */
void subscribers_add(struct subscribers *s, struct request *rq, const char *job, int64_t after);
/* Something was appended to the job's log that the store has only batched (store_flush): within
 * some milliseconds it is made durable, together with what else is, and told. */
void subscribers_expect(struct subscribers *s, const char *job);
int subscribers_count(const struct subscribers *s);

/* Something was appended to the job's log; those who wait for its end (waits.h) hear of it too. */
void subscribers_notify(struct subscribers *s, const char *job);
