#include "server/jobs/trainer.h"

#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/kept.h"
#include "server/jobs/promotion.h"
#include "server/jobs/run.h"
#include "server/jobs/subscribers.h"
#include "server/metrics.h"
#include "server/rate.h"
#include "server/storage.h"
#include "server/sweep.h"
#include "server/timekeeper.h"
#include "store/jobs.h"
#include "store/models.h"
#include "store/store.h"
#include "wire/reason.h"

/* How often the store is asked again to take what it refused, as a full disk makes it do. */
#define RETRY_MS 1000

/* A job without a worker that the store still calls running: it has not taken the job's end. */
struct stray {
    struct stray *next;
    struct job_report report;
    struct json *done; /* what the worker said at last; NULL: the worker was lost */
    double since;      /* monotonic seconds */
};

struct trainer {
    struct app *app;
    struct stray *strays;
    int promoting;             /* jobs that end once their model is loaded */
    bool refused;              /* a claim, since the last retry */
    struct job_report *ending; /* of no slot any more, while it is being stored */
    uv_timer_t *retry;         /* runs while there is something to try again */
    uv_timer_t *due;           /* runs until the next attempt of a job that waits for it */
    struct dispatch dispatch;
    struct rate taken; /* jobs that left the queue for a worker */
};

static struct run *run_of(const struct slot *s)
{
    return slot_kind(s) == SLOT_TRAIN ? slot_user(s) : NULL;
}

static void retry_later(struct trainer *t);

static void keep_trying(struct trainer *t, const struct run *run)
{
    if (job_report_waits(&run->report)) {
        retry_later(t);
    }
}

/* Reports of jobs on workers, and the one that ends, may have something in the batch. */
static void on_batch(void *context, bool kept)
{
    struct trainer *t = context;
    if (t->ending) {
        job_report_batch(t->ending, kept);
    }
    for (int i = 0; t->app->pool && i < pool_size(t->app->pool); i++) {
        struct run *run = run_of(pool_slot(t->app->pool, i));
        if (run && &run->report != t->ending) {
            job_report_batch(&run->report, kept);
            keep_trying(t, run);
        }
    }
}

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
    store_watch_batches(app->store, on_batch, t);
    *ret = t;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

static void stray_free(struct stray *s)
{
    job_report_deinit(&s->report);
    json_free(s->done);
    mem_free(s);
}

struct trainer *trainer_free(struct trainer *t)
{
    if (t) {
        store_watch_batches(t->app->store, NULL, NULL);
        uv_close((uv_handle_t *)t->retry, on_timer_closed);
        uv_close((uv_handle_t *)t->due, on_timer_closed);
        dispatch_deinit(&t->dispatch);
        while (t->strays) {
            struct stray *next = t->strays->next;
            stray_free(t->strays);
            t->strays = next;
        }
    }
    return mem_free(t);
}

/* ---- what the store did not take ---- */

static bool is_settled(int r)
{
    return r == 0 || r == -ERR_NOT_FOUND || r == -ERR_CONFLICT;
}

/* Where there is room for small changes, but for too long none for the model, it is given up: the
 * job goes on from its checkpoint when there may be room. */
static bool give_up(struct trainer *t, const struct stray *s)
{
    return clock_monotonic_s() - s->since >= t->app->config.storage_wait_s &&
           is_settled(job_report_lost(&s->report, REASON_DISK_FULL,
                                      reason_sentence(REASON_DISK_FULL), NULL));
}

/* Whether the store will take no more of it: it did, or the job is not what it was. */
static bool settle_loss(struct stray *s)
{
    return job_report_flush(&s->report) == 0 &&
           is_settled(job_report_lost(&s->report, REASON_WORKER_LOST,
                                      "The end of the job could not be recorded.", NULL));
}

static void flush_runs(struct trainer *t)
{
    for (int i = 0; i < pool_size(t->app->pool); i++) {
        struct run *run = run_of(pool_slot(t->app->pool, i));
        if (run && job_report_waits(&run->report)) {
            t->refused |= job_report_flush(&run->report) < 0;
        }
    }
}

static void on_retry(uv_timer_t *timer);

static void retry_later(struct trainer *t)
{
    if (!uv_is_active((uv_handle_t *)t->retry)) {
        uv_timer_start(t->retry, on_retry, RETRY_MS, RETRY_MS);
    }
}

/* Takes the report, and copies `done` (NULL: the worker was lost, and with it the model). On lack
 * of memory the job waits for the next start. */
static void add_stray(struct trainer *t, struct job_report *report, const struct json *done)
{
    struct stray *stray = mem_zalloc(sizeof *stray);
    if (!stray) {
        return;
    }
    app_settle(t->app, NULL); /* what is batched of it comes back before it moves, or is kept */
    stray->report = job_report_take(report);
    stray->done = done ? json_copy(done) : NULL;
    if (!stray->done) {
        backlog_drop_pieces(&stray->report.backlog);
    }
    stray->since = clock_monotonic_s();
    log_msg(&t->app->log, LOG_WARNING, "job.end_waits", "job", stray->report.job, NULL);
    stray->next = t->strays;
    t->strays = stray;
    retry_later(t);
}

static void keep_unsettled(struct trainer *t, struct job_report *report, const struct json *done,
                           int r)
{
    const bool fails = report->failure.code != ERR_OK; /* which is no reason to train it again */
    if (!is_settled(r)) {
        add_stray(t, report, fails || store_may_recover(r) ? done : NULL);
    }
}

static void on_ended(void *context, struct job_report *report, const struct json *done, int r)
{
    struct trainer *t = context;
    t->promoting--;
    keep_unsettled(t, report, done, r);
}

/* What the worker said at last becomes the job's end, written. */
static int write_end(struct trainer *t, struct job_report *report, const struct json *done,
                     bool *ret_promoting)
{
    int r = job_report_flush(report);
    *ret_promoting = r == 0 && promotion_wanted(report, done);
    if (!*ret_promoting) {
        return r < 0 ? r : job_report_done(report, done);
    }
    r = app_settle(t->app, NULL);
    if (r < 0) {
        return r;
    }
    t->promoting++;
    if (promotion_begin(report, done, on_ended, t) == 0) {
        return 0;
    }
    t->promoting--;
    *ret_promoting = false;
    return job_report_done(report, done);
}

/* The claim of the next job and this one's end are one commit. run_close leaves the memory until
 * the loop has turned. */
static void finish(struct trainer *t, struct run *run, const struct json *done)
{
    struct job_report *report = &run->report;
    bool promoting;
    t->ending = report;
    int r = write_end(t, report, done, &promoting);
    run_close(run);
    trainer_kick(t);
    if (r == 0 && !promoting) {
        r = job_report_settle(report);
    }
    keep_unsettled(t, report, done, r);
    t->ending = NULL;
}

/* Whether it need not be kept any longer: its end is recorded, or on its way. */
static bool try_again(struct trainer *t, struct stray *s)
{
    bool promoting;
    if (!s->done) {
        return settle_loss(s);
    }
    int r = write_end(t, &s->report, s->done, &promoting);
    if (r == 0 && !promoting) {
        r = job_report_settle(&s->report);
    }
    return is_settled(r) || (r == -ERR_DISK_FULL && give_up(t, s));
}

static bool settle(struct trainer *t, struct stray *s)
{
    t->ending = &s->report;
    const bool settled = try_again(t, s);
    app_settle(t->app, NULL);
    t->ending = NULL;
    return settled;
}

/* What is found to wait once more is put back at the head. */
static void settle_strays(struct trainer *t)
{
    struct stray *next, *all = t->strays;
    t->strays = NULL;
    for (struct stray *s = all; s; s = next) {
        next = s->next;
        if (settle(t, s)) {
            stray_free(s);
        } else {
            s->next = t->strays;
            t->strays = s;
        }
    }
}

static void on_retry(uv_timer_t *timer)
{
    struct trainer *t = timer->data;
    t->refused = false;
    settle_strays(t);
    flush_runs(t);
    trainer_kick(t);
    if (!t->strays && !t->refused) {
        uv_timer_stop(timer);
    }
}

/* ---- starting ---- */

static void on_due(uv_timer_t *timer)
{
    trainer_kick(timer->data);
}

void trainer_kick_soon(struct trainer *t)
{
    uv_timer_start(t->due, on_due, 0, 0);
}

/* A job that cannot be started, or whose worker does not take it. */
static void on_failed(void *context, struct run *run, const struct err *err)
{
    struct trainer *t = context;
    struct job_report *report = &run->report;
    const int r =
        err->code == ERR_WORKER_LOST
            ? job_report_lost(report, REASON_WORKER_LOST, err->detail, NULL)
            : job_report_fail(report, reason_name(REASON_FAILED), err->detail, err->pointer);
    if (r < 0 || job_report_settle(report) < 0) {
        add_stray(t, report, NULL);
    }
    run_close(run);
    trainer_kick_soon(t); /* the worker is idle, and others may wait */
}

static void count_start(struct metrics_registry *m, const struct job_row *job)
{
    metrics_count(m, METRIC_JOB_ATTEMPTS, 0, 0, 1);
    metrics_count(m, METRIC_JOB_RETRIES, 0, 0, job->attempt > 1);
    metrics_observe(m, METRIC_JOB_WAIT_SECONDS, 0, 0,
                    (double)(job->started_ms - job->queued_ms) / 1e3);
}

/* Sends a claimed job to its worker. Where that fails, the queue is looked at again once the loop
 * has turned: what is wrong may be the worker or the memory, and not the job. */
static bool launch(struct trainer *t, struct slot *slot, const struct job_row *job)
{
    struct err err;
    struct run *run = run_new(t->app, slot, job, on_failed, t);
    if (!run) {
        err_no_memory(&err);
        job_report_complain(t->app, job->id, "job.not_started", &err);
        struct job_report report;
        job_report_init(&report, t->app, job);
        add_stray(t, &report, NULL);
        return false;
    }
    if (run_launch(run, job, &err) < 0) {
        on_failed(t, run, &err);
        return false;
    }
    count_start(t->app->metrics, job);
    rate_add(&t->taken, clock_monotonic_s(), 1.0);
    log_msg(&t->app->log, LOG_INFO, "job.started", "job", job->id, "worker", slot_name(slot), NULL);
    subscribers_notify(t->app->subscribers, job->id);
    return true;
}

/* Nothing could start at `looked_ms`; perhaps something may later. What became due since then is
 * later, too: a look at another time would miss it, and nobody would look again. */
static void wait_for_attempt(struct trainer *t, int64_t looked_ms)
{
    int64_t due = 0;
    struct err err;
    if (jobs_next_attempt(t->app->store, looked_ms, &due, &err) < 0) {
        job_report_complain(t->app, "", "queue.not_readable", &err);
        retry_later(t);
    } else if (due > 0) {
        const int64_t now = clock_wall_ms();
        uv_timer_start(t->due, on_due, due > now ? (uint64_t)(due - now) + 1 : 1, 0);
    }
}

static int claim(struct trainer *t, const struct job_head *head, const struct slot *slot,
                 int64_t now_ms, struct job_row *ret, struct err *err)
{
    char checkpoint[JOBS_CHECKPOINT_SIZE];
    kept_read(t->app, head->id, checkpoint);
    const struct job_claim c = {
        .worker = slot_name(slot), .device = slot_device(slot), .checkpoint = checkpoint};
    return jobs_claim(t->app->store, head->id, &c, now_ms, ret, err);
}

/* The next queued job to an idle worker. 1: it has started; 0: none may start now. */
static int feed(struct trainer *t)
{
    struct job_head head;
    struct job_row job;
    struct slot *slot = NULL;
    struct err err;
    timekeeper_look(t->app->timekeeper);
    const int64_t now = clock_wall_ms();
    int r = dispatch_next(&t->dispatch, t->app, now, &head, &slot, &err);
    if (r > 0) {
        const int claimed = claim(t, &head, slot, now, &job, &err);
        r = claimed < 0 ? claimed : r;
    }
    if (r < 0) {
        job_report_complain(t->app, "", "queue.not_readable", &err);
        t->refused = true;
        retry_later(t);
    } else if (r == 0) {
        wait_for_attempt(t, now);
    } else {
        r = launch(t, slot, &job);
        job_row_deinit(&job);
    }
    return r;
}

int trainer_retry_after_s(const struct trainer *t)
{
    return rate_retry_after_s(&t->taken, clock_monotonic_s(), 1.0);
}

void trainer_kick(struct trainer *t)
{
    const enum err_code trouble = storage_trouble(t->app, NULL);
    if (trouble == ERR_DISK_FULL || trouble == ERR_READ_ONLY) {
        t->refused = true; /* nothing begins whose end could not be kept */
        retry_later(t);
        return;
    }
    while (t->app->pool && !t->app->draining && feed(t) > 0) {
    }
    if (t->dispatch.waits) { /* nobody tells when there is memory again */
        t->refused = true;
        retry_later(t);
    }
}

struct dispatch *trainer_dispatch(struct trainer *t)
{
    return &t->dispatch;
}

/* ---- frames of a run ---- */

/* The worker is free while the model that it made is loaded into another one. */
static void on_done(struct trainer *t, struct run *run, const struct json *done)
{
    slot_did_job(run->slot);
    run->report.computed = !job_report_paused(done);
    finish(t, run, done);
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
        keep_trying(context, run);
        break;
    case FRAME_MODEL:
        job_report_model(&run->report, f);
        keep_trying(context, run);
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

static void on_lost(void *context, struct slot *s, const struct slot_end *end)
{
    struct trainer *t = context;
    struct run *run = slot_user(s);
    if (!run) {
        return;
    }
    if (run->report.staged) {
        models_drop_stage(t->app->store, run->report.staged, NULL); /* Else swept at start. */
        run->report.staged = 0;
    }
    sweep_checkpoint_part(t->app, run->report.job, run->pid);
    if (!run->ended) {
        slot_lost_job(s, run->report.job);
    }
    backlog_drop_pieces(&run->report.backlog);
    if (job_report_flush(&run->report) < 0 || run_record_loss(run, end) < 0) {
        add_stray(t, &run->report, NULL);
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
    if (t->promoting > 0 || t->strays) {
        return false;
    }
    for (int i = 0; i < pool_size(t->app->pool); i++) {
        if (run_of(pool_slot(t->app->pool, i))) {
            return false;
        }
    }
    return true;
}
