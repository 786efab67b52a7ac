#include "server/jobs/run.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/app.h"
#include "server/pool/tail.h"
#include "store/datasets.h"
#include "store/models.h"
#include "wire/order.h"
#include "wire/reason.h"

/* ---- life ---- */

/* A chunk may be in the socket's queue for longer than the run lasts. */
static void maybe_free(struct run *run)
{
    if (run->timer_closed && !run->chunk) {
        job_report_deinit(&run->report);
        json_free(run->order);
        mem_free(run);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct run *run = handle->data;
    run->timer_closed = true;
    maybe_free(run);
}

void run_close(struct run *run)
{
    run->closed = true;
    slot_set_user(run->slot, NULL);
    slot_set_busy(run->slot, false);
    uv_close((uv_handle_t *)&run->timer, on_timer_closed);
}

struct run *run_new(struct app *app, struct slot *slot, const struct job_row *job,
                    void (*failed)(void *context, struct run *run, const struct err *err),
                    void *context)
{
    struct run *run = mem_zalloc(sizeof *run);
    if (!run || job_report_init(&run->report, app, job) < 0) {
        return mem_free(run);
    }
    run->failed = failed;
    run->context = context;
    run->slot = slot;
    run->pid = slot_pid(slot);
    run->needed = (double)job->host_bytes;
    uv_timer_init(app->loop, &run->timer);
    run->timer.data = run;
    slot_set_user(slot, run);
    slot_set_busy(slot, true);
    return run;
}

/* ---- the order ---- */

/* A data set of the job, or none: then `path` is empty. */
struct source {
    char path[APP_PATH_MAX], sha256[SHA256_HEX_SIZE];
};

struct sources {
    struct source train, test, centers;
    char checkpoint[APP_PATH_MAX];
};

static int find_source(const struct app *app, const char *dataset, struct source *ret,
                       struct err *err)
{
    struct dataset_row row;
    ret->path[0] = '\0';
    if (dataset[0] == '\0') {
        return 0;
    }
    app_dataset_path(app, dataset, ret->path);
    int r = datasets_get(app->store, dataset, &row, err);
    if (r == 0) {
        memcpy(ret->sha256, row.sha256, SHA256_HEX_SIZE);
        dataset_row_deinit(&row);
    }
    return r;
}

static int find_sources(const struct app *app, const struct job_row *job, struct sources *ret,
                        struct err *err)
{
    app_checkpoint_path(app, job->id, ret->checkpoint);
    int r = find_source(app, job->dataset, &ret->train, err);
    if (r == 0) {
        r = find_source(app, job->test_dataset, &ret->test, err);
    }
    return r < 0 ? r : find_source(app, job->centers_dataset, &ret->centers, err);
}

static char *path_of(struct source *s)
{
    return s->path[0] ? s->path : NULL;
}

static char *digest_of(struct source *s)
{
    return s->path[0] ? s->sha256 : NULL;
}

/* NaN where the plan does not have it. */
static double seconds_of(const struct json *plan, const char *key)
{
    const struct json *s = json_get(json_get(plan, "seconds"), key);
    return s && json_type(s) == JSON_NUMBER ? json_number(s) : (double)NAN;
}

/* Jobs of an earlier version may have a plan that does not say all of it. */
static void read_plan(const struct job_row *job, struct order *order)
{
    cleanup_json struct json *plan = NULL;
    if (job->plan != NULL && json_parse(job->plan, strlen(job->plan), &plan, NULL) == 0) {
        order->planned =
            json_take_int(plan, "kernel_cache_bytes", &order->kernel_cache_bytes, NULL) == 0;
        order->open_centers = json_bool(json_get(plan, "chooses_centers"));
    }
    order->setup_s = seconds_of(plan, "setup");
    order->finish_s = seconds_of(plan, "finish");
}

static int make_order(const struct app *app, const struct job_row *job, struct json *document,
                      int64_t start_bytes, struct json **ret, struct err *err)
{
    struct sources of;
    int r = find_sources(app, job, &of, err);
    if (r < 0) {
        return r;
    }
    struct order order = {
        .attempt = job->attempt,
        .document = document,
        .dataset_path = of.train.path,
        .dataset_sha256 = of.train.sha256,
        .test_dataset_path = path_of(&of.test),
        .test_dataset_sha256 = digest_of(&of.test),
        .centers_dataset_path = path_of(&of.centers),
        .centers_dataset_sha256 = digest_of(&of.centers),
        .checkpoint_path = of.checkpoint,
        .checkpoint_interval_s = app->config.checkpoint_interval_s,
        .start_bytes = start_bytes,
    };
    read_plan(job, &order);
    memcpy(order.job, job->id, sizeof order.job);
    *ret = order_write(&order);
    return *ret ? 0 : err_no_memory(err);
}

/* The model that the job begins with, where it is still there; a job that has a checkpoint may do
 * without, and the worker says so where it cannot. */
static int find_start(struct run *run, const struct job_spec *spec, int64_t *ret_bytes,
                      struct err *err)
{
    struct model_row row;
    *ret_bytes = 0;
    if (spec->warm_start.model[0] == '\0') {
        return 0;
    }
    int r = models_get(run->report.app->store, spec->warm_start.model, spec->warm_start.version,
                       &row, err);
    if (r == -ERR_NOT_FOUND) {
        return 0;
    }
    if (r == 0) {
        run->start = row.key;
        *ret_bytes = row.bytes;
        model_row_deinit(&row);
    }
    return r;
}

static int prepare(struct run *run, const struct job_row *job, struct err *err)
{
    const struct app *app = run->report.app;
    cleanup_json struct json *document = NULL;
    struct job_spec *spec = NULL;
    int64_t bytes = 0;
    int r = json_parse(job->spec, strlen(job->spec), &document, err);
    if (r == 0) {
        r = job_spec_read(document, &spec, err);
    }
    if (r == 0) {
        r = find_start(run, spec, &bytes, err);
    }
    if (r == 0) {
        r = make_order(app, job, document, bytes, &run->order, err);
    }
    job_spec_free(spec);
    return r;
}

/* ---- sending ---- */

/* A dead worker does not hear it: its loss is seen. */
static void send_word(struct run *run, enum frame_type type)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "job", run->report.job);
    slot_send(run->slot, type, 0, j, NULL, 0, NULL, NULL, NULL);
}

static int send_order(struct run *run, struct err *err)
{
    int r = slot_send(run->slot, FRAME_TRAIN, 0, run->order, NULL, 0, NULL, NULL, err);
    run->order = json_free(run->order);
    if (r == 0 && run->cancel) {
        send_word(run, FRAME_CANCEL);
    }
    if (r == 0 && run->pause) {
        send_word(run, FRAME_PAUSE);
    }
    return r;
}

static int send_next(struct run *run, struct err *err);

static void on_chunk_sent(void *context)
{
    struct run *run = context;
    struct err err;
    run->chunk = mem_free(run->chunk);
    if (run->closed) {
        maybe_free(run);
        return;
    }
    int r = send_next(run, &err);
    if (r < 0 && r != -ERR_WORKER_LOST) { /* The loss of the worker is told of by the pool. */
        run->failed(run->context, run, &err);
    }
}

/* The next chunk of the model to begin with, or, after the last one, the order. A model that is
 * deleted meanwhile arrives in part, which the worker refuses. */
static int send_next(struct run *run, struct err *err)
{
    size_t size = 0;
    struct store *store = run->report.app->store;
    int r =
        run->start ? models_chunk(store, run->start, run->next_chunk, &run->chunk, &size, err) : 0;
    if (r == 0 || r == -ERR_NOT_FOUND) {
        return send_order(run, err);
    }
    if (r < 0) {
        return r;
    }
    run->next_chunk++;
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "job", run->report.job);
    r = slot_send(run->slot, FRAME_START, 0, j, run->chunk, size, on_chunk_sent, run, err);
    if (r < 0) {
        run->chunk = mem_free(run->chunk);
    }
    return r;
}

int run_launch(struct run *run, const struct job_row *job, struct err *err)
{
    const int r = prepare(run, job, err);
    return r == 0 ? send_next(run, err) : r;
}

/* ---- cancel and pause ---- */

static void on_cancel_grace(uv_timer_t *timer)
{
    struct run *run = timer->data;
    slot_kill(run->slot, SIGKILL);
    run->ended = true;
}

/* A job looks for a cancel between two steps of its solver, a product with K for instance, or
 * pieces of what comes before them; a library's call that is long by itself, such as the
 * eigenvectors of thousands of rows, hears nothing until it returns. Before the order a word would
 * go to no job: it waits for that. */
void run_cancel(struct run *run)
{
    run->cancel = true;
    const double grace_ms = 1e3 * run->report.app->config.cancel_grace_s;
    if (!run->order) {
        send_word(run, FRAME_CANCEL);
    }
    if (!uv_is_active((uv_handle_t *)&run->timer)) {
        uv_timer_start(&run->timer, on_cancel_grace, (uint64_t)grace_ms, 0);
    }
}

void run_pause(struct run *run)
{
    run->pause = true;
    if (!run->order) {
        send_word(run, FRAME_PAUSE);
    }
}

/* ---- the loss of the worker ---- */

/* Of the error that the job ends with where no attempt is left. */
static struct json *cause_of(const struct run *run, const struct slot_end *end)
{
    struct json *j = json_new_object();
    json_set_string(j, "signal", end->signal);
    json_set(j, "exit_code",
             end->exit_code >= 0 ? json_new_number(end->exit_code) : json_new_null());
    json_set_int(j, "attempt", run->report.attempt);
    tail_lines(end->tail, json_set_array(j, "stderr"));
    return j;
}

int run_record_loss(const struct run *run, const struct slot_end *end)
{
    struct app *app = run->report.app;
    if (app->draining) {
        return job_report_put_aside(app, run->report.job);
    }
    char message[192];
    cleanup_json struct json *cause = cause_of(run, end);
    if (run->ended) {
        snprintf(message, sizeof message,
                 "The worker process did not answer the cancel within %.3g s and was ended.",
                 app->config.cancel_grace_s);
    } else {
        snprintf(message, sizeof message, "The worker process ended unexpectedly: %s.", end->cause);
    }
    return job_report_lost(&run->report, REASON_WORKER_LOST, message, cause);
}
