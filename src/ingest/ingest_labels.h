/*
 * A set of distinct texts, numbered in the order of their first appearance: the classes of a text
 * target, the categories of a text feature.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ingest_labels {
    int64_t count;
    char **text;        /* [count], owned, by number */
    uint64_t *hash;     /* [count] */
    int64_t *slot;      /* [slot_count], a number or -1 */
    int64_t slot_count; /* a power of two, at least 2 * count */
    int64_t last;       /* the number found last: equal texts often follow one another */
};

#define INGEST_LABELS_INIT                                                                         \
    {                                                                                              \
        .count = 0                                                                                 \
    }

void ingest_labels_deinit(struct ingest_labels *l);

/* The number of text[0..len), new or known. Returns 0, -ERR_NO_MEMORY, or 1 when the text is new
 * and the set holds `limit` already. */
int ingest_labels_add(struct ingest_labels *l, const char *text, size_t len, int64_t limit,
                      int64_t *ret, struct err *err);

/* The number of a known text, or -1. */
int64_t ingest_labels_find(const struct ingest_labels *l, const char *text, size_t len);

/* (*ret)[number] = place of the text when all are sorted by their bytes; owned by the caller. */
int ingest_labels_rank(const struct ingest_labels *l, int64_t **ret, struct err *err);
