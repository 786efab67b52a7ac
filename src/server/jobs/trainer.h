/*
 * From the queue to the training workers and back into the store: claims jobs for idle workers,
 * turns their EVENT, MODEL and DONE frames into rows, and decides what happens when one is lost.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "server/pool/pool.h"

struct app;
struct dispatch;
struct trainer;

int trainer_new(struct app *app, struct trainer **ret, struct err *err);
struct trainer *trainer_free(struct trainer *t); /* after the pool has stopped */

/* What pool_options.train takes. */
struct slot_listener trainer_listener(struct trainer *t);

/* Seconds until the queue has likely a place, by how fast jobs have been ending. */
int trainer_retry_after_s(const struct trainer *t);
/* Looks whether a queued job can start: after an insert, and whenever a worker becomes idle. */
void trainer_kick(struct trainer *t);
/* The same when the loop turns, for a request whose answer is to leave before the job does. */
void trainer_kick_soon(struct trainer *t);

/* What was found when the queue was last looked at: dispatch.h. */
struct dispatch *trainer_dispatch(struct trainer *t);

/* The store says `cancelling`: tells the worker; no answer within the grace period ends it. */
void trainer_cancel(struct trainer *t, const char *job);

/* The store says `running`, reason `paused`: tells the worker, which keeps a checkpoint and ends
 * the job between two steps. */
void trainer_pause(struct trainer *t, const char *job);

/* The daemon stops: every job is to keep a checkpoint and end, to be queued again. */
void trainer_drain(struct trainer *t);
/* No job is on a worker, and the store has taken the ends of all. */
bool trainer_idle(const struct trainer *t);

/* Kernel values a second of the job on a training worker, as it last reported; 0: none. */
double trainer_entries_per_s(const struct slot *s);
/* The job on a training worker, or NULL. */
const char *trainer_job(const struct slot *s);
