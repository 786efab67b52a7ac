/*
 * The durable event log of jobs: numbered 1, 2, 3, … within each job without gaps, appended in the
 * same transaction as the change they tell of. The list and the SSE stream both read it.
 */
#pragma once

#include "base/id.h"
#include "store/store.h"

struct event_row {
    int64_t id; /* within the job, from 1 */
    char job[ID_SIZE];
    int64_t created_ms;
    char level[8]; /* "info", "warning", "error" */
    char type[8];  /* "status", "metrics", "message" */
    char *message;
    char *data; /* JSON text of an object, or NULL */
};
void event_row_deinit(struct event_row *r);

/* What a caller gives to append; id and time are set by the store. */
struct event_new {
    const char *level, *type, *message, *data;
};

/* Batched: durable after store_flush (store.h). *ret_id may be NULL. -ERR_NOT_FOUND: no such job.
 */
int events_append(struct store *s, const char *job, const struct event_new *event, int64_t now_ms,
                  int64_t *ret_id, struct err *err);
#define EVENTS_LIMIT_MAX 1000

/* Events with id > after, ascending, at most limit (1..EVENTS_LIMIT_MAX). -ERR_NOT_FOUND: no such
 * job. */
int events_list(struct store *s, const char *job, int64_t after, int64_t limit,
                struct event_row **ret, int64_t *ret_count, struct err *err);
/* The number of the job's last event; it has at least one. -ERR_NOT_FOUND: no such job. */
int events_last(struct store *s, const char *job, int64_t *ret, struct err *err);
/* What is kept of the logs of finished jobs; their last event, which tells how they ended, always.
 */
struct events_kept {
    int64_t finished_since_ms; /* all events of jobs that finished since; INT64_MIN: of every job */
    int64_t newest;            /* of each of those no more than so many; 0: no limit */
};
/* Removes at most `limit` of the others; *ret_count: how many, fewer than `limit` when no more are
 * left. */
int events_sweep(struct store *s, const struct events_kept *kept, int64_t limit, int64_t *ret_count,
                 struct err *err);
void events_list_free(struct event_row *rows, int64_t count);
