#include "server/trainer.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/problem.h"
#include "server/subscribers.h"
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
    char job[ID_SIZE];
    char *spec;         /* JSON text, kept for the model's description */
    int64_t staged;     /* models_stage's handle, 0 before the first byte */
    struct err failure; /* code != OK: the model could not be stored */
    uv_timer_t timer;   /* grace after a cancel */
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

/* ---- problems ---- */

static void replace_text(struct json *j, const char *key, const char *text)
{
    json_remove(j, key);
    json_set_string(j, key, text);
}

/* The problem object stored as a job's `error`, with a code of wire/reason.h. JSON text, mem_free;
 * NULL on lack of memory. */
static char *job_problem(const char *job, const char *code, const char *detail, const char *pointer)
{
    const enum reason reason = reason_from_name(code);
    const int status = reason == REASON_FAILED || reason == REASON_WORKER_LOST ? 500 : 422;
    char text[128];
    struct err err;
    err_at(&err, ERR_INVALID, pointer ? pointer : "", "%s", detail);
    snprintf(text, sizeof text, "/v1/jobs/%s", job);
    cleanup_json struct json *j = problem_json(status, &err, text);
    snprintf(text, sizeof text, "urn:krrd:problem:%s", code);
    replace_text(j, "type", text);
    replace_text(j, "title", reason_sentence(reason));
    replace_text(j, "code", code);
    return json_print(j);
}

static void complain(struct trainer *t, const char *job, const char *doing, const struct err *err)
{
    log_msg(&t->app->log, LOG_ERROR, doing, "job", job, "code", err_name(err->code), "detail",
            err->detail, NULL);
}

/* ---- what the store did not take ---- */

/* Tells the store that the job lost its worker: it is queued again, or ends. */
static int put_back(struct trainer *t, const char *job, const char *message)
{
    cleanup_mem char *problem = job_problem(job, reason_name(REASON_WORKER_LOST), message, "");
    enum job_status status;
    struct err err;
    int r = jobs_worker_lost(t->app->store, job, message, problem, clock_wall_ms(), &status, &err);
    if (r < 0) {
        complain(t, job, "job.not_recorded", &err);
    }
    subscribers_notify(t->app->subscribers, job);
    return r;
}

/* Whether the store will take no more of it: it did, or the job is not what it was. */
static bool settle(struct trainer *t, const struct stray *stray)
{
    if (stray->staged) {
        models_drop_stage(t->app->store, stray->staged, NULL); /* Else swept at the next start. */
    }
    int r = put_back(t, stray->job, "The end of the job could not be recorded.");
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
    mem_free(run->spec);
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
    char *spec = mem_strdup(job->spec);
    if (!run || !spec) {
        mem_free(run);
        mem_free(spec);
        return NULL;
    }
    run->trainer = t;
    run->slot = slot;
    run->spec = spec;
    run->kill_signal = SIGTERM;
    memcpy(run->job, job->id, sizeof run->job);
    uv_timer_init(t->app->loop, &run->timer);
    run->timer.data = run;
    slot_set_user(slot, run);
    slot_set_busy(slot, true);
    return run;
}

/* ---- starting ---- */

static int make_order(const struct app *app, const struct job_row *job, struct json **ret,
                      struct err *err)
{
    char path[APP_PATH_MAX], test_path[APP_PATH_MAX];
    app_dataset_path(app, job->dataset, path);
    app_dataset_path(app, job->test_dataset, test_path);
    struct order order = {
        .attempt = job->attempt,
        .dataset_path = path,
        .test_dataset_path = job->test_dataset[0] ? test_path : NULL,
    };
    memcpy(order.job, job->id, sizeof order.job);
    cleanup_json struct json *spec = NULL;
    int r = json_parse(job->spec, strlen(job->spec), &spec, err);
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

static void end_run(struct run *run, const struct job_end *end)
{
    struct trainer *t = run->trainer;
    struct err err;
    if (jobs_finish(t->app->store, run->job, end, clock_wall_ms(), &err) < 0) {
        complain(t, run->job, "job.not_recorded", &err);
        add_stray(t, run->job, run->staged);
        return;
    }
    log_msg(&t->app->log, LOG_INFO, "job.ended", "job", run->job, "status",
            job_status_name(end->status), "reason", end->reason, NULL);
    subscribers_notify(t->app->subscribers, run->job);
}

static void fail_run(struct run *run, const char *reason, const char *detail, const char *pointer)
{
    cleanup_mem char *problem = job_problem(run->job, reason, detail, pointer);
    const struct job_end end = {
        .status = JOB_FAILED, .reason = reason, .error = problem, .message = detail};
    end_run(run, &end);
}

/* Sends a claimed job to its worker. */
static void launch(struct trainer *t, struct slot *slot, const struct job_row *job)
{
    struct err err;
    struct run *run = run_new(t, slot, job);
    if (!run) {
        err_no_memory(&err);
        complain(t, job->id, "job.not_started", &err);
        add_stray(t, job->id, 0);
        return;
    }
    cleanup_json struct json *order = NULL;
    int r = make_order(t->app, job, &order, &err);
    if (r == 0) {
        r = slot_send(slot, FRAME_TRAIN, 0, order, NULL, 0, NULL, NULL, &err);
    }
    if (r < 0) {
        fail_run(run, reason_name(REASON_FAILED), err.detail, err.pointer);
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
        complain(t, "", "queue.not_readable", &err);
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

static void on_event(struct run *run, const struct json *j)
{
    struct app *app = run->trainer->app;
    const char *type = json_string(json_get(j, "type"));
    const char *level = json_string(json_get(j, "level"));
    const char *message = json_string(json_get(j, "message"));
    const struct json *data = json_get(j, "data");
    cleanup_mem char *text = data && json_type(data) == JSON_OBJECT ? json_print(data) : NULL;
    const int64_t now = clock_wall_ms();
    struct err err;
    int64_t id;
    int r;
    if (type && strcmp(type, "metrics") == 0 && text) {
        r = jobs_progress(app->store, run->job, text, message ? message : "", now, &id, &err);
    } else {
        const struct event_new event = {.level = level ? level : "info",
                                        .type = "message",
                                        .message = message ? message : "",
                                        .data = text};
        r = events_append(app->store, run->job, &event, now, &id, &err);
    }
    if (r < 0) {
        complain(run->trainer, run->job, "event.not_recorded", &err);
        return;
    }
    subscribers_notify(app->subscribers, run->job);
}

static void on_model(struct run *run, const struct frame *f)
{
    struct store *store = run->trainer->app->store;
    if (run->failure.code != ERR_OK) {
        return;
    }
    int r = run->staged ? 0 : models_stage(store, run->job, &run->staged, &run->failure);
    if (r == 0) {
        r = models_stage_chunk(store, run->staged, f->payload, f->payload_size, &run->failure);
    }
    if (r < 0) {
        complain(run->trainer, run->job, "model.not_stored", &run->failure);
    }
}

/* What GET /v1/models shows: the engine's description and what the job found. */
static char *describe(const struct run *run, const struct json *done)
{
    cleanup_json struct json *j = json_copy(json_get(done, "model"));
    cleanup_json struct json *spec = NULL;
    json_set(j, "result", json_copy(json_get(done, "result")));
    if (json_parse(run->spec, strlen(run->spec), &spec, NULL) == 0) {
        json_set(j, "seed", json_copy(json_get(spec, "seed")));
        json_set(j, "regularization", json_copy(json_get(spec, "regularization")));
    }
    return json_print(j);
}

static int seal(struct run *run, const struct json *done, struct err *err)
{
    if (run->failure.code != ERR_OK) {
        *err = run->failure;
        return -(int)err->code;
    }
    const char *sha256 = json_string(json_get(done, "sha256"));
    if (!run->staged || !sha256) {
        return err_set(err, ERR_CORRUPT, "The worker announced a model that it did not send.");
    }
    cleanup_mem char *description = describe(run, done);
    const int64_t bytes = (int64_t)json_number(json_get(done, "bytes"));
    return description ? models_stage_seal(run->trainer->app->store, run->staged, description,
                                           sha256, bytes, err)
                       : err_no_memory(err);
}

static void end_with_model(struct run *run, const struct json *done)
{
    struct err err;
    if (seal(run, done, &err) < 0) {
        fail_run(run, reason_name(REASON_FAILED), err.detail, "");
        return;
    }
    const char *reason = json_string(json_get(done, "reason"));
    cleanup_mem char *result = json_print(json_get(done, "result"));
    const struct job_end end = {
        .status = JOB_SUCCEEDED,
        .reason = reason,
        .result = result,
        .message = reason_sentence(reason_from_name(reason)),
        .staged_model = run->staged,
    };
    end_run(run, &end);
}

static void end_without_model(struct run *run, const struct json *done)
{
    const char *reason = json_string(json_get(done, "reason"));
    const bool cancelled = reason_from_name(reason) == REASON_CANCELLED;
    const struct json *error = json_get(done, "error");
    const char *detail = json_string(json_get(error, "detail"));
    const struct json *found = json_get(done, "result");
    cleanup_mem char *result = json_type(found) == JSON_OBJECT ? json_print(found) : NULL;
    cleanup_mem char *problem =
        cancelled ? NULL
                  : job_problem(run->job, reason, detail ? detail : "The job failed.",
                                json_string(json_get(error, "pointer")));
    const struct job_end end = {
        .status = cancelled ? JOB_CANCELLED : JOB_FAILED,
        .reason = reason,
        .result = result,
        .error = problem,
        .message = cancelled ? "Cancelled on request." : detail,
    };
    end_run(run, &end);
}

static void on_done(struct run *run, const struct json *done)
{
    struct trainer *t = run->trainer;
    const char *reason = json_string(json_get(done, "reason"));
    const struct json *model = json_get(done, "model");
    if (!reason || reason_from_name(reason) == REASON_NONE) {
        fail_run(run, reason_name(REASON_FAILED), "The worker ended the job without a reason.", "");
    } else if (model && json_type(model) == JSON_OBJECT) {
        end_with_model(run, done);
    } else {
        end_without_model(run, done);
    }
    run_close(run);
    trainer_kick(t);
}

static void on_frame(void *context, struct slot *s, struct frame *f)
{
    (void)context;
    struct run *run = slot_user(s);
    const char *job = f->json ? json_string(json_get(f->json, "job")) : NULL;
    if (!run || !job || strcmp(job, run->job) != 0) {
        return; /* The tail of a job that has ended. */
    }
    switch (f->type) {
    case FRAME_EVENT:
        on_event(run, f->json);
        break;
    case FRAME_MODEL:
        on_model(run, f);
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

static void on_lost(void *context, struct slot *s, const char *cause)
{
    struct trainer *t = context;
    struct run *run = slot_user(s);
    if (!run) {
        return;
    }
    if (run->staged) {
        models_drop_stage(t->app->store, run->staged, NULL); /* Else swept at the next start. */
    }
    if (!t->app->draining) { /* Else it stays `running` and is queued again at the next start. */
        char message[160];
        snprintf(message, sizeof message, "The worker process ended unexpectedly: %s.", cause);
        if (put_back(t, run->job, message) < 0) {
            add_stray(t, run->job, run->staged);
        }
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
    return run ? run->job : NULL;
}

/* ---- cancel ---- */

static void on_cancel_grace(uv_timer_t *timer)
{
    struct run *run = timer->data;
    slot_kill(run->slot, run->kill_signal);
    run->kill_signal = SIGKILL;
    uv_timer_start(timer, on_cancel_grace, CANCEL_GRACE_MS, 0);
}

static void cancel_run(struct run *run)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "job", run->job);
    slot_send(run->slot, FRAME_CANCEL, 0, j, NULL, 0, NULL, NULL, NULL); /* A dead worker: lost. */
    if (!uv_is_active((uv_handle_t *)&run->timer)) {
        uv_timer_start(&run->timer, on_cancel_grace, CANCEL_GRACE_MS, 0);
    }
}

void trainer_cancel(struct trainer *t, const char *job)
{
    struct pool *pool = t->app->pool;
    for (int i = 0; i < pool_size(pool); i++) {
        struct slot *s = pool_slot(pool, i);
        struct run *run = slot_kind(s) == SLOT_TRAIN ? slot_user(s) : NULL;
        if (run && strcmp(run->job, job) == 0) {
            cancel_run(run);
            return;
        }
    }
}
