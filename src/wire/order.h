/*
 * A training order: everything a worker needs to run one job, as one JSON document
 *   {"job": "job_…", "attempt": 1, "spec": {…}, "dataset_path": "…", "test_dataset_path": "…"|null,
 *    "centers_dataset_path": "…"|null, "dataset_sha256": "…"|null, "test_dataset_sha256": "…"|null,
 *    "centers_dataset_sha256": "…"|null, "checkpoint_path": "…"|null, "checkpoint_interval_s": 30,
 *    "start_bytes": 0, "kernel_cache_bytes": 0|"auto", "open_centers": false,
 *    "setup_s": 1.5|"auto", "finish_s": 1.5|"auto"}
 * The daemon sends it in a frame; `krrd-worker --job FILE` reads it from a file.
 */
#pragma once

#include "base/sha256.h"
#include "wire/spec.h"

struct order {
    char job[ID_SIZE];     /* letters, digits, '_' and '-' */
    int64_t attempt;       /* >= 1, the default */
    struct json *document; /* the spec as the job says it */
    struct job_spec *spec; /* the same with every default; order_write goes without */
    char *dataset_path;
    char *test_dataset_path;    /* NULL unless spec->test.kind == SPEC_TEST_DATASET */
    char *centers_dataset_path; /* NULL unless spec->centers.dataset names one */
    /* Digests of the data, which bind a checkpoint to them; NULL: not known. */
    char *dataset_sha256, *test_dataset_sha256, *centers_dataset_sha256;
    /* Where the job's checkpoint is kept, and read from where there is one; NULL: nowhere. The
     * folder exists. */
    char *checkpoint_path;
    double checkpoint_interval_s; /* default 30 */
    int64_t start_bytes;          /* of the earlier model's file, sent before; 0: none was */
    bool planned;                 /* what follows is known */
    int64_t kernel_cache_bytes;   /* as the job's plan decided (plan/plan.h) */
    bool open_centers;            /* the plan chose the spec's centers, not who asked */
    double setup_s, finish_s;     /* as it expects them; NaN: not known, the default */
};
/* Pointers as in job_spec_read, behind "#/spec". */
int order_read(const struct json *j, struct order **ret, struct err *err);
struct json *order_write(const struct order *o); /* NULL on lack of memory */
/* What binds a checkpoint to the order: the document and the digests of the data, and no default
 * that the document leaves to the program, which another version may have more of. */
int order_identity(const struct order *o, char ret[SHA256_HEX_SIZE], struct err *err);
struct order *order_free(struct order *o);
