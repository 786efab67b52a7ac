/* GET /metrics: what the registry holds, and what is looked up at the moment of asking. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/app.h"
#include "server/http/http_accept.h"
#include "server/jobs/subscribers.h"
#include "server/jobs/trainer.h"
#include "server/jobs/waits.h"
#include "server/metrics.h"
#include "server/pool/pool.h"
#include "server/process.h"
#include "store/jobs.h"
#include "store/webhooks.h"

#define TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

_Static_assert((int)METRIC_TRAIN == (int)SLOT_TRAIN && (int)METRIC_SERVE == (int)SLOT_SERVE,
               "The registry counts workers by slot_kind.");

/* ---- gauges of the registry ---- */

static void set_jobs(struct app *app)
{
    for (int status = JOB_QUEUED; status <= JOB_CANCELLING; status++) {
        int64_t count = 0;
        if (jobs_count(app->store, (enum job_status)status, &count, NULL) == 0) {
            metrics_gauge(app->metrics, METRIC_JOBS, status, 0, (double)count);
        }
    }
}

static void set_workers(struct app *app)
{
    int count[METRIC_WORKER_KINDS_][SLOT_QUARANTINED + 1] = {{0}};
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        count[slot_kind(s)][slot_state(s)]++;
    }
    for (int kind = 0; kind < METRIC_WORKER_KINDS_; kind++) {
        for (int state = 0; state <= SLOT_QUARANTINED; state++) {
            metrics_gauge(app->metrics, METRIC_WORKERS, kind, state, count[kind][state]);
        }
    }
}

static void set_webhooks(struct app *app)
{
    struct webhooks_waiting waiting;
    if (webhooks_waiting(app->store, &waiting, NULL) == 0) {
        const double age = (double)(clock_wall_ms() - waiting.oldest_ms) / 1e3;
        metrics_gauge(app->metrics, METRIC_WEBHOOKS_PENDING, 0, 0, (double)waiting.count);
        metrics_gauge(app->metrics, METRIC_WEBHOOKS_OLDEST, 0, 0,
                      waiting.count > 0 && age > 0.0 ? age : 0.0);
    }
}

static double file_size(const struct app *app, const char *name)
{
    char path[APP_PATH_MAX];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", app->config.data_dir, name);
    return stat(path, &st) == 0 ? (double)st.st_size : 0.0;
}

static void set_gauges(struct app *app)
{
    const char *reason;
    struct metrics_registry *m = app->metrics;
    set_jobs(app);
    set_workers(app);
    set_webhooks(app);
    metrics_gauge(m, METRIC_REQUESTS_IN_FLIGHT, 0, 0, http_in_flight(app->http));
    metrics_gauge(m, METRIC_CONNECTIONS, 0, 0, http_connections(app->http));
    metrics_gauge(m, METRIC_UPLOADS, 0, 0, app->uploads);
    metrics_gauge(m, METRIC_LISTENERS, 0, 0, subscribers_count(app->subscribers));
    metrics_gauge(m, METRIC_WAITS, 0, 0, waits_count(app->waits));
    metrics_gauge(m, METRIC_STORE_BYTES, 0, 0, file_size(app, "krrd.db"));
    metrics_gauge(m, METRIC_STORE_LOG_BYTES, 0, 0, file_size(app, "krrd.db-wal"));
    metrics_gauge(m, METRIC_READY, 0, 0, app_ready(app, &reason) ? 1.0 : 0.0);
}

/* ---- families beside it ---- */

struct page {
    enum metrics_format format;
    struct buf *to;
};

static void print_one(const struct page *p, enum metrics_kind kind, const char *name,
                      const char *help, const char *labels, double value)
{
    metrics_print_head(p->to, p->format, kind, name, help);
    metrics_print_sample(p->to, kind, name, labels, value);
}

static void print_process(const struct page *p, const struct app *app)
{
    struct process_usage u;
    process_usage_read(&u);
    print_one(p, METRICS_COUNTER, "process_cpu_seconds", "Processor time used, user and system.",
              "", u.cpu_s);
    print_one(p, METRICS_GAUGE, "process_resident_memory_bytes", "Resident memory.", "",
              (double)u.resident_bytes);
    print_one(p, METRICS_GAUGE, "process_virtual_memory_bytes", "Virtual memory.", "",
              (double)u.virtual_bytes);
    print_one(p, METRICS_GAUGE, "process_open_fds", "Open file descriptors.", "",
              (double)u.open_fds);
    print_one(p, METRICS_GAUGE, "process_max_fds", "Most file descriptors that may be open.", "",
              (double)u.max_fds);
    print_one(p, METRICS_GAUGE, "process_start_time_seconds", "When the process started.", "",
              (double)app->started_ms / 1e3);
    print_one(p, METRICS_INFO, "krrd_build", "What is running.", "version=\"" KRRD_VERSION "\"",
              1.0);
}

/* Of every worker that is up; their number and names are settings. */
static void print_workers(const struct page *p, const struct app *app, const char *name,
                          const char *help, double (*value)(const struct slot *s))
{
    metrics_print_head(p->to, p->format, METRICS_GAUGE, name, help);
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (slot_pid(s) == 0 || slot_device(s) == NULL) {
            continue;
        }
        struct buf labels cleanup_buf = BUF_INIT;
        metrics_label(&labels, "worker", slot_name(s));
        metrics_label(&labels, "device", slot_device(s));
        if (labels.failed) {
            p->to->failed = true;
            return;
        }
        metrics_print_sample(p->to, METRICS_GAUGE, name, labels.data, value(s));
    }
}

static double resident_bytes(const struct slot *s)
{
    return (double)process_resident_bytes(slot_pid(s));
}

static void print_page(const struct page *p, const struct app *app)
{
    metrics_print(app->metrics, p->format, p->to);
    print_workers(p, app, "krrd_worker_resident_memory_bytes", "Resident memory of a worker.",
                  resident_bytes);
    print_workers(p, app, "krrd_worker_kernel_entries_per_second",
                  "Kernel values a second, as the worker last reported of its job; 0: no job.",
                  trainer_entries_per_s);
    print_process(p, app);
    if (p->format == METRICS_OPENMETRICS) {
        buf_str(p->to, "# EOF\n");
    }
}

/* ---- the answer ---- */

/* Only who names it gets it: to people and tools that take anything goes what all of them read. */
static bool wants_openmetrics(struct request *rq)
{
    cleanup_mem char *accept = request_header_list(rq, "Accept");
    if (accept == NULL || strcasestr(accept, "openmetrics") == NULL) {
        return false;
    }
    const double open = http_accept_quality(accept, "application/openmetrics-text;version=1.0.0");
    return open > 0.0 && open >= http_accept_quality(accept, "text/plain;version=0.0.4");
}

/* GET /metrics */
void system_metrics(struct request *rq)
{
    struct app *app = rq->app;
    struct buf text = BUF_INIT;
    const bool open = wants_openmetrics(rq);
    const struct page page = {.format = open ? METRICS_OPENMETRICS : METRICS_TEXT, .to = &text};
    set_gauges(app);
    print_page(&page, app);
    const size_t size = text.len;
    char *answer = buf_take(&text);
    buf_deinit(&text);
    reply_take(rq, 200, open ? TYPE_OPENMETRICS : TYPE_TEXT, answer, size);
}
