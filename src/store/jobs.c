#include "store/jobs.h"

#include "base/buf.h"
#include "base/mem.h"
#include "store/internal.h"
#include "wire/reason.h"

int jobs__not_found(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "There is no such job.");
}

void job_row_deinit(struct job_row *r)
{
    mem_free(r->reason);
    mem_free(r->model);
    mem_free(r->spec);
    mem_free(r->plan);
    mem_free(r->progress);
    mem_free(r->result);
    mem_free(r->error);
    mem_free(r->worker);
    mem_free(r->device);
    mem_free(r->promotion);
    *r = (struct job_row){.status = JOB_QUEUED};
}

int jobs__read_status(struct sql_stmt *st, int column, enum job_status *ret, struct err *err)
{
    char name[16];
    sql_col_fixed(st, column, name, sizeof(name));
    const int rc = sql_row_check(st, err);
    if (rc == 0 && job_status_parse(name, ret, NULL) < 0) {
        return err_set(err, ERR_CORRUPT, "The database holds a job without a known status.");
    }
    return rc;
}

int jobs__read(struct sql_stmt *st, void *row, struct err *err)
{
    struct job_row *r = row;
    const int rc = jobs__read_status(st, 1, &r->status, err);
    if (rc < 0) {
        return rc;
    }
    sql_col_fixed(st, 0, r->id, sizeof(r->id));
    r->reason = sql_col_text(st, 2);
    r->model = sql_col_text(st, 3);
    r->model_version = sql_col_int(st, 4);
    sql_col_fixed(st, 5, r->dataset, sizeof(r->dataset));
    sql_col_fixed(st, 6, r->test_dataset, sizeof(r->test_dataset));
    r->spec = sql_col_text(st, 7);
    r->progress = sql_col_text(st, 8);
    r->result = sql_col_text(st, 9);
    r->error = sql_col_text(st, 10);
    r->worker = sql_col_text(st, 11);
    r->device = sql_col_text(st, 12);
    r->priority = sql_col_int(st, 13);
    r->attempt = sql_col_int(st, 14);
    r->max_attempts = sql_col_int(st, 15);
    r->created_ms = sql_col_int(st, 16);
    r->queued_ms = sql_col_int(st, 17);
    r->started_ms = sql_col_int(st, 18);
    r->finished_ms = sql_col_int(st, 19);
    sql_col_fixed(st, 20, r->centers_dataset, sizeof(r->centers_dataset));
    r->next_attempt_ms = sql_col_int(st, 21);
    r->promotion = sql_col_text(st, 22);
    r->plan = sql_col_text(st, 23);
    sql_col_fixed(st, 24, r->wanted_device, sizeof(r->wanted_device));
    r->host_bytes = sql_col_int(st, 25);
    return sql_row_check(st, err);
}

static const char *status_level(enum job_status status, const char *reason)
{
    if (status == JOB_FAILED) {
        return "error";
    }
    const bool lost = reason != NULL && reason_from_name(reason) == REASON_WORKER_LOST;
    return lost ? "warning" : "info";
}

int jobs__tell_status(struct sql *db, int64_t job, enum job_status status, const char *reason,
                      int64_t attempt, const char *message, int64_t now_ms, struct err *err)
{
    cleanup_buf struct buf data = BUF_INIT;
    buf_printf(&data, "{\"status\":\"%s\",\"reason\":", job_status_name(status));
    if (reason == NULL) {
        buf_str(&data, "null");
    } else {
        buf_json_string(&data, reason);
    }
    buf_printf(&data, ",\"attempt\":%lld}", (long long)attempt);
    if (data.failed) {
        return err_no_memory(err);
    }
    const struct event_new event = {
        .level = status_level(status, reason),
        .type = "status",
        .message = message,
        .data = data.data,
    };
    return events__append(db, job, &event, now_ms, NULL, err);
}

/* Keeps the data set while the job is unfinished; the foreign key tells when it is gone. */
static int hold(struct sql *db, int64_t job, const char *dataset, const char *pointer,
                struct err *err)
{
    static const char insert[] =
        "INSERT INTO dataset_holds (job, dataset) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    if (dataset[0] == '\0') {
        return 0;
    }
    const int rc = sql_run(db, insert, SQL_ARGS(sql_int(job), sql_text(dataset)), err);
    if (rc == -ERR_NOT_FOUND) {
        return err_at(err, ERR_NOT_FOUND, pointer, "There is no such data set.");
    }
    return rc;
}

/* Keeps the model that the job begins with, as its specification names it, if it does; without one
 * it asks for a key that no model has. */
static int hold_start(struct sql *db, int64_t job, const char *spec, struct err *err)
{
    static const char insert[] =
        "INSERT INTO model_holds (job, model) SELECT ?1, coalesce((SELECT key FROM models "
        "WHERE name = json_extract(?2, '$.warm_start.model') "
        "AND version = json_extract(?2, '$.warm_start.version')), 0) "
        "WHERE json_extract(?2, '$.warm_start') IS NOT NULL";
    const int rc = sql_run(db, insert, SQL_ARGS(sql_int(job), sql_text(spec)), err);
    if (rc == -ERR_NOT_FOUND) {
        return err_at(err, ERR_NOT_FOUND, "#/warm_start", "There is no such version of a model.");
    }
    return rc;
}

/* For lists by metadata. */
static int index_metadata(struct sql *db, const struct job_row *job, struct err *err)
{
    static const char insert[] = "INSERT INTO job_metadata (job, name, value) "
                                 "SELECT ?1, key, value FROM json_each(?2, '$.metadata')";
    return sql_run(db, insert, SQL_ARGS(sql_text(job->id), sql_text(job->spec)), err);
}

/* What its plan warns of, as events. */
static int tell_warnings(struct sql *db, int64_t key, const char *plan, int64_t now_ms,
                         struct err *err)
{
    static const char select[] =
        "SELECT json_extract(value, '$.detail') FROM json_each(?1, '$.warnings')";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = plan != NULL ? sql_first(db, select, SQL_ARGS(sql_text(plan)), &st, err) : 0;
    while (rc > 0) {
        cleanup_mem char *text = sql_col_text(st, 0);
        const struct event_new event = {.level = "warning", .type = "message", .message = text};
        rc = text != NULL ? events__append(db, key, &event, now_ms, NULL, err) : err_no_memory(err);
        rc = rc < 0 ? rc : sql_next(st, err);
    }
    return rc;
}

static int insert_inside(struct sql *db, const struct job_row *row,
                         const struct idempotency_row *answer, int64_t now_ms, struct err *err)
{
    static const char insert[] =
        "INSERT INTO jobs (id, status, model, dataset, test_dataset, centers_dataset, spec, "
        "priority, max_attempts, created_ms, queued_ms, plan, wanted_device, host_bytes) "
        "VALUES (?1, 'queued', ?2, ?3, nullif(?4, ''), nullif(?5, ''), ?6, ?7, ?8, ?9, ?9, ?10, "
        "coalesce(nullif(?11, ''), 'auto'), ?12) "
        "RETURNING key";
    int64_t key;
    int rc = sql_number(db, insert,
                        SQL_ARGS(sql_text(row->id), sql_text(row->model), sql_text(row->dataset),
                                 sql_text(row->test_dataset), sql_text(row->centers_dataset),
                                 sql_text(row->spec), sql_int(row->priority),
                                 sql_int(row->max_attempts), sql_int(now_ms), sql_text(row->plan),
                                 sql_text(row->wanted_device), sql_int(row->host_bytes)),
                        &key, err);
    if (rc < 0) {
        return rc;
    }
    rc = hold(db, key, row->dataset, "#/dataset", err);
    if (rc == 0) {
        rc = hold(db, key, row->test_dataset, "#/test/dataset", err);
    }
    if (rc == 0) {
        rc = hold(db, key, row->centers_dataset, "#/centers/dataset", err);
    }
    if (rc == 0) {
        rc = hold_start(db, key, row->spec, err);
    }
    if (rc == 0) {
        rc = index_metadata(db, row, err);
    }
    if (rc == 0) {
        rc = idempotency__insert(db, answer, err);
    }
    if (rc < 0) {
        return rc;
    }
    rc = jobs__tell_status(db, key, JOB_QUEUED, NULL, 0, "Queued.", now_ms, err);
    return rc < 0 ? rc : tell_warnings(db, key, row->plan, now_ms, err);
}

int jobs_insert(struct store *s, const struct job_row *row, const struct idempotency_row *answer,
                int64_t now_ms, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(s->db, insert_inside(s->db, row, answer, now_ms, err), err);
}

int jobs_get(struct store *s, const char *id, struct job_row *ret, struct err *err)
{
    static const char select[] = "SELECT " JOB_COLUMNS " FROM jobs WHERE id = ?1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(s->db, select, SQL_ARGS(sql_text(id)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    struct job_row row = {.reason = NULL};
    rc = jobs__read(st, &row, err);
    if (rc < 0) {
        job_row_deinit(&row);
        return rc;
    }
    *ret = row;
    return 0;
}

int jobs_final(struct store *s, const char *id, bool *ret, struct err *err)
{
    static const char select[] = "SELECT finished_ms IS NOT NULL FROM jobs WHERE id = ?1";
    int64_t final = 0;
    const int rc = sql_number(s->db, select, SQL_ARGS(sql_text(id)), &final, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    *ret = final != 0;
    return 0;
}

int jobs_test_predictions(struct store *s, const char *id, char **ret, struct err *err)
{
    static const char select[] = "SELECT data FROM job_test_predictions "
                                 "JOIN jobs ON jobs.key = job_test_predictions.job WHERE id = ?1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(s->db, select, SQL_ARGS(sql_text(id)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : err_set(err, ERR_NOT_FOUND, "The job has no test predictions.");
    }
    cleanup_mem char *text = sql_col_text(st, 0);
    rc = sql_row_check(st, err);
    if (rc == 0) {
        *ret = text;
        text = NULL;
    }
    return rc;
}

int jobs_count(struct store *s, enum job_status status, int64_t *ret, struct err *err)
{
    static const char select[] = "SELECT count(*) FROM jobs WHERE status = ?1";
    static const char queued[] = "SELECT coalesce(sum(jobs), 0) FROM queue_blocks";
    const int rc =
        status == JOB_QUEUED
            ? sql_number(s->db, queued, SQL_NO_ARGS, ret, err) /* not one by one */
            : sql_number(s->db, select, SQL_ARGS(sql_text(job_status_name(status))), ret, err);
    return rc < 0 ? rc : 0;
}

/* Events and holds go with the row (ON DELETE CASCADE). */
static int delete_inside(struct sql *db, const char *id, struct err *err)
{
    static const char select[] = "SELECT status FROM jobs WHERE id = ?1";
    static const char delete[] = "DELETE FROM jobs WHERE id = ?1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(db, select, SQL_ARGS(sql_text(id)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    enum job_status status;
    rc = jobs__read_status(st, 0, &status, err);
    if (rc < 0) {
        return rc;
    }
    if (!job_status_final(status)) {
        return err_set(err, ERR_CONFLICT, "The job is %s; only a finished job can be deleted.",
                       job_status_name(status));
    }
    return sql_run(db, delete, SQL_ARGS(sql_text(id)), err);
}

int jobs_delete(struct store *s, const char *id, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(s->db, delete_inside(s->db, id, err), err);
}

int jobs_each_unfinished(struct store *s, void (*visit)(void *context, const char *id),
                         void *context, struct err *err)
{
    static const char select[] =
        "SELECT id FROM jobs WHERE status IN ('queued', 'running', 'paused', 'cancelling') "
        "ORDER BY id";
    return list__each_text(s->db, select, visit, context, err);
}
