/*
 * The queue as workers and clients see it. What it is asked for often goes along indexes that hold
 * all that is looked at: jobs_queue in the queue's order, jobs_claims the same apart by the device
 * that jobs ask for, jobs_retries by the time of the next attempt. How many come before a place is
 * summed up from queue_blocks.
 */
#include <stdio.h>
#include <string.h>

#include "store/internal.h"

/* Whether a queued job may start at ?1. A time further off than any wait was set by a clock that
 * has been put back since. */
#define DUE "(next_attempt_ms IS NULL OR next_attempt_ms NOT BETWEEN ?1 + 1 AND ?1 + 300000)"
#define LATER "next_attempt_ms BETWEEN ?1 + 1 AND ?1 + 300000"
_Static_assert(JOBS_RETRY_MAX_MS == 300000, "DUE and LATER say the same.");

/* ---- the next ---- */

const char jobs__next_of_device[] =
    "SELECT key, id, wanted_device, priority, host_bytes FROM jobs INDEXED BY jobs_claims "
    "WHERE status = 'queued' AND " DUE " AND wanted_device = ?2 AND host_bytes <= ?3 "
    "ORDER BY priority DESC, key LIMIT 1";

struct found {
    int64_t key;
    struct job_head head;
};

static int next_of_device(struct sql *db, const struct jobs_offer *offer, int64_t now_ms,
                          struct found *ret, struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(
        db, jobs__next_of_device,
        SQL_ARGS(sql_int(now_ms), sql_text(offer->device), sql_int(offer->most_bytes)), &st, err);
    if (rc <= 0) {
        return rc;
    }
    ret->key = sql_col_int(st, 0);
    sql_col_fixed(st, 1, ret->head.id, sizeof(ret->head.id));
    sql_col_fixed(st, 2, ret->head.wanted_device, sizeof(ret->head.wanted_device));
    ret->head.priority = sql_col_int(st, 3);
    ret->head.host_bytes = sql_col_int(st, 4);
    rc = sql_row_check(st, err);
    return rc < 0 ? rc : 1;
}

static bool comes_before(const struct found *a, const struct found *b)
{
    return a->head.priority != b->head.priority ? a->head.priority > b->head.priority
                                                : a->key < b->key;
}

int jobs_next(struct store *s, const struct jobs_offer *offers, int count, int64_t now_ms,
              struct job_head *ret, struct err *err)
{
    struct found first = {.key = 0};
    for (int i = 0; i < count; i++) {
        struct found found;
        const int rc = next_of_device(s->db, &offers[i], now_ms, &found, err);
        if (rc < 0) {
            return rc;
        }
        if (rc > 0 && (first.key == 0 || comes_before(&found, &first))) {
            first = found;
        }
    }
    if (first.key != 0) {
        *ret = first.head;
    }
    return first.key != 0;
}

/* ---- places ---- */

/* Of "cuda:1": "cuda". */
static void print_kind(const char *device, char ret[JOBS_DEVICE_SIZE])
{
    snprintf(ret, JOBS_DEVICE_SIZE, "%.*s", (int)strcspn(device, ":"), device);
}

bool jobs__compete(const char *a, const char *b)
{
    const size_t kind_a = strcspn(a, ":"), kind_b = strcspn(b, ":");
    if (strcmp(a, "auto") == 0 || strcmp(b, "auto") == 0 || strcmp(a, b) == 0) {
        return true;
    }
    return kind_a == kind_b && strncmp(a, b, kind_a) == 0 &&
           (a[kind_a] == '\0' || b[kind_b] == '\0');
}

/* How many queued jobs come before that place and compete for a worker (jobs__compete). Whole
 * blocks of 256 keys are counted already, by triggers; one by one those of the place's own block.
 * Priorities and devices are few, so that this is the work of hundreds of jobs however many there
 * are. */
#define COMPETE                                                                                    \
    "(?3 = 'auto' OR wanted_device IN ('auto', ?3, ?4) OR wanted_device GLOB ?3 || ':*')"
static int count_before(struct sql *db, const char *device, int64_t priority, int64_t key,
                        int64_t *ret, struct err *err)
{
    static const char select[] =
        "SELECT (SELECT coalesce(sum(jobs), 0) FROM queue_blocks"
        "        WHERE priority > ?1 AND " COMPETE ")"
        "     + (SELECT coalesce(sum(jobs), 0) FROM queue_blocks"
        "        WHERE priority = ?1 AND block < ?2 >> 8 AND " COMPETE ")"
        "     + (SELECT count(*) FROM jobs INDEXED BY jobs_queue WHERE status = 'queued'"
        "        AND priority = ?1 AND key >= ?2 & ~255 AND key < ?2 AND " COMPETE ")";
    char kind[JOBS_DEVICE_SIZE];
    print_kind(device, kind);
    const int rc = sql_number(
        db, select, SQL_ARGS(sql_int(priority), sql_int(key), sql_text(device), sql_text(kind)),
        ret, err);
    return rc < 0 ? rc : 0;
}

int jobs_queue_position(struct store *s, const char *id, int64_t *ret, struct err *err)
{
    static const char select[] =
        "SELECT status = 'queued', priority, key, wanted_device FROM jobs WHERE id = ?1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(s->db, select, SQL_ARGS(sql_text(id)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    char device[JOBS_DEVICE_SIZE];
    sql_col_fixed(st, 3, device, sizeof(device));
    rc = sql_row_check(st, err);
    if (rc < 0 || sql_col_int(st, 0) == 0) {
        *ret = -1;
        return rc;
    }
    return count_before(s->db, device, sql_col_int(st, 1), sql_col_int(st, 2), ret, err);
}

int jobs_queue_length(struct store *s, int64_t priority, const char *device, int64_t *ret,
                      struct err *err)
{
    return count_before(s->db, device, priority, INT64_MAX, ret, err);
}

/* ---- next attempts ---- */

int jobs_next_attempt(struct store *s, int64_t now_ms, int64_t *ret_ms, struct err *err)
{
    static const char select[] =
        "SELECT coalesce(min(next_attempt_ms), 0) FROM jobs INDEXED BY jobs_retries "
        "WHERE status = 'queued' AND " LATER;
    const int rc = sql_number(s->db, select, SQL_ARGS(sql_int(now_ms)), ret_ms, err);
    return rc < 0 ? rc : 0;
}

static int shift_inside(struct sql *db, int64_t by_ms, struct err *err)
{
    static const char change[] = "UPDATE jobs SET next_attempt_ms = next_attempt_ms + ?1 "
                                 "WHERE next_attempt_ms IS NOT NULL AND status = 'queued'";
    static const char webhooks[] =
        "UPDATE webhooks SET next_ms = next_ms + ?1 WHERE state = 'pending'";
    const int rc = sql_run(db, change, SQL_ARGS(sql_int(by_ms)), err);
    return rc < 0 ? rc : sql_run(db, webhooks, SQL_ARGS(sql_int(by_ms)), err);
}

int jobs_shift_attempts(struct store *s, int64_t by_ms, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    return rc < 0 ? rc : sql_end(s->db, shift_inside(s->db, by_ms, err), err);
}
