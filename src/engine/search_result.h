/*
 * What a search for regularization and bandwidth (search/search.h) came to: told in progress and in
 * results, and kept with checkpoints.
 */
#pragma once

#include "engine/metrics.h"
#include "engine/state.h"
#include "wire/search.h"

struct search_point {
    double regularization;
    double bandwidth;       /* NaN: the kernel has none, or one a feature */
    struct metrics metrics; /* of left-out rows; all NaN: no pair of a positive definite matrix */
    double evidence;        /* ln p(y) of all targets, or a bound; NaN: likewise, or not wanted */
};

struct search_result {
    int64_t count;   /* points tried; 0: no search */
    int64_t pairs;   /* that there are */
    int64_t best;    /* the one taken */
    int64_t rows;    /* searched on */
    int64_t centers; /* of the models judged; 0: full ones */
    int64_t folds;   /* 0: leave one out */
    bool sampled;    /* rows < training rows */
    enum search_metric metric;
    struct search_point points[SEARCH_PAIRS_MAX];
};
/* A pair by the metric, larger is better; and as it is told. */
double search_score(enum search_metric metric, const struct search_point *p);
double search_value(const struct search_result *r, int64_t at);

/* The `search` object of a job's result; null without a search. */
struct json *search_result_to_json(const struct search_result *r);
/* The `search` object of progress: of no pairs without a search. */
struct search_progress search_progress_of(const struct search_result *r);

/* What a search came to among the arrays of a checkpoint, so that no attempt searches again: it
 * takes long, and where a time budget ends it another attempt could find another pair. `of` is a
 * digest of what the search was made on; one of something else is not loaded. */
int search_result_save(const struct search_result *r, const char *of, struct state *to,
                       struct err *err);
bool search_result_load(const struct state *from, const char *of, struct search_result *ret);
