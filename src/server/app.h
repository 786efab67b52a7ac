/* The daemon's whole state, built top-down by app_open and freed in reverse. No globals beside it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "server/config.h"
#include "server/offload.h"
#include "server/rate.h"

struct http;
struct keys;
struct lessons;
struct metrics_registry;
struct store;
struct pool;
struct trainer;
struct served;
struct described;
struct serving;
struct subscribers;
struct once;
struct retention;
struct waits;
struct storage;
struct log_copy;
struct webhooks;
struct timekeeper;

struct app {
    struct config config; /* owned */
    struct log log;
    struct id_source ids;
    void *loop;                       /* uv_loop_t */
    struct metrics_registry *metrics; /* metrics.h: what GET /metrics tells */
    struct store *store;
    struct described *described;     /* described.h: descriptions of data sets */
    struct lessons *lessons;         /* jobs/lessons.h: what finished jobs taught */
    struct pool *pool;               /* pool.h: worker processes */
    struct subscribers *subscribers; /* subscribers.h: SSE listeners by job */
    struct timekeeper *timekeeper;   /* timekeeper.h: jumps of the wall clock */
    struct webhooks *webhooks;       /* webhooks/webhooks.h: NULL where there are none */
    _Atomic int64_t log_debt;        /* store_log_debt, when storage.c looked last */
    struct log_copy *log_copy;       /* log_copy.h: the database's log */
    struct storage *storage;         /* storage.h: whether the data directory can be written */
    struct waits *waits;             /* waits.h: requests that wait for a job to end */
    struct trainer *trainer;         /* trainer.h: queue -> training workers -> store */
    struct served *served;           /* served.h: which model a request means */
    struct serving *serving;         /* serving.h: loaded models, predictions */
    int listen_fd;                   /* bound, until http has it; else -1 */
    struct http *http;
    struct keys *keys;           /* http/keys.h; NULL: everybody is served */
    struct retention *retention; /* retention.h: what is kept for a time alone */
    struct once *claimed_keys;   /* once.h: Idempotency-Keys of requests under way */
    struct rate upload_rate;     /* how fast uploads make room */
    int uploads;                 /* data sets being received or read in */
    int exports, imports;        /* of models, under way */
    int offloaded;               /* what other threads have and is not back: offload.h, webhooks */
    struct offload_line ingests; /* uploads that are read in, or wait for that */
    int64_t started_ms;          /* wall clock */
    bool draining;
};

/* Takes the settings (also on failure). Fields of *app that were built before a failure stay for
 * app_close. */
int app_open(struct app *app, struct config *config, struct err *err);
/* Writes the address to the file krrd.address in the data directory, then runs the loop until
 * SIGTERM or SIGINT and everything in flight has ended, at most drain_timeout_s: requests are
 * answered, jobs in training keep a checkpoint and are queued for the next start; a second signal
 * ends it at once. */
int app_run(struct app *app, struct err *err);
/* Accepts half-built ones. false: a thread is still at work, so that some memory could not be
 * freed, and the process should end without running exit handlers. */
bool app_close(struct app *app);

/* Makes durable what the store has only batched. HTTP and event streams do it before anything is
 * told to anybody. Negative: it could not be, so that nothing of it has happened. */
int app_settle(struct app *app, struct err *err);

/* Whether new work would be done now; the reason is set where it would not. */
bool app_ready(const struct app *app, const char **ret_reason);

/* Paths inside the data directory, into caller's memory. */
#define APP_PATH_MAX 4096
void app_database_path(const struct app *app, char ret[APP_PATH_MAX]);
void app_dataset_path(const struct app *app, const char *dataset_id, char ret[APP_PATH_MAX]);
void app_checkpoint_path(const struct app *app, const char *job_id, char ret[APP_PATH_MAX]);
void app_temporary_path(const struct app *app, const char *name, char ret[APP_PATH_MAX]);

/* handlers.h lists the handler functions; routes.c has the route table. */
