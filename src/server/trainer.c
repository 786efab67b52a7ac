#include "server/trainer.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/job_report.h"
#include "server/subscribers.h"
#include "server/sweep.h"
#include "store/datasets.h"
#include "store/jobs.h"
#include "store/models.h"
#include "wire/order.h"
#include "wire/reason.h"

/* A cancelled job answers between two steps of its solver; a step may be one product with K. */
#define CANCEL_GRACE_MS 10000
/* How often the store is asked again to take what it refused, as a full disk makes it do. */
#define RETRY_MS 1000

/* A job on a worker. Lives from the claim to DONE or to the worker's loss. */
struct run {
    struct trainer *trainer;
    struct slot *slot;
    struct job_report report;
    int pid;
    uv_timer_t timer; /* grace after a cancel */
    int kill_signal;
};

/* A job without a worker that the store still calls running. */
struct stray {
    struct stray *next;
    char job[ID_SIZE];
    int64_t staged; /* of its model, or 0 */
};

struct trainer {
    struct app *app;
    struct stray *strays;
    bool refused;      /* a claim, since the last retry */
    uv_timer_t *retry; /* runs while there is something to try again */
};

int trainer_new(struct app *app, struct trainer **ret, struct err *err)
{
    struct trainer *t = mem_zalloc(sizeof *t);
    if (!t) {
        return err_no_memory(err);
    }
    t->app = app;
    t->retry = mem_zalloc(sizeof *t->retry);
    if (!t->retry) {
        mem_free(t);
        return err_no_memory(err);
    }
    uv_timer_init(app->loop, t->retry);
    t->retry->data = t;
    *ret = t;
    return 0;
}

static void on_retry_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

struct trainer *trainer_free(struct trainer *t)
{
    if (t) {
        uv_close((uv_handle_t *)t->retry, on_retry_closed);
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
    int r = job_report_lost(t->app, stray->job, "The end of the job could not be recorded.");
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

/* ---- a run's life ---- */

static void on_run_closed(uv_handle_t *handle)
{
    struct run *run = handle->data;
    job_report_deinit(&run->report);
    mem_free(run);
}

static void run_close(struct run *run)
{
    slot_set_user(run->slot, NULL);
    slot_set_busy(run->slot, false);
    uv_close((uv_handle_t *)&run->timer, on_run_closed);
}

static struct run *run_new(struct trainer *t, struct slot *slot, const struct job_row *job)
{
    struct run *run = mem_zalloc(sizeof *run);
    if (!run || job_report_init(&run->report, t->app, job) < 0) {
        return mem_free(run);
    }
    run->trainer = t;
    run->slot = slot;
    run->pid = slot_pid(slot);
    run->kill_signal = SIGTERM;
    uv_timer_init(t->app->loop, &run->timer);
    run->timer.data = run;
    slot_set_user(slot, run);
    slot_set_busy(slot, true);
    return run;
}

/* ---- starting ---- */

struct paths {
    char train[APP_PATH_MAX], test[APP_PATH_MAX], checkpoint[APP_PATH_MAX];
    char sha256[SHA256_HEX_SIZE], test_sha256[SHA256_HEX_SIZE];
};

static int find_digest(const struct app *app, const char *dataset, char ret[SHA256_HEX_SIZE],
                       struct err *err)
{
    struct dataset_row row;
    int r = datasets_get(app->store, dataset, &row, err);
    if (r == 0) {
        memcpy(ret, row.sha256, SHA256_HEX_SIZE);
        dataset_row_deinit(&row);
    }
    return r;
}

static int find_paths(const struct app *app, const struct job_row *job, struct paths *ret,
                      struct err *err)
{
    app_dataset_path(app, job->dataset, ret->train);
    app_dataset_path(app, job->test_dataset, ret->test);
    app_checkpoint_path(app, job->id, ret->checkpoint);
    int r = find_digest(app, job->dataset, ret->sha256, err);
    return r == 0 && job->test_dataset[0]
               ? find_digest(app, job->test_dataset, ret->test_sha256, err)
               : r;
}

static int make_order(const struct app *app, const struct job_row *job, struct json **ret,
                      struct err *err)
{
    struct paths paths;
    int r = find_paths(app, job, &paths, err);
    if (r < 0) {
        return r;
    }
    const bool tested = job->test_dataset[0] != '\0';
    struct order order = {
        .attempt = job->attempt,
        .dataset_path = paths.train,
        .dataset_sha256 = paths.sha256,
        .test_dataset_path = tested ? paths.test : NULL,
        .test_dataset_sha256 = tested ? paths.test_sha256 : NULL,
        .checkpoint_path = paths.checkpoint,
        .checkpoint_interval_s = app->config.checkpoint_interval_s,
    };
    memcpy(order.job, job->id, sizeof order.job);
    cleanup_json struct json *spec = NULL;
    r = json_parse(job->spec, strlen(job->spec), &spec, err);
    if (r == 0) {
        r = job_spec_read(spec, &order.spec, err);
    }
    if (r == 0) {
        *ret = order_write(&order);
        r = *ret ? 0 : err_no_memory(err);
    }
    job_spec_free(order.spec);
    return r;
}

/* Sends a claimed job to its worker. */
static void launch(struct trainer *t, struct slot *slot, const struct job_row *job)
{
    struct err err;
    struct run *run = run_new(t, slot, job);
    if (!run) {
        err_no_memory(&err);
        job_report_complain(t->app, job->id, "job.not_started", &err);
        add_stray(t, job->id, 0);
        return;
    }
    cleanup_json struct json *order = NULL;
    int r = make_order(t->app, job, &order, &err);
    if (r == 0) {
        r = slot_send(slot, FRAME_TRAIN, 0, order, NULL, 0, NULL, NULL, &err);
    }
    if (r < 0) {
        if (job_report_fail(&run->report, reason_name(REASON_FAILED), err.detail, err.pointer) <
            0) {
            add_stray(t, job->id, 0);
        }
        run_close(run);
        return;
    }
    log_msg(&t->app->log, LOG_INFO, "job.started", "job", job->id, "worker", slot_name(slot), NULL);
    subscribers_notify(t->app->subscribers, job->id);
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
    }
    if (r <= 0) {
        return false;
    }
    launch(t, slot, &job);
    job_row_deinit(&job);
    return true;
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

static void on_done(struct run *run, const struct json *done)
{
    struct trainer *t = run->trainer;
    if (job_report_done(&run->report, done) < 0) {
        add_stray(t, run->report.job, run->report.staged);
    }
    run_close(run);
    trainer_kick(t);
}

static void on_frame(void *context, struct slot *s, struct frame *f)
{
    (void)context;
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
        on_done(run, f->json);
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

/* Whoever ends the daemon ends its workers: no attempt of the job's failed by that. */
static int record_loss(struct run *run, const char *cause)
{
    struct app *app = run->trainer->app;
    if (app->draining) {
        return job_report_put_aside(app, run->report.job);
    }
    char message[160];
    snprintf(message, sizeof message, "The worker process ended unexpectedly: %s.", cause);
    return job_report_lost(app, run->report.job, message);
}

static void on_lost(void *context, struct slot *s, const char *cause)
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
    if (record_loss(run, cause) < 0) {
        add_stray(t, run->report.job, run->report.staged);
    }
    run_close(run);
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

static void on_cancel_grace(uv_timer_t *timer)
{
    struct run *run = timer->data;
    slot_kill(run->slot, run->kill_signal);
    run->kill_signal = SIGKILL;
    uv_timer_start(timer, on_cancel_grace, CANCEL_GRACE_MS, 0);
}

/* A dead worker does not hear it: its loss is seen. */
static void send_word(struct run *run, enum frame_type type)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "job", run->report.job);
    slot_send(run->slot, type, 0, j, NULL, 0, NULL, NULL, NULL);
}

static struct run *run_of(const struct slot *s)
{
    return slot_kind(s) == SLOT_TRAIN ? slot_user(s) : NULL;
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
    if (!run) {
        return;
    }
    send_word(run, FRAME_CANCEL);
    if (!uv_is_active((uv_handle_t *)&run->timer)) {
        uv_timer_start(&run->timer, on_cancel_grace, CANCEL_GRACE_MS, 0);
    }
}

void trainer_pause(struct trainer *t, const char *job)
{
    struct run *run = find_run(t, job);
    if (run) {
        send_word(run, FRAME_PAUSE);
    }
}

void trainer_drain(struct trainer *t)
{
    for (int i = 0; i < pool_size(t->app->pool); i++) {
        struct run *run = run_of(pool_slot(t->app->pool, i));
        if (run) {
            send_word(run, FRAME_PAUSE);
        }
    }
}

bool trainer_idle(const struct trainer *t)
{
    for (int i = 0; i < pool_size(t->app->pool); i++) {
        if (run_of(pool_slot(t->app->pool, i))) {
            return false;
        }
    }
    return true;
}
