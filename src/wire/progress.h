/* Test metrics and progress: what a worker reports and the `progress` and `result` objects show. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "wire/reason.h"
#include "wire/search.h"

/*
 * NaN means not applicable or not computed. smape = mean(|p-y| / ((|p|+|y|)/2)), range 0..2, a term
 * with p = y = 0 counts 0. Several targets: the mean over targets (rmse: root of the mean square).
 */
struct metrics {
    double smape, rmse, mae, r2; /* regression */
    double accuracy, auc;        /* classification; auc for two classes only */
};
struct metrics metrics_none(void);
void metrics_to_json(const struct metrics *m, struct json *obj); /* sets every key; NaN -> null */
/* A key that is absent or no number gives NaN. */
void metrics_from_json(const struct json *obj, struct metrics *ret);

/* How far a search is, and the best pair so far; all of it stays when it has ended. */
struct search_progress {
    int64_t tried, pairs; /* of so many; 0: there is no search */
    enum search_metric metric;
    double regularization, bandwidth; /* as struct search_point has them (engine/search/search.h) */
    double value;                     /* of the metric; NaN: no pair could be judged yet */
};

struct progress {
    double fraction;   /* 0..1, an honest guess */
    const char *phase; /* "loading", "kernel", "searching", "preconditioner", "factorizing",
                          "iterating", "certifying", "saving" */
    int64_t iteration;
    double step; /* share of the iteration under way, where one takes long, or of "centers" or
                    "searching"; NaN when unknown */
    double relative_residual; /* of the iteration itself, not certified; NaN when unknown */
    struct metrics metrics;   /* on the test rows; NaN until evaluated */
    double elapsed_s;
    double eta_s;                /* of the job (engine/solve/eta.h); NaN when unknown */
    double kernel_entries_per_s; /* NaN when unknown */
    struct search_progress search;
};
struct progress progress_none(void); /* at the start of "loading" */
/* The `progress` object of a job: flat, metrics included. NULL on lack of memory. */
struct json *progress_to_json(const struct progress *p);
