/*
 * A thin wall around SQLite: the only file that knows sqlite3.h is sql.c. Statements are prepared
 * once and kept, values are bound by type, columns are copied out, and SQLite's result codes become
 * the project's:
 *
 *   full                                       ERR_DISK_FULL
 *   may not be written                         ERR_READ_ONLY
 *   unreadable, cannot open                    ERR_IO
 *   in use by another process                  ERR_BUSY
 *   malformed, or no database at all           ERR_CORRUPT
 *   a foreign key without its row              ERR_NOT_FOUND
 *   a key that is there already, or is needed  ERR_CONFLICT
 *   a CHECK, NOT NULL or type of a column      ERR_INVALID
 *   a statement that SQLite does not take      ERR_INTERNAL
 *
 * A text of SQL is known by its address: pass string literals or static texts only. One connection
 * belongs to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sql;      /* a connection and its statements */
struct sql_stmt; /* a statement that is being read; belongs to the connection */

/* Opens or creates the file. Nothing of it is read yet. */
int sql_open(const char *path, struct sql **ret, struct err *err);
/* Copies the whole database, as it is at one moment, into the new file `to`; writers are not held
 * up. What was begun there is the caller's to remove on failure. */
int sql_copy(struct sql *db, const char *to, struct err *err);
struct sql *sql_close(struct sql *db); /* NULL is fine; no statement may be in use */

/* A value to bind; texts and blobs are borrowed until the statement is done. */
enum sql_type { SQL_NULL, SQL_INT, SQL_TEXT, SQL_BLOB };
struct sql_value {
    enum sql_type type;
    int64_t number;
    const void *data;
    size_t size;
};

static inline struct sql_value sql_int(int64_t v)
{
    return (struct sql_value){.type = SQL_INT, .number = v};
}

/* NULL binds NULL. */
static inline struct sql_value sql_text(const char *s)
{
    return (struct sql_value){.type = s == NULL ? SQL_NULL : SQL_TEXT, .data = s};
}

static inline struct sql_value sql_blob(const void *data, size_t size)
{
    return (struct sql_value){.type = SQL_BLOB, .data = data, .size = size};
}

/* The two arguments `args, count` for ?1, ?2, …: sql_run(db, TEXT, SQL_ARGS(sql_int(1)), err). */
#define SQL_ARGS(...)                                                                              \
    (const struct sql_value[]){__VA_ARGS__},                                                       \
        (int)(sizeof((const struct sql_value[]){__VA_ARGS__}) / sizeof(struct sql_value))
#define SQL_NO_ARGS NULL, 0

/* Runs a statement whose rows, if any, do not matter. */
int sql_run(struct sql *db, const char *text, const struct sql_value *args, int count,
            struct err *err);
int64_t sql_changes(const struct sql *db); /* rows that the last change touched */
/* Steps of SQLite's machine in all kept statements so far: the work that was done, on any machine.
 */
int64_t sql_work(const struct sql *db);

/* Runs statements separated by semicolons, not kept: pragmas and migrations. The text need not be
 * static. */
int sql_script(struct sql *db, const char *text, struct err *err);

/* Begins to read rows; *ret is set when it returns 0 and must be given to sql_done. */
int sql_start(struct sql *db, const char *text, const struct sql_value *args, int count,
              struct sql_stmt **ret, struct err *err);
int sql_next(struct sql_stmt *st, struct err *err); /* 1: a row; 0: no more */
void sql_done(struct sql_stmt *st);                 /* NULL is fine */
static inline void sql_donep(struct sql_stmt **st)
{
    sql_done(*st);
}
/* A statement that is done when it leaves its scope. */
#define cleanup_sql __attribute__((cleanup(sql_donep)))

/* sql_start and the first sql_next: 1 row, 0 none; *ret is set whenever it does not fail. */
int sql_first(struct sql *db, const char *text, const struct sql_value *args, int count,
              struct sql_stmt **ret, struct err *err);
/* The first column of the first row as an integer: 1, or 0 without a row (*ret untouched). Runs to
 * the end, so that a change with RETURNING is complete. */
int sql_number(struct sql *db, const char *text, const struct sql_value *args, int count,
               int64_t *ret, struct err *err);

/*
 * Columns of the present row, from 0; texts and blobs are copies to mem_free. What cannot be copied
 * is remembered by the statement: after a row of calls, sql_row_check tells whether every one of
 * them worked.
 */
int64_t sql_col_int(struct sql_stmt *st, int column);                        /* NULL gives 0 */
char *sql_col_text(struct sql_stmt *st, int column);                         /* NULL gives NULL */
void sql_col_fixed(struct sql_stmt *st, int column, char *ret, size_t size); /* NULL gives "" */
void *sql_col_blob(struct sql_stmt *st, int column, size_t *ret_size);       /* NULL gives NULL */
int sql_row_check(const struct sql_stmt *st, struct err *err);
size_t sql_row_bytes(struct sql_stmt *st); /* texts and blobs of the present row */

/*
 * One write transaction: BEGIN IMMEDIATE, so that the lock is taken (or waited for) at once.
 *
 *     int rc = sql_begin(db, err);
 *     if (rc < 0) {
 *         return rc;
 *     }
 *     return sql_end(db, change(db, err), err);
 *
 * sql_end commits when rc >= 0, else rolls back; it returns rc, or the failure to commit, after
 * which nothing has been changed either.
 */
int sql_begin(struct sql *db, struct err *err);
int sql_end(struct sql *db, int rc, struct err *err);

/*
 * The same for a change that need not be durable at once: sql_end_batched leaves it in a batch,
 * which the next sql_end or sql_flush commits as a whole, or loses as a whole. Until then this
 * connection reads it like any other, so that who shows it to others calls sql_flush first. A
 * change that fails takes back itself alone.
 */
int sql_begin_batched(struct sql *db, struct err *err);
int sql_end_batched(struct sql *db, int rc, struct err *err);
int sql_flush(struct sql *db, struct err *err); /* nothing to do is fine */
/* Told of the end of every batch: whether it was kept. */
typedef void sql_settled(void *context, bool kept);
void sql_watch_batches(struct sql *db, sql_settled *settled, void *context);
int64_t sql_losses(const struct sql *db); /* batches that could not be committed */

/* Told of every commit: how long it took, and of how many transactions it was. */
typedef void sql_committed(void *context, double seconds, int changes);
void sql_watch(struct sql *db, sql_committed *committed, void *context);
/* How long a change waits for another process's lock: 5000 ms unless set. Once it has waited in
 * vain, the next changes are refused at once until one gets through, so that who tries again and
 * again is held up once. Reads never wait for writers. */
void sql_set_patience(struct sql *db, int ms);
/* Why the last transaction did not get through, ERR_BUSY, DISK_FULL, READ_ONLY or IO, until one
 * that changes something does: ERR_OK. */
enum err_code sql_refusal(const struct sql *db);
/* Copies the write-ahead log into the database and makes it empty, without waiting for anybody:
 * -ERR_BUSY where a reader still needs it. Commits the batch. */
int sql_cut_log(struct sql *db, struct err *err);
/* Copies of the log into the database what no reader of an older state keeps from it, without
 * waiting and beside writers, also those of other connections. *ret_pages: in the log; *ret_copied:
 * of these, now and before. */
int sql_copy_log(struct sql *db, int64_t *ret_pages, int64_t *ret_copied, struct err *err);
/* Told of every commit, and how many pages the log has then. Who listens has the log copied: this
 * connection does so no more by itself. */
typedef void sql_logged(void *context, int64_t pages);
void sql_watch_log(struct sql *db, sql_logged *logged, void *context);
/* A transaction that writes, but changes nothing. */
int sql_probe(struct sql *db, struct err *err);
