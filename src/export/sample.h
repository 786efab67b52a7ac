/*
 * Rows on which an export is held against the server's own predictions: test rows of the job where
 * it is known which they are, else rows of the data set, else, where that is gone, the centers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "wire/model_file.h"

#define SAMPLE_ROWS_MAX 256
/* Multiply-adds that evaluating the formula on a sample may take: some tenths of a second. */
#define SAMPLE_WORK 2e8

struct sample_source {
    const char *path; /* of a data set's file; NULL: there is none */
    const int64_t
        *rows; /* [count] that may be taken, from the first on; NULL: all, evenly spread */
    int64_t count;
    const char *label; /* "test_rows" or "dataset": what they are */
};

struct sample {
    double *X; /* [rows, d] in the features' units */
    int64_t rows;
    const char *label; /* the source's, or "centers" */
};

/* Of the first of the sources that can be read, has the model's features and a row.
 * -ERR_NO_MEMORY. */
int sample_take(const struct model_file *f, const struct sample_source *sources, int count,
                struct sample *ret, struct err *err);
void sample_deinit(struct sample *s);

/* The error of an export: of the formula on the sample (formula.h) against `served`, [rows, t],
 * what the server predicted. */
struct sample_error {
    int64_t rows;
    const char *label;      /* of the sample */
    const char *arithmetic; /* "float64" or "float32" */
    double largest;         /* absolute difference, in the targets' units */
    double largest_value;   /* absolute prediction beside it */
};
int sample_measure(const struct model_file *f, bool svm, const struct sample *s,
                   const double *served, struct sample_error *ret, struct err *err);
/* {"rows","of","arithmetic","max_abs_error","max_abs_prediction"} */
struct json *sample_error_to_json(const struct sample_error *e);
