/*
 * The columns of a data set in another one, by name, for data that test a model or are its centers.
 * A 0/1 column that the other lacks is 0 in all of its rows where the other was made of the same
 * column of the table: no row there has that word, or none lacks the value of which the column
 * tells.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/dataset.h"
#include "wire/names.h"

#define DATASET_ZERO (-1) /* in place of a column: 0 in every row */

struct dataset_match {
    const struct dataset_info *info, *other;
    struct name_lookup columns, texts; /* of the other */
    struct buf lacking;                /* what it lacks, for an error */
    int64_t lacks;
    int64_t text;   /* the column of words that is in `lacking` last, or -1 */
    int64_t untold; /* a column that tells of values filled in there without telling, or -1 */
};
void dataset_match_init(struct dataset_match *m, const struct dataset_info *info,
                        const struct dataset_info *other);
void dataset_match_deinit(struct dataset_match *m);

/* *ret: its place in the other; DATASET_ZERO also where it is lacking, which
 * dataset_match_end tells. */
int dataset_match_feature(struct dataset_match *m, int64_t column, int64_t *ret, struct err *err);
/* The same of a column that has to be there. */
int dataset_match_target(struct dataset_match *m, int64_t column, int64_t *ret, struct err *err);
/* -ERR_INVALID at `pointer` where columns were lacking, the first of which are named: `whose` is
 * "The test data set". */
int dataset_match_end(const struct dataset_match *m, const char *pointer, const char *whose,
                      struct err *err);

/* The column of words of the other that is the one of that number here, or -1. */
int dataset_match_text(struct dataset_match *m, int64_t text, int64_t *ret, struct err *err);
