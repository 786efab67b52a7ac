/*
 * The `search` object of a job: which regularizations and bandwidths to try on the training rows
 * before the fit, and how they are judged.
 *
 *   {"regularization": [1e-8, 1e-6], "bandwidth": [1, 2, 4],
 *    "metric": "auto|smape|rmse|mae|r2|accuracy|auc|evidence", "folds": "loo" | 5, "max_rows":
 * 4000}
 *
 * A list that is absent is not searched: the job's own value stands. The job's "regularization":
 * "auto" asks for the grid 1e-12, 3e-12, 1e-11, ... 1e-1 where the search gives none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define SEARCH_PAIRS_MAX 400 /* regularizations times bandwidths */

enum search_metric {
    SEARCH_AUTO, /* rmse for regression, accuracy for classification */
    SEARCH_SMAPE,
    SEARCH_RMSE,
    SEARCH_MAE,
    SEARCH_R2,
    SEARCH_ACCURACY,
    SEARCH_AUC,
    SEARCH_EVIDENCE, /* of all rows, which none are held out for: of solvers that have one */
};
const char *search_metric_name(enum search_metric m);
bool search_metric_classifies(enum search_metric m); /* accuracy, auc */
bool search_metric_rises(enum search_metric m);      /* larger is better, 1 the best */

struct search_spec {
    bool wanted;
    int64_t regularizations; /* 0: the job's own */
    double *regularization;  /* > 0 each, a row */
    int64_t bandwidths;      /* 0: the job's own */
    double *bandwidth;
    enum search_metric metric;
    int64_t folds;    /* 0: leave one out; else 2 .. 50 */
    int64_t max_rows; /* of more, models on centers are judged; with folds, a sample */
};

/* How many of each are tried: the job's own is one. */
static inline int64_t search_regularizations(const struct search_spec *s)
{
    return s->regularizations > 0 ? s->regularizations : 1;
}

static inline int64_t search_bandwidths(const struct search_spec *s)
{
    return s->bandwidths > 0 ? s->bandwidths : 1;
}

/* `j` is the job's document, `asked` whether its regularization is "auto". Pointers "#/search/…";
 * null stands for absent. */
int search_read(const struct json *j, bool asked, struct search_spec *ret, struct err *err);
void search_write(const struct search_spec *s, struct json *j); /* "search": null when not wanted */
void search_deinit(struct search_spec *s);
