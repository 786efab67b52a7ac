/*
 * Uniform draws of distinct points: the places of a random order of the rows (row_order.h), one
 * after the other, those passed over whose points are there already. No scan of the data, and no
 * memory but that of DRAW_ROWS rows.
 */
#pragma once

#include "engine/methods/centers/center_set.h"
#include "engine/methods/row_order.h"

enum { DRAW_ROWS = 8192 };

struct center_draw {
    const struct row_source *from;
    enum dtype dtype; /* of the set's points */
    struct row_order order;
    int64_t next;   /* place in the order */
    int64_t had;    /* points in the set before it was filled up */
    int64_t *index; /* [DRAW_ROWS] */
    void *X;        /* [DRAW_ROWS, d] as read */
    void *point;    /* [d] of the set's type */
};

/* After a failure: center_draw_deinit. */
int center_draw_init(struct center_draw *w, const struct row_source *from, enum dtype dtype,
                     uint64_t seed, struct err *err);
void center_draw_deinit(struct center_draw *w); /* accepts a zeroed one */

/* Reads so many rows as the set lacks, at most DRAW_ROWS; each of them stands for `stands` rows. 1:
 * the set has `wanted` points, or there are no more rows. 0: call again. `free_points`: the set's
 * rows become -1. */
int center_draw_step(struct center_draw *w, struct center_set *set, int64_t wanted, double stands,
                     bool free_points, struct err *err);

/* Every row, which stands for itself: into an empty set, when there is nothing to choose. As
 * center_draw_step, from a zeroed *w on. */
int center_draw_all(struct center_draw *w, const struct center_task *task, struct center_set *set,
                    struct err *err);

/* Fills a set up that lacks points because those drawn by leverage scores were equal: with any
 * rows, which stand for themselves. As center_draw_step, from a zeroed *w on. */
int center_draw_fill(struct center_draw *w, const struct center_task *task, struct center_set *set,
                     struct err *err);
