/* What the files of this folder share among themselves. Functions taking a `struct sql` run inside
 * the transaction of their caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/aliases.h"
#include "store/events.h"
#include "store/idempotency.h"
#include "store/jobs.h"
#include "store/models.h"
#include "store/sql.h"
#include "store/store.h"
#include "wire/reason.h"

struct store {
    struct sql *db;
    int lock_fd;
    int version;
    char *path;
    bool shrinking;           /* shrink.h: the file is being shortened */
    struct err not_rewritten; /* shrink__modernize: why it was not; ERR_OK: nothing failed */
};

/* store.c: the lock of the database at `path`; -ERR_CONFLICT: a daemon has it. */
int store__lock(const char *path, int *ret_fd, struct err *err);

/* shrink.c: a database that cannot give pages back one by one is written anew where that is quick
 * and there is room; s->db is then opened again, and has its settings to be made anew. Where that
 * fails it stays as it is, and s->not_rewritten says why. */
int shrink__modernize(struct store *s, struct err *err);

/* list.c: visits the text of each row of a query of one column; `select` is static (sql_start). */
int list__each_text(struct sql *db, const char *select,
                    void (*visit)(void *context, const char *text), void *context, struct err *err);

/* list.c: rows of one kind read into an array. `read` fills a zeroed row; `deinit` also takes a
 * row that was filled in part. */
struct list_kind {
    size_t size;
    int (*read)(struct sql_stmt *st, void *row, struct err *err);
    void (*deinit)(void *row);
};
/* At most `limit` rows; *ret_more tells whether there is one further. Where it is asked for, the
 * list is a page, and ends with the row that brings it over STORE_PAGE_BYTES as well. NULL: all
 * rows up to `limit`. The array may be NULL when *ret_count is 0. */
int list__read(struct sql_stmt *st, const struct list_kind *kind, int64_t limit, void **ret,
               int64_t *ret_count, bool *ret_more, struct err *err);
void list__free(const struct list_kind *kind, void *rows, int64_t count);
/* -ERR_INVALID unless 1 <= limit <= most. */
int list__check_limit(int64_t limit, int64_t most, struct err *err);
/* The id that all the page's ids are smaller than. */
const char *list__before(struct store_page page);

/* events.c: `job` is jobs.key; *ret_id may be NULL. */
int events__append(struct sql *db, int64_t job, const struct event_new *event, int64_t now_ms,
                   int64_t *ret_id, struct err *err);

/* experience.c: one more record, and the oldest goes where there are too many. */
int experience__append(struct sql *db, const char *record, struct err *err);

/* idempotency.c: row may be NULL, then nothing happens. */
int idempotency__insert(struct sql *db, const struct idempotency_row *row, struct err *err);

/* jobs.c */
#define JOB_COLUMNS                                                                                \
    "id, status, reason, model, model_version, dataset, test_dataset, spec, progress, result, "    \
    "error, worker, device, priority, attempt, max_attempts, created_ms, queued_ms, started_ms, "  \
    "finished_ms, centers_dataset, next_attempt_ms, promotion, plan, wanted_device, host_bytes"
int jobs__read(struct sql_stmt *st, void *row, struct err *err); /* columns as above */
int jobs__read_status(struct sql_stmt *st, int column, enum job_status *ret, struct err *err);
int jobs__not_found(struct err *err);
/* Appends the event of the job's entering `status`; reason may be NULL. */
int jobs__tell_status(struct sql *db, int64_t job, enum job_status status, const char *reason,
                      int64_t attempt, const char *message, int64_t now_ms, struct err *err);

/* job_changes.c: what a transition goes by, and the states that more than one leads to. */
struct job_present {
    int64_t key;
    char id[ID_SIZE];
    enum job_status status;
    int64_t attempt, max_attempts;
    int64_t spent, spared; /* losses of workers: attempts spent by them, and those that cost none */
    enum reason reason;    /* NONE: none, or not one that matters here */
};
#define JOB_PRESENT                                                                                \
    "SELECT status, key, id, attempt, max_attempts, coalesce(reason, ''), spent, spared "
/* 1: *ret is the first row of a query that starts with JOB_PRESENT; 0: there is none. */
int jobs__read_present(struct sql *db, const char *text, const struct sql_value *args, int count,
                       struct job_present *ret, struct err *err);
int jobs__find_present(struct sql *db, const char *id, struct job_present *ret, struct err *err);
/* The job has ended: it lets go of its data sets, of the model that it began with, and of what it
 * staged without publishing it. */
int jobs__enter_final(struct sql *db, const struct job_present *job, const struct job_end *end,
                      int64_t model_version, int64_t now_ms, struct err *err);
/* Without a worker again: queued, not to start before next_ms (0: at once), or paused. */
int jobs__enter_waiting(struct sql *db, const struct job_present *job, enum job_status to,
                        enum reason why, const char *message, int64_t next_ms, int64_t now_ms,
                        struct err *err);

/* job_queue.c */
/* Whether some worker may take jobs that ask for one device and for the other. */
bool jobs__compete(const char *a, const char *b);
/* The query behind jobs_next: ?1 is the time, ?2 the device asked for, ?3 the most bytes. */
extern const char jobs__next_of_device[];

/* job_status.c: the state machine as a table. */
enum job_action {
    JOB_CLAIM,
    JOB_CANCEL,
    JOB_PAUSE,
    JOB_RESUME,
    JOB_FINISH,
    JOB_PUT_ASIDE,
    JOB_LOSE_WORKER
};
int jobs__check_transition(enum job_action action, enum job_status from, enum job_status to,
                           struct err *err);

/* webhooks.c: what is to be told of the end of `job` (jobs.key), where its specification asks. */
int webhooks__add(struct sql *db, int64_t job, int64_t now_ms, struct err *err);

/* models.c */
#define MODEL_COLUMNS                                                                              \
    "models.key, models.name, models.version, models.job, models.dataset, models.description, "    \
    "models.bytes, models.sha256, models.created_ms"
/* Rows of the columns above; models_list_free takes them. */
int models__read_list(struct sql_stmt *st, struct model_row **ret, int64_t *ret_count,
                      struct err *err);
int models__publish(struct sql *db, int64_t key, const char *job, int64_t now_ms,
                    int64_t *ret_version, struct err *err);
int models__drop_staged(struct sql *db, const char *job, struct err *err); /* NULL: of every job */

/* promotions.c */
struct promotion_target {
    const char *model; /* name */
    int64_t version;   /* published in this transaction */
    int64_t key;       /* jobs.key */
    const char *job;   /* jobs.id */
};
/* Moves the alias or not, and says in the job's row and in an event what was decided. */
int promotions__decide(struct sql *db, const struct promotion_target *to,
                       const struct job_promotion *p, int64_t now_ms, struct err *err);

/* aliases.c: as aliases_set */
int aliases__set(struct sql *db, const struct alias_change *c, int64_t version,
                 enum alias_kind kind, const char *job, int64_t now_ms, struct err *err);
/* -ERR_CONFLICT naming an alias that stands for the version. */
int aliases__check_free(struct sql *db, const char *name, int64_t version, struct err *err);
