/*
 * Whether the data directory takes what the server has to keep.
 *
 * Below --min-free-bytes the storage counts as full: no new upload, job or model is taken, so that
 * what is left is there for events and ends of jobs that have begun. A refused change of the
 * database (full, read-only, locked by another process) is tried again twice a second with one that
 * changes nothing. What was deleted goes back to the file system in small steps (store/shrink.h),
 * all of it where the storage is full. While there is trouble the server is not ready, and answers
 * what only reads.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct app;
struct storage;

int storage_new(struct app *app, struct storage **ret, struct err *err);
/* Frees it too, when the loop runs next; NULL is fine. */
struct storage *storage_stop(struct storage *s);

/* ERR_OK: it takes everything. DISK_FULL, READ_ONLY, BUSY (locked), IO; *ret_reason, which may be
 * NULL, becomes a sentence. */
enum err_code storage_trouble(const struct app *app, const char **ret_reason);

/* Asks the file system: -ERR_DISK_FULL unless so many bytes and --min-free-bytes are free beside
 * what the database's log will take in its file; -ERR_READ_ONLY. */
int storage_room(struct app *app, int64_t bytes, struct err *err);
/* The same; what the database's log takes is given back first, where that is needed. Commits what
 * is batched. */
int storage_make_room(struct app *app, int64_t bytes, struct err *err);
/* As storage_room, of the file system of an open file; also on threads of the pool. */
int storage_room_at(const struct app *app, int fd, int64_t bytes, struct err *err);
