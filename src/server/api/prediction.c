#include "server/api/prediction.h"

#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/deflate.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http_accept.h"
#include "server/http/problem.h"
#include "server/metrics.h"
#include "server/offload.h"
#include "server/serving/serving.h"

/* Beyond these another thread does it: bytes that take some 0.2 ms to read, numbers that take as
 * long to write. */
#define READ_AT_ONCE ((size_t)64 << 10)
#define WRITE_AT_ONCE 4096
#define KEPT_MAX ((size_t)1 << 20)
/* Shorter answers are not packed. */
#define PACK_MIN 1024

static void prediction_free(void *user)
{
    struct prediction *p = user;
    if (p->handle) {
        serving_forget(p->app->serving, p->handle);
    }
    if (p->ops->deinit) {
        p->ops->deinit(p);
    }
    if (p->body_size > 0) {
        http_body_done(p->app->http, p->body_size);
    }
    question_deinit(&p->question);
    answer_copy_deinit(&p->copy);
    buf_deinit(&p->body);
    buf_deinit(&p->text);
    served_release(p->model);
    mem_free(p);
}

/* user_free follows and lets the prediction go. */
static void on_gone(struct request *rq)
{
    (void)rq;
}

/* Whoever finds no room is told when to come again: with 429 where the model is asked for more than
 * it answers, with 503 where the server as a whole cannot. */
void prediction_refuse(struct prediction *p, const struct err *err)
{
    const bool lost = err->code == ERR_WORKER_LOST; /* Twice, with this question or beside it. */
    if (err->code != ERR_BUSY && !lost) {
        reply_error(p->rq, err);
        return;
    }
    const struct serving *s = p->app->serving;
    const bool crowded = !lost && !p->app->draining && serving_crowded(s, p->model->key);
    request_shed(p->rq, lost ? SHED_OTHER : SHED_PREDICTIONS, serving_retry_s(s, p->model->key));
    reply_problem(p->rq, crowded ? 429 : 503, err);
}

/* ---- another thread ---- */

/* While it works the prediction is its own, not the request's, which may end meanwhile. */
static int lend(struct prediction *p, const struct offload_ops *ops, struct err *err)
{
    const int r = offload(p->app, p->rq, ops, p, err);
    if (r == 0) {
        p->rq->user = NULL;
    }
    return r;
}

/* Back on the loop's thread; false: nobody waits, and it is gone. */
static bool take_back(struct prediction *p, struct request *rq)
{
    p->rq = rq;
    if (!rq) {
        prediction_free(p);
        return false;
    }
    rq->user = p;
    rq->on_gone = on_gone;
    return true;
}

/* ---- the answer ---- */

static int write_answer(struct prediction *p, const struct serving_answer *a, struct buf *ret,
                        struct err *err)
{
    int r = p->ops->write(p, a, ret, err);
    if (r == 0 && ret->failed) {
        r = err_no_memory(err);
    }
    if (r < 0 || !p->pack || ret->len < PACK_MIN) {
        p->pack = NULL;
        return r;
    }
    struct buf packed = BUF_INIT;
    r = deflate_pack(strcmp(p->pack, "gzip") == 0 ? DEFLATE_GZIP : DEFLATE_ZLIB, ret->data,
                     ret->len, &packed, err);
    buf_deinit(ret);
    *ret = packed;
    return r;
}

static void reply(struct prediction *p, struct buf *body)
{
    if (p->pack) {
        request_set_header(p->rq, "Content-Encoding", p->pack);
        request_set_header(p->rq, "Vary", "Accept-Encoding");
    }
    if (p->ops->head) {
        p->ops->head(p);
    }
    metrics_count(p->app->metrics, METRIC_PREDICTION_UNKNOWN, 0, 0, (double)p->question.unknown);
    const size_t size = body->len;
    char *text = buf_take(body);
    buf_deinit(body);
    reply_take(p->rq, 200, p->type, text, size);
}

static void write_work(void *context)
{
    struct prediction *p = context;
    p->status = write_answer(p, &p->copy.answer, &p->text, &p->failure);
}

static void write_done(struct app *app, struct request *rq, void *context)
{
    struct prediction *p = context;
    (void)app;
    if (!take_back(p, rq)) {
        return;
    }
    if (p->status < 0) {
        prediction_refuse(p, &p->failure);
    } else {
        reply(p, &p->text);
    }
}

static int write_elsewhere(struct prediction *p, const struct serving_answer *a, struct err *err)
{
    static const struct offload_ops ops = {.work = write_work, .done = write_done};
    const int r = answer_keep(a, &p->copy, err);
    return r < 0 ? r : lend(p, &ops, err);
}

static int answer(struct prediction *p, const struct serving_answer *a, struct err *err)
{
    int r = answer_check(a, err);
    if (r < 0 || answer_size(a) > WRITE_AT_ONCE) {
        return r < 0 ? r : write_elsewhere(p, a, err);
    }
    cleanup_buf struct buf body = BUF_INIT;
    r = write_answer(p, a, &body, err);
    if (r == 0) {
        reply(p, &body);
    }
    return r;
}

static void refuse_or_read_again(struct prediction *p, const struct err *failure);

static void on_answer(void *context, const struct serving_answer *a, const struct err *failure)
{
    struct prediction *p = context;
    struct err err;
    p->handle = 0;
    if (failure) {
        refuse_or_read_again(p, failure);
    } else if (answer(p, a, &err) < 0) {
        prediction_refuse(p, &err);
    }
}

/* ---- the question ---- */

/* Of two deadlines, 0 for none. */
static double earlier(double a, double b)
{
    return a > 0.0 && (b <= 0.0 || a < b) ? a : b;
}

static int ask(struct prediction *p, struct err *err)
{
    struct serving_ask ask = {
        .model = p->model,
        .X = p->question.X,
        .rows = p->question.rows,
        .scores = p->question.scores,
        .variance = p->question.variance,
        .deadline_s = earlier(p->deadline_s, request_deadline(p->rq)),
        .priority = p->priority,
        .done = on_answer,
        .context = p,
    };
    p->question.X = NULL; /* serving_predict takes it */
    return serving_predict(p->app->serving, &ask, &p->handle, err);
}

/* What a reading before left. */
static void clear(struct prediction *p)
{
    if (p->ops->deinit) {
        p->ops->deinit(p);
    }
    question_deinit(&p->question);
    p->question = (struct question){.X = NULL};
}

static int read_body(struct prediction *p, const struct buf *body, struct err *err)
{
    const char *text = body->data ? body->data : "";
    if (!p->unpack) {
        return p->ops->read(p, text, body->len, err);
    }
    cleanup_buf struct buf plain = BUF_INIT;
    const enum deflate_kind kind = strcmp(p->unpack, "gzip") == 0 ? DEFLATE_GZIP : DEFLATE_ZLIB;
    /* As long as a plain one. */
    const struct deflate_limit limit = {p->app->config.max_body_bytes, "--max-body-bytes"};
    const int r = deflate_unpack(kind, text, body->len, limit, &plain, err);
    return r < 0 ? r : p->ops->read(p, plain.data ? plain.data : "", plain.len, err);
}

static void read_work(void *context)
{
    struct prediction *p = context;
    clear(p);
    p->status = read_body(p, &p->body, &p->failure);
}

static void ask_or_refuse(struct prediction *p);

static void read_done(struct app *app, struct request *rq, void *context)
{
    struct prediction *p = context;
    (void)app;
    if (!take_back(p, rq)) {
        return;
    }
    if (p->status < 0) {
        prediction_refuse(p, &p->failure);
    } else {
        ask_or_refuse(p);
    }
}

static int read_elsewhere(struct prediction *p, struct err *err)
{
    static const struct offload_ops ops = {.work = read_work, .done = read_done};
    if (p->body.len == 0) {
        request_take_body(p->rq, &p->body);
        p->body_size = p->body.len;
    }
    return lend(p, &ops, err);
}

/* The version is gone. Another thread reads, also what is short: nothing is asked of serving.h in
 * the midst of what it does. */
static int read_again(struct prediction *p, const struct err *failure, struct err *err)
{
    const struct served_model *model;
    int r = p->find(p->rq, &model, err);
    if (r < 0) {
        return r;
    }
    if (model->key == p->model->key) {
        served_release(model);
        *err = *failure;
        return -(int)err->code;
    }
    served_release(p->model);
    p->model = model;
    return read_elsewhere(p, err);
}

static void refuse_or_read_again(struct prediction *p, const struct err *failure)
{
    struct err err = *failure;
    const bool kept = p->body.len > 0 || p->rq->body.len > 0;
    if (failure->code != ERR_NOT_FOUND || !kept || read_again(p, failure, &err) < 0) {
        prediction_refuse(p, &err);
    }
}

/* A body is kept for the case that its version is deleted before the model has answered: while it
 * loads, and only short ones, since all requests share the room for bodies. */
static void ask_or_refuse(struct prediction *p)
{
    struct err err;
    if (ask(p, &err) < 0) {
        refuse_or_read_again(p, &err);
    } else if (p->body_size > 0 &&
               (p->body.len > KEPT_MAX ||
                serving_state(p->app->serving, p->model->key) == SERVING_LOADED)) {
        http_body_done(p->app->http, p->body_size);
        p->body_size = 0;
        buf_deinit(&p->body);
    }
}

/* "gzip" and "deflate", the only ones known, or NULL for the plain body. */
static int take_coding(struct prediction *p, struct err *err)
{
    const char *coding = request_header(p->rq, "Content-Encoding");
    if (!coding || strcasecmp(coding, "identity") == 0) {
        return 0;
    }
    const bool gzip = strcasecmp(coding, "gzip") == 0 || strcasecmp(coding, "x-gzip") == 0;
    if (!gzip && strcasecmp(coding, "deflate") != 0) {
        request_set_header(p->rq, "Accept-Encoding", "gzip, deflate");
        return err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_ENCODING,
                      "The Content-Encoding may be gzip or deflate.");
    }
    p->unpack = gzip ? "gzip" : "deflate";
    return 0;
}

static int run(struct prediction *p, struct err *err)
{
    int r = take_coding(p, err);
    if (r < 0) {
        return r;
    }
    cleanup_mem char *accepted = request_header_list(p->rq, "Accept-Encoding");
    p->pack = http_accept_encoding(accepted);
    if (p->unpack || p->rq->body.len > READ_AT_ONCE) {
        return read_elsewhere(p, err);
    }
    r = read_body(p, &p->rq->body, err);
    if (r == 0) {
        ask_or_refuse(p);
    }
    return r;
}

void prediction_run(struct prediction *p)
{
    struct err err;
    if (run(p, &err) < 0) {
        prediction_refuse(p, &err);
    }
}

struct prediction *prediction_new(struct request *rq, const struct prediction_ops *ops,
                                  prediction_find find)
{
    struct err err;
    struct prediction *p = mem_zalloc(ops->size);
    int r = p ? find(rq, &p->model, &err) : err_no_memory(&err);
    if (r < 0) {
        mem_free(p);
        reply_error(rq, &err);
        return NULL;
    }
    p->ops = ops;
    p->find = find;
    p->rq = rq;
    p->app = rq->app;
    p->began_s = clock_monotonic_s();
    rq->user = p;
    rq->user_free = prediction_free;
    rq->on_gone = on_gone;
    return p;
}
