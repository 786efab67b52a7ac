/*
 * What a worker says of its job, put into the store: EVENT frames become events, MODEL frames a
 * staged model, DONE the job's end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "server/jobs/backlog.h"
#include "server/jobs/lessons.h"
#include "store/jobs.h"
#include "wire/frame.h"

struct app;

struct job_report {
    struct app *app;
    char job[ID_SIZE];
    int64_t attempt;
    char *spec; /* JSON text, kept for the model's description; owned */
    char *plan; /* JSON text or NULL; owned */
    char device[JOBS_DEVICE_SIZE];
    struct experience_record lesson; /* where it is `learned`, once the end is settled */
    bool learned;
    bool computed;  /* the worker has brought the job to its end */
    int64_t losses; /* store_losses when the end was written */
    bool ended;     /* the end is written, and nobody was told yet: status, reason */
    enum job_status status;
    const char *reason;            /* static */
    int64_t staged;                /* models_stage's handle, 0 before the first byte */
    bool sealed;                   /* the staged model is complete */
    double started;                /* monotonic seconds */
    double entries_per_s;          /* kernel values, as last reported; 0: not yet */
    struct err failure;            /* code != OK: the model could not be stored */
    bool staged_kept, sealed_kept; /* and not only batched */
    struct backlog backlog;        /* what the store has yet to take */
    struct backlog batched;        /* what it took in its open batch */
    bool late;                     /* the backlog could not be stored when it was tried last */
};
int job_report_init(struct job_report *r, struct app *app, const struct job_row *job);
void job_report_deinit(struct job_report *r);
/* Moves what it owns; the source still says of which job it is. */
struct job_report job_report_take(struct job_report *from);

/* What the store does not take now is kept in the backlog. */
void job_report_event(struct job_report *r, const struct json *event);
void job_report_model(struct job_report *r, const struct frame *f);
/* Whether there is something in it, and trying to store it: 0, or why it waits still. Where
 * store_may_recover does not say so, pieces of a model are given up with it (`failure`), and the
 * job will fail. */
bool job_report_waits(const struct job_report *r);
int job_report_flush(struct job_report *r);

/* The store's batch has ended (store_watch_batches): what was in it is stored, or waits again. */
void job_report_batch(struct job_report *r, bool kept);

/* The ends. Negative: the store did not take it, which has been logged; the job is what it was,
 * and where store_may_recover says so, the same call may do later. What is written of an end is
 * batched: job_report_settle makes it durable, together with whatever else was written meanwhile,
 * and tells of it. Negative: it was lost; the job is what it was. */
int job_report_settle(struct job_report *r);
int job_report_done(struct job_report *r, const struct json *done);
bool job_report_paused(const struct json *done); /* the worker stopped since it was asked to */
/* The end of a DONE that has a model. `loaded`: into a serving worker, so that it may be promoted
 * where its job asked for that; else `failure` says why not (NULL: it was not tried). */
int job_report_end_with_model(struct job_report *r, const struct json *done, bool loaded,
                              const char *failure);
int job_report_fail(struct job_report *r, const char *reason, const char *detail,
                    const char *pointer);
/* Completes the staged model; once it is, nothing more happens. */
int job_report_seal(struct job_report *r, const struct json *done, struct err *err);
/* The model's description, JSON text (mem_free); NULL on lack of memory. */
char *job_report_describe(const struct job_report *r, const struct json *done);
/* Whether the job asked for its model to be promoted. */
bool job_report_promote(const struct job_report *r, struct promote_spec *ret);
/* The worker was lost, or what it found (WORKER_LOST), or there was no room for the model
 * (DISK_FULL); queued again, paused, or ended, as jobs_worker_lost decides. `cause`, which may be
 * NULL, joins the job's error. */
int job_report_lost(const struct job_report *r, enum reason reason, const char *message,
                    const struct json *cause);
/* The worker stopped because it was asked to, or goes down with the daemon: jobs_put_aside. */
int job_report_put_aside(struct app *app, const char *job);

/* Into the registry: a job entered a final status. */
void job_report_count_end(struct app *app, enum job_status status, const char *reason);
void job_report_complain(const struct app *app, const char *job, const char *doing,
                         const struct err *err);
