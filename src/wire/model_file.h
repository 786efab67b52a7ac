/*
 * The file of a model: a tensors file (tensors.h) with
 *
 *   coef           [m, t]  float64
 *   feature_mean   [d]     float64   feature_scale  [d]
 *   target_mean    [t]     float64   target_scale   [t]
 *   feature_fill   [d]     float64   only of models that fill in features that are missing
 *   feature_indicates [d]  float64   and where that is told: the place of the feature of which
 *                                    this one tells, being 1 where it is missing, or -1
 *   bandwidths     [d]     float64   only where the kernel has one bandwidth a feature
 *   variance_factor [m, p] float64   and
 *   prior_variance [t]     float64   noise_variance [t], of models that know their variance
 *   centers        [m, d]  float32 or float64: standardised points
 *
 * and metadata "model": kernel and its parameters, task, names, class labels, as JSON text. What
 * all this means stands in engine/model/model.h. Workers make and load such files, the daemon
 * exports and imports them; neither trusts one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "wire/catalog.h"
#include "wire/dataset.h"
#include "wire/tensors.h"

#define MODEL_FILE_TENSORS 12 /* at most */

struct model_file {
    const struct method_def *kernel; /* of the catalog */
    double bandwidth;                /* distance kernels; not looked at where `bandwidths` is set */
    double gamma, coef0;             /* the others */
    int degree;                      /* 1 unless the kernel has one */
    enum task task;                  /* not TASK_AUTO */
    int64_t m, d, t;                 /* centers, features, targets (classes) */
    int64_t p;                       /* columns of the variance's factor; 0: there is none */
    int64_t outputs;                 /* names below: t for regression, 1 for classification */
    char **feature_names;            /* [d] */
    char **target_names;             /* [outputs] */
    char **class_labels;             /* [t] for classification, else NULL */
    enum dtype dtype;                /* of centers */
    const double *coef, *feature_mean, *feature_scale, *target_mean, *target_scale;
    const double *feature_fill;                                      /* or NULL */
    const double *feature_indicates;                                 /* or NULL; needs the former */
    const double *bandwidths;                                        /* or NULL */
    const double *variance_factor, *prior_variance, *noise_variance; /* all or none */
    const void *centers;
};

/*
 * Reads a complete file image, which must be aligned to 8 bytes and outlive *ret: the numbers point
 * into it. Everything is checked: shapes against each other, every number finite, scales and
 * bandwidths positive, variances not negative, and centers finite when divided by them, names
 * distinct and not empty, two classes at least, the kernel's parameters in the ranges of the
 * catalog. -ERR_CORRUPT, or -ERR_UNSUPPORTED for a version that is not known here. *ret_tensors
 * (NULL: not wanted) gets the file's tensors and metadata (tensors_deinit).
 */
int model_file_open(const void *image, size_t size, struct model_file *ret,
                    struct tensors *ret_tensors, struct err *err);
void model_file_deinit(struct model_file *f); /* the names; of a zeroed one, too */

/* The kernel with the parameters that it has: {"name":"gaussian","bandwidth":3}, with the list of
 * them in place of `bandwidth` where `list` is set and there is one a feature. */
struct json *model_file_kernel(const struct model_file *f, bool list);

/* What the HTTP interface shows of it: kernel with parameters and bandwidth, task, features,
 * what is filled in for them, targets, classes, sizes, precision. NULL on lack of memory. */
struct json *model_file_describe(const struct model_file *f);

/* The file's tensors in their order, with their data, and their number. */
int model_file_tensors(const struct model_file *f, struct tensor_info ret[MODEL_FILE_TENSORS]);

/* Writes the file through sink(context, data, size), in pieces of any size. `more` (NULL: none) is
 * an object of strings that join the metadata; readers of models look at "model" alone. */
int model_file_write(const struct model_file *f, const struct json *more,
                     int (*sink)(void *context, const void *data, size_t size, struct err *err),
                     void *context, struct err *err);
