/*
 * A pass over candidate rows, which gives each its approximate leverage score, and draws from them
 * by these. A candidate stands for `each` rows of the training data, and a point that is drawn
 * stands for each / (chance to be drawn) of them: so that sums over the drawn points estimate sums
 * over all rows. Equal points that are drawn become one that stands for the rows of all.
 *
 * Memory: 16 bytes a candidate (8 when they are all the rows), and a piece of rows.
 */
#pragma once

#include "base/rng.h"
#include "engine/methods/centers/center_scores.h"

enum { PASS_ROWS = 4096 };

struct center_pass {
    const struct center_task *task;
    int64_t *rows; /* [count], or NULL: 0 .. count-1 */
    int64_t count, next;
    double each;
    double *scores; /* [count] */
    void *X;        /* [PASS_ROWS, d] */
};

/* `rows` are taken over, also by a failure; NULL: the first `count` rows. *task stays until
 * center_pass_deinit. After a failure: center_pass_deinit. */
int center_pass_start(struct center_pass *p, const struct center_task *task, int64_t *rows,
                      int64_t count, double each, struct err *err);
void center_pass_deinit(struct center_pass *p); /* accepts a zeroed one */

/* One piece. 1: every candidate has its score. 0: call again. */
int center_pass_step(struct center_pass *p, struct center_scores *scores, struct err *err);
/* The effective dimension, estimated: n times the mean of the first `count` scores. */
double center_pass_dimension(const struct center_pass *p, int64_t count);

/* What is drawn, before its points are read. */
struct center_picks {
    int64_t count, room;
    int64_t *rows;
    double *stands;
    int64_t next; /* to be read */
};
void center_picks_deinit(struct center_picks *k); /* accepts a zeroed one */
int center_picks_add(struct center_picks *k, int64_t row, double stands, struct err *err);

/* Each candidate on its own, with chance min(1, factor each score). */
int center_pass_draw_each(const struct center_pass *p, double factor, struct rng *rng,
                          struct center_picks *ret, struct err *err);
/* `draws` with replacement, in proportion to the scores. */
int center_pass_draw_repeatedly(const struct center_pass *p, int64_t draws, struct rng *rng,
                                struct center_picks *ret, struct err *err);
/* `wanted` different candidates, with chances min(1, c score), c such that these sum up to it; then
 * some more in the same order, for where points are equal (order_draw, below). */
int center_pass_draw_exactly(const struct center_pass *p, int64_t wanted, struct rng *rng,
                             struct center_picks *ret, struct err *err);

/* Adds the points of the next picks to the set, until it holds `most` points. 1: so it does, or
 * there are no more picks. 0: call again. */
int center_picks_read(struct center_picks *k, const struct center_task *task, int64_t most,
                      struct center_set *set, struct err *err);

/* After draws of `wanted` points of which more were read, because some were equal: all of them had
 * a better chance than was written down. */
void center_picks_settle(const struct center_picks *k, int64_t wanted, struct center_set *set);

/* Draws of fixed size with given chances: B. Rosen, "On sampling with probability proportional to
 * size", J. Statist. Plann. Inference 62, 1997 (Pareto sampling). */
struct ordered {
    double key;
    int64_t at;
    double chance;
};
/* Of things with sizes > 0: the `wanted` that are drawn, in random order, then more, all told about
 * four times as many where there are. Returns their number, or negative; the caller frees. */
int64_t order_draw(const double *sizes, int64_t count, int64_t wanted, struct rng *rng,
                   struct ordered **ret, struct err *err);
