#include "store/sql.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "store/sql_internal.h"

#define PATIENCE_MS 5000

struct sql_stmt {
    struct sql *db;
    const char *text; /* its address is the key */
    sqlite3_stmt *handle;
    bool in_use;
    enum err_code failed; /* the first column that could not be copied, or ERR_OK */
};

static int constraint_failure(int code, struct err *err)
{
    switch (code) {
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return err_set(err, ERR_NOT_FOUND, "What this refers to does not exist.");
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return err_set(err, ERR_CONFLICT, "There is one with this name already.");
    case SQLITE_CONSTRAINT_TRIGGER: /* RESTRICT of a foreign key */
        return err_set(err, ERR_CONFLICT, "Something else still refers to this.");
    default:
        return err_set(err, ERR_INVALID, "A value is not one that the database accepts.");
    }
}

static int disk_full(struct err *err)
{
    return err_set(err, ERR_DISK_FULL, "The disk is full; the database could not take the change.");
}

/* What the file system said where SQLite has no word of its own for it. */
static int io_failure(int code, int number, struct err *err)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
        return disk_full(err);
    case EROFS:
        return err_set(err, ERR_READ_ONLY, "The file system of the database is read-only.");
    default:
        return err_set(err, ERR_IO, "Reading or writing the database failed (code %d).", code);
    }
}

/* errno of the last failure of the log's file, or else of any; 0: unknown. */
static int last_errno(sqlite3 *handle)
{
    sqlite3_file *log = NULL;
    int number = 0;
    if (handle == NULL) {
        return 0;
    }
    sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log != NULL && log->pMethods != NULL) {
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &number);
    }
    return number != 0 ? number : sqlite3_system_errno(handle);
}

/* `code` is an extended result code, of the handle's last call. */
static int sql_failure(sqlite3 *handle, int code, struct err *err)
{
    if (code == SQLITE_IOERR_NOMEM) {
        return err_no_memory(err);
    }
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return err_no_memory(err);
    case SQLITE_FULL:
        return disk_full(err);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(err, ERR_BUSY, "Another process is using the database; try again later.");
    case SQLITE_CORRUPT:
        return err_set(err, ERR_CORRUPT, "The database is damaged.");
    case SQLITE_NOTADB:
        return err_set(err, ERR_CORRUPT, "The database file is not a database.");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return err_set(err, ERR_READ_ONLY, "The database may not be written.");
    case SQLITE_CANTOPEN:
        return err_set(err, ERR_IO, "The database could not be opened.");
    case SQLITE_IOERR:
        return io_failure(code, last_errno(handle), err);
    case SQLITE_TOOBIG:
        return err_set(err, ERR_TOO_LARGE, "A value is too large for the database.");
    case SQLITE_CONSTRAINT:
        return constraint_failure(code, err);
    default:
        return err_set(err, ERR_INTERNAL, "The database refused a statement (code %d).", code);
    }
}

/* What an open connection must not do: trust a schema that somebody has tampered with. */
static int harden(sqlite3 *handle)
{
    int rc = sqlite3_extended_result_codes(handle, 1);
    if (rc == SQLITE_OK) {
        rc = sqlite3_busy_timeout(handle, PATIENCE_MS);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    }
    return rc;
}

int sql_open(const char *path, struct sql **ret, struct err *err)
{
    struct sql *db = mem_zalloc(sizeof(*db));
    if (db == NULL) {
        return err_no_memory(err);
    }
    db->patience_ms = PATIENCE_MS;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(path, &db->handle, flags, NULL);
    if (rc == SQLITE_OK) {
        rc = harden(db->handle);
    }
    if (rc != SQLITE_OK) {
        const int failure = sql_failure(db->handle, rc, err);
        sql_close(db);
        return failure;
    }
    *ret = db;
    return 0;
}

/* In one step, which reads one snapshot of the write-ahead log. */
static int copy_pages(sqlite3 *from, sqlite3 *to)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
    if (b == NULL) {
        return sqlite3_extended_errcode(to);
    }
    sqlite3_backup_step(b, -1);
    return sqlite3_backup_finish(b);
}

int sql_copy(struct sql *db, const char *to, struct err *err)
{
    sqlite3 *copy = NULL;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(to, &copy, flags, NULL);
    if (rc == SQLITE_OK) {
        rc = copy_pages(db->handle, copy);
    }
    /* The copy is one file, not one with a log beside it, until a daemon opens it. */
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(copy, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    }
    const int failure = rc == SQLITE_OK ? 0 : sql_failure(copy, rc, err);
    const int closed = sqlite3_close(copy);
    return failure < 0 || closed == SQLITE_OK ? failure : sql_failure(NULL, closed, err);
}

struct sql *sql_close(struct sql *db)
{
    if (db == NULL) {
        return NULL;
    }
    for (int i = 0; i < db->count; i++) {
        sqlite3_finalize(db->statements[i]->handle);
        mem_free(db->statements[i]);
    }
    mem_free(db->statements);
    sqlite3_close(db->handle);
    return mem_free(db);
}

static struct sql_stmt *find_statement(const struct sql *db, const char *text)
{
    for (int i = 0; i < db->count; i++) {
        if (db->statements[i]->text == text) {
            return db->statements[i];
        }
    }
    return NULL;
}

static int keep_statement(struct sql *db, struct sql_stmt *st)
{
    if (db->count == db->capacity) {
        const int capacity = db->capacity == 0 ? 32 : 2 * db->capacity;
        struct sql_stmt **grown =
            mem_regrow(db->statements, (size_t)capacity, sizeof(struct sql_stmt *));
        if (grown == NULL) {
            return -ERR_NO_MEMORY;
        }
        db->statements = grown;
        db->capacity = capacity;
    }
    db->statements[db->count++] = st;
    return 0;
}

static int prepare(struct sql *db, const char *text, struct sql_stmt **ret, struct err *err)
{
    struct sql_stmt *st = mem_zalloc(sizeof(*st));
    if (st == NULL) {
        return err_no_memory(err);
    }
    *st = (struct sql_stmt){.db = db, .text = text};
    const int rc =
        sqlite3_prepare_v3(db->handle, text, -1, SQLITE_PREPARE_PERSISTENT, &st->handle, NULL);
    if (rc != SQLITE_OK) {
        mem_free(st);
        return sql_failure(db->handle, rc, err);
    }
    if (keep_statement(db, st) < 0) {
        sqlite3_finalize(st->handle);
        mem_free(st);
        return err_no_memory(err);
    }
    *ret = st;
    return 0;
}

/* SQLITE_STATIC: the caller's data outlive the statement's run, so a chunk is not copied. */
static int bind(sqlite3_stmt *handle, int i, const struct sql_value *v)
{
    switch (v->type) {
    case SQL_INT:
        return sqlite3_bind_int64(handle, i, v->number);
    case SQL_TEXT:
        return sqlite3_bind_text(handle, i, v->data, -1, SQLITE_STATIC);
    case SQL_BLOB:
        return sqlite3_bind_blob64(handle, i, v->data, v->size, SQLITE_STATIC);
    case SQL_NULL:
        break;
    }
    return sqlite3_bind_null(handle, i);
}

static int bind_all(struct sql_stmt *st, const struct sql_value *args, int count, struct err *err)
{
    if (sqlite3_bind_parameter_count(st->handle) != count) {
        return err_set(err, ERR_INTERNAL, "A statement of the database got %d values, not %d.",
                       count, sqlite3_bind_parameter_count(st->handle));
    }
    for (int i = 0; i < count; i++) {
        const int rc = bind(st->handle, i + 1, &args[i]);
        if (rc != SQLITE_OK) {
            return sql_failure(st->db->handle, rc, err);
        }
    }
    return 0;
}

int sql_start(struct sql *db, const char *text, const struct sql_value *args, int count,
              struct sql_stmt **ret, struct err *err)
{
    struct sql_stmt *st = find_statement(db, text);
    if (st == NULL) {
        const int rc = prepare(db, text, &st, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (st->in_use) {
        return err_set(err, ERR_INTERNAL, "A statement of the database is in use already.");
    }
    st->in_use = true;
    st->failed = ERR_OK;
    const int rc = bind_all(st, args, count, err);
    if (rc < 0) {
        sql_done(st);
        return rc;
    }
    *ret = st;
    return 0;
}

int sql_next(struct sql_stmt *st, struct err *err)
{
    const int rc = sqlite3_step(st->handle);
    if (rc == SQLITE_ROW) {
        return 1;
    }
    return rc == SQLITE_DONE ? 0 : sql_failure(st->db->handle, rc, err);
}

void sql_done(struct sql_stmt *st)
{
    if (st != NULL) {
        /* The result repeats what sql_next has told already. */
        sqlite3_reset(st->handle);
        sqlite3_clear_bindings(st->handle);
        st->in_use = false;
    }
}

int sql_run(struct sql *db, const char *text, const struct sql_value *args, int count,
            struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_start(db, text, args, count, &st, err);
    if (rc < 0) {
        return rc;
    }
    do {
        rc = sql_next(st, err);
    } while (rc > 0);
    return rc;
}

int64_t sql_changes(const struct sql *db)
{
    return sqlite3_changes64(db->handle);
}

int64_t sql_work(const struct sql *db)
{
    int64_t steps = 0;
    for (int i = 0; i < db->count; i++) {
        steps += sqlite3_stmt_status(db->statements[i]->handle, SQLITE_STMTSTATUS_VM_STEP, 0);
    }
    return steps;
}

int sql_script(struct sql *db, const char *text, struct err *err)
{
    const int rc = sqlite3_exec(db->handle, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : sql_failure(db->handle, rc, err);
}

int sql_first(struct sql *db, const char *text, const struct sql_value *args, int count,
              struct sql_stmt **ret, struct err *err)
{
    struct sql_stmt *st;
    int rc = sql_start(db, text, args, count, &st, err);
    if (rc < 0) {
        return rc;
    }
    rc = sql_next(st, err);
    if (rc < 0) {
        sql_done(st);
        return rc;
    }
    *ret = st;
    return rc;
}

int sql_number(struct sql *db, const char *text, const struct sql_value *args, int count,
               int64_t *ret, struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(db, text, args, count, &st, err);
    if (rc <= 0) {
        return rc;
    }
    const int64_t number = sql_col_int(st, 0);
    /* A change with RETURNING checks its foreign keys only when it has run to its end. */
    do {
        rc = sql_next(st, err);
    } while (rc > 0);
    if (rc < 0) {
        return rc;
    }
    *ret = number;
    return 1;
}

int64_t sql_col_int(struct sql_stmt *st, int column)
{
    return sqlite3_column_int64(st->handle, column);
}

/* The bytes of a column that is not NULL; NULL marks the statement as failed. */
static const void *column_bytes(struct sql_stmt *st, int column, size_t *ret_size)
{
    /* Asked for as a text, it is followed by a NUL whatever its type. */
    const bool is_blob = sqlite3_column_type(st->handle, column) == SQLITE_BLOB;
    const void *data = is_blob ? sqlite3_column_blob(st->handle, column)
                               : (const void *)sqlite3_column_text(st->handle, column);
    *ret_size = (size_t)sqlite3_column_bytes(st->handle, column);
    if (data == NULL && *ret_size == 0 && is_blob) {
        return ""; /* SQLite gives NULL for a blob of no bytes */
    }
    if (data == NULL) {
        st->failed = ERR_NO_MEMORY;
    }
    return data;
}

static bool column_is_null(struct sql_stmt *st, int column)
{
    return sqlite3_column_type(st->handle, column) == SQLITE_NULL;
}

char *sql_col_text(struct sql_stmt *st, int column)
{
    size_t size;
    if (column_is_null(st, column)) {
        return NULL;
    }
    const char *text = column_bytes(st, column, &size);
    char *copy = text == NULL ? NULL : mem_strndup(text, size);
    if (copy == NULL) {
        st->failed = ERR_NO_MEMORY;
    }
    return copy;
}

void sql_col_fixed(struct sql_stmt *st, int column, char *ret, size_t size)
{
    ret[0] = '\0';
    size_t len;
    if (column_is_null(st, column)) {
        return;
    }
    const char *text = column_bytes(st, column, &len);
    if (text == NULL) {
        return;
    }
    if (len >= size) {
        st->failed = ERR_CORRUPT;
        return;
    }
    memcpy(ret, text, len);
    ret[len] = '\0';
}

void *sql_col_blob(struct sql_stmt *st, int column, size_t *ret_size)
{
    if (column_is_null(st, column)) {
        *ret_size = 0;
        return NULL;
    }
    const void *data = column_bytes(st, column, ret_size);
    void *copy = data == NULL ? NULL : mem_dup(data, *ret_size);
    if (copy == NULL) {
        st->failed = ERR_NO_MEMORY;
    }
    return copy;
}

size_t sql_row_bytes(struct sql_stmt *st)
{
    size_t sum = 0;
    for (int i = 0; i < sqlite3_column_count(st->handle); i++) {
        const int type = sqlite3_column_type(st->handle, i);
        if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
            sum += (size_t)sqlite3_column_bytes(st->handle, i);
        }
    }
    return sum;
}

int sql_row_check(const struct sql_stmt *st, struct err *err)
{
    switch (st->failed) {
    case ERR_OK:
        return 0;
    case ERR_NO_MEMORY:
        return err_no_memory(err);
    default:
        return err_set(err, ERR_CORRUPT, "The database holds a value of the wrong form.");
    }
}

/* ---- what transactions ask of the connection ---- */

void sql__set_timeout(struct sql *db, int ms)
{
    sqlite3_busy_timeout(db->handle, ms);
}

bool sql__in_transaction(const struct sql *db)
{
    return !sqlite3_get_autocommit(db->handle);
}

int64_t sql__total_changes(const struct sql *db)
{
    return sqlite3_total_changes64(db->handle);
}

void sql__restart_log(struct sql *db)
{
    sqlite3_wal_checkpoint_v2(db->handle, "main", SQLITE_CHECKPOINT_RESTART, NULL, NULL);
}

int sql_copy_log(struct sql *db, int64_t *ret_pages, int64_t *ret_copied, struct err *err)
{
    int pages = 0, copied = 0;
    const int code =
        sqlite3_wal_checkpoint_v2(db->handle, "main", SQLITE_CHECKPOINT_PASSIVE, &pages, &copied);
    if (code != SQLITE_OK) {
        return sql_failure(db->handle, sqlite3_extended_errcode(db->handle), err);
    }
    *ret_pages = pages > 0 ? pages : 0;
    *ret_copied = copied > 0 ? copied : 0;
    return 0;
}

static int on_logged(void *context, sqlite3 *handle, const char *name, int pages)
{
    const struct sql *db = context;
    (void)handle;
    (void)name;
    db->logged(db->log_watcher, pages);
    return SQLITE_OK;
}

void sql_watch_log(struct sql *db, sql_logged *logged, void *context)
{
    db->logged = logged;
    db->log_watcher = context;
    /* In the place of SQLite's own. */
    sqlite3_wal_hook(db->handle, logged != NULL ? on_logged : NULL, db);
}
