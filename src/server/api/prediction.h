/*
 * A prediction request from its body to its answer, for every protocol: the body is unpacked
 * (Content-Encoding) and read, serving.h predicts, the answer is written and packed
 * (Accept-Encoding). Small bodies and answers are read and written on the loop's thread, large ones
 * on the thread pool. When the client leaves the prediction is given up.
 *
 * A version that is deleted between its choice and the answer is no reason to refuse who asked for
 * the newest one: what is left is asked then, with the body read anew, for it may have other
 * features. A loaded model answers who asked before it was deleted (serving_delete).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/bodies/answer.h"
#include "server/bodies/question.h"
#include "server/http/http.h"

struct prediction;

/* How a protocol reads and writes. read and write may be called on any thread and touch the
 * prediction alone. */
struct prediction_ops {
    size_t size; /* of the protocol's own struct, which begins with a struct prediction */
    /* Fills p->question, and p->deadline_s and p->priority where the body says so. */
    int (*read)(struct prediction *p, const char *body, size_t len, struct err *err);
    int (*write)(struct prediction *p, const struct serving_answer *a, struct buf *ret,
                 struct err *err);
    void (*head)(struct prediction *p);   /* (optional) sets headers of the answer; loop's thread */
    void (*deinit)(struct prediction *p); /* (optional) */
};

/* Which version of a model the request means now. The caller releases *ret. */
typedef int (*prediction_find)(struct request *rq, const struct served_model **ret,
                               struct err *err);

struct prediction {
    const struct prediction_ops *ops;
    struct request *rq;               /* NULL: the client left while another thread was at work */
    const struct served_model *model; /* held */
    struct question question;
    double deadline_s; /* clock_monotonic_s(), 0: none */
    int priority;      /* larger ones go first */
    const char *type;  /* Content-Type of the answer */
    double began_s;    /* clock_monotonic_s() at which the body was there */

    /* prediction.c's own */
    struct app *app;
    uint64_t handle; /* of serving.h; 0: nothing is being predicted */
    prediction_find find;
    struct buf body;           /* while another thread reads it, or it may be read again */
    size_t body_size;          /* for http_body_done */
    const char *unpack, *pack; /* codings: "gzip", "deflate" or NULL */
    struct answer_copy copy;   /* while another thread writes it */
    struct buf text;           /* what it wrote */
    int status;                /* what it returned ... */
    struct err failure;        /* ... and why */
};

/* The prediction that the request asks for, of the model that `find` finds; NULL: it was answered
 * with a problem. The caller adds what its protocol needs, then calls prediction_run. Where the
 * version is deleted meanwhile, `find` is asked again. */
struct prediction *prediction_new(struct request *rq, const struct prediction_ops *ops,
                                  prediction_find find);
void prediction_run(struct prediction *p);
/* Answers with a problem instead. */
void prediction_refuse(struct prediction *p, const struct err *err);
