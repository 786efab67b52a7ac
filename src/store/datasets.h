/* Data sets' metadata. The matrices are immutable files that the server keeps in its directory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/sha256.h"
#include "store/idempotency.h"
#include "store/store.h"

struct dataset_row {
    char id[ID_SIZE];
    char *name;
    char *info;    /* JSON text of struct dataset_info (wire/dataset.h) */
    char *summary; /* what lists show of that, JSON text of an object; NULL: of an older version */
    int64_t rows, columns;
    int64_t bytes;                /* of the file */
    char sha256[SHA256_HEX_SIZE]; /* of the uploaded body as it arrived */
    char recipe[SHA256_HEX_SIZE]; /* digest of how it was read; "": not known */
    int64_t created_ms;
};
void dataset_row_deinit(struct dataset_row *r);

/* -ERR_CONFLICT when the id is taken. `answer` (NULL: none) is kept in the same transaction. */
int datasets_insert(struct store *s, const struct dataset_row *row,
                    const struct idempotency_row *answer, struct err *err);
/* Unless one is there that was read from a body with this digest in this way: then 1, and ret_id is
 * the newest of such. */
int datasets_put(struct store *s, const struct dataset_row *row, char ret_id[ID_SIZE],
                 struct err *err);
int datasets_get(struct store *s, const char *id, struct dataset_row *ret,
                 struct err *err); /* -ERR_NOT_FOUND */
/* The newest that was read from a body with this digest in this way; -ERR_NOT_FOUND. */
int datasets_find(struct store *s, const char *sha256, const char *recipe, struct dataset_row *ret,
                  struct err *err);
/* Rows that have a summary come without `info`. */
int datasets_list(struct store *s, struct store_page page, struct dataset_row **ret,
                  int64_t *ret_count, bool *ret_more, struct err *err);
void datasets_list_free(struct dataset_row *rows, int64_t count);
/* -ERR_CONFLICT naming the job while an unfinished job refers to it (training or test data);
 * -ERR_NOT_FOUND. Models that were trained on it stay. */
int datasets_delete(struct store *s, const char *id, struct err *err);
/* Calls visit for every id, ascending; used to sweep orphan files at start. visit must not change
 * data sets. */
int datasets_each(struct store *s, void (*visit)(void *context, const char *id), void *context,
                  struct err *err);
