#include "server/webhooks/webhooks.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/metrics.h"
#include "server/offload.h"
#include "server/timekeeper.h"
#include "server/webhooks/address.h"
#include "server/webhooks/post.h"
#include "server/webhooks/sign.h"
#include "store/webhooks.h"

enum {
    LOOK_MS = 250,
    AT_ONCE = 2,
    PATIENCE_MS = 5000, /* until the store is asked again that did not take a result */
    GONE = 410
};
#define CA_FILE_MAX ((size_t)16 << 20)
static const double longest_wait_s = WEBHOOK_WAIT_MAX_MS / 1e3;

struct webhooks {
    struct app *app;
    uv_timer_t timer;
    struct sign_secrets secrets;
    struct address_list also;
    const char *under_way[AT_ONCE]; /* ids */
    int count;
    bool stopped;
    atomic_bool stopping; /* read by the threads that send */
};

/* One attempt. */
struct attempt {
    struct webhooks *all;
    struct webhook_row row;
    char *signature;
    struct post post;
    struct post_result result;
    double seconds; /* that it took */
};

/* ---- checks ---- */

int webhooks_check(const struct app *app, const struct webhook_spec *spec, struct err *err)
{
    if (spec->url[0] == '\0') {
        return 0;
    }
    if (app->webhooks == NULL) {
        return err_at(err, ERR_INVALID, "#/webhook", "This server sends no webhooks (--webhooks).");
    }
    const bool https = strncmp(spec->url, "https:", 6) == 0;
    if (!https && !app->config.webhook_http) {
        return err_at(err, ERR_INVALID, "#/webhook/url",
                      "The address must begin with https:// (--webhook-http allows others).");
    }
    const char *host = spec->url + (https ? 8 : 7);
    const size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    if (!address_host_allowed(host, len, &app->webhooks->also)) {
        return err_at(err, ERR_INVALID, "#/webhook/url",
                      "Webhooks may not go to this address; the operator can allow it "
                      "(--webhook-allow).");
    }
    return 0;
}

/* ---- what came of it ---- */

static void attempt_free(struct attempt *a)
{
    webhook_row_deinit(&a->row);
    mem_free(a->signature);
    mem_free(a);
}

static void count(const struct attempt *a, const struct webhook_result *r, int64_t now)
{
    struct metrics_registry *m = a->all->app->metrics;
    const enum metric_webhook outcome = r->error == NULL     ? WEBHOOK_DELIVERED
                                        : r->message == NULL ? WEBHOOK_RETRIED
                                                             : WEBHOOK_GIVEN_UP;
    metrics_count(m, METRIC_WEBHOOK_ATTEMPTS, (int)outcome, 0, 1);
    metrics_observe(m, METRIC_WEBHOOK_ATTEMPT_SECONDS, 0, 0, a->seconds);
    if (outcome == WEBHOOK_DELIVERED) {
        const double s = (double)(now - a->row.created_ms) / 1e3;
        metrics_observe(m, METRIC_WEBHOOK_DELIVERY_SECONDS, 0, 0, s > 0.0 ? s : 0.0);
    }
}

/* Milliseconds to the next attempt, of which the last half is left out by chance. */
static int64_t wait_ms(const struct config *c, int64_t attempts)
{
    uint32_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits) {
        bits = 0;
    }
    const double wait = fmin(c->webhook_retry_s * exp2((double)(attempts - 1)), longest_wait_s);
    return (int64_t)(1e3 * wait * (1.0 - 0.5 * bits / 4294967296.0));
}

static int record(struct attempt *a)
{
    struct app *app = a->all->app;
    char message[480];
    struct err err;
    const int64_t now = clock_wall_ms(), attempts = a->row.attempts + 1;
    const int64_t age = timekeeper_cautious_ms(app->timekeeper) - a->row.created_ms;
    struct webhook_result r = {.state = "delivered", .status = a->result.status};
    if (a->result.error[0] != '\0') {
        const int64_t wait = wait_ms(&app->config, attempts);
        const bool over = (double)(age + wait) > 1e3 * app->config.webhook_give_up_s;
        r.error = a->result.error;
        r.next_ms = now + wait;
        r.state = over || r.status == GONE ? "given_up" : "pending";
        r.message = over || r.status == GONE ? message : NULL;
        snprintf(message, sizeof message, "The webhook was given up after %lld attempts: %s",
                 (long long)attempts, a->result.error);
    }
    const int rc = webhooks_record(app->store, a->row.id, &r, now, &err);
    if (rc == 0) {
        count(a, &r, now);
    }
    log_msg(&app->log, rc < 0 || r.error ? LOG_WARNING : LOG_INFO,
            rc < 0 ? "webhook.not_recorded" : "webhook.sent", "webhook", a->row.id, "job",
            a->row.job, "state", r.state, "detail", rc < 0 ? err.detail : r.error, NULL);
    return rc;
}

/* ---- sending ---- */

static void work(void *context)
{
    struct attempt *a = context;
    const double began = clock_monotonic_s();
    post_send(&a->post, &a->result);
    a->seconds = clock_monotonic_s() - began;
}

static void look(struct webhooks *w);

static void on_timer(uv_timer_t *timer)
{
    look(timer->data);
}

static void done(struct app *app, struct request *rq, void *context)
{
    struct attempt *a = context;
    struct webhooks *w = a->all;
    (void)app;
    (void)rq;
    /* Of a daemon that is taken down already nothing is recorded: it is sent once more. */
    const int rc = w->stopped ? 0 : record(a);
    w->count--;
    w->under_way[0] = w->under_way[0] == a->row.id ? w->under_way[w->count] : w->under_way[0];
    attempt_free(a);
    if (rc < 0 && !w->stopped) {
        uv_timer_start(&w->timer, on_timer, PATIENCE_MS, LOOK_MS);
    } else if (!w->stopped) {
        look(w);
    }
}

static int prepare(struct attempt *a)
{
    const struct config *c = &a->all->app->config;
    const int64_t now_s = clock_wall_ms() / 1000;
    a->signature = sign_message(&a->all->secrets, a->row.id, now_s, a->row.body);
    a->post = (struct post){
        .url = a->row.url,
        .body = a->row.body,
        .id = a->row.id,
        .signature = a->signature,
        .timestamp_s = now_s,
        .http = c->webhook_http,
        .ca_file = c->webhook_ca_file,
        .timeout_s = c->webhook_timeout_s,
        .also = &a->all->also,
        .stopping = &a->all->stopping,
    };
    return a->signature ? 0 : -ERR_NO_MEMORY;
}

/* The next one that is due, if any: whether there was one. */
static bool send_next(struct webhooks *w)
{
    static const struct offload_ops ops = {.work = work, .done = done};
    struct attempt *a = mem_zalloc(sizeof *a);
    if (a == NULL) {
        return false;
    }
    a->all = w;
    const int found =
        webhooks_due(w->app->store, clock_wall_ms(), w->under_way, w->count, &a->row, NULL);
    if (found <= 0 || prepare(a) < 0 || offload(w->app, NULL, &ops, a, NULL) < 0) {
        attempt_free(a);
        return false;
    }
    w->under_way[w->count++] = a->row.id;
    return true;
}

/* What is told was durable before: a batch of the store's may hold the end of a job. */
static void look(struct webhooks *w)
{
    if (w->app->draining || w->count == AT_ONCE || app_settle(w->app, NULL) < 0) {
        return;
    }
    while (w->count < AT_ONCE && send_next(w)) {
    }
}

/* ---- life ---- */

/* Found now, and not by every message for days. */
static int check_ca_file(const char *path, struct err *err)
{
    static const char mark[] = "-----BEGIN ";
    struct err why;
    char *text = NULL;
    size_t size = 0;
    if (path[0] == '\0') {
        return 0;
    }
    if (file_read_all(path, CA_FILE_MAX, &text, &size, &why) < 0) {
        return err_set(err, why.code, "--webhook-ca-file: %s", why.detail);
    }
    const bool pem = memmem(text, size, mark, strlen(mark)) != NULL;
    mem_free(text);
    return pem ? 0 : err_set(err, ERR_INVALID, "--webhook-ca-file has no certificate (PEM).");
}

int webhooks_new(struct app *app, struct webhooks **ret, struct err *err)
{
    if (!app->config.webhooks) {
        *ret = NULL;
        return 0;
    }
    struct webhooks *w = mem_zalloc(sizeof *w);
    if (w == NULL) {
        return err_no_memory(err);
    }
    w->app = app;
    int rc = sign_read(app->config.webhook_secret_file, &w->secrets, err);
    rc = rc == 0 ? check_ca_file(app->config.webhook_ca_file, err) : rc;
    rc = rc == 0 ? address_list_parse(app->config.webhook_allow, &w->also, err) : rc;
    rc = rc == 0 ? post_init(err) : rc;
    if (rc < 0) {
        mem_free(w);
        return rc;
    }
    uv_timer_init(app->loop, &w->timer);
    w->timer.data = w;
    uv_timer_start(&w->timer, on_timer, LOOK_MS, LOOK_MS);
    uv_unref((uv_handle_t *)&w->timer);
    *ret = w;
    return 0;
}

void webhooks_drain(struct webhooks *w)
{
    if (w != NULL) {
        atomic_store(&w->stopping, true);
    }
}

void webhooks_stop(struct webhooks *w)
{
    webhooks_drain(w);
    if (w != NULL) {
        w->stopped = true;
        uv_close((uv_handle_t *)&w->timer, NULL);
    }
}

struct webhooks *webhooks_free(struct webhooks *w)
{
    return mem_free(w);
}
