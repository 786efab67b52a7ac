#include "server/workers.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "server/app.h"
#include "server/jobs/kept.h"
#include "server/jobs/subscribers.h"
#include "server/jobs/trainer.h"
#include "server/pool/pool.h"
#include "server/pool/roster.h"
#include "server/serving/serving.h"
#include "server/sweep.h"
#include "store/aliases.h"
#include "store/jobs.h"

/* What workers get at shutdown that did not end in the drain. */
static const double stop_grace_s = 2.0;
/* How long the first training worker may take to tell of itself before requests are taken. */
static const double hearing_s = 5.0;

/* ---- the worker program ---- */

/* As given, else beside the daemon, as it is installed, or in the sister folder of a build tree.
 * 0: *ret is where it should lie, and there is none; 1: it is there, or was given. */
static int find_program(const char *given, const char *name, char ret[PATH_MAX], struct err *err)
{
    static const char *const folders[] = {"../worker/", ""};
    char self[PATH_MAX];
    if (given[0] != '\0') {
        snprintf(ret, PATH_MAX, "%s", given);
        return 1;
    }
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) {
        return err_errno(err, "find the daemon's own program file");
    }
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        const int len = snprintf(ret, PATH_MAX, "%s/%s%s", self, folders[i], name);
        if (len < PATH_MAX && access(ret, X_OK) == 0) {
            return 1;
        }
    }
    return 0;
}

static int make_roster(const struct config *c, char program[PATH_MAX], char cuda_program[PATH_MAX],
                       struct roster *ret, struct err *err)
{
    int r = find_program(c->worker_program, "krrd-worker", program, err);
    if (r == 0) {
        return err_set(err, ERR_NOT_FOUND,
                       "krrd-worker is not beside krrd; name it with --worker-program.");
    }
    r = r < 0 ? r : find_program(c->cuda_worker_program, "krrd-worker-cuda", cuda_program, err);
    const struct roster_options o = {
        .train = c->train_placement,
        .serve = c->serve_placement,
        .program = program,
        .cuda_program = cuda_program,
    };
    return r < 0 ? r : roster_make(&o, ret, err);
}

/* ---- up ---- */

static int recover(struct app *app, struct err *err)
{
    int64_t count;
    const struct jobs_kept kept = {.read = kept_read, .context = app};
    const int r = jobs_recover(app->store, &kept, clock_wall_ms(), &count, err);
    if (r == 0 && count > 0) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)count);
        log_msg(&app->log, LOG_WARNING, "jobs.recovered", "count", text, NULL);
    }
    return r;
}

static int open_pool(struct app *app, struct err *err)
{
    char program[PATH_MAX], cuda_program[PATH_MAX];
    struct roster roster;
    const int r = make_roster(&app->config, program, cuda_program, &roster, err);
    if (r < 0) {
        return r;
    }
    const struct pool_options o = {
        .places = roster.places,
        .count = roster.count,
        .threads = app->config.worker_threads,
        .memory_bytes = app->config.worker_memory_bytes,
        .busy_poll_us = app->config.busy_poll_us,
        .lease_s = app->config.worker_lease_s,
        .quarantine_after = app->config.quarantine_after,
        .quarantine_s = app->config.quarantine_s,
        .metrics = app->metrics,
        .train = trainer_listener(app->trainer),
        .serve = serving_listener(app->serving),
    };
    return pool_new(app->loop, &app->log, &o, &app->pool, err);
}

static void on_first_load(void *context, const struct err *err)
{
    struct app *app = context;
    if (err) {
        log_msg(&app->log, LOG_WARNING, "model.not_loaded", "code", err_name(err->code), "detail",
                err->detail, NULL);
    }
}

/* Takes the rows. One that is damaged is logged and does not keep the others from being served. */
static void load_rows(struct app *app, struct model_row *rows, int64_t count, bool pinned)
{
    for (int64_t i = 0; i < count; i++) {
        const struct served_model *model = NULL;
        const int64_t key = rows[i].key;
        struct err why;
        if (served_of_row(&rows[i], &model, &why) == 0) {
            serving_load(app->serving, model, on_first_load, app);
            served_release(model);
            if (pinned) {
                serving_pin(app->serving, key, true);
            }
        } else {
            on_first_load(app, &why);
        }
    }
    models_list_free(rows, count);
}

/* Pinned models, and what aliases stand for, are in use: they are loaded as soon as a worker can
 * take them. */
static int load_first(struct app *app, struct err *err)
{
    struct model_row *rows;
    int64_t count;
    int r = models_pinned(app->store, &rows, &count, err);
    if (r == 0) {
        load_rows(app, rows, count, true);
        r = aliases_models(app->store, &rows, &count, err);
    }
    if (r == 0) {
        load_rows(app, rows, count, false);
    }
    return r;
}

static int open_serving(struct app *app, struct err *err)
{
    const struct serving_limits limits = {
        .batch_rows = app->config.serve_batch_rows,
        .batch_delay_us = app->config.serve_batch_delay_us,
        .model_queue = app->config.serve_model_queue,
        .queue = app->config.serve_queue,
        .memory_bytes = app->config.serve_memory_bytes,
    };
    return serving_new(app, &limits, &app->serving, err);
}

int workers_open(struct app *app, struct err *err)
{
    int r = recover(app, err);
    r = r == 0 ? sweep_checkpoints(app, err) : r;
    r = r == 0 ? subscribers_new(app, &app->subscribers, err) : r;
    r = r == 0 ? trainer_new(app, &app->trainer, err) : r;
    r = r == 0 ? served_new(app->store, &app->served, err) : r;
    r = r == 0 ? open_serving(app, err) : r;
    r = r == 0 ? open_pool(app, err) : r;
    return r == 0 ? load_first(app, err) : r;
}

/* ---- the first word ---- */

struct hearing {
    uv_timer_t timer;
    bool over, closed;
};

static void on_hearing_over(uv_timer_t *timer)
{
    struct hearing *h = timer->data;
    h->over = true;
}

static void on_hearing_closed(uv_handle_t *handle)
{
    struct hearing *h = handle->data;
    h->closed = true;
}

static bool heard(const struct app *app, const char *device)
{
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (slot_kind(s) == SLOT_TRAIN && slot_machine(s) != NULL &&
            strcmp(slot_device(s), device) == 0) {
            return true;
        }
    }
    return false;
}

/* Of some device no training worker has told yet, and one may soon. */
static bool more_to_hear(const struct app *app)
{
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (slot_kind(s) == SLOT_TRAIN && slot_state(s) == SLOT_STARTING &&
            !heard(app, slot_device(s))) {
            return true;
        }
    }
    return false;
}

void workers_hear(struct app *app)
{
    struct hearing h = {.over = false};
    uv_timer_init(app->loop, &h.timer);
    h.timer.data = &h;
    uv_timer_start(&h.timer, on_hearing_over, (uint64_t)(1e3 * hearing_s), 0);
    while (!h.over && more_to_hear(app)) {
        uv_run(app->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&h.timer, on_hearing_closed);
    while (!h.closed) {
        uv_run(app->loop, UV_RUN_NOWAIT);
    }
}

/* ---- down ---- */

static void on_stopped(void *context)
{
    *(bool *)context = true;
}

static void stop_pool(struct app *app)
{
    bool stopped = false;
    pool_stop(app->pool, stop_grace_s, on_stopped, &stopped);
    while (!stopped && uv_run(app->loop, UV_RUN_ONCE) != 0) {
    }
    app->pool = pool_free(app->pool);
}

void workers_close(struct app *app)
{
    if (app->pool != NULL) {
        stop_pool(app);
    }
    app->serving = serving_free(app->serving);
    app->served = served_free(app->served);
    app->trainer = trainer_free(app->trainer);
    if (app->subscribers != NULL) {
        subscribers_stop(app->subscribers);
        uv_run(app->loop, UV_RUN_NOWAIT); /* its timers, and streams that were just ended */
        app->subscribers = subscribers_free(app->subscribers);
    }
}

/* ---- state ---- */

static bool any_up(const struct app *app, enum slot_kind kind)
{
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (slot_kind(s) == kind && (slot_state(s) == SLOT_IDLE || slot_state(s) == SLOT_BUSY)) {
            return true;
        }
    }
    return false;
}

/* Said where none is up. */
static const char *reason_of(const struct app *app, enum slot_kind kind)
{
    bool quarantined = false;
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        quarantined |= slot_kind(s) == kind && slot_state(s) == SLOT_QUARANTINED;
    }
    if (kind == SLOT_TRAIN) {
        return quarantined ? "No training worker is up; the device of one is in quarantine."
                           : "No training worker is up.";
    }
    return quarantined ? "No serving worker is up; the device of one is in quarantine."
                       : "No serving worker is up.";
}

bool workers_ready(const struct app *app, const char **ret_reason)
{
    for (enum slot_kind kind = SLOT_TRAIN; kind <= SLOT_SERVE; kind++) {
        if (!any_up(app, kind)) {
            *ret_reason = reason_of(app, kind);
            return false;
        }
    }
    return true;
}
