/*
 * Room that deleted rows leave goes back to the file system (adr/0060). New databases have pages
 * that can be given back one by one (auto_vacuum=INCREMENTAL); older ones become so when they are
 * written anew.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* What a step gives back at most, which takes some milliseconds. */
#define STORE_SHRINK_BYTES (1 << 20)

/* Why store_open did not write a database of the older form anew though it was to, NULL where that
 * did not fail. It is used as it is. */
const struct err *store_not_rewritten(const struct store *s);

/* One step: gives back free pages beyond the first keep_bytes of them. 1: there are more; 0: no
 * more, and the log is cut back too, where this or an earlier step shortened the file. A database
 * of the older form is left alone. Commits the batch. */
int store_shrink(struct store *s, int64_t keep_bytes, struct err *err);
/* What the database's file is yet to grow by when the log is copied into it, in bytes. */
int store_log_debt(struct store *s, int64_t *ret, struct err *err);
/* Copies the log into the database and empties it. -ERR_DISK_FULL: it has not been begun, for lack
 * of room; -ERR_BUSY: a reader needs it. */
int store_cut_log(struct store *s, struct err *err);

/* For programs beside the daemon: writes the database at `path` anew, without what is free in it,
 * and puts the new file in its place. Needs room for what is in it. -ERR_NOT_FOUND: no database;
 * -ERR_CONFLICT: a daemon runs; -ERR_BUSY: somebody reads it. On failure it is as it was. */
int store_compact(const char *path, int64_t *ret_before, int64_t *ret_after, struct err *err);
