#include "server/webhooks/webhooks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <uv.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/metrics.h"
#include "server/timekeeper.h"
#include "server/webhooks/address.h"
#include "server/webhooks/post.h"
#include "server/webhooks/sign.h"
#include "store/webhooks.h"

enum {
    LOOK_MS = 250,
    AT_ONCE = 16,
    OF_RECEIVER = 2,    /* of these, of one */
    TRIED = 8,          /* of these, such as were tried before: the first attempt finds a place */
    PATIENCE_MS = 5000, /* until the store is asked again that did not take a result */
    GONE = 410
};
#define CA_FILE_MAX ((size_t)16 << 20)
static const double longest_wait_s = WEBHOOK_WAIT_MAX_MS / 1e3;

/* One attempt. */
struct attempt {
    struct webhooks *all;
    struct webhook_row row;
    char *signature;
    struct post post;
};

struct webhooks {
    struct app *app;
    uv_timer_t timer;
    uv_async_t told; /* of results */
    struct post_office *office;
    struct sign_secrets secrets;
    struct address_list also;
    struct attempt *under_way[AT_ONCE];
    int count;
    bool stopped;
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
    const bool https = strncasecmp(spec->url, "https:", 6) == 0;
    if (!https && !app->config.webhook_http) {
        return err_at(err, ERR_INVALID, "#/webhook/url",
                      "The address must begin with https:// (--webhook-http allows others).");
    }
    if (!webhook_names_server(spec)) {
        return err_at(err, ERR_INVALID, "#/webhook/url",
                      "The address names a host, one of IPv6 in brackets, and maybe a port from 1 "
                      "to 65535.");
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
    metrics_observe(m, METRIC_WEBHOOK_ATTEMPT_SECONDS, 0, 0, a->post.result.seconds);
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
    struct webhook_result r = {.state = "delivered", .status = a->post.result.status};
    if (a->post.result.error[0] != '\0') {
        const int64_t wait = wait_ms(&app->config, attempts);
        const bool over = (double)(age + wait) > 1e3 * app->config.webhook_give_up_s;
        r.error = a->post.result.error;
        r.next_ms = now + wait;
        r.state = over || r.status == GONE ? "given_up" : "pending";
        r.message = over || r.status == GONE ? message : NULL;
        snprintf(message, sizeof message, "The webhook was given up after %lld attempts: %s",
                 (long long)attempts, a->post.result.error);
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

static void look(struct webhooks *w);

static void on_timer(uv_timer_t *timer)
{
    look(timer->data);
}

/* Of a daemon that is taken down already nothing is recorded: it is sent once more. */
static int end(struct webhooks *w, struct attempt *a)
{
    const int rc = w->stopped ? 0 : record(a);
    int at = 0;
    while (w->under_way[at] != a) {
        at++;
    }
    w->under_way[at] = w->under_way[--w->count];
    w->app->offloaded--;
    attempt_free(a);
    return rc;
}

static void close_told(struct webhooks *w)
{
    if (w->stopped && w->count == 0 && !uv_is_closing((uv_handle_t *)&w->told)) {
        uv_close((uv_handle_t *)&w->told, NULL);
    }
}

static void on_told(uv_async_t *told)
{
    struct webhooks *w = told->data;
    int rc = 0;
    struct post *next, *p = post_office_taken(w->office);
    for (; p != NULL; p = next) {
        next = p->next;
        const int r = end(w, p->context);
        rc = rc < 0 ? rc : r;
    }
    close_told(w);
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
        .context = a,
    };
    return a->signature ? 0 : -ERR_NO_MEMORY;
}

static int of_receiver(const struct webhooks *w, const char *receiver)
{
    int n = 0;
    for (int i = 0; i < w->count; i++) {
        n += strcmp(w->under_way[i]->row.receiver, receiver) == 0;
    }
    return n;
}

/* Passed by are those under way, and receivers that have enough for now: one that is slow or dead
 * holds up its own messages alone. */
static int find_next(const struct webhooks *w, struct webhook_row *ret)
{
    cleanup_json struct json *ids = json_new_array(), *receivers = json_new_array();
    int tried = 0;
    for (int i = 0; i < w->count; i++) {
        const struct webhook_row *row = &w->under_way[i]->row;
        tried += row->attempts > 0;
        json_push(ids, json_new_string(row->id));
        if (of_receiver(w, row->receiver) >= OF_RECEIVER) {
            json_push(receivers, json_new_string(row->receiver));
        }
    }
    if (!json_ok(ids) || !json_ok(receivers)) {
        return -ERR_NO_MEMORY;
    }
    const struct webhooks_busy busy = {ids, receivers, tried < TRIED};
    return webhooks_due(w->app->store, clock_wall_ms(), &busy, ret, NULL);
}

/* The next one that is due, if any: whether there was one. */
static bool send_next(struct webhooks *w)
{
    struct attempt *a = mem_zalloc(sizeof *a);
    if (a == NULL) {
        return false;
    }
    a->all = w;
    if (find_next(w, &a->row) <= 0 || prepare(a) < 0) {
        attempt_free(a);
        return false;
    }
    w->under_way[w->count++] = a;
    w->app->offloaded++;
    post_office_send(w->office, &a->post);
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
    rc = rc == 0 ? post_office_new(&w->told, &w->office, err) : rc;
    if (rc < 0) {
        mem_free(w);
        return rc;
    }
    uv_timer_init(app->loop, &w->timer);
    uv_async_init(app->loop, &w->told, on_told);
    w->timer.data = w->told.data = w;
    uv_timer_start(&w->timer, on_timer, LOOK_MS, LOOK_MS);
    uv_unref((uv_handle_t *)&w->timer);
    uv_unref((uv_handle_t *)&w->told);
    *ret = w;
    return 0;
}

void webhooks_drain(struct webhooks *w)
{
    if (w != NULL) {
        post_office_hurry(w->office);
    }
}

void webhooks_stop(struct webhooks *w)
{
    webhooks_drain(w);
    if (w != NULL) {
        w->stopped = true;
        uv_close((uv_handle_t *)&w->timer, NULL);
        close_told(w);
    }
}

struct webhooks *webhooks_free(struct webhooks *w)
{
    if (w != NULL) {
        post_office_free(w->office);
    }
    return mem_free(w);
}
