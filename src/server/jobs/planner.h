/*
 * What a job would take on this server's workers (plan/plan.h): on the first training worker that
 * may take it and that it fits, with what that one said of its machine, or before any did with what
 * is usual, and the memory that a worker may have. Its seconds are corrected by what finished jobs
 * taught (lessons.h).
 */
#pragma once

#include "plan/plan.h"

struct app;

/* A job that may run on several devices is kept to those like the one that it was planned for,
 * by spec->device, where others were refused or that one is a GPU; and one that leaves its centers
 * open has them in spec->centers where it is to have any (plan_take_centers). *ret: JSON text of
 * the plan, for the caller to mem_free. -ERR_DOES_NOT_FIT: no worker can ever run it.
 */
int planner_plan(const struct app *app, struct job_spec *spec, const struct plan_data *data,
                 char **ret, struct err *err);
