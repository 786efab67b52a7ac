/*
 * The durable state: one SQLite database (WAL, synchronous=FULL, foreign keys, STRICT tables),
 * written only by the daemon through this folder. Every write is one transaction, begun IMMEDIATE.
 * SQL lives here alone: one function a question. The store never logs.
 *
 * Texts handed in are copied; rows handed out are owned by the caller (…_row_deinit).
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct store; /* opaque: connection and prepared statements */

/* Opens or creates the database, checks it (quick_check), applies the missing migrations in order
 * (forward only, PRAGMA user_version), and refuses a database of a newer version. Takes an
 * exclusive advisory lock, so that a second daemon on the same directory gets -ERR_CONFLICT. */
int store_open(const char *path, struct store **ret, struct err *err);
struct store *store_close(struct store *s); /* checkpoints the log; NULL is fine */

int store_schema_version(struct store *s); /* of the open database */

/* Paging of every list: rows after the given id ("" for the start) in descending order of
 * creation, at most limit; *ret_more tells whether there are further ones. */
struct store_page {
    const char *after;
    int64_t limit; /* 1..100 */
};
