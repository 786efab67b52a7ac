/* Files that nobody needs any more. */
#pragma once

#include "base/err.h"

struct app;

/* Before the store is opened: -ERR_CONFLICT where there is no database but there are files, all of
 * which a sweep by a new one would remove. */
int sweep_check(const struct app *app, struct err *err);
/* Leftovers of an earlier run, removed at start: temporary files, and data set files that the store
 * does not know. */
int sweep_data_dir(struct app *app, struct err *err);
/* After jobs_recover: checkpoints of jobs that are final or unknown, and halves of checkpoints. */
int sweep_checkpoints(struct app *app, struct err *err);

/* The checkpoint of a job that has ended; none is fine. */
void sweep_checkpoint(struct app *app, const char *job);
/* The half of a checkpoint that a worker process left which was killed while it wrote. */
void sweep_checkpoint_part(struct app *app, const char *job, int pid);
