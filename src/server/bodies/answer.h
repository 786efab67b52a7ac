/*
 * Predictions as the body of an answer. Regressions are answered in their targets' own units,
 * classifications by label. A kept answer may be written on another thread.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "server/serving/serving.h"

/* A copy that outlives the call that brought the answer. Holds the model, so that it is kept and
 * freed on the loop's thread. */
struct answer_copy {
    struct serving_answer answer;
    double *numbers; /* owned */
};

int answer_keep(const struct serving_answer *a, struct answer_copy *ret, struct err *err);
void answer_copy_deinit(struct answer_copy *c);

/* -ERR_INVALID where a prediction, a score or a variance is infinite or no number. */
int answer_check(const struct serving_answer *a, struct err *err);
/* How many numbers it holds. */
int64_t answer_size(const struct serving_answer *a);

/* {"model", "version", "digest", "predictions": [...]}, and for a classification "classes" and,
 * where it has them, "scores"; then, where it has them, "variances": in the shape of the numbers
 * that they belong to, predictions or scores; then, from 0 on, "unknown_values". */
void answer_write_json(const struct serving_answer *a, int64_t unknown, struct buf *ret);

/* A line a row. Regression: a column for each target. Classification: the label in the column
 * "prediction", then, where it has scores, a column for each class. Behind these, where it has
 * variances, one of each target or class: its name and "_variance" ("_variance2" and so on, where
 * that is the name of another). With decimal commas semicolons part the cells. */
void answer_write_csv(const struct serving_answer *a, bool header, bool decimal_comma,
                      struct buf *ret);

/* float64 [rows], or [rows, outputs] for several targets. Classification: [rows, classes] scores
 * where it has them, else [rows] labels as Unicode text. With variances: [rows, 2 outputs], or
 * [rows, 2 classes] (it must have scores then): the variances stand behind what they belong to. */
void answer_write_npy(const struct serving_answer *a, struct buf *ret);
