#include "worker/session.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/ram.h"
#include "base/spin.h"
#include "wire/frame.h"
#include "worker/loaded.h"
#include "worker/measure.h"
#include "worker/pulse.h"
#include "worker/train.h"

/* Jobs that together took so many times what measuring the machine takes are followed by that;
 * after one that found nothing better, jobs that take twice as long, up to so many times. */
enum { MEASURE_SHARE = 50, PATIENCE_MOST = 64 };

/* The end of the job is not told before, and a cancel is not read. */
#define MEASURE_AGAIN_S (5.0 * MEASURE_SECONDS)

struct session {
    int fd;
    struct backend *be;
    struct frame_reader *reader;
    struct loaded *loaded;
    struct spin spin;
    struct pulse *pulse; /* all that is sent goes through it */
    struct plan_machine machine;
    double worked_s;         /* since the machine was measured */
    double patience_s;       /* before it is measured again */
    char job[ID_SIZE];       /* in training, else "" */
    bool cancel;             /* asked for the present job */
    bool pause;              /* likewise */
    bool quit;               /* after the present job */
    char start_job[ID_SIZE]; /* whose model to begin with is arriving, or has arrived */
    struct buf start;
    struct buf model; /* bytes of it that are not sent yet: fewer than FRAME_CHUNK */
};

/* ---- while a job runs: only CANCEL, PAUSE, PING and QUIT are expected ---- */

static int answer_ping(struct session *s, const struct frame *f, struct err *err)
{
    return pulse_send(s->pulse, FRAME_PONG, f->request, NULL, NULL, 0, err);
}

static void handle_in_job(struct session *s, const struct frame *f)
{
    const char *job = json_string(f->json ? json_get(f->json, "job") : NULL);
    switch (f->type) {
    case FRAME_CANCEL:
        s->cancel = s->cancel || (job && strcmp(job, s->job) == 0);
        break;
    case FRAME_PAUSE:
        s->pause = s->pause || (job && strcmp(job, s->job) == 0);
        break;
    case FRAME_QUIT:
        s->quit = true;
        break;
    case FRAME_PING:
        if (answer_ping(s, f, NULL) < 0) {
            s->cancel = s->quit = true;
        }
        break;
    default: /* The daemon speaks out of turn: end cleanly, it will start a fresh worker. */
        s->cancel = s->quit = true;
        break;
    }
}

/* The next frame that is there already, in the reader or in the socket: 1; 0: none; < 0: the daemon
 * is gone or talks nonsense. */
static int take_waiting(struct session *s, struct frame *ret)
{
    int r = frame_reader_next(s->reader, ret, NULL);
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    if (r != 0 || poll(&p, 1, 0) != 1) {
        return r;
    }
    r = frame_recv(s->fd, s->reader, ret, NULL);
    return r == 0 ? -ERR_IO : r;
}

static void look_at_socket(struct session *s)
{
    while (!s->quit) {
        struct frame f;
        int r = take_waiting(s, &f);
        if (r == 0) {
            return;
        }
        if (r < 0) {
            s->cancel = s->quit = true;
            return;
        }
        handle_in_job(s, &f);
        frame_deinit(&f);
    }
}

static bool job_cancelled(void *context)
{
    struct session *s = context;
    look_at_socket(s);
    return s->cancel;
}

static bool job_paused(void *context)
{
    struct session *s = context;
    look_at_socket(s);
    return s->pause;
}

static int job_event(void *context, const char *type, const char *level, const char *message,
                     const struct json *data, struct err *err)
{
    struct session *s = context;
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "job", s->job);
    json_set_string(j, "type", type);
    json_set_string(j, "level", level);
    json_set_string(j, "message", message);
    json_set(j, "data", data ? json_copy(data) : json_new_null());
    return j ? pulse_send(s->pulse, FRAME_EVENT, 0, j, NULL, 0, err) : err_no_memory(err);
}

static int send_model(struct session *s, const void *data, size_t size, struct err *err)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "job", s->job);
    return pulse_send(s->pulse, FRAME_MODEL, 0, j, data, size, err);
}

static int send_rest(struct session *s, struct err *err)
{
    const int r = s->model.len > 0 ? send_model(s, s->model.data, s->model.len, err) : 0;
    buf_clear(&s->model);
    return r;
}

/* The model's bytes in pieces of FRAME_CHUNK, the last but one and the last with fewer: each is a
 * row in the daemon's database, so that small ones wait for each other. */
static int job_model(void *context, const void *data, size_t size, struct err *err)
{
    struct session *s = context;
    const char *at = data;
    int r = s->model.len + size >= FRAME_CHUNK ? send_rest(s, err) : 0;
    for (; r == 0 && size >= FRAME_CHUNK; size -= FRAME_CHUNK, at += FRAME_CHUNK) {
        r = send_model(s, at, FRAME_CHUNK, err);
    }
    buf_add(&s->model, at, r == 0 ? size : 0);
    return r == 0 && s->model.failed ? err_no_memory(err) : r;
}

/* The next bytes of the model that a coming job begins with. Lack of memory is told of with the
 * job. */
static int handle_start(struct session *s, const struct frame *f)
{
    const char *job = json_string(f->json ? json_get(f->json, "job") : NULL);
    if (!job || strcmp(job, s->start_job) != 0) {
        buf_deinit(&s->start);
        snprintf(s->start_job, sizeof s->start_job, "%s", job ? job : "");
    }
    buf_add(&s->start, f->payload, f->payload_size);
    return 0;
}

static void drop_start(void *context)
{
    struct session *s = context;
    buf_deinit(&s->start);
}

/* What has arrived for the order. */
static struct train_start take_start(struct session *s, const struct order *o)
{
    const bool mine = strcmp(s->start_job, o->job) == 0;
    if (o->start_bytes == 0) {
        return (struct train_start){.data = NULL};
    }
    if (mine && s->start.failed) {
        return (struct train_start){.failure = ERR_NO_MEMORY};
    }
    if (!mine || (int64_t)s->start.len != o->start_bytes) {
        return (struct train_start){.failure = ERR_CORRUPT};
    }
    return (struct train_start){
        .data = s->start.data, .size = s->start.len, .taken = drop_start, .context = s};
}

/* The rest is given back before the daemon looks for what the next job may have. Rates that cannot
 * be measured now stay as they were. */
static void note_left(struct session *s, double seconds, struct json *done)
{
    s->worked_s += seconds;
    const double least = MEASURE_SHARE * MEASURE_SECONDS;
    if (s->machine.rates.bytes > 0 && s->worked_s >= fmax(s->patience_s, least)) {
        const bool better = measure_again(s->be, MEASURE_AGAIN_S, &s->machine.rates, NULL) > 0;
        s->patience_s = better ? least : fmin(2.0 * s->worked_s, PATIENCE_MOST * least);
        s->worked_s = 0;
    }
    mem_trim();
    plan_machine_write_left(&s->machine, ram_resident(), done);
}

static int handle_train(struct session *s, const struct frame *f, struct err *err)
{
    struct order *order = NULL;
    int r = order_read(f->json, &order, err);
    if (r < 0) {
        return r;
    }
    memcpy(s->job, order->job, sizeof s->job);
    s->cancel = s->pause = false;
    buf_clear(&s->model); /* of a job that ended in the middle of it */
    const struct train_output output = {
        .context = s,
        .event = job_event,
        .model = job_model,
        .cancelled = job_cancelled,
        .paused = job_paused,
    };
    cleanup_json struct json *done = NULL;
    const double began = clock_monotonic_s();
    r = train_run(s->be, order, take_start(s, order), &output, &done, err);
    if (r == 0) {
        r = send_rest(s, err);
    }
    s->job[0] = s->start_job[0] = '\0';
    buf_deinit(&s->start);
    buf_deinit(&s->model);
    order_free(order);
    if (r == 0) {
        note_left(s, clock_monotonic_s() - began, done);
        r = pulse_send(s->pulse, FRAME_DONE, f->request, done, NULL, 0, err);
    }
    return r;
}

/* ---- serving ---- */

static int send_model_answer(struct session *s, const struct frame *f, const char *key,
                             const struct err *failure, struct err *err)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "model", key);
    json_set_int(j, "bytes", key ? loaded_bytes(s->loaded, key) : 0);
    if (failure) {
        struct json *e = json_set_object(j, "error");
        json_set_string(e, "code", err_name(failure->code));
        json_set_string(e, "detail", failure->detail);
    }
    return pulse_send(s->pulse, FRAME_LOADED, f->request, j, NULL, 0, err);
}

static int handle_load(struct session *s, const struct frame *f, struct err *err)
{
    const char *key = json_string(json_get(f->json, "model"));
    struct err failure = {.code = ERR_OK};
    int64_t bytes = 0;
    int r = key ? json_take_int(f->json, "bytes", &bytes, &failure)
                : err_at(&failure, ERR_INVALID, "#/model", "The model's key is missing.");
    if (r == 0) {
        r = loaded_begin(s->loaded, key, bytes, &failure);
    }
    return r < 0 ? send_model_answer(s, f, key, &failure, err) : 0;
}

static int handle_chunk(struct session *s, const struct frame *f, struct err *err)
{
    const char *key = json_string(json_get(f->json, "model"));
    struct err failure = {.code = ERR_OK};
    int r = loaded_append(s->loaded, key ? key : "", f->payload, f->payload_size, &failure);
    if (r == 0 || r == -ERR_DEVICE) {
        return r == 0 ? 0 : err_set(err, ERR_DEVICE, "%s", failure.detail);
    }
    return send_model_answer(s, f, key, r < 0 ? &failure : NULL, err);
}

static int handle_unload(struct session *s, const struct frame *f)
{
    const char *key = json_string(json_get(f->json, "model"));
    loaded_drop(s->loaded, key ? key : "", NULL); /* Not there: what was wanted. */
    return 0;
}

static int send_prediction_error(struct session *s, const struct frame *f,
                                 const struct err *failure, struct err *err)
{
    cleanup_json struct json *j = json_new_object();
    struct json *e = json_set_object(j, "error");
    json_set_string(e, "code", err_name(failure->code));
    json_set_string(e, "detail", failure->detail);
    return pulse_send(s->pulse, FRAME_PREDICTION, f->request, j, NULL, 0, err);
}

static int predict(struct session *s, const struct frame *f, const char *key,
                   struct loaded_ask *ask, struct loaded_answer *ret, struct err *err)
{
    ask->X = f->payload;
    ask->values = f->payload_size / sizeof(double);
    ask->variance = json_bool(json_get(f->json, "variance"));
    ask->first_row = json_int(json_get(f->json, "first_row"));
    const int r = json_take_int(f->json, "rows", &ask->rows, err);
    return r == 0 ? loaded_predict(s->loaded, key, ask, ret, err) : r;
}

static int handle_predict(struct session *s, const struct frame *f, struct err *err)
{
    const char *named = json_string(json_get(f->json, "model")), *key = named ? named : "";
    struct err failure = {.code = ERR_OK};
    struct loaded_ask ask = {.rows = 0};
    struct loaded_answer answer;
    const double began = clock_monotonic_s();
    int r = predict(s, f, key, &ask, &answer, &failure);
    if (r == -ERR_DEVICE) {
        return err_set(err, ERR_DEVICE, "%s", failure.detail);
    }
    if (r < 0) {
        return send_prediction_error(s, f, &failure, err);
    }
    cleanup_json struct json *j = json_new_object();
    json_set_int(j, "rows", ask.rows);
    json_set_int(j, "outputs", answer.outputs);
    json_set_int(j, "scores", answer.scores);
    json_set_int(j, "variances", answer.variances);
    json_set_number(j, "seconds", clock_monotonic_s() - began);
    json_set_int(j, "bytes", loaded_bytes(s->loaded, key)); /* more, after the largest batch */
    r = pulse_send(s->pulse, FRAME_PREDICTION, f->request, j, answer.numbers, answer.bytes, err);
    mem_free(answer.numbers);
    return r;
}

/* ---- the loop ---- */

static int handle(struct session *s, const struct frame *f, struct err *err)
{
    switch (f->type) {
    case FRAME_TRAIN:
        return handle_train(s, f, err);
    case FRAME_START:
        return handle_start(s, f);
    case FRAME_CANCEL:
    case FRAME_PAUSE:
        return 0; /* The job it names has ended in the meantime. */
    case FRAME_LOAD:
        return handle_load(s, f, err);
    case FRAME_CHUNK_DATA:
        return handle_chunk(s, f, err);
    case FRAME_UNLOAD:
        return handle_unload(s, f);
    case FRAME_PREDICT:
        return handle_predict(s, f, err);
    case FRAME_PING:
        return answer_ping(s, f, err);
    case FRAME_QUIT:
        s->quit = true;
        return 0;
    default:
        return err_set(err, ERR_CORRUPT, "A frame of type %d is not for a worker.", (int)f->type);
    }
}

static int hello(struct session *s, struct err *err)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "program", "krrd-worker");
    json_set_string(j, "version", KRRD_VERSION);
    json_set_string(j, "device", s->be->ops->name);
    plan_machine_write(&s->machine, j);
    return pulse_send(s->pulse, FRAME_HELLO, 0, j, NULL, 0, err);
}

/* What it was at when the device broke gets no answer: the daemon gives it to another worker. */
static void tell_fault(struct session *s, const struct err *fault)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "detail", fault->detail);
    pulse_send(s->pulse, FRAME_FAULT, 0, j, NULL, 0, NULL);
}

/* As frame_recv. */
static int next_frame(struct session *s, struct frame *ret, struct err *err)
{
    int r = frame_reader_next(s->reader, ret, err);
    if (r == 0) {
        spin_begin(&s->spin, s->fd);
        r = frame_recv(s->fd, s->reader, ret, err);
        spin_end(&s->spin);
    }
    return r;
}

static int serve(struct session *s, struct err *err)
{
    int r = hello(s, err);
    while (r == 0 && !s->quit) {
        struct frame f;
        r = next_frame(s, &f, err);
        if (r <= 0) {
            return r;
        }
        r = handle(s, &f, err);
        frame_deinit(&f);
    }
    return r;
}

int session_run(const struct session_options *options, struct err *err)
{
    struct session s = {
        .fd = options->fd,
        .be = options->be,
        .machine = options->machine,
        .reader = frame_reader_new(),
        .loaded = loaded_new(options->be),
    };
    spin_init(&s.spin, options->busy_poll_s);
    int r = s.reader && s.loaded ? pulse_start(s.fd, options->beat_interval_s, &s.pulse, err)
                                 : err_no_memory(err);
    if (r == 0) {
        struct err failure = {.code = ERR_OK};
        r = serve(&s, &failure);
        if (r == -ERR_DEVICE) {
            tell_fault(&s, &failure);
        }
        if (r < 0 && err) {
            *err = failure;
        }
    }
    pulse_stop(s.pulse);
    buf_deinit(&s.start);
    loaded_free(s.loaded);
    frame_reader_free(s.reader);
    return r;
}
