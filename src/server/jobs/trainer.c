#include "server/jobs/trainer.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/jobs/promotion.h"
#include "server/jobs/run.h"
#include "server/jobs/subscribers.h"
#include "server/metrics.h"
#include "server/rate.h"
#include "server/sweep.h"
#include "store/jobs.h"
#include "store/models.h"
#include "wire/reason.h"

/* How often the store is asked again to take what it refused, as a full disk makes it do. */
#define RETRY_MS 1000

/* A job without a worker that the store still calls running. */
struct stray {
    struct stray *next;
    char job[ID_SIZE];
    int64_t staged; /* of its model, or 0 */
};

struct trainer {
    struct app *app;
    struct stray *strays;
    int promoting;     /* jobs that end once their model is loaded */
    bool refused;      /* a claim, since the last retry */
    uv_timer_t *retry; /* runs while there is something to try again */
    uv_timer_t *due;   /* runs until the next attempt of a job that waits for it */
    struct rate taken; /* jobs that left the queue for a worker */
};

int trainer_new(struct app *app, struct trainer **ret, struct err *err)
{
    struct trainer *t = mem_zalloc(sizeof *t);
    if (!t) {
        return err_no_memory(err);
    }
    t->app = app;
    t->retry = mem_zalloc(sizeof *t->retry);
    t->due = mem_zalloc(sizeof *t->due);
    if (!t->retry || !t->due) {
        mem_free(t->retry);
        mem_free(t->due);
        mem_free(t);
        return err_no_memory(err);
    }
    uv_timer_init(app->loop, t->retry);
    uv_timer_init(app->loop, t->due);
    t->retry->data = t->due->data = t;
    *ret = t;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

struct trainer *trainer_free(struct trainer *t)
{
    if (t) {
        uv_close((uv_handle_t *)t->retry, on_timer_closed);
        uv_close((uv_handle_t *)t->due, on_timer_closed);
        while (t->strays) {
            struct stray *next = t->strays->next;
            mem_free(t->strays);
            t->strays = next;
        }
    }
    return mem_free(t);
}

/* ---- what the store did not take ---- */

/* Whether the store will take no more of it: it did, or the job is not what it was. */
static bool settle(struct trainer *t, const struct stray *stray)
{
    if (stray->staged) {
        models_drop_stage(t->app->store, stray->staged, NULL); /* Else swept at the next start. */
    }
    int r = job_report_lost(t->app, stray->job, "The end of the job could not be recorded.", NULL);
    return r == 0 || r == -ERR_NOT_FOUND || r == -ERR_CONFLICT;
}

static void on_retry(uv_timer_t *timer)
{
    struct trainer *t = timer->data;
    struct stray **link = &t->strays;
    while (*link && !t->app->draining) {
        struct stray *stray = *link;
        if (settle(t, stray)) {
            *link = stray->next;
            mem_free(stray);
        } else {
            link = &stray->next;
        }
    }
    t->refused = false;
    trainer_kick(t);
    if (!t->strays && !t->refused) {
        uv_timer_stop(timer);
    }
}

static void retry_later(struct trainer *t)
{
    if (!uv_is_active((uv_handle_t *)t->retry)) {
        uv_timer_start(t->retry, on_retry, RETRY_MS, RETRY_MS);
    }
}

/* On lack of memory the job waits for the next start. */
static void add_stray(struct trainer *t, const char *job, int64_t staged)
{
    struct stray *stray = mem_zalloc(sizeof *stray);
    if (stray) {
        snprintf(stray->job, sizeof stray->job, "%s", job);
        stray->staged = staged;
        stray->next = t->strays;
        t->strays = stray;
        retry_later(t);
    }
}

/* ---- starting ---- */

/* A job that cannot be started, or whose worker does not take it. */
static void on_failed(void *context, struct run *run, const struct err *err)
{
    struct job_report *report = &run->report;
    const int r =
        err->code == ERR_WORKER_LOST
            ? job_report_lost(report->app, report->job, err->detail, NULL)
            : job_report_fail(report, reason_name(REASON_FAILED), err->detail, err->pointer);
    if (r < 0 || job_report_settle(report) < 0) {
        add_stray(context, report->job, 0);
    }
    run_close(run);
}

static void count_start(struct metrics_registry *m, const struct job_row *job)
{
    metrics_count(m, METRIC_JOB_ATTEMPTS, 0, 0, 1);
    metrics_count(m, METRIC_JOB_RETRIES, 0, 0, job->attempt > 1);
    metrics_observe(m, METRIC_JOB_WAIT_SECONDS, 0, 0,
                    (double)(job->started_ms - job->queued_ms) / 1e3);
}

/* Sends a claimed job to its worker. */
static void launch(struct trainer *t, struct slot *slot, const struct job_row *job)
{
    struct err err;
    struct run *run = run_new(t->app, slot, job, on_failed, t);
    if (!run) {
        err_no_memory(&err);
        job_report_complain(t->app, job->id, "job.not_started", &err);
        add_stray(t, job->id, 0);
        return;
    }
    if (run_launch(run, job, &err) < 0) {
        on_failed(t, run, &err);
        return;
    }
    count_start(t->app->metrics, job);
    rate_add(&t->taken, clock_monotonic_s(), 1.0);
    log_msg(&t->app->log, LOG_INFO, "job.started", "job", job->id, "worker", slot_name(slot), NULL);
    subscribers_notify(t->app->subscribers, job->id);
}

static void on_due(uv_timer_t *timer)
{
    trainer_kick(timer->data);
}

/* Nothing may start now; perhaps something may later. */
static void wait_for_attempt(struct trainer *t)
{
    const int64_t now = clock_wall_ms();
    int64_t due = 0;
    struct err err;
    if (jobs_next_attempt(t->app->store, now, &due, &err) < 0) {
        job_report_complain(t->app, "", "queue.not_readable", &err);
        retry_later(t);
    } else if (due > 0) {
        uv_timer_start(t->due, on_due, due > now ? (uint64_t)(due - now) + 1 : 1, 0);
    }
}

/* The next queued job to this idle worker: whether there was one. */
static bool feed(struct trainer *t, struct slot *slot)
{
    struct job_row job;
    struct err err;
    int r =
        jobs_claim(t->app->store, slot_name(slot), slot_device(slot), clock_wall_ms(), &job, &err);
    if (r < 0) {
        job_report_complain(t->app, "", "queue.not_readable", &err);
        t->refused = true;
        retry_later(t);
    } else if (r == 0) {
        wait_for_attempt(t);
    }
    if (r <= 0) {
        return false;
    }
    launch(t, slot, &job);
    job_row_deinit(&job);
    return true;
}

int trainer_retry_after_s(const struct trainer *t)
{
    return rate_retry_after_s(&t->taken, clock_monotonic_s(), 1.0);
}

void trainer_kick(struct trainer *t)
{
    struct pool *pool = t->app->pool;
    for (int i = 0; pool && !t->app->draining && i < pool_size(pool); i++) {
        struct slot *s = pool_slot(pool, i);
        if (slot_kind(s) == SLOT_TRAIN && slot_state(s) == SLOT_IDLE && !feed(t, s)) {
            return;
        }
    }
}

/* ---- frames of a run ---- */

static void on_ended(void *context, const struct job_report *report, int r)
{
    struct trainer *t = context;
    t->promoting--;
    if (r < 0) {
        add_stray(t, report->job, report->staged);
    }
}

/* The claim of the next job and this one's end are one commit. run_close leaves the memory until
 * the loop has turned. */
static void end_run(struct trainer *t, struct run *run, const struct json *done)
{
    struct job_report *report = &run->report;
    const int r = job_report_done(report, done);
    run_close(run);
    trainer_kick(t);
    if (r < 0 || job_report_settle(report) < 0) {
        add_stray(t, report->job, report->staged);
    }
}

/* The worker is free while the model that it made is loaded into another one. */
static void on_done(struct trainer *t, struct run *run, const struct json *done)
{
    slot_did_job(run->slot);
    t->promoting++;
    if (promotion_wanted(&run->report, done) &&
        promotion_begin(&run->report, done, on_ended, t) == 0) {
        run_close(run);
        trainer_kick(t);
    } else {
        t->promoting--;
        end_run(t, run, done);
    }
}

static void on_frame(void *context, struct slot *s, struct frame *f)
{
    struct run *run = slot_user(s);
    const char *job = f->json ? json_string(json_get(f->json, "job")) : NULL;
    if (!run || !job || strcmp(job, run->report.job) != 0) {
        return; /* The tail of a job that has ended. */
    }
    switch (f->type) {
    case FRAME_EVENT:
        job_report_event(&run->report, f->json);
        break;
    case FRAME_MODEL:
        job_report_model(&run->report, f);
        break;
    case FRAME_DONE:
        on_done(context, run, f->json);
        break;
    default:
        break;
    }
}

/* ---- workers come and go ---- */

static void on_ready(void *context, struct slot *s)
{
    (void)s;
    trainer_kick(context);
}

/* Of the error that the job ends with where no attempt is left. */
static struct json *cause_of(const struct run *run, const struct slot_end *end)
{
    struct json *j = json_new_object();
    json_set_string(j, "signal", end->signal);
    json_set(j, "exit_code",
             end->exit_code >= 0 ? json_new_number(end->exit_code) : json_new_null());
    json_set_int(j, "attempt", run->report.attempt);
    tail_lines(end->tail, json_set_array(j, "stderr"));
    return j;
}

/* Whoever ends the daemon ends its workers: no attempt of the job's failed by that. */
static int record_loss(const struct run *run, const struct slot_end *end)
{
    struct app *app = run->report.app;
    if (app->draining) {
        return job_report_put_aside(app, run->report.job);
    }
    char message[192];
    cleanup_json struct json *cause = cause_of(run, end);
    if (run->ended) {
        snprintf(message, sizeof message,
                 "The worker process did not answer the cancel within %.3g s and was ended.",
                 app->config.cancel_grace_s);
    } else {
        snprintf(message, sizeof message, "The worker process ended unexpectedly: %s.", end->cause);
    }
    return job_report_lost(app, run->report.job, message, cause);
}

static void on_lost(void *context, struct slot *s, const struct slot_end *end)
{
    struct trainer *t = context;
    struct run *run = slot_user(s);
    if (!run) {
        return;
    }
    if (run->report.staged) {
        models_drop_stage(t->app->store, run->report.staged, NULL); /* Else swept at start. */
    }
    sweep_checkpoint_part(t->app, run->report.job, run->pid);
    if (!run->ended) {
        slot_lost_job(s, run->report.job);
    }
    if (record_loss(run, end) < 0) {
        add_stray(t, run->report.job, run->report.staged);
    }
    run_close(run);
    trainer_kick(t); /* Another worker may be idle, or the next attempt due after a while. */
}

struct slot_listener trainer_listener(struct trainer *t)
{
    return (struct slot_listener){
        .context = t, .ready = on_ready, .frame = on_frame, .lost = on_lost};
}

const char *trainer_job(const struct slot *s)
{
    const struct run *run = slot_user(s);
    return run ? run->report.job : NULL;
}

/* ---- cancel and pause ---- */

static struct run *run_of(const struct slot *s)
{
    return slot_kind(s) == SLOT_TRAIN ? slot_user(s) : NULL;
}

double trainer_entries_per_s(const struct slot *s)
{
    const struct run *run = run_of(s);
    return run ? run->report.entries_per_s : 0.0;
}

static struct run *find_run(const struct trainer *t, const char *job)
{
    for (int i = 0; i < pool_size(t->app->pool); i++) {
        struct run *run = run_of(pool_slot(t->app->pool, i));
        if (run && strcmp(run->report.job, job) == 0) {
            return run;
        }
    }
    return NULL;
}

void trainer_cancel(struct trainer *t, const char *job)
{
    struct run *run = find_run(t, job);
    if (run) {
        run_cancel(run);
    }
}

void trainer_pause(struct trainer *t, const char *job)
{
    struct run *run = find_run(t, job);
    if (run) {
        run_pause(run);
    }
}

void trainer_drain(struct trainer *t)
{
    for (int i = 0; i < pool_size(t->app->pool); i++) {
        struct run *run = run_of(pool_slot(t->app->pool, i));
        if (run) {
            run_pause(run);
        }
    }
}

bool trainer_idle(const struct trainer *t)
{
    if (t->promoting > 0) {
        return false;
    }
    for (int i = 0; i < pool_size(t->app->pool); i++) {
        if (run_of(pool_slot(t->app->pool, i))) {
            return false;
        }
    }
    return true;
}
