/*
 * Questions and answers of the Open Inference Protocol (version 2), as JSON and with Triton's
 * extension for binary tensors. Pure functions.
 *
 * A model has the input X, FP64 or FP32 of shape [rows, d], and the output y: FP64 [rows, targets];
 * of a classifier BYTES [rows, 1], its labels, and beside it the output scores, FP64 [rows,
 * classes]. Models with a variance have the output variance, FP64 [rows, targets or classes], which
 * is computed only where the request names it.
 *
 * A body is one JSON object, behind which the data of the tensors with a "binary_data_size" follow:
 * little-endian, row by row, without gaps. Numbers of FP32 tensors that come as JSON are rounded to
 * float32, so that both ways mean the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "server/bodies/question.h"
#include "server/serving/serving.h"

enum infer_output { INFER_Y, INFER_SCORES, INFER_VARIANCE, INFER_OUTPUTS };

/* What an output is; columns 0: the model does not have it. */
struct infer_facts {
    const char *name, *datatype;
    int64_t columns;
};
struct infer_facts infer_facts_of(const struct served_model *model, enum infer_output which);

struct infer {
    char *id;         /* owned; NULL: none */
    double timeout_s; /* 0: none */
    int64_t priority; /* 1 is the highest; 0: none */
    int output_count; /* of what is answered, in this order */
    enum infer_output outputs[INFER_OUTPUTS];
    bool binary[INFER_OUTPUTS]; /* by enum infer_output */
};

void infer_deinit(struct infer *in);

/* No header: the whole body is JSON. 0: there is none, the body is X alone, as FP64, and the answer
 * is binary. */
#define INFER_NO_HEADER (-1)

/* `header` is the Inference-Header-Content-Length. */
int infer_read(const char *body, size_t len, int64_t header, const struct served_model *model,
               struct infer *ret, struct question *ret_question, struct err *err);

/* *ret_header: the length of the JSON part where binary data follow it, else 0. */
void infer_write(const struct infer *in, const struct serving_answer *a, struct buf *ret,
                 size_t *ret_header);

/* The same names, types and shapes, [{"name", "datatype", "shape"}], -1 for the rows. */
struct json *infer_describe_inputs(const struct served_model *model);
struct json *infer_describe_outputs(const struct served_model *model);
