/* Why a queued job does not run: the job's `waiting_for` object. */
#pragma once

#include "store/jobs.h"

struct app;
struct json;

/*
 * {"code", "detail", "until"}, the last a time or null; NULL where nothing is in its way or the job
 * does not wait. Codes:
 *   draining            the daemon is being stopped; the job stays queued for its next start
 *   retry_delay         its worker was lost, and the next attempt begins later
 *   memory              a worker is idle, and there is too little memory for this job, or for one
 *                       that comes first
 *   worker_busy         every training worker is at work
 *   worker_quarantined  none is at work, and one at least is kept out of service
 *   no_worker           none is up
 */
struct json *waiting_for(const struct app *app, const struct job_row *job, int64_t queue_position);
