/*
 * A data set on disk: a tensors file with one matrix "data" [rows, columns] (float32 or float64,
 * row-major) holding every column, features and targets alike, so that a job may choose among
 * them. Metadata key "dataset" holds the description below as JSON text, "sha256" the digest of the
 * matrix in hexadecimal digits (not in files of the first versions). Files are immutable.
 *
 * A class column holds 0, 1, …, classes-1; its class labels are in `classes`, in order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "wire/dataset_words.h"
#include "wire/dtype.h"
#include "wire/tensors.h"

#define DATASET_COLUMNS_MAX (1 << 20)
#define DATASET_CLASSES_MAX (1 << 20)
#define DATASET_WARNINGS_MAX 1000

enum task { TASK_AUTO, TASK_REGRESSION, TASK_CLASSIFICATION };
const char *task_name(enum task t); /* "auto", "regression", "classification" */
int task_parse(const char *name, enum task *ret, struct err *err);

/* What became of values that the table lacked (ingest/ingest_missing.h). */
struct dataset_missing {
    bool allowed;         /* else they were refused, and the rest is 0 */
    int64_t dropped_rows; /* were left out */
    int64_t filled;       /* values that were filled in */
    double *fill;         /* [columns] with what, NaN: nothing can be; NULL: rows were left out */
    int64_t *made_up;     /* [columns] how many of each; NULL with fill */
    int64_t *indicates;   /* [columns] the column of which this is 1 where it was missing, and 0
                             elsewhere; -1: it is no such column. NULL: there are none */
};

/* What is known of a data set without its numbers. Owned strings and arrays. */
struct dataset_info {
    int64_t rows;    /* >= 1 */
    int64_t columns; /* >= 1 */
    enum dtype dtype;
    char **column_names;     /* [columns], unique */
    int64_t targets;         /* number of default target columns, >= 1; 1 for classification */
    int64_t *target_columns; /* [targets], distinct indices into columns */
    enum task task;          /* REGRESSION or CLASSIFICATION */
    int64_t classes;         /* 0 for regression, else >= 1 */
    char **class_labels;     /* [classes], unique; numeric classes are printed shortest, e.g. "3" */
    int64_t warnings;
    char **warning_texts; /* [warnings] */
    struct dataset_missing missing;
    struct dataset_words words;
};

void dataset_info_deinit(struct dataset_info *info);
/* {"rows","columns","dtype","column_names":[…],"target_columns":[…],"task","classes",
 *  "class_labels":[…],"warnings":[…]}, and where values may be missing
 *  "missing":{"dropped_rows","filled","fill":null or [number or null, …],
 *  "made_up":null or [count, …]}, which has "indicates":[column or null, …] where such are made;
 *  "words" of dataset_words.h */
int dataset_info_to_json(const struct dataset_info *info, struct json **ret, struct err *err);
/* Checks every rule of the structure above; -ERR_INVALID with a pointer. */
int dataset_info_from_json(const struct json *j, struct dataset_info *ret, struct err *err);
/* Index of a column by name, or -1. */
int64_t dataset_info_column(const struct dataset_info *info, const char *name);

#define DATASET_SHA256 "sha256" /* the metadata key */

/* An open data set: mapped, read-only. */
struct dataset {
    struct dataset_info info;
    char sha256[SHA256_HEX_SIZE]; /* "": the file has none */
    struct file_map map;
    const void *data; /* [rows, columns] of info.dtype, row-major */
};
/* -ERR_CORRUPT when the description and the matrix disagree. The numbers are not looked at. */
int dataset_open(const char *path, struct dataset **ret, struct err *err);
struct dataset *dataset_free(struct dataset *d);
/* Looks at every number: -ERR_CORRUPT where the matrix does not have its digest, or a number is not
 * finite, or none of its column's classes. */
int dataset_check(const struct dataset *d, struct err *err);
/* Element (i, j) as float64. */
double dataset_at(const struct dataset *d, int64_t row, int64_t column);
