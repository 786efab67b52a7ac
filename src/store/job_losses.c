/* Losses of workers, and of the daemon while jobs ran: which of them cost an attempt, and what
 * becomes of the job (jobs.h). */
#include <string.h>

#include "store/internal.h"
#include "wire/reason.h"

/* Whether what the job has kept is not what it had when it was claimed: the worker that was lost
 * had got ahead, and so will the next one. */
static int got_ahead(struct sql *db, const struct job_present *job, const char *checkpoint,
                     bool *ret, struct err *err)
{
    static const char select[] = "SELECT coalesce(checkpoint, '') <> ?2 FROM jobs WHERE key = ?1";
    int64_t differs = 0;
    *ret = false;
    if (checkpoint == NULL || checkpoint[0] == '\0') {
        return 0;
    }
    const int rc =
        sql_number(db, select, SQL_ARGS(sql_int(job->key), sql_text(checkpoint)), &differs, err);
    *ret = rc > 0 && differs != 0 && job->spared < JOBS_SPARED_MAX;
    return rc < 0 ? rc : 0;
}

static int count_loss(struct sql *db, struct job_present *job, bool spare, struct err *err)
{
    static const char change[] = "UPDATE jobs SET spent = ?2, spared = ?3 WHERE key = ?1";
    job->spared += spare ? 1 : 0;
    job->spent = spare ? job->spent : job->attempt;
    return sql_run(db, change,
                   SQL_ARGS(sql_int(job->key), sql_int(job->spent), sql_int(job->spared)), err);
}

static enum job_status status_after_loss(const struct job_present *job)
{
    if (job->status == JOB_CANCELLING) {
        return JOB_CANCELLED;
    }
    if (job->spent >= job->max_attempts) {
        return JOB_FAILED;
    }
    return job->reason == REASON_PAUSED ? JOB_PAUSED : JOB_QUEUED;
}

static int64_t next_attempt_ms(const struct job_present *job, const struct job_loss *loss,
                               int64_t now_ms)
{
    int64_t wait = loss->first_ms < JOBS_RETRY_MAX_MS ? loss->first_ms : JOBS_RETRY_MAX_MS;
    const int64_t losses = job->spent + job->spared / 8; /* some cost an attempt nothing */
    for (int64_t i = 1; i < losses && wait > 0 && wait < JOBS_RETRY_MAX_MS; i++) {
        wait = 2 * wait < JOBS_RETRY_MAX_MS ? 2 * wait : JOBS_RETRY_MAX_MS;
    }
    return wait > 0 ? now_ms + wait - (int64_t)(0.5 * (double)wait * loss->jitter) : 0;
}

static int after_loss(struct sql *db, const struct job_present *job, const struct job_loss *loss,
                      enum job_status to, int64_t now_ms, struct err *err)
{
    const enum reason why = loss->reason != REASON_NONE ? loss->reason : REASON_WORKER_LOST;
    if (to == JOB_QUEUED || to == JOB_PAUSED) {
        const int64_t next = to == JOB_QUEUED ? next_attempt_ms(job, loss, now_ms) : 0;
        return jobs__enter_waiting(db, job, to, why, loss->message, next, now_ms, err);
    }
    const bool cancelled = to == JOB_CANCELLED;
    const struct job_end end = {
        .status = to,
        .reason = reason_name(cancelled ? REASON_CANCELLED : why),
        .error = cancelled ? NULL : loss->error,
        .message = loss->message,
    };
    return jobs__enter_final(db, job, &end, 0, now_ms, err);
}

static int lose_worker(struct sql *db, struct job_present *job, const struct job_loss *loss,
                       bool spare, int64_t now_ms, enum job_status *ret_status, struct err *err)
{
    int rc = count_loss(db, job, spare, err);
    const enum job_status to = status_after_loss(job);
    if (rc == 0) {
        rc = jobs__check_transition(JOB_LOSE_WORKER, job->status, to, err);
    }
    if (rc == 0) {
        *ret_status = to;
        rc = after_loss(db, job, loss, to, now_ms, err);
    }
    return rc;
}

static int lost_inside(struct sql *db, const char *id, const struct job_loss *loss, int64_t now_ms,
                       enum job_status *ret_status, struct err *err)
{
    struct job_present job;
    bool ahead = false;
    int rc = jobs__find_present(db, id, &job, err);
    if (rc == 0) {
        rc = got_ahead(db, &job, loss->checkpoint, &ahead, err);
    }
    return rc < 0 ? rc : lose_worker(db, &job, loss, ahead, now_ms, ret_status, err);
}

int jobs_worker_lost(struct store *s, const char *id, const struct job_loss *loss, int64_t now_ms,
                     enum job_status *ret_status, struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    enum job_status status = JOB_QUEUED;
    rc = sql_end(s->db, lost_inside(s->db, id, loss, now_ms, &status, err), err);
    if (rc == 0) {
        *ret_status = status;
    }
    return rc;
}

/* A job that had got ahead was only held up: it goes on as after a stop. */
static int recover_job(struct sql *db, struct job_present *job, const struct jobs_kept *kept,
                       int64_t now_ms, struct err *err)
{
    static const char error[] =
        "{\"type\":\"urn:krrd:problem:worker_lost\",\"title\":\"The worker process ended "
        "unexpectedly.\",\"status\":500,\"code\":\"worker_lost\",\"detail\":\"The daemon stopped "
        "while the job ran, and no attempt is "
        "left.\",\"error\":\"The daemon stopped while the job ran, and no attempt is left.\"}";
    char checkpoint[JOBS_CHECKPOINT_SIZE] = "";
    bool ahead = false;
    enum job_status status;
    if (kept != NULL) {
        kept->read(kept->context, job->id, checkpoint);
    }
    const int rc = got_ahead(db, job, checkpoint, &ahead, err);
    const enum reason why = !ahead                         ? REASON_WORKER_LOST
                            : job->reason == REASON_PAUSED ? REASON_PAUSED
                                                           : REASON_DAEMON_STOPPED;
    const struct job_loss loss = {
        .message = ahead && job->status != JOB_CANCELLING ? reason_sentence(why)
                                                          : "The daemon stopped while the job ran.",
        .error = error,
        .reason = why,
    };
    return rc < 0 ? rc : lose_worker(db, job, &loss, ahead, now_ms, &status, err);
}

/* Ends because every round takes one job out of the two statuses. */
static int recover_inside(struct sql *db, const struct jobs_kept *kept, int64_t now_ms,
                          int64_t *ret_count, struct err *err)
{
    static const char next[] =
        JOB_PRESENT "FROM jobs WHERE status IN ('running', 'cancelling') ORDER BY key LIMIT 1";
    *ret_count = 0;
    for (;;) {
        struct job_present job;
        int rc = jobs__read_present(db, next, SQL_NO_ARGS, &job, err);
        if (rc <= 0) {
            return rc;
        }
        rc = recover_job(db, &job, kept, now_ms, err);
        if (rc < 0) {
            return rc;
        }
        (*ret_count)++;
    }
}

int jobs_recover(struct store *s, const struct jobs_kept *kept, int64_t now_ms, int64_t *ret_count,
                 struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    int64_t count = 0;
    rc = sql_end(s->db, recover_inside(s->db, kept, now_ms, &count, err), err);
    if (rc == 0) {
        *ret_count = count;
    }
    return rc;
}
