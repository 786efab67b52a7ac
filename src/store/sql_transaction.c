/* Transactions, alone and in batches, and what is known of those that the database refused. */
#include <stdio.h>

#include "base/clock.h"
#include "store/sql_internal.h"

void sql_watch(struct sql *db, sql_committed *committed, void *context)
{
    db->committed = committed;
    db->watcher = context;
}

int64_t sql_losses(const struct sql *db)
{
    return db->losses;
}

void sql_watch_batches(struct sql *db, sql_settled *settled, void *context)
{
    db->settled = settled;
    db->batch_watcher = context;
}

void sql_set_patience(struct sql *db, int ms)
{
    db->patience_ms = ms;
    sql__set_timeout(db, ms);
}

enum err_code sql_refusal(const struct sql *db)
{
    return db->refusal;
}

/* `code` is ERR_OK for a change that got through. */
static void set_refusal(struct sql *db, enum err_code code)
{
    if ((db->refusal == ERR_BUSY) != (code == ERR_BUSY)) {
        sql__set_timeout(db, code == ERR_BUSY ? 0 : db->patience_ms);
    }
    db->refusal = code;
}

static int note_refusal(struct sql *db, int rc)
{
    if (rc == -ERR_BUSY || rc == -ERR_DISK_FULL || rc == -ERR_READ_ONLY || rc == -ERR_IO) {
        set_refusal(db, (enum err_code) - rc);
    }
    return rc;
}

static int begin(struct sql *db, struct err *err)
{
    static const char text[] = "BEGIN IMMEDIATE";
    const int rc = note_refusal(db, sql_run(db, text, SQL_NO_ARGS, err));
    db->changes = sql__total_changes(db);
    if (rc == 0 && db->refusal == ERR_BUSY) {
        set_refusal(db, ERR_OK);
    }
    return rc;
}

static void settle_batch(struct sql *db, bool kept)
{
    const bool told = db->open && db->settled != NULL;
    db->losses += db->open && !kept;
    db->open = false;
    db->batched = 0;
    if (told) {
        db->settled(db->batch_watcher, kept);
    }
}

/* Each change within a batch is one. */
static int begin_savepoint(struct sql *db, struct err *err)
{
    static const char text[] = "SAVEPOINT change";
    return sql_run(db, text, SQL_NO_ARGS, err);
}

static int release_savepoint(struct sql *db, struct err *err)
{
    static const char text[] = "RELEASE change";
    return sql_run(db, text, SQL_NO_ARGS, err);
}

/* Nothing of the transaction is left, and of the batch neither where there is one. A full disk may
 * have rolled back by itself; ROLLBACK would be an error then. */
static void roll_back(struct sql *db)
{
    static const char text[] = "ROLLBACK";
    if (sql__in_transaction(db)) {
        sql_run(db, text, SQL_NO_ARGS, NULL);
    }
    settle_batch(db, false);
}

/* Takes back the change of the batch that failed; the others stay, where SQLite lets them. */
static void undo(struct sql *db)
{
    static const char text[] = "ROLLBACK TO change";
    if (!sql__in_transaction(db) || sql_run(db, text, SQL_NO_ARGS, NULL) < 0 ||
        release_savepoint(db, NULL) < 0) {
        roll_back(db);
    } else if (db->batched == 0) { /* an empty batch would keep others from writing */
        db->open = false;
        roll_back(db);
    }
}

static int commit(struct sql *db, int changes, struct err *err)
{
    static const char text[] = "COMMIT";
    const double began = clock_monotonic_s();
    const bool changed = sql__total_changes(db) != db->changes;
    const int rc = note_refusal(db, sql_run(db, text, SQL_NO_ARGS, err));
    if (rc < 0) {
        roll_back(db);
        return rc;
    }
    if (changed) { /* what changes nothing writes nothing */
        set_refusal(db, ERR_OK);
    }
    settle_batch(db, true);
    if (db->committed != NULL) {
        db->committed(db->watcher, clock_monotonic_s() - began, changes);
    }
    return 0;
}

int sql_begin(struct sql *db, struct err *err)
{
    return db->open ? begin_savepoint(db, err) : begin(db, err);
}

int sql_end(struct sql *db, int rc, struct err *err)
{
    if (rc >= 0 && db->open) {
        const int released = release_savepoint(db, err);
        rc = released < 0 ? released : rc;
    }
    if (rc >= 0) {
        const int committed = commit(db, db->batched + 1, err);
        return committed < 0 ? committed : rc;
    }
    note_refusal(db, rc);
    if (db->open) {
        undo(db);
    } else {
        roll_back(db);
    }
    return rc;
}

int sql_begin_batched(struct sql *db, struct err *err)
{
    if (!db->open) {
        const int rc = begin(db, err);
        if (rc < 0) {
            return rc;
        }
        db->open = true;
    }
    return begin_savepoint(db, err);
}

int sql_end_batched(struct sql *db, int rc, struct err *err)
{
    if (rc >= 0) {
        const int released = release_savepoint(db, err);
        rc = released < 0 ? released : rc;
    }
    if (rc >= 0) {
        db->batched++;
    } else {
        note_refusal(db, rc);
        undo(db);
    }
    return rc;
}

int sql_flush(struct sql *db, struct err *err)
{
    return db->open ? commit(db, db->batched, err) : 0;
}

/* Writes the file's first page as it is. On a full disk the log, which grows until it is copied
 * into the database now and then, is copied first: what it takes can then be written again. */
int sql_probe(struct sql *db, struct err *err)
{
    int64_t version = 0;
    if (db->refusal == ERR_DISK_FULL) {
        sql__restart_log(db);
    }
    int rc = sql_number(db, "PRAGMA user_version", SQL_NO_ARGS, &version, err);
    rc = rc < 0 ? rc : sql_begin(db, err);
    if (rc < 0) {
        return rc;
    }
    char text[64];
    snprintf(text, sizeof(text), "PRAGMA user_version = %lld", (long long)version);
    rc = sql_end(db, sql_script(db, text, err), err);
    if (rc == 0) {
        set_refusal(db, ERR_OK);
    }
    return rc;
}

int sql_cut_log(struct sql *db, struct err *err)
{
    static const char text[] = "PRAGMA wal_checkpoint(TRUNCATE)";
    int64_t held = 0;
    int rc = sql_flush(db, err);
    if (rc < 0) {
        return rc;
    }
    sql__set_timeout(db, 0);
    rc = sql_number(db, text, SQL_NO_ARGS, &held, err);
    sql__set_timeout(db, db->refusal == ERR_BUSY ? 0 : db->patience_ms);
    return rc < 0 ? rc : held == 0 ? 0 : err_set(err, ERR_BUSY, "A reader needs the log.");
}
