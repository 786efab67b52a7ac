/* What sql.c (statements; the one file that knows SQLite) and sql_transaction.c share. */
#pragma once

#include "store/sql.h"

struct sqlite3;

struct sql {
    struct sqlite3 *handle;
    struct sql_stmt **statements; /* [count], few dozens: searched one by one */
    int count, capacity;
    bool open;                /* a batch is */
    int batched;              /* its changes */
    int64_t losses;           /* batches that were lost */
    sql_committed *committed; /* may be NULL */
    void *watcher;
    sql_settled *settled; /* may be NULL */
    void *batch_watcher;
    sql_logged *logged; /* may be NULL */
    void *log_watcher;
    int patience_ms;
    enum err_code refusal; /* of the last change; ERR_OK: none */
    int64_t changes;       /* sql__total_changes when the present transaction began */
};

/* How long a lock of another process is waited for. */
void sql__set_timeout(struct sql *db, int ms);
bool sql__in_transaction(const struct sql *db);
int64_t sql__total_changes(const struct sql *db); /* rows, since the connection was opened */
/* Copies the write-ahead log into the database, so that it is written from its beginning again. */
void sql__restart_log(struct sql *db);
