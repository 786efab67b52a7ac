/*
 * The durable state: one SQLite database (WAL, synchronous=FULL, foreign keys, STRICT tables),
 * written only by the daemon through this folder. Every write is one transaction, begun IMMEDIATE.
 * SQL lives here alone: one function a question. The store never logs.
 *
 * Texts handed in are copied; rows handed out are owned by the caller (…_row_deinit). Ids are
 * texts of 1 to 31 letters, digits and '_' that sort by creation (base/id.h). A store belongs to
 * one thread.
 *
 * Beside what a function's comment names, any of them may fail with -ERR_DISK_FULL, -ERR_READ_ONLY,
 * -ERR_IO, -ERR_BUSY (another process holds the write lock; reading goes on meanwhile),
 * -ERR_CORRUPT, -ERR_NO_MEMORY, or -ERR_INVALID for a value that the schema's checks refuse. A
 * failed call has changed nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

struct store; /* opaque: connection and prepared statements */

/*
 * Opens or creates the database, checks it (quick_check), applies the missing migrations in order
 * (forward only, PRAGMA user_version), and sweeps models that were staged but never published.
 *
 * Takes an exclusive lock on "<path>-lock", which vanishes with the process: a second daemon on the
 * same directory gets -ERR_CONFLICT. -ERR_CORRUPT: the file is damaged or no database.
 * -ERR_UNSUPPORTED: it was written by a newer version or by another program. -ERR_IO: it cannot be
 * opened or written. A file that is refused has not been changed.
 */
int store_open(const char *path, struct store **ret, struct err *err);
struct store *store_close(struct store *s); /* checkpoints the log; NULL is fine */

/* Told of every commit: how long it took, and of how many transactions it was. */
void store_watch(struct store *s, void (*committed)(void *context, double seconds, int changes),
                 void *context);
/*
 * Some changes, which say so, are written in a batch with others: durable after store_flush, or
 * with the next change of another kind. Whoever shows what the store says to others calls
 * store_flush first; when it fails nothing of the batch has been changed. NULL is fine.
 */
int store_flush(struct store *s, struct err *err);
int64_t store_losses(const struct store *s); /* batches that were lost so far */
/* Told of the end of every batch: whether it was kept. May not call the store. */
void store_watch_batches(struct store *s, void (*settled)(void *context, bool kept), void *context);
/* The store is called from an event loop, which must not stand still: a change waits 50 ms for
 * another process's lock, and once that was in vain, not at all until one gets through. */
#define STORE_PATIENCE_MS 50
/* Why the last change was refused: ERR_BUSY, DISK_FULL, READ_ONLY or IO; ERR_OK once one got
 * through. */
enum err_code store_refusal(const struct store *s);
/* Writes without changing anything, to see whether it is possible (again). */
int store_probe(struct store *s, struct err *err);
/* Whether trying again later may help: the codes of store_refusal. */
bool store_may_recover(int rc);

int store_schema_version(struct store *s); /* of the open database */
/* The greatest ids of jobs and of data sets, "" where there are none: new ones are to follow them,
 * whatever the clock says. */
int store_newest_ids(struct store *s, char ret_job[ID_SIZE], char ret_dataset[ID_SIZE],
                     struct err *err);

#define STORE_PAGE_MAX 100

/* A page ends with the row that brings it over so many bytes, however few it has then: what is made
 * of a page on the loop stays small. */
#define STORE_PAGE_BYTES (1u << 20)

/* Paging of every list: rows after the given id ("" or NULL for the start) in descending order of
 * creation, at most limit and STORE_PAGE_BYTES; *ret_more tells whether there are further ones. The
 * row with that id need not exist any more. A limit out of range is -ERR_INVALID at
 * "#/query/limit". */
struct store_page {
    const char *after;
    int64_t limit; /* 1..STORE_PAGE_MAX */
};
