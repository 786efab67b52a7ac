/*
 * Room that deleted rows leave goes back to the file system (adr/0060). New databases have pages
 * that can be given back one by one (auto_vacuum=INCREMENTAL); older ones become so when they are
 * written anew.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* Why store_open did not write a database of the older form anew though it was to, NULL where that
 * did not fail. It is used as it is. */
const struct err *store_not_rewritten(const struct store *s);

/* One step: gives back free pages beyond the first keep_bytes of them, most_bytes at most; 1 MiB
 * takes some milliseconds. STORE_SHRINK_MORE; or
 * STORE_SHRINK_CUT: no more, but an earlier step shortened the file, which is as short as its pages
 * after store_end_shrinking; or 0. A database of the older form is
 * left alone. Commits the batch. */
enum { STORE_SHRINK_MORE = 1, STORE_SHRINK_CUT = 2 };
int store_shrink(struct store *s, int64_t keep_bytes, int64_t most_bytes, struct err *err);
/* Cuts the log (store_cut_log), which is quick where it has been copied. */
int store_end_shrinking(struct store *s, struct err *err);
/* What the database's file is yet to grow by when the log is copied into it, in bytes. */
int store_log_debt(struct store *s, int64_t *ret, struct err *err);
/* Told of every commit how long the log is, in pages. Who listens has it copied with
 * store_copy_log; else the commit that makes it long copies it, which takes as long as writing so
 * many pages anywhere in the file. NULL: nobody listens. */
void store_watch_log(struct store *s, void (*logged)(void *context, int64_t pages), void *context);
/* Copies what is in the log of the database at `path` into it, by a connection of its own: on any
 * thread, beside the store, and waits for nobody. The next commit begins the log anew where all of
 * it is copied by then: *ret_copied pages from its beginning are. */
int store_copy_log(const char *path, int64_t *ret_copied, struct err *err);
/* The same by the store's own connection, for few pages; nothing within a batch. */
int store_copy_log_here(struct store *s, int64_t *ret_copied, struct err *err);
/* Copies the log into the database and empties it. -ERR_DISK_FULL: it has not been begun, for lack
 * of room; -ERR_BUSY: a reader needs it. */
int store_cut_log(struct store *s, struct err *err);

/* For programs beside the daemon: writes the database at `path` anew, without what is free in it,
 * and puts the new file in its place. Needs room for what is in it. -ERR_NOT_FOUND: no database;
 * -ERR_CONFLICT: a daemon runs; -ERR_BUSY: somebody reads it. On failure it is as it was. */
int store_compact(const char *path, int64_t *ret_before, int64_t *ret_after, struct err *err);
