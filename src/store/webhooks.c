#include "store/webhooks.h"

#include "base/mem.h"
#include "store/internal.h"

#define COLUMNS                                                                                    \
    "webhooks.id, webhooks.job, url, body, state, attempts, webhooks.created_ms, next_ms, "        \
    "webhooks.finished_ms, last_status, last_error, receiver"

void webhook_row_deinit(struct webhook_row *r)
{
    mem_free(r->url);
    mem_free(r->body);
    mem_free(r->last_error);
    mem_free(r->receiver);
    *r = (struct webhook_row){.url = NULL};
}

static int read_row(struct sql_stmt *st, struct webhook_row *ret, struct err *err)
{
    struct webhook_row r = {.url = NULL};
    sql_col_fixed(st, 0, r.id, sizeof r.id);
    sql_col_fixed(st, 1, r.job, sizeof r.job);
    r.url = sql_col_text(st, 2);
    r.body = sql_col_text(st, 3);
    sql_col_fixed(st, 4, r.state, sizeof r.state);
    r.attempts = sql_col_int(st, 5);
    r.created_ms = sql_col_int(st, 6);
    r.next_ms = sql_col_int(st, 7);
    r.finished_ms = sql_col_int(st, 8);
    r.last_status = sql_col_int(st, 9);
    r.last_error = sql_col_text(st, 10);
    r.receiver = sql_col_text(st, 11);
    const int rc = sql_row_check(st, err);
    if (rc < 0) {
        webhook_row_deinit(&r);
        return rc;
    }
    *ret = r;
    return 1;
}

static int read_one(struct sql *db, const char *text, const struct sql_value *args, int count,
                    struct webhook_row *ret, struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(db, text, args, count, &st, err);
    return rc <= 0 ? rc : read_row(st, ret, err);
}

int webhooks_of_job(struct store *s, const char *job, struct webhook_row *ret, struct err *err)
{
    static const char select[] = "SELECT " COLUMNS " FROM webhooks WHERE job = ?1";
    return read_one(s->db, select, SQL_ARGS(sql_text(job)), ret, err);
}

int webhooks_due(struct store *s, int64_t now_ms, const struct webhooks_busy *busy,
                 struct webhook_row *ret, struct err *err)
{
    static const char select[] =
        "SELECT " COLUMNS " FROM webhooks INDEXED BY webhooks_pending WHERE state = 'pending' "
        "AND (next_ms <= ?1 OR next_ms > ?1 + 3600000) AND (attempts = 0 OR ?4) "
        "AND receiver NOT IN (SELECT value FROM json_each(?3)) "
        "AND id NOT IN (SELECT value FROM json_each(?2)) ORDER BY next_ms LIMIT 1";
    _Static_assert(WEBHOOK_WAIT_MAX_MS == 3600000, "The query says the same.");
    cleanup_mem char *ids = busy->ids ? json_print(busy->ids) : mem_strdup("[]");
    cleanup_mem char *receivers = busy->receivers ? json_print(busy->receivers) : mem_strdup("[]");
    if (ids == NULL || receivers == NULL) {
        return err_no_memory(err);
    }
    return read_one(
        s->db, select,
        SQL_ARGS(sql_int(now_ms), sql_text(ids), sql_text(receivers), sql_int(busy->tried)), ret,
        err);
}

int webhooks_waiting(struct store *s, struct webhooks_waiting *ret, struct err *err)
{
    static const char select[] = "SELECT count(*), min(created_ms) FROM webhooks "
                                 "INDEXED BY webhooks_pending WHERE state = 'pending'";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(s->db, select, SQL_NO_ARGS, &st, err);
    if (rc > 0) {
        ret->count = sql_col_int(st, 0);
        ret->oldest_ms = sql_col_int(st, 1);
    }
    return rc < 0 ? rc : 0;
}

int webhooks__add(struct sql *db, int64_t job, int64_t now_ms, struct err *err)
{
    /* Numbers of the result and the error stand in the body as the worker wrote them. */
    static const char insert[] =
        "INSERT INTO webhooks (id, job, url, body, state, created_ms, next_ms) "
        "SELECT 'msg_' || lower(hex(randomblob(16))), id, json_extract(spec, '$.webhook.url'), "
        "json_object('type', 'job.' || status, "
        "'timestamp', strftime('%Y-%m-%dT%H:%M:%fZ', ?2 / 1000.0, 'unixepoch'), "
        "'data', json_object('id', id, 'object', 'job', 'status', status, 'reason', reason, "
        "'model', model, 'model_version', model_version, 'dataset', dataset, "
        "'attempt', attempt, 'metadata', json(ifnull(json_extract(spec, '$.metadata'), '{}')), "
        "'result', json(result), 'error', json(error))), 'pending', ?2, ?2 "
        "FROM jobs WHERE key = ?1 AND json_valid(spec) "
        "AND json_type(spec, '$.webhook.url') = 'text' AND EXISTS (SELECT 1 FROM "
        "json_each(spec, '$.webhook.events') AS e WHERE e.value = jobs.status)";
#ifdef KRRD_PLANT_LOST_MESSAGES /* Only in the daemon that tests/chaos must catch. */
    if (job % 3 == 0) {
        return 0;
    }
#endif
    return sql_run(db, insert, SQL_ARGS(sql_int(job), sql_int(now_ms)), err);
}

static int tell_job(struct sql *db, const char *id, const char *message, int64_t now_ms,
                    struct err *err)
{
    static const char select[] = "SELECT jobs.key FROM webhooks JOIN jobs ON jobs.id = "
                                 "webhooks.job WHERE webhooks.id = ?1";
    int64_t job;
    const int rc = sql_number(db, select, SQL_ARGS(sql_text(id)), &job, err);
    if (rc <= 0) {
        return rc;
    }
    const struct event_new event = {.level = "warning", .type = "message", .message = message};
    return events__append(db, job, &event, now_ms, NULL, err);
}

/* One whose job has been deleted meanwhile is gone, which is no failure. */
static int record_inside(struct sql *db, const char *id, const struct webhook_result *r,
                         int64_t now_ms, struct err *err)
{
    static const char change[] =
        "UPDATE webhooks SET state = ?2, attempts = attempts + 1, last_status = nullif(?3, 0), "
        "last_error = ?4, next_ms = iif(?2 = 'pending', ?5, NULL), "
        "finished_ms = iif(?2 = 'pending', NULL, ?6) WHERE id = ?1 AND state = 'pending'";
#ifdef KRRD_PLANT_RENAMED_MESSAGES /* As above. */
    if (r->next_ms > 0) {
        static const char rename[] = "UPDATE webhooks SET attempts = attempts + 1, next_ms = ?2, "
                                     "id = 'msg_' || hex(randomblob(16)) WHERE id = ?1";
        return sql_run(db, rename, SQL_ARGS(sql_text(id), sql_int(r->next_ms)), err);
    }
#endif
    const int rc = sql_run(db, change,
                           SQL_ARGS(sql_text(id), sql_text(r->state), sql_int(r->status),
                                    sql_text(r->error), sql_int(r->next_ms), sql_int(now_ms)),
                           err);
    return rc < 0 || r->message == NULL ? rc : tell_job(db, id, r->message, now_ms, err);
}

int webhooks_record(struct store *s, const char *id, const struct webhook_result *result,
                    int64_t now_ms, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    return rc < 0 ? rc : sql_end(s->db, record_inside(s->db, id, result, now_ms, err), err);
}
