#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/internal.h"
#include "store/migrations.h"

/*
 * The lock is a file of its own beside the database, not SQLite's exclusive mode, so that an
 * operator's tools may still read. It vanishes with the process; the file itself stays, because
 * removing it would race with the next daemon.
 */
int store__lock(const char *path, int *ret_fd, struct err *err)
{
    cleanup_buf struct buf lock_path = BUF_INIT;
    buf_printf(&lock_path, "%s-lock", path);
    if (lock_path.failed) {
        return err_no_memory(err);
    }
    const int fd = open(lock_path.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_errno(err, "open the lock file of the database");
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        const int why = errno;
        close(fd);
        errno = why;
        return why == EWOULDBLOCK
                   ? err_set(err, ERR_CONFLICT, "Another daemon is using this data directory.")
                   : err_errno(err, "lock the database");
    }
    *ret_fd = fd;
    return 0;
}

/* The pragma must answer with the expected word. */
static int expect_word(struct sql *db, const char *pragma, const char *word, enum err_code code,
                       const char *complaint, struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(db, pragma, SQL_NO_ARGS, &st, err);
    if (rc < 0) {
        return rc;
    }
    cleanup_mem char *answer = rc == 0 ? NULL : sql_col_text(st, 0);
    rc = sql_row_check(st, err);
    if (rc < 0) {
        return rc;
    }
    const bool same = answer != NULL && strcmp(answer, word) == 0;
    return same ? 0 : err_set(err, code, "%s", complaint);
}

/*
 * page_size counts only before the first table is made; larger pages make chunks of models quicker
 * to write and to free. Debian's SQLite overwrites what is deleted unless told not to, which would
 * write every deleted model once more. The log is cut back to 64 MiB after a large transaction.
 */
static const char pragmas[] = "PRAGMA page_size = 16384;"
                              "PRAGMA synchronous = FULL;"
                              "PRAGMA foreign_keys = ON;"
                              "PRAGMA trusted_schema = OFF;"
                              "PRAGMA cell_size_check = ON;"
                              "PRAGMA secure_delete = OFF;"
                              "PRAGMA temp_store = MEMORY;"
                              "PRAGMA journal_size_limit = 67108864;";

static int sweep_staged(struct sql *db, struct err *err)
{
    const int rc = sql_begin(db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(db, models__drop_staged(db, NULL, err), err);
}

/* Nothing is written before the file is known to be ours and sound. */
static int prepare_database(struct store *s, struct err *err)
{
    int version;
    int rc = sql_script(s->db, pragmas, err);
    if (rc == 0) {
        rc = migrations_version(s->db, &version, err);
    }
    if (rc == 0) {
        rc = expect_word(s->db, "PRAGMA quick_check(1)", "ok", ERR_CORRUPT,
                         "The database is damaged; restore it from a backup.", err);
    }
    if (rc == 0) {
        rc = migrations_check(version, &migrations, err);
    }
    if (rc == 0) {
        rc = version == 0 ? sql_script(s->db, "PRAGMA auto_vacuum = INCREMENTAL", err)
                          : shrink__modernize(s, err);
    }
    if (rc == 0 && version != 0) {
        rc = sql_script(s->db, pragmas, err); /* once more, where it was opened again */
    }
    if (rc == 0) {
        rc = expect_word(s->db, "PRAGMA journal_mode = WAL", "wal", ERR_IO,
                         "The file system of the data directory cannot hold the database's log; "
                         "use a local disk.",
                         err);
    }
    if (rc == 0) {
        rc = migrations_run(s->db, &migrations, err);
    }
    if (rc == 0) {
        rc = migrations_version(s->db, &s->version, err);
    }
    return rc == 0 ? sweep_staged(s->db, err) : rc;
}

int store_open(const char *path, struct store **ret, struct err *err)
{
    struct store *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->lock_fd = -1;
    s->path = mem_strdup(path);
    int rc = s->path != NULL ? store__lock(path, &s->lock_fd, err) : err_no_memory(err);
    if (rc == 0) {
        rc = sql_open(path, &s->db, err);
    }
    if (rc == 0) {
        rc = prepare_database(s, err);
    }
    if (rc < 0) {
        store_close(s);
        return rc;
    }
    sql_set_patience(s->db, STORE_PATIENCE_MS);
    *ret = s;
    return 0;
}

struct store *store_close(struct store *s)
{
    if (s == NULL) {
        return NULL;
    }
    if (s->db != NULL) {
        sql_flush(s->db, NULL); /* best effort: whoever needed to know has asked before */
    }
    s->db = sql_close(s->db); /* checkpoints, being the last connection */
    if (s->lock_fd >= 0) {
        close(s->lock_fd);
    }
    mem_free(s->path);
    return mem_free(s);
}

void store_watch(struct store *s, void (*committed)(void *context, double seconds, int changes),
                 void *context)
{
    sql_watch(s->db, committed, context);
}

void store_watch_batches(struct store *s, void (*settled)(void *context, bool kept), void *context)
{
    sql_watch_batches(s->db, settled, context);
}

int store_flush(struct store *s, struct err *err)
{
    return s != NULL ? sql_flush(s->db, err) : 0;
}

int64_t store_losses(const struct store *s)
{
    return sql_losses(s->db);
}

int store_schema_version(struct store *s)
{
    return s->version;
}

enum err_code store_refusal(const struct store *s)
{
    return sql_refusal(s->db);
}

int store_probe(struct store *s, struct err *err)
{
    return sql_probe(s->db, err);
}

bool store_may_recover(int rc)
{
    return rc == -ERR_BUSY || rc == -ERR_DISK_FULL || rc == -ERR_READ_ONLY || rc == -ERR_IO;
}

static int newest_id(struct sql *db, const char *select, char ret[ID_SIZE], struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(db, select, SQL_NO_ARGS, &st, err);
    ret[0] = '\0';
    if (rc <= 0) {
        return rc;
    }
    sql_col_fixed(st, 0, ret, ID_SIZE);
    return sql_row_check(st, err);
}

int store_newest_ids(struct store *s, char ret_job[ID_SIZE], char ret_dataset[ID_SIZE],
                     struct err *err)
{
    const int rc = newest_id(s->db, "SELECT max(id) FROM jobs", ret_job, err);
    return rc < 0 ? rc : newest_id(s->db, "SELECT max(id) FROM datasets", ret_dataset, err);
}
