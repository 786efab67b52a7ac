/*
 * Jobs as a checked state machine. A transition that the diagram does not have is -ERR_CONFLICT
 * naming the present status; nothing else changes a job's status.
 *
 *   queued --claim--> running --finish--> succeeded | failed
 *   queued --pause--> paused --resume--> queued
 *   running --worker lost, recover--> queued (the next claim counts a further attempt, but for one
 *                                     that had got ahead, which goes on), or failed when attempts
 *                                     are spent
 *   running --put aside--> paused, where a pause was asked for, else queued (the same attempt)
 *   queued, paused --cancel--> cancelled
 *   running --cancel--> cancelling --finish--> cancelled | succeeded | failed
 *
 * A running job that has been asked to pause has the reason "paused", and is paused once its worker
 * has stopped, or was lost while attempts are left.
 *
 * Every transition appends its "status" event in the same transaction; the event's data is
 * {"status":…,"reason":…,"attempt":…}.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "store/events.h"
#include "store/idempotency.h"
#include "store/store.h"
#include "wire/promote.h"
#include "wire/reason.h"

enum job_status {
    JOB_QUEUED,
    JOB_RUNNING,
    JOB_PAUSED,
    JOB_CANCELLING,
    JOB_SUCCEEDED,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_STATUS_COUNT_
};
const char *job_status_name(enum job_status s);
int job_status_parse(const char *name, enum job_status *ret, struct err *err);
bool job_status_final(enum job_status s);

#define JOBS_DEVICE_SIZE 40 /* of a device as jobs ask for it */
struct job_row {
    char id[ID_SIZE];
    enum job_status status;
    char *reason; /* code of wire/reason.h, or NULL; a job that is queued again keeps why */
    char *model;  /* the name asked for */
    int64_t model_version; /* 0 until published */
    char dataset[ID_SIZE];
    char test_dataset[ID_SIZE];                             /* "" when none */
    char centers_dataset[ID_SIZE];                          /* "" when none */
    char *spec;                                             /* JSON text */
    char *plan;                                             /* JSON text, or NULL: unknown */
    char *progress;                                         /* JSON text, or NULL */
    char *result;                                           /* JSON text, or NULL */
    char *error;                                            /* JSON text of a problem, or NULL */
    char *worker;                                           /* "cpu:0", or NULL */
    char *device;                                           /* "cpu", or NULL */
    int64_t priority, attempt, max_attempts;                /* attempt counts from 1 once claimed */
    int64_t created_ms, queued_ms, started_ms, finished_ms; /* 0: not yet */
    int64_t next_attempt_ms; /* not before, of a job that is queued again; else 0 */
    char *promotion;         /* JSON text: whether its model was promoted and why; or NULL */
    char wanted_device[JOBS_DEVICE_SIZE]; /* which it asks for: as job_spec.device */
    int64_t host_bytes; /* of the host's memory, by its plan, its worker included; 0: unknown */
};
void job_row_deinit(struct job_row *r);

/* Fields read: id, model, dataset, test_dataset, centers_dataset, spec, plan, priority,
 * max_attempts, wanted_device ("": "auto"), host_bytes. Becomes queued. -ERR_NOT_FOUND at
 * "#/dataset", "#/test/dataset" or
 * "#/centers/dataset" when there is no such data set (any more); -ERR_CONFLICT when the id is
 * taken. Until the job has finished, its data sets cannot be deleted, nor can the
 * version of a model that its specification names as `warm_start`. `answer` (NULL: none) is kept
 * in the same transaction.
 */
int jobs_insert(struct store *s, const struct job_row *row, const struct idempotency_row *answer,
                int64_t now_ms, struct err *err);
int jobs_get(struct store *s, const char *id, struct job_row *ret, struct err *err);

/* Whether the job has ended. */
int jobs_final(struct store *s, const char *id, bool *ret, struct err *err);

#define JOBS_METADATA_MAX 16 /* pairs that a job may have, and a filter ask for */
struct jobs_filter {
    const char *model; /* NULL: any */
    unsigned statuses; /* the sum of 1u << status of those wanted; 0: any */
    int metadata;      /* pairs of names (each once) and values that a job must have, all of them */
    const char *names[JOBS_METADATA_MAX], *values[JOBS_METADATA_MAX];
    bool
        in_queue; /* queued jobs alone, the one that starts next first; with nothing of the above */
};
#define JOBS_VISITED_MAX 1000 /* jobs with the rarest pair of metadata that a page looks at */
#define JOBS_PLACES_MAX 50000 /* places between the first and the last of its page's, at most */
struct jobs_page {
    struct job_row *rows; /* newest first, but in_queue; may be NULL when there are none */
    int64_t count;
    int64_t *positions; /* of each in the queue, 0 = next; -1: not queued, or further behind */
    bool more;          /* there may be further ones */
    char last[ID_SIZE]; /* where the next page goes on: what was looked at last, which need not fit
                           a filter by metadata; "" when there was nothing */
};
/* At most page.limit jobs; fewer with `more` where many had to be looked at to find them, or where
 * they are large. -ERR_NOT_FOUND: in_queue, where the job of page.after is no more. */
int jobs_list(struct store *s, const struct jobs_filter *filter, struct store_page page,
              struct jobs_page *ret, struct err *err);
void jobs_page_deinit(struct jobs_page *p);

/* How many queued jobs come before this one (0 = next) and ask for a device that could be its own;
 * -1 when it is not queued. */
int jobs_queue_position(struct store *s, const char *id, int64_t *ret, struct err *err);
/* How many would come before a new one of that priority that asks for that device. */
int jobs_queue_length(struct store *s, int64_t priority, const char *device, int64_t *ret,
                      struct err *err);
int jobs_count(struct store *s, enum job_status status, int64_t *ret, struct err *err);

/* What idle workers have for jobs that ask for that device, in these very words. */
struct jobs_offer {
    const char *device; /* "auto", "cpu", "cuda", "cuda:1" */
    int64_t most_bytes; /* of the host's memory; jobs of unknown needs ask for 0 */
};
struct job_head {
    char id[ID_SIZE];
    char wanted_device[JOBS_DEVICE_SIZE];
    int64_t priority, host_bytes;
};
/* The queued job of highest priority, oldest first, that need not wait for its next attempt and
 * fits one of the offers. 1: *ret is it; 0: there is none. A job that is queued again keeps its
 * age. */
int jobs_next(struct store *s, const struct jobs_offer *offers, int count, int64_t now_ms,
              struct job_head *ret, struct err *err);
/* Who takes a job, and what it goes on from. */
#define JOBS_CHECKPOINT_SIZE 80 /* of what tells a checkpoint from the one before */
struct job_claim {
    const char *worker, *device;
    const char *checkpoint; /* NULL, "": there is none */
};
/* queued -> running, started now, attempt + 1; a job that was put aside, or whose last attempt had
 * got ahead before it lost its worker, goes on with the same attempt. *ret is its row. */
int jobs_claim(struct store *s, const char *id, const struct job_claim *claim, int64_t now_ms,
               struct job_row *ret, struct err *err);

/* Batched: durable after store_flush (store.h).
 * Stores the progress object and appends a "metrics" event with it. *ret_event may be NULL.
 * -ERR_CONFLICT unless the job is running or cancelling. */
int jobs_progress(struct store *s, const char *id, const char *progress, const char *message,
                  int64_t now_ms, int64_t *ret_event, struct err *err);

/* queued, paused -> cancelled, running -> cancelling (*ret_status is the new one); cancelling
 * stays, without a further event. */
int jobs_cancel(struct store *s, const char *id, int64_t now_ms, enum job_status *ret_status,
                struct err *err);

/* queued -> paused; running stays (*ret_status), with the reason "paused" and a message event,
 * until jobs_put_aside. Asking again is no error and changes nothing. */
int jobs_pause(struct store *s, const char *id, int64_t now_ms, enum job_status *ret_status,
               struct err *err);
/* paused -> queued. */
int jobs_resume(struct store *s, const char *id, int64_t now_ms, struct err *err);
/* The worker has stopped because it was asked to, or is being stopped with the daemon: running ->
 * paused where a pause was asked for, else queued with reason "daemon_stopped"; cancelling ->
 * cancelled. No attempt counts as spent. What the job has staged is dropped. */
int jobs_put_aside(struct store *s, const char *id, int64_t now_ms, enum job_status *ret_status,
                   struct err *err);

/* That the model of a job is to be promoted where it is good enough. */
struct job_promotion {
    const struct promote_spec *spec;
    const struct json *metrics; /* of the job's result */
    /* A version that is not loaded is not promoted; `failure` is the sentence that says why. Where
     * promote_worth says that it is not worth it, it need not have been tried. */
    bool loaded;
    const char *failure;
};

struct job_end {
    enum job_status status; /* SUCCEEDED, FAILED or CANCELLED */
    const char *reason;
    const char *result;           /* JSON text or NULL */
    const char *error;            /* JSON text or NULL */
    const char *message;          /* of the status event */
    const char *test_predictions; /* JSON text or NULL; kept where the job succeeded */
    /* What it teaches of plans (experience.h), or NULL; added where the job succeeded. What is
     * wrong with it alone costs the job nothing. */
    const char *experience;
    /* models_stage's handle, sealed, or 0. Published in the same transaction when status is
     * JOB_SUCCEEDED; whatever else the job has staged is dropped. -ERR_NOT_FOUND when this job has
     * not staged it, -ERR_CONFLICT when it is not sealed. */
    int64_t staged_model;
    /* NULL: none was asked for. Decided in the same transaction once the model is published; the
     * decision is in the job's row and in a message event with {"alias","promoted","reason",
     * "detail","from","to","conditions"}. */
    const struct job_promotion *promotion;
};
/* Batched: durable after store_flush (store.h). */
int jobs_finish(struct store *s, const char *id, const struct job_end *end, int64_t now_ms,
                struct err *err);

/* How long a job waits for its next attempt: first_ms after the first one, doubled after each, at
 * most JOBS_RETRY_MAX_MS; of that the last half as far as `jitter`, 0 to 1, says. */
#define JOBS_RETRY_MAX_MS 300000
struct job_loss {
    const char *message; /* of the status event: the cause, a signal or an exit code */
    const char *error;   /* JSON text of a problem, or NULL: of a job without an attempt left */
    enum reason reason;  /* NONE: worker_lost; or disk_full */
    int64_t first_ms;    /* 0: no wait */
    double jitter;
    const char *checkpoint; /* as it is now; NULL: what it has kept does not matter */
};
/* A loss spends the attempt, unless the job has another checkpoint than when it was claimed: so it
 * got ahead, and ends however often that happens. Not so where it cannot use what it keeps; after
 * so many losses every further one counts. */
#define JOBS_SPARED_MAX 100

/* The worker was lost, or what it found could not be kept: running -> queued while attempts are
 * left (paused where that was asked for), else failed with the error (JSON text of a problem, or
 * NULL); cancelling -> cancelled. The event carries the message. What the job has staged is
 * dropped. */
int jobs_worker_lost(struct store *s, const char *id, const struct job_loss *loss, int64_t now_ms,
                     enum job_status *ret_status, struct err *err);

/* When the first of the queued jobs that wait for their next attempt may start; 0: none waits. */
int jobs_next_attempt(struct store *s, int64_t now_ms, int64_t *ret_ms, struct err *err);

/* The clock has jumped by so many milliseconds, and so do the moments of next attempts,
 * those of webhooks too. */
int jobs_shift_attempts(struct store *s, int64_t by_ms, struct err *err);

/* Reads what tells a job's checkpoint from others; "": there is none. */
struct jobs_kept {
    void (*read)(void *context, const char *job, char ret[JOBS_CHECKPOINT_SIZE]);
    void *context;
};
/* At start, before anything else: as jobs_worker_lost for every running or cancelling job, all of
 * them in one transaction; one that had got ahead is queued with reason "daemon_stopped". `kept`
 * NULL: none has a checkpoint. */
int jobs_recover(struct store *s, const struct jobs_kept *kept, int64_t now_ms, int64_t *ret_count,
                 struct err *err);

/* What jobs_finish was given, mem_free; -ERR_NOT_FOUND where the job is not there or has none. */
int jobs_test_predictions(struct store *s, const char *id, char **ret, struct err *err);

/* Removes a finished job with its events; its models stay. -ERR_CONFLICT while unfinished. */
int jobs_delete(struct store *s, const char *id, struct err *err);

/* Calls visit for the id of every job that is not final, ascending. visit must not change jobs. */
int jobs_each_unfinished(struct store *s, void (*visit)(void *context, const char *id),
                         void *context, struct err *err);
