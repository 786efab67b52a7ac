/*
 * The job specification: what POST /v1/jobs takes, parsed once with the parameter tables, echoed
 * with every default filled in, and carried to the worker unchanged.
 *
 * regularization is lambda per training row; the system solved is (K + n*lambda*I) a = y.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "wire/catalog.h"
#include "wire/dataset.h"
#include "wire/dtype.h"
#include "wire/param.h"
#include "wire/promote.h"
#include "wire/search.h"
#include "wire/webhook.h"

#define SPEC_NAME_MAX 64     /* model names: [A-Za-z0-9][A-Za-z0-9._-]* */
#define SPEC_METADATA_MAX 16 /* pairs; key at most 64 bytes, value at most 512 */
#define SPEC_FEATURES_MAX 65536
#define SPEC_TARGETS_MAX 4096
/* Of names of features once, and of targets and classes twice, as JSON: what a worker tells of the
 * model, in which they stand so, is one frame (FRAME_JSON_MAX), with some numbers beside them. */
#define SPEC_NAMES_BYTES_MAX (10 << 20)
#define SPEC_CUDA_MAX 255 /* N of "cuda:N" */
#define SPEC_GPUS_MAX 8   /* of "cuda:0,1,..." */
#define SPEC_DEVICE_SIZE 40
#define SPEC_CACHE_AUTO (-1)
#define SPEC_CENTERS_MAX 1000000000

enum spec_test { SPEC_TEST_FRACTION, SPEC_TEST_DATASET, SPEC_TEST_MASK };
/* Auto: a multiple of the median, chosen on held-out rows; the default where the kernel is open. */
enum spec_bandwidth {
    SPEC_BANDWIDTH_MEDIAN,
    SPEC_BANDWIDTH_AUTO,
    SPEC_BANDWIDTH_SCALAR,
    SPEC_BANDWIDTH_PER_FEATURE
};
/* Mixed: the solver's products with float32 kernel values, all the rest in float64. Auto: the
 * engine's choice, by solver and kernel. */
enum precision { PRECISION_FLOAT64, PRECISION_FLOAT32, PRECISION_MIXED, PRECISION_AUTO };
const char *precision_name(enum precision p);

struct job_spec {
    char model[SPEC_NAME_MAX + 1];
    char dataset[ID_SIZE];
    int64_t targets; /* 0: the data set's own */
    char **target_names;
    /* 0: every column that is neither target nor mask, nor a sibling of the target (see
     * job_spec_mark_siblings) */
    int64_t features;
    char **feature_names;
    enum task task;

    struct {
        enum spec_test kind;
        double fraction; /* default 0.2; 0 = train on every row */
        char dataset[ID_SIZE];
        char *mask; /* name of a 0/1 column: 1 = test row */
    } test;
    struct {
        bool features; /* default true */
        bool target;   /* default true */
    } standardize;
    struct {
        const struct method_def *method; /* NULL: "auto" */
        struct param_set params;
        enum spec_bandwidth kind;
        double bandwidth;        /* > 0 */
        int64_t bandwidth_count; /* per feature */
        double *bandwidths;
    } kernel;
    double regularization; /* >= 0, default 1e-6; a search for it replaces it */
    /* Neither given nor searched for, and the kernel is open: chosen with that, at least the
     * default. */
    bool open_regularization;
    struct search_spec search;
    struct {
        const struct method_def *method; /* "auto" included */
        struct param_set params;
        const struct method_def *preconditioner; /* NULL: left open, or the solver has none */
        struct param_set preconditioner_params;
    } solver;
    /*
     * Of a restricted model f(x) = sum_j k(x, z_j) b_j: how the points z_j are chosen. Taken by
     * restricted solvers, and by the solver "auto", which then chooses a restricted one.
     */
    struct {
        const struct method_def *method; /* NULL: a coefficient for every training row */
        struct param_set params;
        /* 0, "auto": as many as the selector finds, where it has a size of its own, else the
         * smaller of n and ceil(10 sqrt(n)) for n training rows; the engine knows. */
        int64_t count;
        char dataset[ID_SIZE]; /* whose rows are the centers, of the method "file"; else "" */
    } centers;
    struct {
        double tolerance;       /* default 1e-6 */
        int64_t max_iterations; /* default 1000, or the solver's own (catalog.h) */
        double time_budget_s;   /* INFINITY: none */
    } stop;
    struct {                           /* coefficients to begin with, of an earlier model */
        char model[SPEC_NAME_MAX + 1]; /* "": none */
        int64_t version;               /* 0: the newest */
    } warm_start;
    struct promote_spec promote;
    struct webhook_spec webhook;
    enum precision precision;      /* default auto */
    int64_t kernel_cache_bytes;    /* of kernel values to keep, at most; or SPEC_CACHE_AUTO */
    char device[SPEC_DEVICE_SIZE]; /* "auto", "cpu", "cuda", "cuda:N", "cuda:N,M" (together) */
    int64_t seed;                  /* 0 .. 2^53 */
    int64_t priority;              /* -100 .. 100, higher first */
    int64_t max_attempts;          /* 1 .. 10, default 3 */
    struct json *metadata;         /* object of strings, or NULL */
};

/*
 * Refuses unknown fields, wrong types and values out of range with a pointer into the document.
 * `model` and `dataset` are required. A method may be named by its bare name: "kernel": "gaussian".
 * `target` is one name or a list; null stands for absent in `target`, `features`, `centers`,
 * `warm_start`, `promote`, `webhook` and `stop.time_budget_s`. A restricted solver without
 * `centers` has the catalog's first method.
 */
int job_spec_read(const struct json *j, struct job_spec **ret, struct err *err);
/* Refuses what the rest of the spec leaves without effect, at it. Of requests alone: a job that is
 * in the queue since an earlier version took it remains one. */
int job_spec_check_effects(const struct job_spec *spec, struct err *err);
/* The full document with defaults filled in; reading it back gives the same spec. NULL on lack of
 * memory. */
struct json *job_spec_write(const struct job_spec *spec);
struct job_spec *job_spec_free(struct job_spec *spec);

/* The names that a field may have ("precision", "task"), NULL-terminated. */
const char *const *job_spec_choices(const char *key);

/* A model's name obeys the rule above. */
bool spec_name_valid(const char *name);

/*
 * Siblings of what the job predicts are features only where it names them as such, or the model
 * would be given what it is to predict: of a data set with several default targets (y0, y1, …) the
 * others; of the 0/1 columns of one column of words ("city=Oslo", "city=Rome") the others, for a
 * row has one word; and of a column that tells where another one is missing that one, for what was
 * filled in shows it. Sets siblings[column] (of [columns], zeroed by the caller). Fails on lack of
 * memory alone.
 */
int job_spec_mark_siblings(const struct job_spec *spec, const struct dataset_info *info,
                           bool *siblings, struct err *err);

/*
 * Checks the spec against a data set without its numbers: target, features, mask exist and do not
 * overlap, at least one feature is left, bandwidth_count matches the number of features,
 * classification is asked for only where the target is the data set's class column, and the metrics
 * that decide a promotion will be there. Pointers as in job_spec_read.
 */
int job_spec_check_columns(const struct job_spec *spec, const struct dataset_info *info,
                           struct err *err);
/* The same of a test data set: it has every feature and target of the job, by name (features as
 * dataset_match.h has it), and for a classification no class that the training data lack. Points at
 * "#/test/dataset"; `info` is what job_spec_check_columns has passed. */
int job_spec_check_tested(const struct job_spec *spec, const struct dataset_info *info,
                          const struct dataset_info *tested, struct err *err);
/* The same of the data set whose rows are the centers: it has every feature of the job, by name.
 * Points at "#/centers/dataset"; `info` is what job_spec_check_columns has passed. */
int job_spec_check_centers(const struct job_spec *spec, const struct dataset_info *info,
                           const struct dataset_info *centers, struct err *err);

/* Of a model, what a job that begins with it must have in common with it (engine/fit/warm.h). */
struct start_model {
    int64_t features;
    const char *const *feature_names;
    int64_t targets, classes; /* classes 0: of a regression */
    const char *const *class_labels;
};
/* Once the columns are known to fit: -ERR_INVALID at "#/warm_start". */
int job_spec_check_start(const struct job_spec *spec, const struct dataset_info *info,
                         const struct start_model *m, struct err *err);
