#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/api/handlers.h"
#include "server/api/jobs.h"
#include "server/app.h"
#include "server/jobs/job_report.h"
#include "server/jobs/subscribers.h"
#include "server/jobs/trainer.h"
#include "server/jobs/waiting.h"
#include "server/jobs/waits.h"
#include "server/sweep.h"
#include "server/view.h"
#include "server/webhooks/webhooks.h"
#include "store/webhooks.h"
#include "wire/reason.h"

/* ---- answers ---- */

/* What became of telling others of its end. */
static struct json *with_webhook(const struct app *app, const struct job_row *row, struct json *j)
{
    struct webhook_row w;
    if (!job_status_final(row->status) || strstr(row->spec, "\"webhook\":{") == NULL ||
        webhooks_of_job(app->store, row->id, &w, NULL) <= 0) {
        return j;
    }
    struct json *to = json_set_object(j, "webhook");
    json_set_string(to, "id", w.id);
    json_set_string(to, "state", w.state);
    json_set_int(to, "attempts", w.attempts);
    json_set(to, "last_status",
             w.last_status > 0 ? json_new_number((double)w.last_status) : json_new_null());
    json_set_string(to, "last_error", w.last_error);
    view_set_stamp(to, "next_attempt_at", w.next_ms);
    view_set_stamp(to, "finished_at", w.finished_ms);
    webhook_row_deinit(&w);
    return j;
}

static struct json *view(const struct app *app, const struct job_row *row)
{
    int64_t position = -1;
    if (row->status == JOB_QUEUED) {
        jobs_queue_position(app->store, row->id, &position, NULL); /* Else unknown: null. */
    }
    return with_webhook(app, row, view_job(row, position, waiting_for(app, row, position)));
}

static void reply_job(struct request *rq, int status, const char *id)
{
    struct job_row row;
    struct err err;
    if (jobs_get(rq->app->store, id, &row, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    reply_json(rq, status, view(rq->app, &row));
    job_row_deinit(&row);
}

/* ---- GET /v1/jobs ---- */

static int read_statuses(struct request *rq, struct jobs_filter *ret, struct err *err)
{
    const char *name;
    for (int i = 0; (name = request_query_nth(rq, "status", i)) != NULL; i++) {
        enum job_status status;
        const int r = job_status_parse(name, &status, err);
        if (r < 0) {
            snprintf(err->pointer, sizeof err->pointer, "#/query/status");
            return r;
        }
        ret->statuses |= 1u << status;
    }
    return 0;
}

static int read_metadata(struct request *rq, struct jobs_filter *ret, struct err *err)
{
    static const char prefix[] = "metadata.";
    const char *name, *value;
    for (int i = 0; request_query_at(rq, i, &name, &value); i++) {
        if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
            continue;
        }
        if (ret->metadata == JOBS_METADATA_MAX) {
            return err_at(err, ERR_INVALID, "#/query/metadata",
                          "A job has at most %d pairs of metadata.", JOBS_METADATA_MAX);
        }
        ret->names[ret->metadata] = name + sizeof prefix - 1;
        ret->values[ret->metadata++] = value;
    }
    return 0;
}

/* The queue's own order has no filter beside it. */
static int read_order(struct request *rq, struct jobs_filter *ret, struct err *err)
{
    const char *order = request_query(rq, "order");
    if (order == NULL) {
        return 0;
    }
    ret->in_queue = strcmp(order, "queue") == 0;
    if (!ret->in_queue && strcmp(order, "newest") != 0) {
        return err_at(err, ERR_INVALID, "#/query/order", "order must be newest or queue.");
    }
    const unsigned queued = 1u << JOB_QUEUED;
    if (ret->in_queue && ((ret->statuses | queued) != queued || ret->model || ret->metadata > 0)) {
        return err_at(err, ERR_INVALID, "#/query/order",
                      "Jobs in the order of the queue are all that are queued: leave out status, "
                      "model and metadata.");
    }
    return 0;
}

static int read_filter(struct request *rq, struct jobs_filter *ret, struct store_page *ret_page,
                       struct err *err)
{
    const char *after = request_query(rq, "after");
    *ret = (struct jobs_filter){.model = request_query(rq, "model")};
    *ret_page = (struct store_page){.after = after ? after : "", .limit = 20};
    if (after && !id_valid(after, "job")) {
        return err_at(err, ERR_INVALID, "#/query/after", "after must be the id of a job.");
    }
    int r = read_statuses(rq, ret, err);
    r = r == 0 ? read_metadata(rq, ret, err) : r;
    r = r == 0 ? read_order(rq, ret, err) : r;
    return r < 0 ? r : request_query_int(rq, "limit", 1, 100, &ret_page->limit, err);
}

void jobs_index(struct request *rq)
{
    struct jobs_filter filter;
    struct store_page page;
    struct jobs_page found;
    struct err err;
    int r = read_filter(rq, &filter, &page, &err);
    if (r == 0) {
        r = jobs_list(rq->app->store, &filter, page, &found, &err);
    }
    if (r == -ERR_NOT_FOUND) {
        err_at(&err, ERR_INVALID, "#/query/after", "There is no such job any more: begin anew.");
    }
    if (r < 0) {
        reply_error(rq, &err);
        return;
    }
    struct json *data = json_new_array();
    for (int64_t i = 0; i < found.count; i++) {
        const struct job_row *row = &found.rows[i];
        struct json *waiting = waiting_for(rq->app, row, found.positions[i]);
        struct json *j = view_job(row, found.positions[i], waiting);
        json_push(data, with_webhook(rq->app, row, j));
    }
    const char *first = found.count > 0 ? found.rows[0].id : NULL;
    reply_json(rq, 200, view_list(data, first, found.last[0] ? found.last : NULL, found.more));
    jobs_page_deinit(&found);
}

/* ---- one job ---- */

static void reply_as_it_is(struct request *rq)
{
    struct job_row row;
    struct err err;
    if (jobs_get(rq->app->store, rq->param[0], &row, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    reply_tagged(rq, view(rq->app, &row));
    job_row_deinit(&row);
}

/* Whether the job of the path is there and may change any more. */
static bool may_change(struct request *rq)
{
    struct job_row row;
    if (rq->app->draining || jobs_get(rq->app->store, rq->param[0], &row, NULL) < 0) {
        return false;
    }
    const bool final = job_status_final(row.status);
    job_row_deinit(&row);
    return !final;
}

/* Defers rq until the job has ended. */
static void wait_for_end(struct request *rq, int64_t seconds)
{
    struct err err;
    if (waits_add(rq->app->waits, rq, rq->param[0], seconds, reply_as_it_is, &err) < 0) {
        request_shed(rq, SHED_WAITS, waits_retry_after_s(rq->app->waits));
        reply_error(rq, &err);
    }
}

static void tell_wait(struct request *rq, int64_t seconds)
{
    char applied[32];
    snprintf(applied, sizeof applied, "wait=%lld", (long long)seconds);
    request_set_header(rq, "Preference-Applied", applied);
}

/* How long a request may wait for its job: as the server allows, and its deadline. */
static int64_t longest_wait(const struct request *rq)
{
    const double deadline = request_deadline(rq);
    const int64_t most = rq->app->config.max_wait_s;
    const double left = deadline > 0.0 ? floor(deadline - clock_monotonic_s()) : (double)most;
    return left < (double)most ? (left > 0.0 ? (int64_t)left : 0) : most;
}

/* GET /v1/jobs/{id}, where "Prefer: wait=N" waits for its end. */
void jobs_show(struct request *rq)
{
    const int64_t asked = request_prefer_wait(rq);
    const int64_t most = longest_wait(rq);
    const int64_t seconds = asked < most ? asked : most;
    if (asked >= 0) {
        tell_wait(rq, seconds);
    }
    if (seconds > 0 && may_change(rq)) {
        wait_for_end(rq, seconds);
    } else {
        reply_as_it_is(rq);
    }
}

static void log_asked(struct request *rq, const char *what)
{
    log_msg(&rq->app->log, LOG_INFO, "job.asked", "job", rq->param[0], "what", what, "request",
            rq->id, NULL);
}

/* POST /v1/jobs/{id}/cancel */
void jobs_stop(struct request *rq)
{
    struct err err;
    enum job_status status;
    if (jobs_cancel(rq->app->store, rq->param[0], clock_wall_ms(), &status, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    if (status == JOB_CANCELLING) {
        trainer_cancel(rq->app->trainer, rq->param[0]);
    } else {
        job_report_count_end(rq->app, status, reason_name(REASON_CANCELLED));
        sweep_checkpoint(rq->app, rq->param[0]);
    }
    log_asked(rq, "cancel");
    subscribers_notify(rq->app->subscribers, rq->param[0]);
    reply_job(rq, 200, rq->param[0]);
}

/* POST /v1/jobs/{id}/pause */
void jobs_hold(struct request *rq)
{
    struct err err;
    enum job_status status;
    if (jobs_pause(rq->app->store, rq->param[0], clock_wall_ms(), &status, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    if (status == JOB_RUNNING) {
        trainer_pause(rq->app->trainer, rq->param[0]);
    }
    log_asked(rq, "pause");
    subscribers_notify(rq->app->subscribers, rq->param[0]);
    reply_job(rq, 200, rq->param[0]);
}

static bool is_paused(const struct app *app, const char *id)
{
    struct job_row row;
    if (jobs_get(app->store, id, &row, NULL) < 0) {
        return false;
    }
    const bool paused = row.status == JOB_PAUSED;
    job_row_deinit(&row);
    return paused;
}

/* POST /v1/jobs/{id}/resume. Where the queue is full, other jobs still are told what keeps them. */
void jobs_continue(struct request *rq)
{
    struct err err;
    const int r = jobs_check_room(rq->app, &err);
    if (r < 0 && (r != -ERR_BUSY || is_paused(rq->app, rq->param[0]))) {
        jobs_refuse_room(rq, r, &err);
        return;
    }
    if (jobs_resume(rq->app->store, rq->param[0], clock_wall_ms(), &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    log_asked(rq, "resume");
    subscribers_notify(rq->app->subscribers, rq->param[0]);
    reply_job(rq, 200, rq->param[0]);
    trainer_kick_soon(rq->app->trainer);
}

void jobs_remove(struct request *rq)
{
    struct err err;
    if (jobs_delete(rq->app->store, rq->param[0], &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    log_asked(rq, "delete");
    subscribers_notify(rq->app->subscribers, rq->param[0]);
    reply_empty(rq, 204);
}
