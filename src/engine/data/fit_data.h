/*
 * The numbers of a fit: rows split, features standardised (in float64 but for float32 jobs),
 * targets centered and scaled (or one centered 0/1 column a class), test rows beside them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/data/columns.h"
#include "engine/data/split.h"
#include "engine/mat.h"
#include "engine/metrics.h"

struct fit_data {
    const struct dataset *train, *tested; /* tested: where the test rows are, often the same */
    struct columns columns, tested_columns;
    struct split split;
    enum dtype dtype;   /* of X and X_test */
    int64_t n, m, d, t; /* training rows, test rows, features, targets or classes */
    bool streamed; /* X, Y and X_test are NULL: rows are read when they are needed (fit_rows.h) */
    double *feature_mean, *feature_scale; /* [d] */
    double *target_mean;                  /* [t]; 0 unless standardised */
    double *target_scale;                 /* [t]; 1 unless standardised or beyond 2^+-60 */
    bool *constant;                       /* [t]: the target has one value on the training rows */
    void *X;                              /* [n, d] row-major, standardised */
    double *Y;                            /* [n, t] column-major, centered and scaled */
    void *X_test;                         /* [m, d] */
    double *truth;                        /* [m, t] column-major, own units; regression */
    int64_t *truth_class;                 /* [m]; classification */
};

/* Refuses what spec and data cannot do together, with a pointer into the spec. The rows of a
 * restricted model are not loaded (streamed). */
int fit_data_load(const struct job_spec *spec, const struct dataset *train,
                  const struct dataset *test, struct fit_data *ret, struct err *err);
void fit_data_deinit(struct fit_data *f);

static inline struct rows fit_data_train(const struct fit_data *f)
{
    return (struct rows){.dtype = f->dtype, .n = f->n, .d = f->d, .data = f->X};
}

static inline struct rows fit_data_test(const struct fit_data *f)
{
    return (struct rows){.dtype = f->dtype, .n = f->m, .d = f->d, .data = f->X_test};
}

/* Metrics of standardised predictions P [m, t] column-major, which are brought to the targets' own
 * units in place. */
int fit_data_metrics(const struct fit_data *f, double *P, struct metrics *ret, struct err *err);
