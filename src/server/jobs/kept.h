/* What tells a job's checkpoint from the one before, without a look into it: every one is a new
 * file (worker/checkpoint_file.h). Whether a lost attempt had got ahead is seen by it. */
#pragma once

#include "store/jobs.h"

struct app;

/* "" where there is none. `app` is a struct app, as struct jobs_kept wants it. */
void kept_read(void *app, const char *job, char ret[JOBS_CHECKPOINT_SIZE]);
