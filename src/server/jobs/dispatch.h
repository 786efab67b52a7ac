/*
 * Which queued job an idle training worker takes next: the first of the queue that asks for a
 * device with an idle worker and fits the memory that there is (room.h).
 *
 * One that does not fit waits. Where the end of jobs at work will make room for it, no job that
 * comes after it is started, on whatever device, or it might wait for ever. Where something else
 * has the memory, later jobs that fit go first.
 */
#pragma once

#include <stdbool.h>

#include "base/id.h"
#include "server/jobs/room.h"
#include "store/jobs.h"

struct app;

/* As it was found when the queue was last looked at. */
struct dispatch {
    bool waits;                /* some job for an idle worker waits for memory */
    struct job_head held;      /* the one that others wait for; its id is "" where there is none */
    struct room_share *shares; /* of every place of the pool; of use where its worker is idle */
    struct jobs_offer *offers; /* room for those of every worker */
    double read_s;             /* when the shares were read; monotonic */
};

/* 1: *ret_job is to start on *ret_slot; 0: none may, at that time of the wall's clock. */
int dispatch_next(struct dispatch *d, const struct app *app, int64_t now_ms,
                  struct job_head *ret_job, struct slot **ret_slot, struct err *err);
void dispatch_deinit(struct dispatch *d);

/* What keeps a queued job from idle workers. */
enum dispatch_lack {
    DISPATCH_NOTHING, /* or there is no idle worker for it */
    DISPATCH_MEMORY,  /* its own memory is not there */
    DISPATCH_TURN     /* a job that comes first waits for memory */
};
struct dispatch_memory {
    double needed, free; /* bytes beside what its worker has */
    bool ours;           /* jobs at work have what is missing */
};
/* *ret is set with DISPATCH_MEMORY. */
enum dispatch_lack dispatch_lack(struct dispatch *d, const struct app *app,
                                 const struct job_row *job, struct dispatch_memory *ret);
