/*
 * Models: one row a version, their files as chunks of at most 8 MiB. A model is staged chunk by
 * chunk, each in its own short transaction, and becomes visible only when jobs_finish publishes it
 * in the transaction that ends the job: whole or absent. Staged rows left by a crash are swept by
 * store_open.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/sha256.h"
#include "store/store.h"

#define MODELS_CHUNK_MAX (8u << 20)

struct model_row {
    int64_t key; /* the store's own number of this version */
    char *name;
    int64_t version;       /* from 1, ascending within the name, never used twice */
    char job[ID_SIZE];     /* "" where it was imported */
    char dataset[ID_SIZE]; /* likewise */
    char *description;     /* JSON text: what model_describe says and what the job found */
    int64_t bytes;
    char sha256[SHA256_HEX_SIZE];
    int64_t created_ms;
};
void model_row_deinit(struct model_row *r);

/* A job's stage, its pieces and every seal are batched: durable after store_flush (store.h), at the
 * latest with the publishing. What was staged is gone when a batch was lost meanwhile, and a job's
 * key may be another's by then.
 *
 * Begins a version for a job; *ret_key (> 0) names it until it is published or dropped.
 * -ERR_CONFLICT unless the job is running or cancelling. */
int models_stage(struct store *s, const char *job, int64_t *ret_key, struct err *err);
/* Appends 1 to MODELS_CHUNK_MAX bytes (-ERR_INVALID, -ERR_TOO_LARGE). -ERR_NOT_FOUND when nothing
 * is staged under the key (any more: the job may have ended), -ERR_CONFLICT after the seal. */
int models_stage_chunk(struct store *s, int64_t key, const void *data, size_t size,
                       struct err *err);
/* Begins a version that no job has made; `name` is the model's. It is durable at once, so that its
 * key stays its own: whoever loses a batch has lost pieces (store_losses), but not the row. */
int models_stage_import(struct store *s, const char *name, int64_t *ret_key, struct err *err);
/* What publishing will set; call once, before jobs_finish. -ERR_CORRUPT unless `bytes` have been
 * staged. */
int models_stage_seal(struct store *s, int64_t key, const char *description, const char *sha256,
                      int64_t bytes, struct err *err);
/* Nothing staged under the key: nothing happens. A published model is never touched. */
int models_drop_stage(struct store *s, int64_t key, struct err *err);

struct idempotency_row;
/* The number that the next version of the name gets. */
int models_next_version(struct store *s, const char *name, int64_t *ret, struct err *err);
/* Makes a sealed import a new version, and keeps the answer that tells of it (NULL: none).
 * -ERR_NOT_FOUND, -ERR_CONFLICT as jobs_finish. */
int models_publish_import(struct store *s, int64_t key, int64_t now_ms,
                          const struct idempotency_row *answer, int64_t *ret_version,
                          struct err *err);

/* version 0: the newest published one. -ERR_NOT_FOUND. */
int models_get(struct store *s, const char *name, int64_t version, struct model_row *ret,
               struct err *err);
/* Newest version of every name, by name (ascending); `after` is a name. */
int models_list(struct store *s, struct store_page page, struct model_row **ret, int64_t *ret_count,
                bool *ret_more, struct err *err);
/* A page of a name's versions, newest first: those below `before` (0: all), which may be none.
 * -ERR_NOT_FOUND when the name has no version. */
int models_versions(struct store *s, const char *name, int64_t before, struct model_row **ret,
                    int64_t *ret_count, bool *ret_more, struct err *err);
/* All of them, without their descriptions (NULL). */
int models_versions_brief(struct store *s, const char *name, struct model_row **ret,
                          int64_t *ret_count, struct err *err);
/* Key, name and version alone of the first `limit` versions of all, by name, then version. */
int models_all_brief(struct store *s, int64_t limit, struct model_row **ret, int64_t *ret_count,
                     struct err *err);
void models_list_free(struct model_row *rows, int64_t count);
/* That one version (from 1), with its bytes. -ERR_NOT_FOUND; -ERR_CONFLICT naming an alias that
 * stands for it. */
int models_delete(struct store *s, const char *name, int64_t version, struct err *err);

/* Whether the version, by its key, is to be loaded whenever the daemon runs. Of one that is gone
 * nothing is kept. */
int models_pin(struct store *s, int64_t key, bool pinned, struct err *err);
/* No version of the model any more. */
int models_unpin(struct store *s, const char *name, struct err *err);
/* All that are, in the order of their keys; models_list_free. */
int models_pinned(struct store *s, struct model_row **ret, int64_t *ret_count, struct err *err);

/* The model's bytes in order: chunk `index` from 0. 1: *ret (mem_free) and *ret_size are set;
 * 0: there are no more; -ERR_NOT_FOUND: the model is gone. */
int models_chunk(struct store *s, int64_t key, int64_t index, void **ret, size_t *ret_size,
                 struct err *err);
