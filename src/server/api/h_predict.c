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
    const struct served_model *model; /* NULL: not found */
    uint64_t handle;                  /* of serving.h; 0 once answered */
};

static void predicting_free(void *user)
{
    struct predicting *p = user;
    if (p->handle) {
        serving_forget(p->app->serving, p->handle);
    }
    served_release(p->model);
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
    const int64_t outputs = a->model->outputs;
    for (int64_t i = 0; i < a->rows; i++) {
        if (i > 0) {
            buf_char(b, ',');
        }
        if (outputs == 1) {
            buf_json_number(b, a->values[i]);
        } else {
            write_numbers(b, a->values + i * outputs, outputs);
        }
    }
}

static void write_labels(struct buf *b, const struct serving_answer *a)
{
    for (int64_t i = 0; i < a->rows; i++) {
        const int64_t k = (int64_t)a->values[i];
        if (i > 0) {
            buf_char(b, ',');
        }
        buf_json_string(b, k >= 0 && k < a->model->classes ? a->model->labels[k] : "");
    }
}

static void write_scores(struct buf *b, const struct serving_answer *a)
{
    const int64_t classes = a->model->classes;
    buf_str(b, ",\"classes\":");
    buf_str(b, a->model->labels_text);
    buf_str(b, ",\"scores\":[");
    for (int64_t i = 0; i < a->rows; i++) {
        if (i > 0) {
            buf_char(b, ',');
        }
        write_numbers(b, a->scores + i * classes, classes);
    }
    buf_char(b, ']');
}

static void write_answer(struct buf *b, const struct serving_answer *a)
{
    buf_str(b, a->model->head_text);
    buf_str(b, ",\"predictions\":[");
    if (a->model->classes > 0) {
        write_labels(b, a);
    } else {
        write_targets(b, a);
    }
    buf_char(b, ']');
    if (a->scores) {
        write_scores(b, a);
    }
    buf_char(b, '}');
}

static bool are_finite(const double *values, int64_t n)
{
    bool good = true;
    for (int64_t i = 0; values && i < n; i++) {
        good &= __builtin_isfinite(values[i]) != 0;
    }
    return good;
}

static bool all_finite(const struct serving_answer *a)
{
    return are_finite(a->values, a->rows * a->model->outputs) &&
           are_finite(a->scores, a->rows * a->model->classes);
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
    write_answer(&b, a);
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
        r = models_find_served(rq, &p->model, err);
    }
    struct serving_ask ask = {.scores = true, .done = on_answer, .context = p};
    if (r == 0) {
        ask.model = p->model;
        r = instances_read(rq->body.data ? rq->body.data : "", rq->body.len, p->model->d, &ask.X,
                           &ask.rows, err);
    }
    return r < 0 ? r : serving_predict(p->app->serving, &ask, &p->handle, err);
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
