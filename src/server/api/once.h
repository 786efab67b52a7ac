/*
 * Requests that are done once, however often they are sent: those with an Idempotency-Key. A
 * success is kept with a digest of the request in the transaction that makes it, and given again
 * when the same client, by the name of its API key, sends the key within the configured time. A
 * refusal is not kept: it has changed nothing.
 *
 * A request that takes a while (an upload) claims its key in memory until it ends.
 */
#pragma once

#include "base/err.h"
#include "base/sha256.h"
#include "store/idempotency.h"

struct app;
struct once; /* opaque: a key with its request */
struct request;

/*
 * By the request's Idempotency-Key, among those of its API key and of an operation ("jobs"; at most
 * 15 characters): *ret is NULL where it has none, else the key's, claimed until once_free, or
 * answered before. -ERR_CONFLICT: another request holds the key. -ERR_INVALID at
 * "#/header/idempotency-key": it is no key.
 */
int once_begin(struct request *rq, const char *operation, struct once **ret, struct err *err);
bool once_answered(const struct once *o); /* NULL: false */
struct once *once_free(struct once *o);

/* Answers rq as the first request with the key was, or refuses it (422) where that was another one.
 * `body` is the digest of the whole body. */
void once_replay(struct once *o, struct request *rq, const char body[SHA256_HEX_SIZE]);

/* The answer as the store is to keep it: valid as long as o and `text` are. NULL for NULL. */
const struct idempotency_row *once_answer(struct once *o, const char body[SHA256_HEX_SIZE],
                                          int status, const char *location, char *text);
