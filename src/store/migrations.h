/*
 * The schema's history: an array of SQL texts, applied in order, never changed once released and
 * never undone. Text i leads from version i to version i + 1; PRAGMA user_version keeps the number.
 */
#pragma once

#include "base/err.h"
#include "store/sql.h"

struct migrations {
    const char *const *texts;
    int count; /* = the newest version */
};
extern const struct migrations migrations;

/* The version of an open database: 0 for an empty one. -ERR_UNSUPPORTED for a database that some
 * other program made. */
int migrations_version(struct sql *db, int *ret, struct err *err);

/* -ERR_UNSUPPORTED when the version is newer than the list. */
int migrations_check(int version, const struct migrations *list, struct err *err);

/* Applies what is missing, each text in a transaction of its own, so that a failure leaves the
 * version before it. -ERR_UNSUPPORTED when the database is newer than the list. */
int migrations_run(struct sql *db, const struct migrations *list, struct err *err);
