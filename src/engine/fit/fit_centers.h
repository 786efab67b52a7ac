/*
 * What a fit of a restricted model has besides its data: the rows as tiles, the centers by the
 * selector that the job asks for, and both on the backend.
 */
#pragma once

#include "engine/centers.h"
#include "engine/data/fit_rows.h"
#include "engine/rowset.h"
#include "engine/solver.h"
#include "wire/spec.h"

struct fit_centers {
    struct backend *be;
    struct row_source train, test, from_file;
    struct fit_rows_file file;
    struct rowset *rows, *tests;
    struct centers chosen;
    int64_t dependent; /* centers that were left out: center_rank.h */
    struct rows host;  /* points of `chosen` */
    struct points *Z, *core;
    struct restricted problem;
};
void fit_centers_deinit(struct fit_centers *c); /* accepts a zeroed one */

struct fit_centers_task {
    struct backend *be;
    const struct job_spec *spec;
    const struct fit_data *data;
    const struct dataset *file; /* the data set of the centers, or NULL */
    const struct kernel *kernel;
    enum dtype points, vectors; /* of the solve; a selection has no use for them */
    double regularization;
    int64_t count; /* of centers, where that is not what the job says; else 0 */
    /* Asked before every step of the selection: a negative error ends it. */
    int (*stop)(void *context, struct err *err);
    void (*told)(void *context, double fraction); /* the share of it that is done, after each */
    void *stop_context;
};

/* Rows drawn for rules that look at a few of them: *ret [*ret_count, d] of data's type, with
 * targets [*ret_count, t] column-major, at most `most` distinct rows from the seed. Memory for the
 * caller to free. */
int fit_centers_sample(const struct fit_data *data, int64_t most, uint64_t seed, void **ret,
                       double **ret_Y, int64_t *ret_count, struct err *err);

/* How many centers of n rows a job asks for, as far as that is known before they are selected: of
 * a selector that finds their number itself, the usual one. `file`: the data set of the centers, or
 * NULL. */
int64_t fit_centers_count(const struct job_spec *spec, const struct dataset *file, int64_t n);

/* Chooses the centers: c->chosen, of a kernel of finite rank those that are independent. */
int fit_centers_select(struct fit_centers *c, const struct fit_centers_task *task, struct err *err);
/* Prepares rows and centers on the backend: c->problem. */
int fit_centers_upload(struct fit_centers *c, const struct fit_centers_task *task, struct err *err);

/* P [test rows, t] on the host, column-major: predictions with the coefficients A. */
int fit_centers_predict(struct fit_centers *c, const struct mat *A, double *P, struct err *err);
