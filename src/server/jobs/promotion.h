/*
 * The end of a job whose model is to be promoted (wire/promote.h). While the job still counts as
 * running its model, staged, is loaded into a serving worker; then one transaction ends the job,
 * publishes the model and moves the alias. A crash before that transaction finds a job without a
 * worker, which is tried again: the alias moves once or not at all, and never to a version that
 * could not be loaded.
 */
#pragma once

#include <stdbool.h>

#include "base/json.h"
#include "server/jobs/job_report.h"

/* Whether the job has asked for it, has a model, and meets the conditions that can be told now. */
bool promotion_wanted(const struct job_report *report, const struct json *done);

/* Takes what the report owns. `ended` is called once, perhaps at once, with the report and what
 * job_report_done would have returned; the report may be taken. < 0 on lack of memory: nothing was
 * taken. */
int promotion_begin(struct job_report *report, const struct json *done,
                    void (*ended)(void *context, struct job_report *report, const struct json *done,
                                  int r),
                    void *context);
