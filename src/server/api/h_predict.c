#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/api/instances.h"
#include "server/api/models.h"
#include "server/app.h"
#include "server/serving/serving.h"

/* A prediction on its way. Owned by the request (user / user_free). */
struct predicting {
    struct app *app;
    struct request *rq;
    struct model_row model;
    struct json *description;
    uint64_t handle; /* of serving.h; 0 once answered */
};

static void predicting_free(void *user)
{
    struct predicting *p = user;
    if (p->handle) {
        serving_forget(p->app->serving, p->handle);
    }
    json_free(p->description);
    model_row_deinit(&p->model);
    mem_free(p);
}

/* user_free follows and lets the prediction go. */
static void on_gone(struct request *rq)
{
    (void)rq;
}

/* ---- the answer ---- */

static void write_numbers(struct buf *b, const double *values, int64_t count)
{
    buf_char(b, '[');
    for (int64_t i = 0; i < count; i++) {
        if (i > 0) {
            buf_char(b, ',');
        }
        buf_json_number(b, values[i]);
    }
    buf_char(b, ']');
}

/* One prediction a row: a number, an array when there are several targets. */
static void write_targets(struct buf *b, const struct serving_answer *a)
{
    for (int64_t i = 0; i < a->rows; i++) {
        if (i > 0) {
            buf_char(b, ',');
        }
        if (a->outputs == 1) {
            buf_json_number(b, a->values[i]);
        } else {
            write_numbers(b, a->values + i * a->outputs, a->outputs);
        }
    }
}

/* The labels as an array, so that a row costs no walk along the list. */
static const char **label_table(const struct json *classes, int64_t count)
{
    const char **labels = mem_array((size_t)count, sizeof *labels);
    const struct json *label = json_first(classes);
    for (int64_t i = 0; labels && i < count; i++) {
        labels[i] = label ? json_string(label) : "";
        label = label ? json_next(label) : NULL;
    }
    return labels;
}

static void write_labels(struct buf *b, const struct json *classes, const struct serving_answer *a)
{
    const char **labels = label_table(classes, a->scores);
    if (!labels) {
        b->failed = true;
        return;
    }
    for (int64_t i = 0; i < a->rows; i++) {
        const int64_t k = (int64_t)a->values[i];
        if (i > 0) {
            buf_char(b, ',');
        }
        buf_json_string(b, k >= 0 && k < a->scores ? labels[k] : "");
    }
    mem_free((void *)labels);
}

static void write_scores(struct buf *b, const struct json *classes, const struct serving_answer *a)
{
    cleanup_mem char *text = json_print(classes);
    const double *scores = a->values + a->rows;
    buf_str(b, ",\"classes\":");
    buf_str(b, text ? text : "[]");
    buf_str(b, ",\"scores\":[");
    for (int64_t i = 0; i < a->rows; i++) {
        if (i > 0) {
            buf_char(b, ',');
        }
        write_numbers(b, scores + i * a->scores, a->scores);
    }
    buf_char(b, ']');
}

static void write_answer(struct buf *b, const struct predicting *p, const struct serving_answer *a)
{
    const struct json *classes = json_get(p->description, "classes");
    buf_str(b, "{\"model\":");
    buf_json_string(b, p->model.name);
    buf_printf(b, ",\"version\":%lld,\"predictions\":[", (long long)p->model.version);
    if (a->scores > 0) {
        write_labels(b, classes, a);
    } else {
        write_targets(b, a);
    }
    buf_char(b, ']');
    if (a->scores > 0) {
        write_scores(b, classes, a);
    }
    buf_char(b, '}');
}

static bool all_finite(const struct serving_answer *a)
{
    const int64_t n = a->rows * (a->outputs + a->scores);
    for (int64_t i = 0; i < n; i++) {
        if (!__builtin_isfinite(a->values[i])) {
            return false;
        }
    }
    return true;
}

static void on_answer(void *context, const struct serving_answer *a, const struct err *failure)
{
    struct predicting *p = context;
    struct err err;
    p->handle = 0;
    if (!failure && !all_finite(a)) {
        err_at(&err, ERR_INVALID, "#/instances",
               "The features are so large that a prediction is not a finite number.");
        failure = &err;
    }
    if (failure) {
        reply_error(p->rq, failure);
        return;
    }
    struct buf b = BUF_INIT;
    write_answer(&b, p, a);
    const size_t size = b.len;
    char *text = buf_take(&b);
    buf_deinit(&b);
    reply_take(p->rq, 200, "application/json", text, size);
}

/* ---- the question ---- */

static int start(struct predicting *p, struct err *err)
{
    struct request *rq = p->rq;
    int r = request_is_json(rq, err);
    if (r == 0) {
        r = models_find(rq, &p->model, err);
    }
    if (r == 0) {
        r = json_parse(p->model.description, strlen(p->model.description), &p->description, err);
    }
    const int64_t d = r == 0 ? json_size(json_get(p->description, "features")) : 0;
    double *X;
    int64_t rows;
    if (r == 0) {
        r = instances_read(rq->body.data ? rq->body.data : "", rq->body.len, d, &X, &rows, err);
    }
    return r < 0 ? r
                 : serving_predict(p->app->serving, &p->model, X, rows, d, on_answer, p, &p->handle,
                                   err);
}

/* POST /v1/models/{name}[/versions/{version}]/predict */
void predict(struct request *rq)
{
    struct err err;
    struct predicting *p = mem_zalloc(sizeof *p);
    if (!p) {
        err_no_memory(&err);
        reply_error(rq, &err);
        return;
    }
    p->app = rq->app;
    p->rq = rq;
    rq->user = p;
    rq->user_free = predicting_free;
    rq->on_gone = on_gone;
    if (start(p, &err) < 0) {
        reply_error(rq, &err);
    }
}
