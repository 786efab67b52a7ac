#include "server/app.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "server/api/model_export.h"
#include "server/api/model_import.h"
#include "server/api/routes.h"
#include "server/credentials.h"
#include "server/described.h"
#include "server/http/http.h"
#include "server/http/http_listen.h"
#include "server/http/keys.h"
#include "server/jobs/lessons.h"
#include "server/jobs/retention.h"
#include "server/jobs/subscribers.h"
#include "server/jobs/trainer.h"
#include "server/jobs/waits.h"
#include "server/log_copy.h"
#include "server/metrics.h"
#include "server/notify.h"
#include "server/process.h"
#include "server/storage.h"
#include "server/sweep.h"
#include "server/timekeeper.h"
#include "server/turns.h"
#include "server/webhooks/webhooks.h"
#include "server/workers.h"
#include "store/shrink.h"
#include "store/store.h"

enum {
    DRAIN_TICK_MS = 20,
    /* They may take minutes each; and one that takes less than a second. */
    INGESTS_AT_ONCE = 2,
    BRIEF_INGESTS_AT_ONCE = 1,
    /* The pool has a thread for each of these, for imports and exports, which take long as well,
     * and for the copy of the database's log, and some for what somebody waits for. */
    BRIEF_WORK_AT_ONCE = 4,
    POOL_THREADS = INGESTS_AT_ONCE + BRIEF_INGESTS_AT_ONCE + IMPORTS_MAX + EXPORTS_MAX + 1 +
                   BRIEF_WORK_AT_ONCE,
    OTHER_FILES = 16,
};

/* How long app_close waits for threads of the pool, in seconds. */
static const double thread_grace_s = 2.0;

void app_database_path(const struct app *app, char ret[APP_PATH_MAX])
{
    snprintf(ret, APP_PATH_MAX, "%s/krrd.db", app->config.data_dir);
}

void app_dataset_path(const struct app *app, const char *dataset_id, char ret[APP_PATH_MAX])
{
    snprintf(ret, APP_PATH_MAX, "%s/datasets/%s.krds", app->config.data_dir, dataset_id);
}

void app_checkpoint_path(const struct app *app, const char *job_id, char ret[APP_PATH_MAX])
{
    snprintf(ret, APP_PATH_MAX, "%s/checkpoints/%s.krdc", app->config.data_dir, job_id);
}

void app_temporary_path(const struct app *app, const char *name, char ret[APP_PATH_MAX])
{
    snprintf(ret, APP_PATH_MAX, "%s/tmp/%s", app->config.data_dir, name);
}

bool app_ready(const struct app *app, const char **ret_reason)
{
    if (app->draining) {
        *ret_reason = "The server is stopping.";
        return false;
    }
    return storage_trouble(app, ret_reason) == ERR_OK && workers_ready(app, ret_reason);
}

int app_settle(struct app *app, struct err *err)
{
    struct err why;
    const int rc = store_flush(app->store, &why);
    if (rc < 0) {
        log_msg(&app->log, LOG_ERROR, "store.batch_lost", "code", err_name(why.code), "detail",
                why.detail, NULL);
        if (err != NULL) {
            *err = why;
        }
    }
    return rc;
}

/* ---- Building, in the order of struct app. ---- */

static int open_directories(const struct app *app, struct err *err)
{
    static const char *const folders[] = {"checkpoints", "datasets", "tmp"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(folders) / sizeof(folders[0]); i++) {
        char path[APP_PATH_MAX];
        snprintf(path, sizeof(path), "%s/%s", app->config.data_dir, folders[i]);
        rc = file_make_dirs(path, err);
    }
    /* Directories that are there already do not show whether anything can be written. */
    if (rc == 0 && access(app->config.data_dir, W_OK | X_OK) != 0) {
        rc = err_errno(err, "write there");
    }
    if (rc < 0 && err != NULL) {
        const struct err why = *err;
        err_set(err, why.code, "The data directory (--data-dir) is of no use: %s", why.detail);
    }
    return rc;
}

/* The limit of open files, raised as far as it goes: every connection needs one. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int open_loop(struct app *app, struct err *err)
{
    uv_loop_t *loop = mem_zalloc(sizeof(*loop));
    if (loop == NULL) {
        return err_no_memory(err);
    }
    const int rc = uv_loop_init(loop);
    if (rc != 0) {
        mem_free(loop);
        return err_set(err, ERR_INTERNAL, "The event loop did not start: %s.", uv_strerror(rc));
    }
    app->loop = loop;
    return 0;
}

static void on_commit(void *context, double seconds, int changes)
{
    metrics_count(context, METRIC_STORE_CHANGES, 0, 0, changes);
    metrics_observe(context, METRIC_STORE_COMMIT_SECONDS, 0, 0, seconds);
    metrics_observe(context, METRIC_STORE_COMMIT_CHANGES, 0, 0, changes);
}

/* The clock may have been set back while nothing ran. */
static int continue_ids(struct app *app, struct err *err)
{
    char job[ID_SIZE], dataset[ID_SIZE];
    const int rc = store_newest_ids(app->store, job, dataset, err);
    if (rc == 0) {
        id_continue(&app->ids, job);
        id_continue(&app->ids, dataset);
    }
    return rc;
}

static void tell_not_rewritten(const struct app *app)
{
    const struct err *why = store_not_rewritten(app->store);
    if (why != NULL) {
        log_msg(&app->log, LOG_WARNING, "storage.not_rewritten", "code", err_name(why->code),
                "detail", why->detail, NULL);
    }
}

static int open_store(struct app *app, struct err *err)
{
    char path[APP_PATH_MAX];
    app_database_path(app, path);
    int rc = sweep_check(app, err);
    rc = rc == 0 ? store_open(path, &app->store, err) : rc;
    if (rc == 0) {
        tell_not_rewritten(app);
        store_watch(app->store, on_commit, app->metrics);
        rc = continue_ids(app, err);
    }
    return rc == 0 ? sweep_data_dir(app, err) : rc;
}

/* What is left for connections, beside what is open by now and is opened for uploads, workers that
 * start anew and the like. */
static int64_t files_for_connections(void)
{
    struct process_usage usage;
    process_usage_read(&usage);
    const int64_t left = usage.max_fds - (int64_t)usage.open_fds - OTHER_FILES;
    return usage.max_fds <= 0 ? 0 : left > 2 ? left : 2;
}

/* What the server is to be asked by, and who may ask it: what fails here fails before anything is
 * begun, and nothing is heard before open_http. */
static int open_door(struct app *app, struct err *err)
{
    int rc = credentials_read_keys(app, err);
    rc = rc == 0 ? credentials_check_tls(app, err) : rc;
    return rc == 0 ? http_bind(app->config.listen_address, app->config.listen_port, &app->listen_fd,
                               err)
                   : rc;
}

static int open_http(struct app *app, struct err *err)
{
    struct http_options o = {
        .address = app->config.listen_address,
        .listen_fd = app->listen_fd,
        .max_header_bytes = (size_t)app->config.max_header_bytes,
        .max_body_bytes = app->config.max_body_bytes,
        .max_bodies_bytes = (size_t)app->config.max_bodies_bytes,
        .max_upload_bytes = app->config.max_upload_bytes,
        .max_connections = app->config.max_connections,
        .files = files_for_connections(),
        .idle_timeout_s = app->config.idle_timeout_s,
        .cors_origins = app->config.cors_origin,
        .allowed_hosts = app->config.allowed_hosts,
        .receive_timeout_s = app->config.request_timeout_s,
        .request_deadline_s = app->config.request_deadline_s,
    };
    int rc = credentials_read_tls(app, &o, err);
    if (rc == 0) {
        app->listen_fd = -1; /* taken */
        rc = http_start(app, app->loop, &o, routes, &app->http, err);
    }
    credentials_forget_tls(&o);
    if (rc == 0) {
        http_set_keys(app->http, app->keys);
    }
    return rc;
}

static void print_address(const struct app *app, char *ret, size_t size)
{
    const char *address = app->config.listen_address;
    snprintf(ret, size, strchr(address, ':') != NULL ? "[%s]:%d" : "%s:%d", address,
             http_port(app->http));
}

static void address_path(const struct app *app, char ret[APP_PATH_MAX])
{
    snprintf(ret, APP_PATH_MAX, "%s/krrd.address", app->config.data_dir);
}

/* For scripts: the file appears whole, once the server listens. */
static int write_address(const struct app *app, struct err *err)
{
    char path[APP_PATH_MAX], tmp[APP_PATH_MAX], text[128];
    address_path(app, path);
    app_temporary_path(app, "address", tmp);
    print_address(app, text, sizeof(text) - 1);
    const size_t len = strlen(text);
    text[len] = '\n';
    const int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return err_errno(err, "write the address file");
    }
    int rc = file_write_all(fd, text, len + 1, err);
    rc = rc == 0 ? file_publish(fd, tmp, path, err) : rc;
    close(fd);
    return rc;
}

static void announce(const struct app *app)
{
    char address[128], text[192];
    print_address(app, address, sizeof(address));
    snprintf(text, sizeof(text), "krrd listening on %s://%s",
             app->config.tls_cert[0] == '\0' ? "http" : "https", address);
    log_msg(&app->log, LOG_INFO, "server.listening", "message", text, "address", address, NULL);
}

/* ---- The log. ---- */

static int open_log_file(const struct app *app, int *ret_fd, struct err *err)
{
    const int fd = open(app->config.log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0) {
        return err_errno(err, "open the log file");
    }
    *ret_fd = fd;
    return 0;
}

static int open_log(struct app *app, struct err *err)
{
    return app->config.log_file[0] != '\0' ? open_log_file(app, &app->log.fd, err) : 0;
}

/* The file may have been moved away meanwhile. Without the new one the old one is kept. */
static void reopen_log(struct app *app)
{
    struct err err;
    int fd = -1;
    if (app->log.fd == STDERR_FILENO) {
        log_msg(&app->log, LOG_INFO, "log.not_a_file", NULL);
    } else if (open_log_file(app, &fd, &err) < 0) {
        log_msg(&app->log, LOG_ERROR, "log.not_reopened", "detail", err.detail, NULL);
    } else {
        close(app->log.fd);
        app->log.fd = fd;
        log_msg(&app->log, LOG_INFO, "log.reopened", NULL);
    }
}

/* What comes while the daemon is being built ends it as soon as somebody is there to end it well
 * (begin): with an address, workers and a database that are put away. */
static void hold_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(how, &set, NULL);
}

/* libuv reads it when the first work comes. Who sets it himself has his way. */
static void size_pool(void)
{
    char threads[12];
    snprintf(threads, sizeof threads, "%d", POOL_THREADS);
    setenv("UV_THREADPOOL_SIZE", threads, 0);
}

int app_open(struct app *app, struct config *config, struct err *err)
{
    *app = (struct app){
        .config = *config,
        .listen_fd = -1,
        .ingests = {.most = INGESTS_AT_ONCE, .most_brief = BRIEF_INGESTS_AT_ONCE},
        .started_ms = clock_wall_ms(),
    };
    *config = (struct config){.listen_address = NULL};
    app->log = (struct log){.fd = STDERR_FILENO, .level = app->config.log_level, .program = "krrd"};
    hold_signals(SIG_BLOCK);
    signal(SIGPIPE, SIG_IGN); /* writing to a client that left is an error code, not an end */
    raise_file_limit();
    size_pool();
    int rc = open_log(app, err);
    rc = rc == 0 ? open_directories(app, err) : rc;
    rc = rc == 0 ? open_door(app, err) : rc;
    rc = rc == 0 ? open_loop(app, err) : rc;
    rc = rc == 0 ? metrics_new(routes, &app->metrics, err) : rc;
    rc = rc == 0 ? open_store(app, err) : rc;
    rc = rc == 0 ? log_copy_new(app, &app->log_copy, err) : rc;
    rc = rc == 0 ? described_new(app->store, &app->described, err) : rc;
    rc = rc == 0 ? lessons_new(app, &app->lessons, err) : rc;
    rc = rc == 0 ? timekeeper_new(app, &app->timekeeper, err) : rc;
    rc = rc == 0 ? retention_new(app, &app->retention, err) : rc;
    rc = rc == 0 ? waits_new(app, &app->waits, err) : rc;
    rc = rc == 0 ? webhooks_new(app, &app->webhooks, err) : rc;
    rc = rc == 0 ? workers_open(app, err) : rc;
    rc = rc == 0 ? storage_new(app, &app->storage, err) : rc;
    if (rc == 0) {
        workers_hear(app); /* the very first plan is to hold */
    }
    return rc == 0 ? open_http(app, err) : rc;
}

/* ---- Running and draining. ---- */

struct running {
    struct app *app;
    struct turns *turns;
    uv_signal_t term, interrupt, hangup;
    uv_timer_t drain, watchdog;
    int open; /* of the five, which live in app_run's frame */
    double deadline;
};

static void on_closed(uv_handle_t *handle)
{
    struct running *r = handle->data;
    r->open--;
}

static void on_drain_tick(uv_timer_t *timer)
{
    struct running *r = timer->data;
    const struct app *app = r->app;
    const bool idle =
        http_in_flight(app->http) == 0 && app->offloaded == 0 && trainer_idle(app->trainer);
    if (idle || clock_monotonic_s() >= r->deadline) {
        log_msg(&r->app->log, LOG_INFO, "server.drained", "complete", idle ? "true" : "false",
                NULL);
        uv_stop(timer->loop);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct running *r = handle->data;
    log_msg(&r->app->log, LOG_INFO, "server.stopping", "signal",
            number == SIGTERM ? "SIGTERM" : "SIGINT", NULL);
    if (r->app->draining) {
        uv_stop(handle->loop);
        return;
    }
    notify_send("STOPPING=1");
    r->app->draining = true;
    r->deadline = clock_monotonic_s() + r->app->config.drain_timeout_s;
    http_quiesce(r->app->http);
    waits_end(r->app->waits);
    subscribers_drain(r->app->subscribers);
    trainer_drain(r->app->trainer);
    webhooks_drain(r->app->webhooks);
    uv_timer_start(&r->drain, on_drain_tick, 0, DRAIN_TICK_MS);
}

static void on_hangup(uv_signal_t *handle, int number)
{
    const struct running *r = handle->data;
    (void)number;
    reopen_log(r->app);
    credentials_reload_keys(r->app);
}

/* From the loop itself, so that a loop that is stuck is noticed. */
static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    notify_send("WATCHDOG=1");
}

static void tell_manager(struct running *r)
{
    const uint64_t watchdog_ms = notify_watchdog_ms();
    notify_send("READY=1");
    if (watchdog_ms > 0) {
        uv_timer_start(&r->watchdog, on_watchdog, 0, watchdog_ms);
    }
}

/* Signals come first: whoever reads the address may send one. */
static int begin(struct running *r, struct err *err)
{
    int rc = uv_signal_start(&r->term, on_signal, SIGTERM);
    rc = rc == 0 ? uv_signal_start(&r->interrupt, on_signal, SIGINT) : rc;
    rc = rc == 0 ? uv_signal_start(&r->hangup, on_hangup, SIGHUP) : rc;
    if (rc != 0) {
        return err_set(err, ERR_INTERNAL, "Signals cannot be received: %s.", uv_strerror(rc));
    }
    hold_signals(SIG_UNBLOCK);
    rc = write_address(r->app, err);
    if (rc == 0) {
        announce(r->app);
        tell_manager(r);
    }
    return rc;
}

int app_run(struct app *app, struct err *err)
{
    struct running r = {.app = app, .open = 5};
    uv_loop_t *loop = app->loop;
    uv_signal_init(loop, &r.term);
    uv_signal_init(loop, &r.interrupt);
    uv_signal_init(loop, &r.hangup);
    uv_timer_init(loop, &r.drain);
    uv_timer_init(loop, &r.watchdog);
    r.term.data = r.interrupt.data = r.hangup.data = r.drain.data = r.watchdog.data = &r;
    int rc = turns_begin(app, &r.turns, err);
    rc = rc == 0 ? begin(&r, err) : rc;
    if (rc == 0) {
        uv_run(loop, UV_RUN_DEFAULT);
    }
    r.turns = turns_end(r.turns);
    uv_close((uv_handle_t *)&r.term, on_closed);
    uv_close((uv_handle_t *)&r.hangup, on_closed);
    uv_close((uv_handle_t *)&r.watchdog, on_closed);
    uv_close((uv_handle_t *)&r.interrupt, on_closed);
    signal(SIGTERM, SIG_IGN); /* the rest is short: one more signal must not cut it */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    uv_close((uv_handle_t *)&r.drain, on_closed);
    while (r.open > 0) {
        uv_run(loop, UV_RUN_NOWAIT);
    }
    return rc;
}

/* ---- Taking down, in reverse. ---- */

/* Threads of the pool work on what is about to be freed. */
static bool wait_for_threads(struct app *app)
{
    const double end = clock_monotonic_s() + thread_grace_s;
    while (app->offloaded > 0 && clock_monotonic_s() < end) {
        uv_run(app->loop, UV_RUN_NOWAIT);
        uv_sleep(1);
    }
    return app->offloaded == 0;
}

static void close_loop(struct app *app)
{
    if (app->loop != NULL) {
        uv_run(app->loop, UV_RUN_DEFAULT); /* the handles that are closing */
        uv_loop_close(app->loop);
        app->loop = mem_free(app->loop);
    }
}

bool app_close(struct app *app)
{
    app->draining = true; /* after a start that failed, too: a claimed job loses no attempt */
    if (app->http != NULL) {
        char path[APP_PATH_MAX];
        address_path(app, path);
        unlink(path);
    }
    if (app->subscribers != NULL) {
        subscribers_stop(app->subscribers);
    }
    app->http = http_stop(app->http);
    if (app->listen_fd >= 0) {
        close(app->listen_fd);
    }
    webhooks_stop(app->webhooks);
    app->storage = storage_stop(app->storage);
    app->keys = keys_free(app->keys);
    workers_close(app); /* the loop runs meanwhile, and what asks for the time may ask */
    app->waits = waits_stop(app->waits);
    app->retention = retention_stop(app->retention);
    app->timekeeper = timekeeper_stop(app->timekeeper);
    const bool idle = app->loop == NULL || wait_for_threads(app);
    app->lessons = lessons_free(app->lessons);
    app->described = described_free(app->described);
    app->log_copy = log_copy_free(app->log_copy);
    app->store = store_close(app->store);
    if (idle) {
        app->metrics = metrics_free(app->metrics);
        close_loop(app);
        app->webhooks = webhooks_free(app->webhooks);
        config_deinit(&app->config);
    }
    return idle;
}
