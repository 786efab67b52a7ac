/*
 * A trained model: f(x) = target_mean + target_scale * sum_i k(s(x), c_i) a_i, with s() the
 * standardisation of the training rows. Its file, wire/model_file.h, is self-contained; centers are
 * standardised points, float32 for float32 jobs.
 *
 * A model of a solver that knows the posterior of a gaussian process (posterior.h) has its
 * variance,
 *
 *     var f_j(x) = prior_variance_j (k(x,x) - |V' k(c, x)|^2),
 *
 * of f itself; observations have noise_variance_j besides.
 *
 * Classification has one target a class (1 for the class, 0 for the others); the prediction is the
 * class with the largest value, the values are its scores.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "engine/backend.h"
#include "wire/dataset.h"

struct model {
    struct kernel kernel; /* kernel.bandwidths points into the member below */
    double *bandwidths;   /* [d] or NULL */
    enum task task;
    int64_t m, d, t;                      /* centers, features, targets (classes) */
    enum dtype dtype;                     /* of centers and of the kernel evaluation */
    void *centers;                        /* [m, d] row-major */
    double *coef;                         /* [m, t] row-major */
    double *feature_mean, *feature_scale; /* [d]; scale > 0 */
    double *feature_fill; /* [d] for features that are missing in raw units; NULL: none may be */
    double *feature_indicates; /* [d] the feature of which it tells that it is missing, or -1; NULL:
                                  none does */
    double *target_mean, *target_scale; /* [t] */
    int64_t p;                          /* columns of V; 0: the model has no variance */
    double *variance_factor;            /* V [m, p] row-major */
    double *prior_variance;             /* [t] own units squared; >= 0 */
    double *noise_variance;             /* [t] likewise */
    char **feature_names;               /* [d] */
    int64_t outputs;                    /* names below: t for regression, 1 for classification */
    char **target_names;                /* [outputs] */
    char **class_labels;                /* [t] for classification, else NULL */
};
struct model *model_free(struct model *m);

/* The description the HTTP interface shows: kernel with parameters and bandwidth, task, features,
 * what is filled in for them, targets, classes, sizes, precision. */
struct json *model_describe(const struct model *m);

/* Writes the file through sink(context, data, size), in pieces of any size. */
int model_write(const struct model *m,
                int (*sink)(void *context, const void *data, size_t size, struct err *err),
                void *context, struct err *err);
/* Reads a complete file image (copied; the image may be freed afterwards). Never trusts it. */
int model_read(const void *image, size_t size, struct model **ret, struct err *err);

/* Frees what a predictor has copies of, centers and coefficients: the model can only be predicted
 * with from then on, and described. */
void model_keep_scales(struct model *m);

/* A model made ready on a backend. Borrows both. */
struct predictor;
int predictor_new(const struct model *m, struct backend *be, struct predictor **ret,
                  struct err *err);
struct predictor *predictor_free(struct predictor *p);
/* Of memory, the model's included. */
int64_t predictor_bytes(const struct predictor *p);
/* X: float64 [rows, d] row-major, raw units, of which an error counts from first_row. ret: [rows,
 * t] row-major: targets in their own units, or the classes' scores. ret_variance: [rows, t], their
 * variances, never negative (infinite where k(x,x) is); NULL: not wanted; only of models with p >
 * 0. A row's bits do not depend on the other rows, nor on whether its variance is wanted. */
int predictor_run(struct predictor *p, const double *X, int64_t first_row, int64_t rows,
                  double *ret, double *ret_variance, struct err *err);
/* Index of the largest of t scores (the first one when equal). */
int64_t model_argmax(const double *scores, int64_t t);
