/* Predictions by the Open Inference Protocol, version 2 (bodies/infer.h). */
#include <limits.h>
#include <stdio.h>

#include "server/api/handlers.h"
#include "server/api/models.h"
#include "server/api/prediction.h"
#include "server/app.h"
#include "server/bodies/infer.h"
#include "server/http/http_text.h"

#define LENGTH_HEADER "Inference-Header-Content-Length"

struct inference {
    struct prediction prediction; /* first */
    struct infer infer;
    int64_t header_in;
    size_t header_out; /* 0: the answer is JSON alone */
};

static struct inference *inference_of(struct prediction *p)
{
    return (struct inference *)(void *)p;
}

/* The protocol's 1 is the highest priority, and none is after all; serving.h's largest is first. */
static int serving_priority(int64_t priority)
{
    return priority == 0 || priority > INT_MAX ? 0 : INT_MAX - (int)priority + 1;
}

static int inference_read(struct prediction *p, const char *body, size_t len, struct err *err)
{
    struct inference *own = inference_of(p);
    const int r = infer_read(body, len, own->header_in, p->model, &own->infer, &p->question, err);
    if (r == 0) {
        p->deadline_s = own->infer.timeout_s > 0 ? p->began_s + own->infer.timeout_s : 0;
        p->priority = serving_priority(own->infer.priority);
    }
    return r;
}

static int inference_write(struct prediction *p, const struct serving_answer *a, struct buf *ret,
                           struct err *err)
{
    struct inference *own = inference_of(p);
    (void)err;
    infer_write(&own->infer, a, ret, &own->header_out);
    p->type = own->header_out > 0 ? "application/octet-stream" : "application/json";
    return 0;
}

static void inference_head(struct prediction *p)
{
    const struct inference *own = inference_of(p);
    if (own->header_out > 0) {
        char length[24];
        snprintf(length, sizeof length, "%zu", own->header_out);
        request_set_header(p->rq, LENGTH_HEADER, length);
    }
}

static void inference_deinit(struct prediction *p)
{
    infer_deinit(&inference_of(p)->infer);
}

static const struct prediction_ops inference_ops = {
    .size = sizeof(struct inference),
    .read = inference_read,
    .write = inference_write,
    .head = inference_head,
    .deinit = inference_deinit,
};

static int take_header_length(struct request *rq, int64_t *ret, struct err *err)
{
    const char *text = request_header(rq, LENGTH_HEADER);
    long long length = INFER_NO_HEADER;
    if (text && !http_length_read(text, &length)) {
        return err_set(err, ERR_PARSE, "The " LENGTH_HEADER " is not a number.");
    }
    *ret = length;
    return 0;
}

/* POST /v2/models/{name}[/versions/{version}]/infer */
void infer(struct request *rq)
{
    struct err err;
    int64_t header = INFER_NO_HEADER;
    if (take_header_length(rq, &header, &err) < 0) {
        reply_error(rq, &err);
        return;
    }
    struct prediction *p = prediction_new(rq, &inference_ops, models_find_served);
    if (p) {
        inference_of(p)->header_in = header;
        prediction_run(p);
    }
}
