/*
 * Answers kept under a client's Idempotency-Key, so that a request sent twice is done once, also
 * across a restart. A row is written in the transaction of the change that it tells of
 * (jobs_insert, datasets_insert, models_publish_import): both are there or neither.
 */
#pragma once

#include <stdint.h>

#include "base/sha256.h"
#include "store/store.h"

#define IDEMPOTENCY_KEY_MAX 255
#define IDEMPOTENCY_OWNER_MAX 64

struct idempotency_row {
    char operation[16]; /* what was asked for: the same key may be used once in each */
    char owner[IDEMPOTENCY_OWNER_MAX + 1]; /* who asked: nobody else's request is answered so. "":
                                              everybody is served; "*": anybody, of rows from before
                                              there were owners */
    char key[IDEMPOTENCY_KEY_MAX + 1];
    char request[SHA256_HEX_SIZE]; /* digest of the request */
    int status;
    char location[160]; /* header of the answer */
    char *body;
    int64_t created_ms;
};
void idempotency_row_deinit(struct idempotency_row *r);

/* 1: *ret is the answer given to the owner since oldest_ms; 0: there is none. */
int idempotency_get(struct store *s, const char *operation, const char *owner, const char *key,
                    int64_t oldest_ms, struct idempotency_row *ret, struct err *err);
/* Removes at most `limit` of the answers given before oldest_ms; *ret_count: how many. */
int idempotency_expire(struct store *s, int64_t oldest_ms, int64_t limit, int64_t *ret_count,
                       struct err *err);
