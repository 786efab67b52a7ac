/*
 * Columns of words of a table that became 0/1 columns of a data set, one for each word (one_hot):
 * "city" is the columns "city=Oslo", "city=Paris", which stand beside each other. That cannot be
 * known from names alone, for a table may have a column "p=0.5" of numbers.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct dataset_words {
    int64_t count;  /* 0: there are none, or the data set is of an earlier version */
    char **names;   /* [count] the table's columns: "city" */
    int64_t *first; /* [count] the first column of each, ascending */
    int64_t *width; /* [count] how many it has, at least 1 */
};

/* Arrays of `count` members, names NULL. */
int dataset_words_init(struct dataset_words *w, int64_t count, struct err *err);
void dataset_words_deinit(struct dataset_words *w);
/* Of which column of words the column is, or -1. */
int64_t dataset_words_of(const struct dataset_words *w, int64_t column);

/* to["words"]: [{"column","first","count"}, …]; where there are none, no such key. */
void dataset_words_write(struct json *to, const struct dataset_words *w);
/* Whoever calls it frees `ret` of a failure, too. -ERR_INVALID points at "#/words/index". */
int dataset_words_read(const struct json *from, char *const *column_names, int64_t columns,
                       struct dataset_words *ret, struct err *err);
