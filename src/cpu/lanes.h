/*
 * Products of a few rows of P with all of Q, at the cost of the rows there are: where the tiles
 * give each lane a row of P, of which a panel needs as many as it has lanes, here each lane has a
 * run of TILE_RUN rows of Q. A panel holds the next few rows of every lane's run, so that a row of
 * P meets a vector of them at a time.
 *
 * A lane adds its run's values times weights in the order of the rows, and the sums of runs are
 * added up as cpu/plain.c does: a row's bits are those that it has among many. So it does not
 * matter which way a row goes, and neither do threads, which share the lanes.
 *
 * Q's points are held once more in that order. Runs come in groups, one for each lane.
 */
#pragma once

#include "cpu/oracle.h"

struct lanes {
    int64_t runs, groups;
    size_t
        group_size; /* bytes, of which a lane without a run, and a run without a row, fill part */
    char *panels;   /* T[groups][TILE_RUN / deep][ld][deep][lanes] */
};

struct lanes *lanes_free(struct backend *be, struct lanes *l); /* takes and returns NULL */

/* How many of the last rows of P are better spread over lanes: fewer than a narrow panel has. */
int64_t oracle__few_rows(const struct product *p);

/* The product of the last `rows` rows of P. */
int oracle__few_product(const struct product *p, int64_t rows, struct err *err);
