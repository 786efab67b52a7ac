/*
 * Mini-batches of an epoch: every row once, in an order that is a pure function of the seed and the
 * epoch's number, so that nothing of it needs to be kept.
 *
 * Rows are drawn in chunks of neighbours, as many as fill a page of 4 KiB of the source: what is
 * read from a mapped file is used, and an epoch over data beyond memory reads the file once. A
 * batch has at least CHUNKS_LEAST chunks, so that neighbours that resemble each other do not make a
 * batch by themselves. Batches of an epoch differ by one chunk at most.
 */
#pragma once

#include <stdint.h>

#include "engine/row_source.h"

#define CHUNKS_LEAST 64

struct row_batches {
    uint64_t seed;
    int64_t n;
    int64_t chunk;   /* rows of a chunk; the last one may have fewer */
    int64_t chunks;  /* of an epoch */
    int64_t batches; /* of an epoch */
    int64_t most;    /* rows of a batch, at most */
    int64_t *index;  /* [most]: the rows of the last one drawn */
};

/* Batches of about `batch` rows, 1 <= batch <= n. */
int row_batches_init(struct row_batches *b, uint64_t seed, const struct row_source *source,
                     int64_t batch, struct err *err);
void row_batches_deinit(struct row_batches *b);

/* The rows of batch k of an epoch into `index`; returns how many. */
int64_t row_batches_draw(struct row_batches *b, int64_t epoch, int64_t k);
