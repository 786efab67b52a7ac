/*
 * A job on a training worker, from the claim to DONE or to the worker's loss: sends the model that
 * the job begins with, where it names one, then the order, then what is asked of it.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "server/jobs/job_report.h"
#include "server/pool/pool.h"

struct run {
    struct job_report report;
    struct slot *slot;
    int pid;
    double needed; /* bytes of the host, by the job's plan */
    void (*failed)(void *context, struct run *run, const struct err *err);
    void *context;
    uv_timer_t timer; /* grace after a cancel */
    bool ended;       /* its worker, by us, for not answering a cancel */
    bool closed, timer_closed;
    struct json *order;        /* until it is sent */
    int64_t start, next_chunk; /* the store's key of the model to begin with; 0: none */
    void *chunk;               /* of it, on its way into the socket, or NULL */
    bool cancel, pause;        /* to be said once the order is sent */
};

/* Takes the slot. `failed`: what could not be sent after run_launch had returned; it closes the
 * run. NULL on lack of memory. */
struct run *run_new(struct app *app, struct slot *slot, const struct job_row *job,
                    void (*failed)(void *context, struct run *run, const struct err *err),
                    void *context);
int run_launch(struct run *run, const struct job_row *job, struct err *err);
/* No answer within the grace period (config.h) ends the worker by SIGKILL. */
void run_cancel(struct run *run);
void run_pause(struct run *run);
/* What becomes of the job whose worker is gone. Whoever ends the daemon ends its workers: no
 * attempt of the job's failed by that. */
int run_record_loss(const struct run *run, const struct slot_end *end);
void run_close(struct run *run); /* gives the slot back and frees the run in time */
