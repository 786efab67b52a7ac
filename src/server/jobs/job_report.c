#include "server/jobs/job_report.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/problem.h"
#include "server/jobs/kept.h"
#include "server/jobs/subscribers.h"
#include "server/metrics.h"
#include "server/serving/served.h"
#include "server/storage.h"
#include "server/sweep.h"
#include "store/models.h"
#include "wire/reason.h"

int job_report_init(struct job_report *r, struct app *app, const struct job_row *job)
{
    *r = (struct job_report){.app = app, .attempt = job->attempt, .spec = mem_strdup(job->spec)};
    r->plan = job->plan ? mem_strdup(job->plan) : NULL;
    r->started = clock_monotonic_s();
    memcpy(r->job, job->id, sizeof r->job);
    snprintf(r->device, sizeof r->device, "%s", job->device ? job->device : "");
    if (!r->spec) {
        job_report_deinit(r);
        return err_no_memory(NULL);
    }
    return 0;
}

void job_report_deinit(struct job_report *r)
{
    r->spec = mem_free(r->spec);
    r->plan = mem_free(r->plan);
    backlog_deinit(&r->backlog);
    backlog_deinit(&r->batched);
}

struct job_report job_report_take(struct job_report *from)
{
    const struct job_report taken = *from;
    from->spec = from->plan = NULL;
    from->backlog = from->batched = (struct backlog){.first = NULL};
    return taken;
}

void job_report_complain(const struct app *app, const char *job, const char *doing,
                         const struct err *err)
{
    log_msg(&app->log, LOG_ERROR, doing, "job", job, "code", err_name(err->code), "detail",
            err->detail, NULL);
}

/* ---- problems ---- */

static void replace_text(struct json *j, const char *key, const char *text)
{
    json_remove(j, key);
    json_set_string(j, key, text);
}

/* The problem object stored as a job's `error`, with a code of wire/reason.h. JSON text, mem_free;
 * NULL on lack of memory. `cause` may be NULL. */
static char *job_problem(const char *job, const char *code, const char *detail, const char *pointer,
                         const struct json *cause)
{
    const enum reason reason = reason_from_name(code);
    const int status = reason == REASON_DISK_FULL                                ? 507
                       : reason == REASON_FAILED || reason == REASON_WORKER_LOST ? 500
                                                                                 : 422;
    char text[128];
    struct err err;
    err_at(&err, ERR_INVALID, pointer ? pointer : "", "%s", detail);
    snprintf(text, sizeof text, "/v1/jobs/%s", job);
    cleanup_json struct json *j = problem_json(status, &err, text);
    snprintf(text, sizeof text, "urn:krrd:problem:%s", code);
    replace_text(j, "type", text);
    replace_text(j, "title", reason_sentence(reason));
    replace_text(j, "code", code);
    if (cause) {
        json_set(j, "cause", json_copy(cause));
    }
    return json_print(j);
}

/* ---- what is said on the way ---- */

static void note_rate(struct job_report *report, const struct json *data)
{
    const struct json *rate = json_get(data, "kernel_entries_per_s");
    if (rate && json_type(rate) == JSON_NUMBER) {
        report->entries_per_s = json_number(rate);
    }
}

static int record_event(struct job_report *report, const struct json *j, int64_t now,
                        struct err *err)
{
    struct store *store = report->app->store;
    const char *type = json_string(json_get(j, "type"));
    const char *level = json_string(json_get(j, "level"));
    const char *message = json_string(json_get(j, "message"));
    const struct json *data = json_get(j, "data");
    cleanup_mem char *text = data && json_type(data) == JSON_OBJECT ? json_print(data) : NULL;
    if (type && strcmp(type, "metrics") == 0 && text) {
        note_rate(report, data);
        return jobs_progress(store, report->job, text, message ? message : "", now, NULL, err);
    }
    const struct event_new event = {.level = level ? level : "info",
                                    .type = "message",
                                    .message = message ? message : "",
                                    .data = text};
    return events_append(store, report->job, &event, now, NULL, err);
}

/* The database and its log may both hold the piece for a while. */
static int record_piece(struct job_report *report, const void *data, size_t size, struct err *err)
{
    struct store *store = report->app->store;
    int r = storage_room(report->app, 2 * (int64_t)size, err);
    if (r == 0 && !report->staged) {
        r = models_stage(store, report->job, &report->staged, err);
    }
    return r < 0 ? r : models_stage_chunk(store, report->staged, data, size, err);
}

static void give_up_model(struct job_report *report, const struct err *err)
{
    report->failure = *err;
    job_report_complain(report->app, report->job, "model.not_stored", err);
}

static int record_item(struct job_report *report, const struct backlog_item *i)
{
    struct err err;
    const int r = i->event ? record_event(report, i->event, i->wall_ms, &err)
                  : report->failure.code == ERR_OK ? record_piece(report, i->piece, i->size, &err)
                                                   : 0;
    if (r < 0 && !store_may_recover(r) && i->event) {
        job_report_complain(report->app, report->job, "event.not_recorded", &err);
    } else if (r < 0 && !store_may_recover(r)) {
        give_up_model(report, &err);
    }
    return r;
}

bool job_report_waits(const struct job_report *report)
{
    return report->backlog.first != NULL;
}

/* A batch that has grown large is written before its time; so is one when the last was lost, so
 * that nobody's answer depends on whether it can be. */
static int end_batch(struct job_report *report)
{
    struct store *store = report->app->store;
    const bool large = report->batched.bytes >= MODELS_CHUNK_MAX;
    struct err err;
    const int r = large || store_refusal(store) != ERR_OK ? app_settle(report->app, &err) : 0;
    const bool lost = r < 0 && !store_may_recover(r);
    if (lost && backlog_drop_pieces(&report->backlog)) { /* they would only be lost again */
        give_up_model(report, &err);
    }
    return r;
}

static int wait_for_store(struct job_report *report, int r)
{
    report->late = true;
    return r;
}

int job_report_flush(struct job_report *report)
{
    const bool waited = report->late;
    while (report->backlog.first) {
        int r = record_item(report, report->backlog.first);
        if (r == 0) {
            backlog_move_first(&report->backlog, &report->batched);
            r = end_batch(report);
            if (r < 0) {
                return wait_for_store(report, r);
            }
        } else if (store_may_recover(r)) {
            return wait_for_store(report, r);
        } else {
            backlog_drop_first(&report->backlog);
        }
    }
    report->late = false;
    if (waited) {
        log_msg(&report->app->log, LOG_INFO, "job.caught_up", "job", report->job, NULL);
    }
    return 0;
}

void job_report_batch(struct job_report *report, bool kept)
{
    if (kept) {
        backlog_deinit(&report->batched);
        report->staged_kept = report->staged != 0;
        report->sealed_kept = report->sealed;
        return;
    }
    backlog_put_back(&report->backlog, &report->batched);
    report->staged = report->staged_kept ? report->staged : 0;
    report->sealed = report->sealed_kept;
}

void job_report_event(struct job_report *report, const struct json *j)
{
    struct err err;
    if (backlog_add_event(&report->backlog, j, clock_wall_ms(), &err) < 0) {
        job_report_complain(report->app, report->job, "event.not_recorded", &err);
        return;
    }
    job_report_flush(report);
    subscribers_expect(report->app->subscribers, report->job);
}

void job_report_model(struct job_report *report, const struct frame *f)
{
    struct err err;
    if (report->failure.code != ERR_OK) {
        return;
    }
    const int r = backlog_add_piece(&report->backlog, f->payload, f->payload_size, &err);
    if (r == -ERR_TOO_LARGE) {
        err_set(&err, ERR_DISK_FULL, "%s", reason_sentence(REASON_DISK_FULL));
    }
    if (r < 0) {
        give_up_model(report, &err);
        return;
    }
    job_report_flush(report);
    subscribers_expect(report->app->subscribers, report->job);
}

/* ---- ends ---- */

void job_report_count_end(struct app *app, enum job_status status, const char *reason)
{
    const int end = (int)status - (int)JOB_SUCCEEDED;
    const enum reason why = reason ? reason_from_name(reason) : REASON_NONE;
    metrics_count(app->metrics, METRIC_JOBS_ENDED, end, (int)why, 1);
    if (status == JOB_SUCCEEDED) {
        metrics_gauge(app->metrics, METRIC_JOB_LAST_SUCCESS, 0, 0, (double)clock_wall_ms() / 1e3);
    }
}

static void tell(struct app *app, const char *job, enum job_status status, const char *reason)
{
    log_msg(&app->log, LOG_INFO, job_status_final(status) ? "job.ended" : "job.put_aside", "job",
            job, "status", job_status_name(status), "reason", reason, NULL);
    if (job_status_final(status)) {
        job_report_count_end(app, status, reason);
        sweep_checkpoint(app, job);
    }
}

static int end(struct job_report *report, const struct job_end *end)
{
    struct app *app = report->app;
    struct err err;
    report->losses = store_losses(app->store);
    const int r = jobs_finish(app->store, report->job, end, clock_wall_ms(), &err);
    if (r < 0) {
        job_report_complain(app, report->job, "job.not_recorded", &err);
        return r;
    }
    report->ended = true;
    report->status = end->status;
    report->reason = end->reason ? reason_name(reason_from_name(end->reason)) : NULL;
    return 0;
}

int job_report_settle(struct job_report *report)
{
    struct app *app = report->app;
    if (!report->ended) {
        return 0;
    }
    report->ended = false;
    const int r = app_settle(app, NULL);
    if (r < 0 || report->losses != store_losses(app->store)) {
        return r < 0 ? r : -ERR_IO;
    }
    if (report->status == JOB_SUCCEEDED) {
        served_changed(app->served);
    }
    if (report->status == JOB_SUCCEEDED && report->learned) {
        lessons_keep(app->lessons, &report->lesson);
    }
    metrics_observe(app->metrics, METRIC_JOB_RUN_SECONDS, (int)report->status - (int)JOB_SUCCEEDED,
                    0, clock_monotonic_s() - report->started);
    tell(app, report->job, report->status, report->reason);
    subscribers_notify(app->subscribers, report->job);
    return 0;
}

int job_report_fail(struct job_report *report, const char *reason, const char *detail,
                    const char *pointer)
{
    cleanup_mem char *problem = job_problem(report->job, reason, detail, pointer, NULL);
    const struct job_end failed = {
        .status = JOB_FAILED, .reason = reason, .error = problem, .message = detail};
    return end(report, &failed);
}

/* What GET /v1/models shows: the engine's description and what the job found. */
char *job_report_describe(const struct job_report *report, const struct json *done)
{
    cleanup_mem char *model = json_print(json_get(done, "model")); /* may name many features */
    cleanup_json struct json *j = model != NULL ? json_new_object() : NULL;
    cleanup_json struct json *spec = NULL;
    if (model != NULL) {
        json_add_members(j, model);
    }
    json_set(j, "result", json_copy(json_get(done, "result")));
    if (json_parse(report->spec, strlen(report->spec), &spec, NULL) == 0) {
        json_set(j, "seed", json_copy(json_get(spec, "seed")));
        const struct json *found = json_get(json_get(done, "result"), "regularization");
        const struct json *given = json_get(spec, "regularization");
        json_set(j, "regularization", json_copy(found != NULL ? found : given));
        const struct json *mask = json_get(json_get(spec, "test"), "mask");
        if (mask != NULL) {
            json_set(j, "mask", json_copy(mask));
        }
    }
    return json_print(j);
}

int job_report_seal(struct job_report *report, const struct json *done, struct err *err)
{
    if (report->sealed) {
        return 0;
    }
    if (report->failure.code != ERR_OK) {
        *err = report->failure;
        return -(int)err->code;
    }
    const char *sha256 = json_string(json_get(done, "sha256"));
    if (!report->staged || !sha256) {
        return err_set(err, ERR_CORRUPT, "The worker announced a model that it did not send.");
    }
    cleanup_mem char *description = job_report_describe(report, done);
    const int64_t bytes = json_int(json_get(done, "bytes"));
    const int r = description ? models_stage_seal(report->app->store, report->staged, description,
                                                  sha256, bytes, err)
                              : err_no_memory(err);
    report->sealed = r == 0;
    return r;
}

bool job_report_promote(const struct job_report *report, struct promote_spec *ret)
{
    cleanup_json struct json *spec = NULL;
    return json_parse(report->spec, strlen(report->spec), &spec, NULL) == 0 &&
           promote_read(spec, ret, NULL) == 0 && ret->alias[0] != '\0';
}

int job_report_end_with_model(struct job_report *report, const struct json *done, bool loaded,
                              const char *failure)
{
    struct err err;
    if (report->failure.code == ERR_DISK_FULL) {
        return job_report_lost(report, REASON_DISK_FULL, report->failure.detail, NULL);
    }
    const int r = job_report_seal(report, done, &err);
    if (report->failure.code == ERR_OK && store_may_recover(r)) {
        job_report_complain(report->app, report->job, "job.not_recorded", &err);
        return r;
    }
    if (r < 0) {
        return job_report_fail(report, reason_name(REASON_FAILED), err.detail, "");
    }
    struct promote_spec promote;
    const struct job_promotion promotion = {
        .spec = &promote,
        .metrics = json_get(json_get(done, "result"), "metrics"),
        .loaded = loaded,
        .failure = failure,
    };
    const char *reason = json_string(json_get(done, "reason"));
    cleanup_mem char *result = json_print(json_get(done, "result"));
    const struct json *tested = json_get(done, "test_predictions");
    cleanup_mem char *sample = json_type(tested) == JSON_OBJECT ? json_print(tested) : NULL;
    const struct lessons_job ran = {report->spec, report->plan, report->device};
    cleanup_mem char *lesson = lessons_draw(&ran, done, &report->lesson);
    report->learned = lesson != NULL;
    const struct job_end succeeded = {
        .status = JOB_SUCCEEDED,
        .reason = reason,
        .result = result,
        .message = reason_sentence(reason_from_name(reason)),
        .staged_model = report->staged,
        .test_predictions = sample,
        .experience = lesson,
        .promotion = job_report_promote(report, &promote) ? &promotion : NULL,
    };
    return end(report, &succeeded);
}

static int end_without_model(struct job_report *report, const struct json *done)
{
    const char *reason = json_string(json_get(done, "reason"));
    const bool cancelled = reason_from_name(reason) == REASON_CANCELLED;
    const struct json *error = json_get(done, "error");
    const char *detail = json_string(json_get(error, "detail"));
    const struct json *found = json_get(done, "result");
    cleanup_mem char *result = json_type(found) == JSON_OBJECT ? json_print(found) : NULL;
    cleanup_mem char *problem =
        cancelled ? NULL
                  : job_problem(report->job, reason, detail ? detail : "The job failed.",
                                json_string(json_get(error, "pointer")), NULL);
    const struct job_end ended = {
        .status = cancelled ? JOB_CANCELLED : JOB_FAILED,
        .reason = reason,
        .result = result,
        .error = problem,
        .message = cancelled ? reason_sentence(REASON_CANCELLED) : detail,
    };
    return end(report, &ended);
}

bool job_report_paused(const struct json *done)
{
    const char *reason = json_string(json_get(done, "reason"));
    return reason && reason_from_name(reason) == REASON_PAUSED;
}

int job_report_done(struct job_report *report, const struct json *done)
{
    const char *reason = json_string(json_get(done, "reason"));
    const struct json *model = json_get(done, "model");
    const enum reason why = reason ? reason_from_name(reason) : REASON_NONE;
    const int r = job_report_flush(report);
    if (r < 0) {
        return r;
    }
    if (why == REASON_NONE) {
        return job_report_fail(report, reason_name(REASON_FAILED),
                               "The worker ended the job without a reason.", "");
    }
    if (job_report_paused(done)) {
        return job_report_put_aside(report->app, report->job);
    }
    const bool has_model = model && json_type(model) == JSON_OBJECT;
    return has_model ? job_report_end_with_model(report, done, false, NULL)
                     : end_without_model(report, done);
}

int job_report_put_aside(struct app *app, const char *job)
{
    enum job_status status;
    struct err err;
    const int r = jobs_put_aside(app->store, job, clock_wall_ms(), &status, &err);
    if (r < 0) {
        job_report_complain(app, job, "job.not_recorded", &err);
    } else {
        tell(app, job, status, job_status_final(status) ? reason_name(REASON_CANCELLED) : NULL);
    }
    subscribers_notify(app->subscribers, job);
    return r;
}

/* Anything evenly spread will do. */
static double random_share(void)
{
    uint32_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits) {
        bits = (uint32_t)(clock_monotonic_s() * 1e9);
    }
    return bits / 4294967296.0;
}

int job_report_lost(const struct job_report *report, enum reason why, const char *message,
                    const struct json *cause)
{
    struct app *app = report->app;
    const char *job = report->job;
    const char *reason = reason_name(why);
    char checkpoint[JOBS_CHECKPOINT_SIZE];
    cleanup_mem char *problem = job_problem(job, reason, message, "", cause);
    kept_read(app, job, checkpoint);
    const struct job_loss loss = {
        .message = message,
        .error = problem,
        .reason = why,
        .first_ms = (int64_t)(1e3 * app->config.retry_delay_s),
        .jitter = random_share(),
        /* What has been computed to its end is brought on by no further checkpoint. */
        .checkpoint = report->computed ? NULL : checkpoint,
    };
    enum job_status status;
    struct err err;
    int r = jobs_worker_lost(app->store, job, &loss, clock_wall_ms(), &status, &err);
    if (r < 0) {
        job_report_complain(app, job, "job.not_recorded", &err);
    } else {
        tell(app, job, status, status == JOB_CANCELLED ? reason_name(REASON_CANCELLED) : reason);
    }
    subscribers_notify(app->subscribers, job);
    return r;
}
