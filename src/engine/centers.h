/*
 * Selection of m centers Z for restricted models f(x) = sum_j k(x, z_j) b_j. A selector runs in
 * steps of about a second, so that a long selection can be cancelled; what it gives depends on the
 * task and its seed alone.
 *
 * Centers differ from each other, though rows may be equal. Fewer than `count` come back when the
 * rows have no more distinct points (rpcholesky: when their kernel matrix has no further rank).
 */
#pragma once

#include "engine/backend.h"
#include "engine/row_source.h"
#include "wire/param.h"

struct center_task {
    struct backend *be;
    const struct kernel *kernel;
    const struct row_source *rows; /* the training rows */
    const struct row_source *file; /* the rows of a data set given as centers, or NULL */
    int64_t count;                 /* m asked for; 0: the selector's own choice, where it has one */
    double regularization;  /* lambda a row, of leverage scores with count 0: the job's own, or
                               the one that the selector's parameters name */
    bool at_regularization; /* it was named: scores are at it whatever the count */
    enum dtype dtype;       /* of dense matrices */
    uint64_t seed;
};

/* The path of lambda of BLESS: what each level drew. */
struct center_level {
    double lambda; /* a row */
    int64_t count;
    double effective_dimension; /* estimated at this lambda */
};

struct centers {
    int64_t m, d;
    enum dtype dtype;
    void *points;    /* [m, d] row-major, standardised, distinct */
    int64_t *rows;   /* [m] training row of each, ascending; NULL: free points */
    double *weights; /* [m]: n / (m s_j), where center j stands for s_j of the n rows: its chance to
                        be drawn, relative to m / n. So K_JJ A^-1 K_JJ with A = diag(weights)
                        estimates K_Jn K_nJ m / n, and A m / n is A_h of arXiv:1810.13258, with
                        which scores are computed (methods/centers/center_scores.h). NULL: ones */
    struct center_level *path; /* NULL: the selector has none */
    int64_t levels;
    /* Where a default left out rows whose scores lambda asks for: the parameter whose default that
     * is (static), how many were to be scored, and how many were. NULL: nowhere. */
    const char *limited_by;
    int64_t asked, scored;
};
void centers_deinit(struct centers *c); /* accepts a zeroed one */

struct center_selection; /* each selector's own state */

struct center_ops {
    const char *name; /* as in the catalog */
    bool own_count;   /* finds how many there are to be where the task's count is 0 */
    /* The task is copied; what it points at stays until teardown. An error about the count is at
     * "#/count". */
    int (*setup)(const struct center_task *task, const struct param_set *params,
                 struct center_selection **ret, struct err *err);
    /* 1: complete. 0: call again. Negative: -ERR_*. *ret_fraction is 0..1 and does not fall. */
    int (*step)(struct center_selection *s, double *ret_fraction, struct err *err);
    int (*take)(struct center_selection *s, struct centers *ret, struct err *err); /* once */
    void (*teardown)(struct center_selection *s); /* accepts NULL and half-built states */
};

/* methods/centers/centers_registry.c: the one list. */
const struct center_ops *center_find(const char *name); /* NULL when unknown */
const struct center_ops *const *center_list(void);      /* NULL-terminated */
