#include "server/metrics.h"

#include <stdio.h>

#include "base/mem.h"
#include "server/http/http.h"
#include "server/pool/pool.h"
#include "store/aliases.h"
#include "store/jobs.h"
#include "wire/reason.h"

/* ---- what there is ---- */

/* One label of a family, or, for routes, two that go together. */
enum label {
    LABEL_NONE,
    LABEL_ROUTE,
    LABEL_CLASS,
    LABEL_PROBLEM,
    LABEL_SHED,
    LABEL_STATUS,
    LABEL_END,
    LABEL_REASON,
    LABEL_KIND,
    LABEL_STATE,
    LABEL_PREDICTION,
    LABEL_LOAD,
    LABEL_WEBHOOK,
    LABEL_TRANSFER,
    LABEL_ALIAS
};

#define BOUNDS_MAX 16
struct bounds {
    int count;
    double at[BOUNDS_MAX];
};

struct family {
    const char *name, *help; /* without _total */
    enum metrics_kind kind;
    enum label first, second;
    const struct bounds *bounds; /* of a histogram */
    bool sparse;                 /* series that were never touched are not printed */
};

static const struct bounds latency = {
    15, {5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}};
static const struct bounds moments = {
    12, {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.25, 1}};
static const struct bounds durations = {
    13, {1e-3, 0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}};
static const struct bounds numbers = {13,
                                      {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 16384, 65536}};

#define COUNTER(id, text, words, ...)                                                              \
    [METRIC_##id] = {.name = "krrd_" text, .help = words, .kind = METRICS_COUNTER, __VA_ARGS__}
#define GAUGE(id, text, words, ...)                                                                \
    [METRIC_##id] = {.name = "krrd_" text, .help = words, .kind = METRICS_GAUGE, __VA_ARGS__}
#define HISTOGRAM(id, text, words, edges, ...)                                                     \
    [METRIC_##id] = {.name = "krrd_" text,                                                         \
                     .help = words,                                                                \
                     .kind = METRICS_HISTOGRAM,                                                    \
                     .bounds = &edges,                                                             \
                     __VA_ARGS__}

static const struct family families[METRIC_COUNT_] = {
    HISTOGRAM(REQUEST_SECONDS, "http_request_seconds",
              "Requests by their pattern, from the first header to the last byte of the answer; of "
              "event streams to their beginning.",
              latency, .first = LABEL_ROUTE, .second = LABEL_CLASS, .sparse = true),
    GAUGE(REQUESTS_IN_FLIGHT, "http_requests_in_flight",
          "Requests that are not answered completely; no event streams."),
    GAUGE(CONNECTIONS, "http_connections", "Open connections."),
    COUNTER(SHED, "requests_shed", "Requests refused or given up for lack of room or time.",
            .first = LABEL_SHED),
    COUNTER(UPLOAD_BYTES, "upload_bytes", "Bytes of data sets received, as they came."),
    GAUGE(UPLOADS, "uploads", "Data sets being received or read in."),
    COUNTER(TRANSFERS_REFUSED, "transfers_refused",
            "Data sets and models refused before any of their body was read.", .first = LABEL_ROUTE,
            .second = LABEL_PROBLEM, .sparse = true),
    GAUGE(LISTENERS, "event_listeners", "Open event streams."),
    COUNTER(LISTENER_EVENTS, "event_listener_events", "Events given to event streams."),
    GAUGE(WAITS, "job_waiters", "Requests that wait for a job to end."),

    GAUGE(JOBS, "jobs", "Jobs that have not ended, by status.", .first = LABEL_STATUS),
    COUNTER(JOBS_SUBMITTED, "jobs_submitted", "Jobs taken into the queue."),
    COUNTER(JOBS_ENDED, "jobs_ended", "Jobs that ended.", .first = LABEL_END,
            .second = LABEL_REASON, .sparse = true),
    COUNTER(JOB_ATTEMPTS, "job_attempts", "Starts of jobs on a worker."),
    COUNTER(JOB_RETRIES, "job_retries", "Starts of jobs after their first attempt."),
    HISTOGRAM(JOB_WAIT_SECONDS, "job_wait_seconds", "From queued to started.", durations, ),
    HISTOGRAM(JOB_RUN_SECONDS, "job_run_seconds", "From started to the end that its worker told.",
              durations, .first = LABEL_END),
    GAUGE(JOB_LAST_SUCCESS, "job_last_success_timestamp_seconds",
          "When a job last succeeded; 0: none has since the start."),

    COUNTER(WEBHOOK_ATTEMPTS, "webhook_attempts", "Attempts to send a webhook.",
            .first = LABEL_WEBHOOK),
    HISTOGRAM(WEBHOOK_ATTEMPT_SECONDS, "webhook_attempt_seconds",
              "How long an attempt to send a webhook took, whatever came of it.", latency, ),
    HISTOGRAM(WEBHOOK_DELIVERY_SECONDS, "webhook_delivery_seconds",
              "From the end of a job to its webhook's being taken.", durations, ),
    GAUGE(WEBHOOKS_PENDING, "webhooks_pending", "Webhooks not taken yet, nor given up."),
    GAUGE(WEBHOOKS_OLDEST, "webhooks_oldest_pending_seconds",
          "For how long the oldest pending webhook has been waiting; 0: none is."),

    GAUGE(WORKERS, "workers", "Worker processes by kind and state.", .first = LABEL_KIND,
          .second = LABEL_STATE),
    COUNTER(WORKER_RESTARTS, "worker_restarts", "Worker processes started after the first.",
            .first = LABEL_KIND),
    COUNTER(WORKER_LOST, "worker_lost", "Worker processes that ended without being asked to.",
            .first = LABEL_KIND),
    COUNTER(WORKER_QUARANTINES, "worker_quarantines",
            "Times that a worker was taken out of service.", .first = LABEL_KIND),

    COUNTER(PREDICTIONS, "predictions", "Prediction requests.", .first = LABEL_PREDICTION),
    HISTOGRAM(PREDICTION_SECONDS, "prediction_seconds",
              "From a prediction request's arrival to its answer.", latency,
              .first = LABEL_PREDICTION),
    HISTOGRAM(PREDICTION_QUEUE_SECONDS, "prediction_queue_seconds",
              "Until the request's batch was sent to a worker.", latency, ),
    COUNTER(PREDICTION_ROWS, "prediction_rows", "Rows predicted."),
    COUNTER(PREDICTION_UNKNOWN, "prediction_unknown_values",
            "Words in rows predicted that the model was not trained on."),
    HISTOGRAM(BATCH_ROWS, "prediction_batch_rows", "Rows of a batch sent to a worker.", numbers, ),
    HISTOGRAM(BATCH_REQUESTS, "prediction_batch_requests", "Requests of a batch.", numbers, ),
    HISTOGRAM(BATCH_SECONDS, "prediction_batch_seconds", "From a batch's being sent to its answer.",
              latency, ),
    GAUGE(PREDICTIONS_WAITING, "predictions_waiting", "Prediction requests not answered yet."),
    GAUGE(MODELS_LOADED, "models_loaded", "Models held by serving workers."),
    GAUGE(MODELS_BYTES, "models_loaded_bytes", "Size of the models held by serving workers."),
    COUNTER(MODEL_LOADS, "model_loads", "Models loaded into a serving worker.",
            .first = LABEL_LOAD),
    HISTOGRAM(MODEL_LOAD_SECONDS, "model_load_seconds", "How long loading a model took.",
              latency, ),
    COUNTER(MODEL_UNLOADS, "model_unloads", "Models taken out of a serving worker."),
    COUNTER(MODEL_EXPORTS, "model_exports", "Exports of models.", .first = LABEL_TRANSFER),
    COUNTER(MODEL_IMPORTS, "model_imports", "Imports of models.", .first = LABEL_TRANSFER),
    COUNTER(ALIAS_MOVES, "alias_moves", "Aliases set, rolled back, promoted or deleted.",
            .first = LABEL_ALIAS),

    COUNTER(STORE_CHANGES, "store_changes", "Transactions that changed the database."),
    HISTOGRAM(STORE_COMMIT_SECONDS, "store_commit_seconds",
              "Commits to disk, each of one or several transactions.", moments, ),
    HISTOGRAM(STORE_COMMIT_CHANGES, "store_commit_changes", "Transactions of a commit.", numbers, ),
    GAUGE(STORE_BYTES, "store_size_bytes", "Size of the database file."),
    GAUGE(STORE_LOG_BYTES, "store_log_size_bytes", "Size of the database's write-ahead log."),
    HISTOGRAM(LOOP_TURN_SECONDS, "loop_turn_seconds",
              "How long the loop worked before it looked at its sockets again.", moments, ),
    GAUGE(READY, "ready", "Whether new work would be done now."),
};

/* ---- labels ---- */

struct metrics_registry {
    const struct route *routes;
    int route_count;
    /* Of each family [first][second][stride]: one number, or of a histogram the sum and then how
     * many were at most each bound, and beyond the last. */
    double *cells[METRIC_COUNT_];
};

static int label_count(const struct metrics_registry *m, enum label l)
{
    switch (l) {
    case LABEL_NONE:
        return 1;
    case LABEL_ROUTE:
        return m->route_count + 1;
    case LABEL_CLASS:
        return 6;
    case LABEL_PROBLEM:
        return ERR_COUNT_;
    case LABEL_SHED:
        return SHED_COUNT_;
    case LABEL_STATUS:
        return JOB_CANCELLING + 1;
    case LABEL_END:
        return 3;
    case LABEL_REASON:
        return REASON_COUNT_;
    case LABEL_KIND:
        return METRIC_WORKER_KINDS_;
    case LABEL_STATE:
        return SLOT_QUARANTINED + 1;
    case LABEL_PREDICTION:
        return PREDICTION_COUNT_;
    case LABEL_LOAD:
        return LOAD_COUNT_;
    case LABEL_WEBHOOK:
        return WEBHOOK_COUNT_;
    case LABEL_TRANSFER:
        return TRANSFER_COUNT_;
    case LABEL_ALIAS:
        return ALIAS_DELETE + 1;
    }
    return 1;
}

static const char *shed_name(int i)
{
    static const char *const names[] = {
        [SHED_CONNECTIONS] = "connections",
        [SHED_BODIES] = "bodies",
        [SHED_UPLOADS] = "uploads",
        [SHED_QUEUE] = "queue",
        [SHED_WAITS] = "waits",
        [SHED_LISTENERS] = "listeners",
        [SHED_SLOW_LISTENER] = "slow_listener",
        [SHED_PREDICTIONS] = "predictions",
        [SHED_MODELS] = "models",
        [SHED_TRANSFERS] = "transfers",
        [SHED_DEADLINE] = "deadline",
        [SHED_STOPPING] = "stopping",
        [SHED_OTHER] = "other",
    };
    return names[i];
}

static void print_route(const struct metrics_registry *m, int i, struct buf *to)
{
    const bool known = i < m->route_count;
    metrics_label(to, "method", known ? m->routes[i].method : "other");
    metrics_label(to, "route", known ? m->routes[i].pattern : "other");
}

static void print_label(const struct metrics_registry *m, enum label l, int i, struct buf *to)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    static const char *const predictions[] = {"ok", "refused", "shed", "failed", "gone"};
    static const char *const loads[] = {"ok", "failed"};
    static const char *const transfers[] = {"ok", "failed", "gone"};
    static const char *const webhooks[] = {"delivered", "retried", "given_up"};
    switch (l) {
    case LABEL_NONE:
        break;
    case LABEL_ROUTE:
        print_route(m, i, to);
        break;
    case LABEL_CLASS:
        metrics_label(to, "code", classes[i]);
        break;
    case LABEL_PROBLEM:
        metrics_label(to, "reason", err_name((enum err_code)i));
        break;
    case LABEL_SHED:
        metrics_label(to, "cause", shed_name(i));
        break;
    case LABEL_STATUS:
        metrics_label(to, "status", job_status_name((enum job_status)i));
        break;
    case LABEL_END:
        metrics_label(to, "status", job_status_name((enum job_status)(JOB_SUCCEEDED + i)));
        break;
    case LABEL_REASON:
        metrics_label(to, "reason", reason_name((enum reason)i));
        break;
    case LABEL_KIND:
        metrics_label(to, "kind", slot_kind_name((enum slot_kind)i));
        break;
    case LABEL_STATE:
        metrics_label(to, "state", slot_state_name((enum slot_state)i));
        break;
    case LABEL_PREDICTION:
        metrics_label(to, "outcome", predictions[i]);
        break;
    case LABEL_LOAD:
        metrics_label(to, "outcome", loads[i]);
        break;
    case LABEL_WEBHOOK:
        metrics_label(to, "outcome", webhooks[i]);
        break;
    case LABEL_TRANSFER:
        metrics_label(to, "outcome", transfers[i]);
        break;
    case LABEL_ALIAS:
        metrics_label(to, "kind", alias_kind_name((enum alias_kind)i));
        break;
    }
}

/* ---- life ---- */

static int stride(const struct family *f)
{
    return f->kind == METRICS_HISTOGRAM ? f->bounds->count + 2 : 1;
}

int metrics_new(const struct route *routes, struct metrics_registry **ret, struct err *err)
{
    struct metrics_registry *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->routes = routes;
    while (routes[m->route_count].pattern != NULL) {
        m->route_count++;
    }
    for (int i = 0; i < METRIC_COUNT_; i++) {
        const struct family *f = &families[i];
        const int cells = label_count(m, f->first) * label_count(m, f->second) * stride(f);
        m->cells[i] = mem_zarray((size_t)cells, sizeof(double));
        if (m->cells[i] == NULL) {
            metrics_free(m);
            return err_no_memory(err);
        }
    }
    *ret = m;
    return 0;
}

struct metrics_registry *metrics_free(struct metrics_registry *m)
{
    for (int i = 0; m != NULL && i < METRIC_COUNT_; i++) {
        mem_free(m->cells[i]);
    }
    return mem_free(m);
}

int metrics_route(const struct metrics_registry *m, const struct route *route)
{
    return m == NULL ? 0 : route == NULL ? m->route_count : (int)(route - m->routes);
}

/* ---- counting ---- */

static int clamp(int i, int count)
{
    return i >= 0 && i < count ? i : count - 1;
}

static double *cell(const struct metrics_registry *m, enum metric id, int first, int second)
{
    const struct family *f = &families[id];
    const int n = label_count(m, f->second);
    const int at = clamp(first, label_count(m, f->first)) * n + clamp(second, n);
    return m->cells[id] + at * stride(f);
}

void metrics_count(struct metrics_registry *m, enum metric id, int first, int second, double by)
{
    if (m != NULL && by > 0.0) {
        *cell(m, id, first, second) += by;
    }
}

void metrics_gauge(struct metrics_registry *m, enum metric id, int first, int second, double value)
{
    if (m != NULL) {
        *cell(m, id, first, second) = value;
    }
}

void metrics_observe(struct metrics_registry *m, enum metric id, int first, int second,
                     double value)
{
    if (m == NULL || value != value) {
        return;
    }
    const struct bounds *b = families[id].bounds;
    double *c = cell(m, id, first, second);
    int i = 0;
    while (i < b->count && value > b->at[i]) {
        i++;
    }
    c[0] += value;
    c[1 + i] += 1.0;
}

static double observed(const struct family *f, const double *c)
{
    double count = 0.0;
    for (int i = 0; i <= f->bounds->count; i++) {
        count += c[1 + i];
    }
    return count;
}

double metrics_value(const struct metrics_registry *m, enum metric id, int first, int second)
{
    if (m == NULL) {
        return 0.0;
    }
    const double *c = cell(m, id, first, second);
    return families[id].kind == METRICS_HISTOGRAM ? observed(&families[id], c) : *c;
}

/* ---- printing ---- */

/* labels and le together. */
static void print_bucket(struct buf *to, const char *name, const struct buf *labels,
                         const char *bound, double count)
{
    struct buf all cleanup_buf = BUF_INIT;
    buf_add(&all, labels->data != NULL ? labels->data : "", labels->len);
    metrics_label(&all, "le", bound);
    if (all.failed) {
        to->failed = true;
    } else {
        metrics_print_sample(to, METRICS_GAUGE, name, all.data, count);
    }
}

static void print_histogram(struct buf *to, const struct family *f, const struct buf *labels,
                            const double *c)
{
    char name[96], bound[32];
    double count = 0.0;
    snprintf(name, sizeof(name), "%s_bucket", f->name);
    for (int i = 0; i < f->bounds->count; i++) {
        const double at = f->bounds->at[i];
        count += c[1 + i];
        snprintf(bound, sizeof(bound), at == (double)(int64_t)at ? "%.1f" : "%.9g", at);
        print_bucket(to, name, labels, bound, count);
    }
    count += c[1 + f->bounds->count];
    print_bucket(to, name, labels, "+Inf", count);
    const char *text = labels->data != NULL ? labels->data : "";
    snprintf(name, sizeof(name), "%s_sum", f->name);
    metrics_print_sample(to, METRICS_GAUGE, name, text, c[0]);
    snprintf(name, sizeof(name), "%s_count", f->name);
    metrics_print_sample(to, METRICS_GAUGE, name, text, count);
}

static void print_series(const struct metrics_registry *m, enum metric id, int first, int second,
                         struct buf *to)
{
    const struct family *f = &families[id];
    if (f->sparse && metrics_value(m, id, first, second) == 0.0) {
        return;
    }
    struct buf labels cleanup_buf = BUF_INIT;
    print_label(m, f->first, first, &labels);
    print_label(m, f->second, second, &labels);
    const double *c = cell(m, id, first, second);
    if (labels.failed) {
        to->failed = true;
    } else if (f->kind == METRICS_HISTOGRAM) {
        print_histogram(to, f, &labels, c);
    } else {
        metrics_print_sample(to, f->kind, f->name, labels.data != NULL ? labels.data : "", *c);
    }
}

void metrics_print(const struct metrics_registry *m, enum metrics_format format, struct buf *to)
{
    for (int id = 0; id < METRIC_COUNT_; id++) {
        const struct family *f = &families[id];
        const int n = label_count(m, f->first), k = label_count(m, f->second);
        metrics_print_head(to, format, f->kind, f->name, f->help);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < k; j++) {
                print_series(m, (enum metric)id, i, j, to);
            }
        }
    }
}
