/*
 * What an operator does beside a running daemon: these take no lock and change nothing, so that a
 * daemon may write meanwhile.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Copies the database at `path` as it is at one moment to the file `to`, which appears whole and
 * durable under its name, in the place of an earlier backup or of an empty file. -ERR_CONFLICT:
 * what is there is something else, or a database in use. -ERR_NOT_FOUND: no database. */
int store_backup(const char *path, const char *to, struct err *err);

/* Told of what is found. `kind` is "database", "dataset" or "model", the id that of the row or "".
 */
struct store_check {
    /* Whether the data set's file fits its row: < 0 with *err where not. */
    int (*dataset)(void *context, const char *id, int64_t rows, int64_t columns, struct err *err);
    /* Likewise the file of a model, whose digest is right. */
    int (*model)(void *context, const char *description, const void *file, size_t size,
                 struct err *err);
    void (*problem)(void *context, const char *kind, const char *id, const char *detail);
    void *context;
    int64_t datasets, models; /* counted here */
};

/* SQLite's integrity_check and foreign_key_check, then every data set, then every published model
 * against its size and digest, and whether it can be opened. Fails only where it could not look. */
int store_check(const char *path, struct store_check *c, struct err *err);
