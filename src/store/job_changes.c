/* The transitions of jobs.h: each reads the present state, asks the table whether it may, changes
 * the row and tells of it, all in one transaction. */
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/internal.h"
#include "wire/reason.h"

int jobs__read_present(struct sql *db, const char *text, const struct sql_value *args, int count,
                       struct job_present *ret, struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(db, text, args, count, &st, err);
    if (rc <= 0) {
        return rc;
    }
    rc = jobs__read_status(st, 0, &ret->status, err);
    if (rc < 0) {
        return rc;
    }
    ret->key = sql_col_int(st, 1);
    sql_col_fixed(st, 2, ret->id, sizeof(ret->id));
    ret->attempt = sql_col_int(st, 3);
    ret->max_attempts = sql_col_int(st, 4);
    char reason[32];
    sql_col_fixed(st, 5, reason, sizeof(reason));
    ret->reason = reason_from_name(reason);
    ret->spent = sql_col_int(st, 6);
    ret->spared = sql_col_int(st, 7);
    rc = sql_row_check(st, err);
    return rc < 0 ? rc : 1;
}

int jobs__find_present(struct sql *db, const char *id, struct job_present *ret, struct err *err)
{
    static const char select[] = JOB_PRESENT "FROM jobs WHERE id = ?1";
    const int rc = jobs__read_present(db, select, SQL_ARGS(sql_text(id)), ret, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    return 0;
}

/* Begins an attempt, or goes on with one that is not spent. */
static int start(struct sql *db, const struct job_present *job, const struct job_claim *claim,
                 int64_t now_ms, struct err *err)
{
    static const char change[] =
        "UPDATE jobs SET status = 'running', reason = NULL, progress = NULL, attempt = ?5, "
        "worker = ?2, next_attempt_ms = NULL, device = ?3, started_ms = ?4, checkpoint = ?6 "
        "WHERE key = ?1";
    const char *worker = claim->worker;
    const int64_t attempt = job->spent + 1;
    const int rc = sql_run(db, change,
                           SQL_ARGS(sql_int(job->key), sql_text(worker), sql_text(claim->device),
                                    sql_int(now_ms), sql_int(attempt), sql_text(claim->checkpoint)),
                           err);
    if (rc < 0) {
        return rc;
    }
    cleanup_buf struct buf message = BUF_INIT;
    buf_printf(&message, "Started on %s, attempt %lld of %lld.", worker, (long long)attempt,
               (long long)job->max_attempts);
    if (message.failed) {
        return err_no_memory(err);
    }
    return jobs__tell_status(db, job->key, JOB_RUNNING, NULL, attempt, message.data, now_ms, err);
}

static int claim_inside(struct sql *db, const char *id, const struct job_claim *claim,
                        int64_t now_ms, struct job_row *row, struct err *err)
{
    static const char select[] = "SELECT " JOB_COLUMNS " FROM jobs WHERE key = ?1";
    struct job_present job;
    int rc = jobs__find_present(db, id, &job, err);
    if (rc == 0) {
        rc = jobs__check_transition(JOB_CLAIM, job.status, JOB_RUNNING, err);
    }
    if (rc == 0) {
        rc = start(db, &job, claim, now_ms, err);
    }
    if (rc < 0) {
        return rc;
    }
    cleanup_sql struct sql_stmt *st = NULL;
    rc = sql_first(db, select, SQL_ARGS(sql_int(job.key)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    return jobs__read(st, row, err);
}

int jobs_claim(struct store *s, const char *id, const struct job_claim *claim, int64_t now_ms,
               struct job_row *ret, struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    struct job_row row = {.reason = NULL};
    rc = sql_end(s->db, claim_inside(s->db, id, claim, now_ms, &row, err), err);
    if (rc < 0) {
        job_row_deinit(&row);
        return rc;
    }
    *ret = row;
    return 0;
}

static int progress_inside(struct sql *db, const char *id, const char *progress,
                           const char *message, int64_t now_ms, int64_t *ret_event, struct err *err)
{
    static const char change[] = "UPDATE jobs SET progress = ?2 WHERE key = ?1";
    struct job_present job;
    int rc = jobs__find_present(db, id, &job, err);
    if (rc < 0) {
        return rc;
    }
    if (job.status != JOB_RUNNING && job.status != JOB_CANCELLING) {
        return err_set(err, ERR_CONFLICT, "The job is %s; it cannot report progress.",
                       job_status_name(job.status));
    }
    rc = sql_run(db, change, SQL_ARGS(sql_int(job.key), sql_text(progress)), err);
    if (rc < 0) {
        return rc;
    }
    const struct event_new event = {
        .level = "info", .type = "metrics", .message = message, .data = progress};
    return events__append(db, job.key, &event, now_ms, ret_event, err);
}

int jobs_progress(struct store *s, const char *id, const char *progress, const char *message,
                  int64_t now_ms, int64_t *ret_event, struct err *err)
{
    int rc = sql_begin_batched(s->db, err);
    if (rc < 0) {
        return rc;
    }
    int64_t event = 0;
    rc = sql_end_batched(s->db, progress_inside(s->db, id, progress, message, now_ms, &event, err),
                         err);
    if (rc == 0 && ret_event != NULL) {
        *ret_event = event;
    }
    return rc;
}

int jobs__enter_final(struct sql *db, const struct job_present *job, const struct job_end *end,
                      int64_t model_version, int64_t now_ms, struct err *err)
{
    static const char change[] =
        "UPDATE jobs SET status = ?2, reason = ?3, result = ?4, error = ?5, "
        "model_version = nullif(?6, 0), finished_ms = ?7, next_attempt_ms = NULL WHERE key = ?1";
    static const char release[] = "DELETE FROM dataset_holds WHERE job = ?1";
    static const char release_model[] = "DELETE FROM model_holds WHERE job = ?1";
    int rc = sql_run(db, change,
                     SQL_ARGS(sql_int(job->key), sql_text(job_status_name(end->status)),
                              sql_text(end->reason), sql_text(end->result), sql_text(end->error),
                              sql_int(model_version), sql_int(now_ms)),
                     err);
    if (rc == 0) {
        rc = sql_run(db, release, SQL_ARGS(sql_int(job->key)), err);
    }
    if (rc == 0) {
        rc = sql_run(db, release_model, SQL_ARGS(sql_int(job->key)), err);
    }
    if (rc == 0) {
        rc = webhooks__add(db, job->key, now_ms, err);
    }
    if (rc == 0) {
        rc = models__drop_staged(db, job->id, err);
    }
    if (rc < 0) {
        return rc;
    }
    return jobs__tell_status(db, job->key, end->status, end->reason, job->attempt, end->message,
                             now_ms, err);
}

static int enter_cancelling(struct sql *db, const struct job_present *job, int64_t now_ms,
                            struct err *err)
{
    static const char change[] = "UPDATE jobs SET status = 'cancelling' WHERE key = ?1";
    const int rc = sql_run(db, change, SQL_ARGS(sql_int(job->key)), err);
    if (rc < 0) {
        return rc;
    }
    return jobs__tell_status(db, job->key, JOB_CANCELLING, NULL, job->attempt,
                             "Cancelling; the worker has been asked to stop.", now_ms, err);
}

static int cancel_inside(struct sql *db, const char *id, int64_t now_ms,
                         enum job_status *ret_status, struct err *err)
{
    struct job_present job;
    int rc = jobs__find_present(db, id, &job, err);
    if (rc < 0) {
        return rc;
    }
    const bool waits = job.status == JOB_QUEUED || job.status == JOB_PAUSED;
    const enum job_status to = waits ? JOB_CANCELLED : JOB_CANCELLING;
    rc = jobs__check_transition(JOB_CANCEL, job.status, to, err);
    if (rc < 0) {
        return rc;
    }
    *ret_status = to;
    if (job.status == JOB_CANCELLING) {
        return 0;
    }
    if (to == JOB_CANCELLING) {
        return enter_cancelling(db, &job, now_ms, err);
    }
    const struct job_end end = {
        .status = to,
        .reason = reason_name(REASON_CANCELLED),
        .message = job.status == JOB_PAUSED ? "Cancelled while it was paused."
                                            : "Cancelled before it started.",
    };
    return jobs__enter_final(db, &job, &end, 0, now_ms, err);
}

int jobs_cancel(struct store *s, const char *id, int64_t now_ms, enum job_status *ret_status,
                struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    enum job_status status = JOB_QUEUED;
    rc = sql_end(s->db, cancel_inside(s->db, id, now_ms, &status, err), err);
    if (rc == 0) {
        *ret_status = status;
    }
    return rc;
}

int jobs__enter_waiting(struct sql *db, const struct job_present *job, enum job_status to,
                        enum reason why, const char *message, int64_t next_ms, int64_t now_ms,
                        struct err *err)
{
    static const char change[] = "UPDATE jobs SET status = ?2, reason = ?3, "
                                 "progress = iif(?2 = 'paused', progress, NULL), worker = NULL, "
                                 "device = NULL, queued_ms = ?4, started_ms = NULL, "
                                 "next_attempt_ms = nullif(?5, 0) WHERE key = ?1";
    const char *reason = reason_name(why);
    int rc = sql_run(db, change,
                     SQL_ARGS(sql_int(job->key), sql_text(job_status_name(to)), sql_text(reason),
                              sql_int(now_ms), sql_int(next_ms)),
                     err);
    if (rc == 0) {
        rc = models__drop_staged(db, job->id, err);
    }
    if (rc < 0) {
        return rc;
    }
    return jobs__tell_status(db, job->key, to, reason, job->attempt, message, now_ms, err);
}

/* ---- pause and resume ---- */

/* A job that was put back into the queue before keeps why. */
static int enter_paused(struct sql *db, const struct job_present *job, int64_t now_ms,
                        struct err *err)
{
    static const char change[] =
        "UPDATE jobs SET status = 'paused', reason = coalesce(reason, ?2), next_attempt_ms = NULL "
        "WHERE key = ?1";
    const char *paused = reason_name(REASON_PAUSED);
    const int rc = sql_run(db, change, SQL_ARGS(sql_int(job->key), sql_text(paused)), err);
    return rc < 0 ? rc
                  : jobs__tell_status(db, job->key, JOB_PAUSED, paused, job->attempt,
                                      "Paused in the queue.", now_ms, err);
}

static int ask_to_pause(struct sql *db, const struct job_present *job, int64_t now_ms,
                        struct err *err)
{
    static const char change[] = "UPDATE jobs SET reason = ?2 WHERE key = ?1";
    static const struct event_new event = {
        .level = "info",
        .type = "message",
        .message = "Pausing: the worker has been asked to keep a checkpoint and stop.",
    };
    const char *paused = reason_name(REASON_PAUSED);
    const int rc = sql_run(db, change, SQL_ARGS(sql_int(job->key), sql_text(paused)), err);
    return rc < 0 ? rc : events__append(db, job->key, &event, now_ms, NULL, err);
}

static int pause_inside(struct sql *db, const char *id, int64_t now_ms, enum job_status *ret_status,
                        struct err *err)
{
    struct job_present job;
    int rc = jobs__find_present(db, id, &job, err);
    if (rc < 0) {
        return rc;
    }
    *ret_status = job.status == JOB_RUNNING ? JOB_RUNNING : JOB_PAUSED;
    rc = jobs__check_transition(JOB_PAUSE, job.status, *ret_status, err);
    if (rc < 0 || job.status == JOB_PAUSED ||
        (job.status == JOB_RUNNING && job.reason == REASON_PAUSED)) {
        return rc;
    }
    return job.status == JOB_QUEUED ? enter_paused(db, &job, now_ms, err)
                                    : ask_to_pause(db, &job, now_ms, err);
}

int jobs_pause(struct store *s, const char *id, int64_t now_ms, enum job_status *ret_status,
               struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    enum job_status status = JOB_QUEUED;
    rc = sql_end(s->db, pause_inside(s->db, id, now_ms, &status, err), err);
    if (rc == 0) {
        *ret_status = status;
    }
    return rc;
}

static int resume_inside(struct sql *db, const char *id, int64_t now_ms, struct err *err)
{
    static const char change[] = "UPDATE jobs SET status = 'queued', queued_ms = ?2 WHERE key = ?1";
    struct job_present job;
    int rc = jobs__find_present(db, id, &job, err);
    if (rc == 0) {
        rc = jobs__check_transition(JOB_RESUME, job.status, JOB_QUEUED, err);
    }
    if (rc == 0) {
        rc = sql_run(db, change, SQL_ARGS(sql_int(job.key), sql_int(now_ms)), err);
    }
    return rc < 0 ? rc
                  : jobs__tell_status(db, job.key, JOB_QUEUED, NULL, job.attempt, "Queued again.",
                                      now_ms, err);
}

int jobs_resume(struct store *s, const char *id, int64_t now_ms, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(s->db, resume_inside(s->db, id, now_ms, err), err);
}

static int put_aside_inside(struct sql *db, const char *id, int64_t now_ms,
                            enum job_status *ret_status, struct err *err)
{
    struct job_present job;
    int rc = jobs__find_present(db, id, &job, err);
    if (rc < 0) {
        return rc;
    }
    const bool asked = job.reason == REASON_PAUSED;
    *ret_status = job.status == JOB_CANCELLING ? JOB_CANCELLED : asked ? JOB_PAUSED : JOB_QUEUED;
    rc = jobs__check_transition(JOB_PUT_ASIDE, job.status, *ret_status, err);
    if (rc < 0) {
        return rc;
    }
    const enum reason why = asked ? REASON_PAUSED : REASON_DAEMON_STOPPED;
    const char *message = reason_sentence(why);
    if (*ret_status != JOB_CANCELLED) {
        return jobs__enter_waiting(db, &job, *ret_status, why, message, 0, now_ms, err);
    }
    const struct job_end end = {
        .status = JOB_CANCELLED,
        .reason = reason_name(REASON_CANCELLED),
        .message = reason_sentence(REASON_CANCELLED),
    };
    return jobs__enter_final(db, &job, &end, 0, now_ms, err);
}

int jobs_put_aside(struct store *s, const char *id, int64_t now_ms, enum job_status *ret_status,
                   struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    enum job_status status = JOB_QUEUED;
    rc = sql_end(s->db, put_aside_inside(s->db, id, now_ms, &status, err), err);
    if (rc == 0) {
        *ret_status = status;
    }
    return rc;
}

static int promote(struct sql *db, const struct job_present *job, int64_t version,
                   const struct job_promotion *promotion, int64_t now_ms, struct err *err)
{
    static const char select[] = "SELECT model FROM jobs WHERE key = ?1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(db, select, SQL_ARGS(sql_int(job->key)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    cleanup_mem char *model = sql_col_text(st, 0);
    rc = sql_row_check(st, err);
    const struct promotion_target target = {
        .model = model, .version = version, .key = job->key, .job = job->id};
    return rc < 0 ? rc : promotions__decide(db, &target, promotion, now_ms, err);
}

static int keep_test_predictions(struct sql *db, int64_t job, const char *text, struct err *err)
{
    static const char insert[] = "INSERT INTO job_test_predictions (job, data) VALUES (?1, ?2)";
    return sql_run(db, insert, SQL_ARGS(sql_int(job), sql_text(text)), err);
}

/* A job does not fail because nothing is learned from it; what the whole store refuses, it would
 * refuse of the job's end, too. */
static int learn(struct sql *db, const char *record, struct err *err)
{
    const int rc = experience__append(db, record, err);
    return store_may_recover(rc) ? rc : 0;
}

static int finish_inside(struct sql *db, const char *id, const struct job_end *end, int64_t now_ms,
                         struct err *err)
{
    struct job_present job;
    int rc = jobs__find_present(db, id, &job, err);
    if (rc == 0) {
        rc = jobs__check_transition(JOB_FINISH, job.status, end->status, err);
    }
    int64_t version = 0;
    if (rc == 0 && end->status == JOB_SUCCEEDED && end->staged_model != 0) {
        rc = models__publish(db, end->staged_model, id, now_ms, &version, err);
    }
    if (rc == 0 && version > 0 && end->promotion != NULL) {
        rc = promote(db, &job, version, end->promotion, now_ms, err);
    }
    if (rc == 0 && end->status == JOB_SUCCEEDED && end->test_predictions != NULL) {
        rc = keep_test_predictions(db, job.key, end->test_predictions, err);
    }
    if (rc == 0 && end->status == JOB_SUCCEEDED && end->experience != NULL) {
        rc = learn(db, end->experience, err);
    }
    return rc < 0 ? rc : jobs__enter_final(db, &job, end, version, now_ms, err);
}

int jobs_finish(struct store *s, const char *id, const struct job_end *end, int64_t now_ms,
                struct err *err)
{
    const int rc = sql_begin_batched(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end_batched(s->db, finish_inside(s->db, id, end, now_ms, err), err);
}
