#include "worker/train.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "engine/fit/fit.h"
#include "worker/checkpoint_file.h"
#include "worker/tested.h"

/* Progress events are durable rows in the daemon's database; four a second are plenty to watch. */
#define REPORT_EVERY_S 0.25

struct training {
    const struct order *order;
    struct train_start start;
    const struct train_output *output;
    int broken; /* < 0 once the output failed: the fit is then cancelled */
    struct err output_err;
    struct sha256 *hash;
    int64_t bytes;
    struct state *state; /* of an earlier attempt, until the solver has it */
    struct json *tested; /* a sample of the test rows, once the model is there */
    struct json *each;   /* the metrics of every target, likewise */
};

static double now(void *context)
{
    (void)context;
    return clock_monotonic_s();
}

static bool cancelled(void *context)
{
    const struct training *t = context;
    return t->broken < 0 || t->output->cancelled(t->output->context);
}

static bool paused(void *context)
{
    const struct training *t = context;
    return t->output->paused(t->output->context);
}

static int keep_checkpoint(void *context, const struct state *s, struct err *err)
{
    const struct training *t = context;
    return checkpoint_file_write(t->order->checkpoint_path, s, err);
}

static void drop_state(void *context)
{
    struct training *t = context;
    t->state = state_free(t->state);
}

static void emit(struct training *t, const char *type, const char *level, const char *message,
                 const struct json *data)
{
    if (t->broken < 0) {
        return;
    }
    t->broken = t->output->event(t->output->context, type, level, message, data, &t->output_err);
}

static void report(void *context, const struct progress *p)
{
    cleanup_json struct json *data = progress_to_json(p);
    emit(context, "metrics", "info", p->phase, data);
}

static void message(void *context, const char *level, const char *text)
{
    emit(context, "message", level, text, NULL);
}

static void tell(void *context, const char *text, const struct json *data)
{
    emit(context, "message", "info", text, data);
}

static int keep_tested(void *context, const struct tested_rows *rows, struct err *err)
{
    struct training *t = context;
    const int r = tested_sample(rows, (uint64_t)t->order->spec->seed, &t->tested, err);
    return r == 0 ? tested_targets(rows, &t->each, err) : r;
}

static int model_sink(void *context, const void *data, size_t size, struct err *err)
{
    struct training *t = context;
    sha256_update(t->hash, data, size);
    t->bytes += (int64_t)size;
    return t->output->model(t->output->context, data, size, err);
}

static enum reason reason_of_error(const struct err *err)
{
    switch (err->code) {
    case ERR_NO_MEMORY:
        return REASON_OUT_OF_MEMORY;
    case ERR_INVALID:
    case ERR_UNSUPPORTED:
        return REASON_INVALID;
    case ERR_CANCELLED:
        return REASON_CANCELLED;
    case ERR_DIVERGED:
        return REASON_DIVERGED;
    case ERR_NOT_POSITIVE_DEFINITE:
        return REASON_NOT_POSITIVE_DEFINITE;
    default:
        return REASON_FAILED;
    }
}

/* The job's error: the reason's code, and the engine's own sentence where it had one to say. */
static void set_failure(struct json *done, enum reason reason, const struct err *err)
{
    json_remove(done, "reason");
    json_set_string(done, "reason", reason_name(reason));
    if (reason == REASON_CANCELLED || reason == REASON_PAUSED) {
        return;
    }
    struct json *error = json_set_object(done, "error");
    json_set_string(error, "code", reason_name(reason));
    json_set_string(error, "detail", err->detail[0] ? err->detail : reason_sentence(reason));
    json_set_string(error, "pointer", err->pointer);
}

struct opened {
    struct dataset *train, *test, *centers; /* test and centers: NULL where the spec has none */
};

static void close_data(struct opened *d)
{
    dataset_free(d->train);
    dataset_free(d->test);
    dataset_free(d->centers);
}

/* `what` begins the sentence of an error; no path, no data set. */
static int open_one(const char *path, const char *what, struct dataset **ret, struct err *err)
{
    struct err why;
    int r = path ? dataset_open(path, ret, &why) : 0;
    return r < 0 ? err_set(err, why.code, "%s: %s", what, why.detail) : 0;
}

static int open_data(const struct order *o, struct opened *ret, struct err *err)
{
    int r = open_one(o->dataset_path, "The data set", &ret->train, err);
    if (r == 0) {
        r = open_one(o->test_dataset_path, "The test data set", &ret->test, err);
    }
    if (r == 0) {
        r = open_one(o->centers_dataset_path, "The data set of the centers", &ret->centers, err);
    }
    return r;
}

static int hand_out(struct training *t, const struct model *m, struct json *done, struct err *err)
{
    int r = model_write(m, model_sink, t, err);
    if (r < 0) {
        return r;
    }
    char digest[SHA256_HEX_SIZE];
    sha256_hex(t->hash, digest);
    json_set_string(done, "sha256", digest);
    json_set_int(done, "bytes", t->bytes);
    json_set(done, "model", model_describe(m));
    return 0;
}

static int read_earlier(const struct training *t, struct model **ret, struct err *err)
{
    if (t->start.failure != ERR_OK) {
        return err_at(err, t->start.failure, "#/warm_start", "The model to begin with: %s",
                      err_sentence(t->start.failure));
    }
    if (!t->start.data) {
        return 0;
    }
    struct err why;
    int r = model_read(t->start.data, t->start.size, ret, &why);
    if (t->start.taken) {
        t->start.taken(t->start.context);
    }
    return r < 0 ? err_set(err, why.code, "The model to begin with: %s", why.detail) : 0;
}

/* The checkpoint of an earlier attempt; one that cannot be read is told of and left aside. */
static int open_checkpoint(struct training *t, struct err *err)
{
    struct err why;
    if (!t->order->checkpoint_path) {
        return 0;
    }
    int r = checkpoint_file_read(t->order->checkpoint_path, &t->state, &why);
    if (r == -ERR_NO_MEMORY) {
        return err_no_memory(err);
    }
    if (r < 0 && r != -ERR_NOT_FOUND) {
        char text[sizeof why.detail + 64];
        snprintf(text, sizeof text, "%s It is discarded: the job begins at its beginning.",
                 why.detail);
        message(t, "warning", text);
    }
    return 0;
}

static const int64_t *planned_cache(const struct order *o)
{
    return o->planned ? &o->kernel_cache_bytes : NULL;
}

/* What the solve tells and asks on its way; `plan` and `problem` are kept by pointer. */
static struct solve_control control_of(struct training *t, const struct eta_plan *plan,
                                       const char *problem)
{
    return (struct solve_control){
        .context = t,
        .now = now,
        .cancelled = cancelled,
        .report = report,
        .message = message,
        .tell = tell,
        .report_every_s = REPORT_EVERY_S,
        .started = clock_monotonic_s(),
        .plan = plan,
        .paused = paused,
        .checkpoint = t->order->checkpoint_path ? keep_checkpoint : NULL,
        .checkpoint_every_s = t->order->checkpoint_interval_s,
        .problem = problem,
        .taken = drop_state,
    };
}

/* Fits and fills `done`; a negative return is a failure of the job, told in *err. */
static int fit_into(struct training *t, struct backend *be, struct json *done, struct err *err)
{
    char problem[SHA256_HEX_SIZE];
    const struct eta_plan plan = {.setup_s = t->order->setup_s, .finish_s = t->order->finish_s};
    struct solve_control control = control_of(t, &plan, problem);
    struct opened data = {.train = NULL};
    struct model *model = NULL, *earlier = NULL;
    struct fit_result result;
    int r = open_data(t->order, &data, err);
    if (r == 0) {
        r = read_earlier(t, &earlier, err);
    }
    if (r == 0) {
        r = order_identity(t->order, problem, err);
    }
    if (r == 0) {
        r = open_checkpoint(t, err);
    }
    if (r == 0) {
        control.resume = t->state;
        const struct fit_input in = {.train = data.train,
                                     .test = data.test,
                                     .centers = data.centers,
                                     .kernel_cache_bytes = planned_cache(t->order),
                                     .open_centers = t->order->open_centers,
                                     .earlier = &earlier,
                                     .tested = keep_tested,
                                     .context = t};
        r = fit_run(be, t->order->spec, &in, &control, &model, &result, err);
    }
    if (r == 0) {
        struct json *told = json_set(done, "result", fit_result_to_json(&result));
        json_set(told, "target_metrics", t->each ? t->each : json_new_null());
        t->each = NULL;
        if (model) {
            json_set_string(done, "reason", reason_name(result.outcome.reason));
            if (t->tested != NULL) {
                json_set(done, "test_predictions", t->tested);
                t->tested = NULL;
            }
            r = hand_out(t, model, done, err);
        } else {
            set_failure(done, result.outcome.reason, err);
        }
    }
    model_free(model);
    model_free(earlier);
    t->state = state_free(t->state);
    t->tested = json_free(t->tested);
    t->each = json_free(t->each);
    close_data(&data);
    return r;
}

static void set_absent(struct json *done, const char *key)
{
    if (!json_get(done, key)) {
        json_set(done, key, json_new_null());
    }
}

int train_run(struct backend *be, const struct order *order, struct train_start start,
              const struct train_output *output, struct json **ret_done, struct err *err)
{
    struct training t = {.order = order, .start = start, .output = output, .hash = sha256_new()};
    cleanup_json struct json *done = json_new_object();
    if (!t.hash || !done) {
        sha256_free(t.hash);
        return err_no_memory(err);
    }
    json_set_string(done, "job", order->job);
    struct err failure = {.code = ERR_OK};
    if (fit_into(&t, be, done, &failure) < 0) {
        set_failure(done, reason_of_error(&failure), &failure);
    }
    sha256_free(t.hash);
    if (failure.code == ERR_DEVICE && t.broken == 0) {
        t.broken = -ERR_DEVICE;
        t.output_err = failure;
    }
    set_absent(done, "result");
    set_absent(done, "error");
    set_absent(done, "model");
    set_absent(done, "test_predictions");
    if (t.broken < 0) {
        if (err) {
            *err = t.output_err;
        }
        return t.broken;
    }
    *ret_done = done;
    done = NULL;
    return 0;
}
