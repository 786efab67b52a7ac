/*
 * What a prediction request asks, read from its body: rows in the order of the model's features,
 * as float64, and how they are to be answered. Pure functions of the body, so that large ones can
 * be read on another thread.
 *
 * What is missing is filled in where the model does that (served_model.fill): null in JSON, NaN in
 * NPY and tensors, a mark of wire/missing.h in a CSV and among texts.
 *
 * All of them refuse what is not finite otherwise, rows of another width, unknown and missing
 * columns, and what a worker would not take at once (QUESTION_MAX_BYTES of numbers); errors point
 * at the row
 * ("#/instances/3"), the number ("#/instances/3/0") or the cell ("#/line/4/column/1").
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ingest/ingest.h"
#include "server/bodies/columns.h"
#include "server/serving/served.h"
#include "wire/frame.h"

#define QUESTION_MAX_BYTES ((size_t)FRAME_PAYLOAD_MAX)

struct question {
    double *X; /* [rows, model->d], owned */
    int64_t rows;
    int64_t unknown;    /* words that the model does not know, where the rules take them */
    bool scores;        /* a score for each class are wanted too */
    bool scores_said;   /* the body says whether they are */
    bool variance;      /* of targets, or of scores, is wanted too */
    bool variance_said; /* likewise */
    bool header;        /* CSV: had a header */
};

void question_deinit(struct question *q);

/* -ERR_INVALID at `pointer` where the model has no scores, or no variance: what to do then. */
int question_no_scores(const struct served_model *model, const char *pointer, struct err *err);
int question_no_variance(const struct served_model *model, const char *pointer, struct err *err);

/*
 * {"instances": rows} where a row is an array of numbers or an object by feature names, or the
 * same as
 *     {"inputs": rows}, or by columns {"inputs": {"x0": [...], "x1": [...]}}
 *     {"dataframe_split": {"columns": [...], "data": rows, "index": ...}}
 *     {"dataframe_records": rows}
 * Columns that have names may come in any order; columns.h says what they may be. Beside it:
 * return_scores (true unless given); return_variance (false unless given; true only of models that
 * have one); return_probabilities, which no model has, may be false; signature_name
 * "serving_default".
 */
int question_read_json(const char *text, size_t len, const struct served_model *model,
                       struct columns_rules rules, struct question *ret, struct err *err);

/* What is said of a CSV. */
struct csv_form {
    enum ingest_header header;
    bool decimal_comma; /* numbers have one, and commas part no cells */
};

/* RFC 4180, with commas, semicolons or tabs; quoted cells may hold line ends. Blank lines are
 * passed over, but for those between the rows of a table of one column: they lack their value. The
 * first row is a header where form.header says so, or leaves it open and the row has no number; by
 * it columns are matched (columns.h), without one they are in the order of the features. */
int question_read_csv(const char *text, size_t len, const struct served_model *model,
                      struct columns_rules rules, struct csv_form form, struct question *ret,
                      struct err *err);

/* One array [rows, d], as ingest_array.h reads them; [rows] where d is 1. */
int question_read_npy(const void *data, size_t len, const struct served_model *model,
                      struct question *ret, struct err *err);
