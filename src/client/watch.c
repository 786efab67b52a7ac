#include "client/watch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/api.h"
#include "client/interrupt.h"
#include "client/show.h"
#include "client/sse.h"

/* Seconds for which a server that does not answer is asked again. */
#define PATIENCE_S 60
#define PATH_ROOM 160

struct watching {
    struct client *client;
    struct sse sse;
    struct meter meter;
    bool ended;   /* an event told of the end */
    bool got_any; /* since the last connection was made */
    /* What was reported last, shown again as time goes by: a step may take long. */
    struct buf said; /* "": nothing yet */
    double fraction;
    double since; /* monotonic seconds at which the job, as far as is known, began; 0: it has not */
};

static bool is_final(const char *status)
{
    return status && (strcmp(status, "succeeded") == 0 || strcmp(status, "failed") == 0 ||
                      strcmp(status, "cancelled") == 0);
}

static void add_member(struct buf *b, const struct json *p, const char *key, const char *label)
{
    char value[SHOW_CELL];
    show_member(p, key, value);
    if (strcmp(value, "-") != 0) {
        buf_printf(b, "  %s %s", label, value);
    }
}

/* "  8 of 30 pairs  best rmse 0.31", of a search under way. */
static void add_search(struct buf *b, const struct json *search)
{
    char label[SHOW_CELL];
    const char *metric = json_string(json_get(search, "metric"));
    const struct json *tried = json_get(search, "tried"), *pairs = json_get(search, "pairs");
    if (json_type(tried) != JSON_NUMBER || json_type(pairs) != JSON_NUMBER || metric == NULL) {
        return;
    }
    buf_printf(b, "  %.0f of %.0f pairs", json_number(tried), json_number(pairs));
    snprintf(label, sizeof label, "best %s", metric);
    add_member(b, json_get(search, "best"), "value", label);
}

/* "iterating  iteration 3  residual 0.1  0:27" */
static void show_again(struct watching *w)
{
    char ran[SHOW_CELL];
    char line[SHOW_LINE];
    if (w->since > 0) {
        show_duration(clock_monotonic_s() - w->since, ran);
        snprintf(line, sizeof line, "%s  %s", w->said.data ? w->said.data : "running", ran);
        meter_show(&w->meter, w->fraction, line);
    }
}

static void show_progress(struct watching *w, const struct json *p)
{
    struct buf b = BUF_INIT;
    char eta[SHOW_CELL];
    const char *phase = json_string(json_get(p, "phase"));
    const double iteration = json_number(json_get(p, "iteration"));
    const struct json *left = json_get(p, "eta_s");
    const struct json *step = json_get(p, "step_fraction");
    const struct json *fraction = json_get(p, "fraction");
    buf_str(&b, phase ? phase : "");
    const bool under_way = step && json_type(step) == JSON_NUMBER;
    const bool whole = phase && (strcmp(phase, "centers") == 0 || strcmp(phase, "searching") == 0);
    if (under_way && whole) {
        buf_printf(&b, " at %.0f %%", 100.0 * json_number(step));
    } else if (under_way) {
        buf_printf(&b, "  iteration %.0f at %.0f %%", iteration + 1.0, 100.0 * json_number(step));
    } else if (iteration > 0) {
        buf_printf(&b, "  iteration %.0f", iteration);
    }
    if (phase && strcmp(phase, "searching") == 0) {
        add_search(&b, json_get(p, "search"));
    }
    add_member(&b, p, "relative_residual", "residual");
    add_member(&b, p, "smape", "SMAPE");
    add_member(&b, p, "accuracy", "accuracy");
    show_remaining(left && json_type(left) == JSON_NUMBER ? json_number(left) : NAN, eta);
    if (eta[0]) {
        buf_printf(&b, "  ETA %s", eta);
    }
    const bool known = fraction && json_type(fraction) == JSON_NUMBER;
    w->fraction = known ? json_number(fraction) : (double)NAN;
    w->since = clock_monotonic_s() - json_number(json_get(p, "elapsed_s"));
    buf_deinit(&w->said);
    w->said = b;
    show_again(w);
}

/* The worker begins, or does not any more: nothing is known of how it is going. */
static void note_status(struct watching *w, const char *status)
{
    w->ended = is_final(status);
    buf_deinit(&w->said);
    w->said = (struct buf)BUF_INIT;
    w->fraction = (double)NAN;
    w->since = status && strcmp(status, "running") == 0 ? clock_monotonic_s() : 0;
}

static void look_at(struct watching *w, const struct json *event)
{
    const char *type = json_string(json_get(event, "type"));
    const char *message = json_string(json_get(event, "message"));
    const struct json *data = json_get(event, "data");
    if (type && strcmp(type, "metrics") == 0) {
        show_progress(w, data);
        return;
    }
    if (type && strcmp(type, "status") == 0) {
        note_status(w, json_string(json_get(data, "status")));
    }
    if (!w->ended && message) {
        meter_say(&w->meter, message);
    }
}

static bool on_event(void *context, const char *text, size_t size)
{
    struct watching *w = context;
    cleanup_json struct json *event = NULL;
    w->got_any = true;
    if (json_parse(text, size, &event, NULL) < 0) {
        return true; /* Of a newer server, perhaps. */
    }
    if (w->client->json) {
        api_print(event);
        fflush(stdout);
    }
    look_at(w, event);
    return !w->ended;
}

static bool on_data(void *context, const void *data, size_t size)
{
    struct watching *w = context;
    return sse_feed(&w->sse, data, size, on_event, w) && !interrupt_seen();
}

static bool go_on(void *context, int64_t sent)
{
    (void)sent;
    show_again(context);
    return !interrupt_seen();
}

/* One connection. EXIT_DONE: it is worth to look at the job, and perhaps to connect again. */
static enum exit_code listen_once(struct watching *w, const char *path)
{
    char last[96];
    struct err err;
    snprintf(last, sizeof last, "Last-Event-ID: %s", w->sse.id);
    const char *const headers[] = {w->sse.id[0] ? last : NULL, NULL};
    const struct http_ask ask = {.method = "GET",
                                 .path = path,
                                 .accept = "text/event-stream",
                                 .headers = headers,
                                 .sink = on_data,
                                 .progress = go_on,
                                 .context = w,
                                 .endless = true};
    struct http_reply reply = {.status = 0};
    sse_restart(&w->sse);
    const int r = http_call(w->client->http, &ask, &reply, &err);
    enum exit_code code = EXIT_DONE;
    if (interrupt_seen()) {
        code = EXIT_INTERRUPTED;
    } else if (r == 0 && reply.status >= 400 && reply.status != 429 && reply.status != 503) {
        meter_end(&w->meter);
        code = api_refused(&reply);
    }
    http_reply_deinit(&reply);
    return code;
}

static enum exit_code follow(struct watching *w, const char *job)
{
    struct buf path = BUF_INIT;
    buf_str(&path, "/v1/jobs");
    api_path_add(&path, job);
    buf_str(&path, "/events");
    enum exit_code code = path.failed ? EXIT_LOCAL : EXIT_DONE;
    for (int silent = 0; code == EXIT_DONE && !w->ended && silent < PATIENCE_S; silent++) {
        w->got_any = false;
        code = listen_once(w, path.data);
        silent = w->got_any ? 0 : silent;
        if (code == EXIT_DONE && !w->ended) {
            meter_show(&w->meter, NAN, "the connection was lost; connecting again");
            sleep(1);
        }
    }
    buf_deinit(&path);
    return code;
}

enum exit_code watch_job(struct client *c, const char *job, struct json **ret)
{
    struct watching w = {.client = c, .said = BUF_INIT, .fraction = NAN};
    *ret = NULL;
    meter_begin(&w.meter, c->quiet);
    interrupt_watch();
    enum exit_code code = follow(&w, job);
    meter_end(&w.meter);
    sse_deinit(&w.sse);
    buf_deinit(&w.said);
    if (code == EXIT_INTERRUPTED) {
        fprintf(stderr, "The job goes on: krr watch %s, krr cancel %s\n", job, job);
        return code;
    }
    struct buf path = BUF_INIT;
    buf_str(&path, "/v1/jobs");
    api_path_add(&path, job);
    if (code == EXIT_DONE) {
        code = api_json(c, "GET", path.failed ? NULL : path.data, NULL, ret);
    }
    buf_deinit(&path);
    return code;
}

/* ---- the end ---- */

static void print_pair(const char *name, const char *value)
{
    show_line(stdout, "%-18s %s", name, value);
}

static void print_members(const struct json *obj, const char *const *keys)
{
    char value[SHOW_CELL];
    for (; *keys; keys++) {
        show_member(obj, *keys, value);
        if (strcmp(value, "-") != 0) {
            print_pair(*keys, value);
        }
    }
}

#define TARGETS_SHOWN 16

/* A table of the first targets, where there are several. */
static void print_targets(const char *job, const struct json *targets)
{
    static const char *const heads[] = {"target", "smape", "rmse", "mae", "r2"};
    char value[SHOW_CELL];
    struct table t;
    const struct json *one = targets ? json_first(targets) : NULL;
    if (!one) {
        return;
    }
    table_begin(&t, 5, heads);
    for (int i = 0; one && i < TARGETS_SHOWN; i++, one = json_next(one)) {
        table_cell(&t, json_string(json_get(one, heads[0])));
        for (int k = 1; k < 5; k++) {
            show_member(one, heads[k], value);
            table_cell(&t, value);
        }
    }
    table_end(&t);
    if (one) {
        show_line(stdout, "more targets: krr job %s", job ? job : "JOB");
    }
}

static void print_result(const struct json *job)
{
    static const char *const of_run[] = {"iterations",
                                         "relative_residual",
                                         "whitened_residual",
                                         "log_evidence",
                                         "train_rows",
                                         "test_rows",
                                         NULL};
    static const char *const metrics[] = {"smape", "rmse", "mae", "r2", "accuracy", "auc", NULL};
    const struct json *result = json_get(job, "result");
    const char *model = json_string(json_get(job, "model"));
    const char *solver = json_string(json_get(result, "solver"));
    const char *reason = json_string(json_get(result, "stop_reason"));
    char text[SHOW_CELL];
    show_line(stdout, "%-18s %s version %.0f", "model", model ? model : "-",
              json_number(json_get(job, "model_version")));
    print_pair("solver", solver ? solver : "-");
    print_pair("ended by", reason ? reason : "-");
    show_duration(json_number(json_get(result, "seconds")), text);
    print_pair("training time", text);
    print_members(result, of_run);
    print_members(json_get(result, "metrics"), metrics);
    print_targets(json_string(json_get(job, "id")), json_get(result, "target_metrics"));
}

enum exit_code watch_report(struct client *c, const struct json *job)
{
    const char *status = json_string(json_get(job, "status"));
    const bool good = status && strcmp(status, "succeeded") == 0;
    if (c->json) {
        api_print(job);
    } else if (good) {
        print_result(job);
    }
    if (!good) {
        const char *why = json_string(json_get(json_get(job, "error"), "detail"));
        const char *reason = json_string(json_get(job, "reason"));
        complain("the job is %s (%s)%s%s", status ? status : "in an unknown state",
                 reason ? reason : "no reason given", why ? ": " : "", why ? why : "");
    }
    return good ? EXIT_DONE : EXIT_JOB_FAILED;
}
