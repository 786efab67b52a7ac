/*
 * The half of the app that has to do with workers, built and taken down as one: listeners of event
 * streams, the trainer, the serving side, and the pool of processes beneath them.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct app;

/* Queues again what a crash left running, then starts every worker. */
int workers_open(struct app *app, struct err *err);
/* Runs the loop until a training worker has said what it takes and how fast it is, by which jobs
 * are planned, for some seconds at most; not at all where none is starting. */
void workers_hear(struct app *app);
/* Ends the processes and waits for them, running the loop; jobs that do not end within a short
 * grace are queued again at the next start. Call after http_stop; accepts half-built apps. */
void workers_close(struct app *app);

/* Whether a training and a serving worker are up; the reason is set where not. */
bool workers_ready(const struct app *app, const char **ret_reason);
