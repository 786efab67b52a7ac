#include "store/maintain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "store/migrations.h"
#include "store/sql.h"

/* One of ours, of a version that this program knows. */
static int open_existing(const char *path, struct sql **ret, struct err *err)
{
    struct stat st;
    int version = 0;
    struct sql *db = NULL;
    if (stat(path, &st) < 0) {
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "There is no database there.")
                               : err_errno(err, "look for the database");
    }
    int rc = sql_open(path, &db, err);
    if (rc == 0) {
        rc = sql_script(db, "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;", err);
    }
    if (rc == 0) {
        rc = migrations_version(db, &version, err);
    }
    if (rc == 0) {
        rc = migrations_check(version, &migrations, err);
    }
    if (rc < 0) {
        sql_close(db);
        return rc;
    }
    *ret = db;
    return 0;
}

/* ---- backup ---- */

/* A lock or a log beside a file: some program's working database, and no backup. */
static int check_unused(const char *path, struct err *err)
{
    static const char *const beside[] = {"-lock", "-wal", "-journal"};
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        cleanup_buf struct buf other = BUF_INIT;
        struct stat st;
        buf_printf(&other, "%s%s", path, beside[i]);
        if (other.failed) {
            return err_no_memory(err);
        }
        if (lstat(other.data, &st) == 0) {
            return err_set(err, ERR_CONFLICT,
                           "The file is a database in use: there is one beside it that ends in %s.",
                           beside[i]);
        }
    }
    return 0;
}

/* Of what is there already, only an earlier backup may go, or an empty file. 1: there is one. */
static int check_replaceable(const char *to, struct err *err)
{
    struct stat st;
    struct sql *db = NULL;
    struct err why;
    if (lstat(to, &st) < 0) {
        return errno == ENOENT ? 0 : err_errno(err, "look for an earlier backup");
    }
    int rc = S_ISREG(st.st_mode) ? 0 : err_set(err, ERR_CONFLICT, "What is there is not a file.");
    rc = rc == 0 ? check_unused(to, err) : rc;
    if (rc < 0 || st.st_size == 0) {
        return rc < 0 ? rc : 1;
    }
    rc = open_existing(to, &db, &why);
    sql_close(db);
    return rc == 0 ? 1
                   : err_set(err, ERR_CONFLICT,
                             "The file exists already, and is not a backup of krrd: it stays.");
}

/* A link, unlike a rename, does not replace what has come into being meanwhile. */
static int put_new(int fd, const char *part, const char *to, struct err *err)
{
    if (fsync(fd) < 0) {
        return err_errno(err, "write the backup");
    }
    if (link(part, to) < 0) {
        return errno == EEXIST ? err_set(err, ERR_CONFLICT, "The file exists already.")
                               : err_errno(err, "name the backup");
    }
    unlink(part);
    cleanup_mem char *dir = mem_strdup(to);
    if (!dir) {
        return err_no_memory(err);
    }
    char *slash = strrchr(dir, '/');
    if (slash) {
        slash[slash == dir] = '\0';
    }
    return file_sync_dir(slash ? dir : ".", err);
}

static int publish(const char *part, const char *to, bool replace, struct err *err)
{
    const int fd = open(part, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, "open the backup");
    }
    const int rc = replace ? file_publish(fd, part, to, err) : put_new(fd, part, to, err);
    close(fd);
    if (rc < 0) {
        unlink(part);
    }
    return rc;
}

int store_backup(const char *path, const char *to, struct err *err)
{
    cleanup_buf struct buf part = BUF_INIT;
    buf_printf(&part, "%s.%d.part", to, (int)getpid());
    if (part.failed) {
        return err_no_memory(err);
    }
    struct sql *db = NULL;
    const int there = check_replaceable(to, err);
    int rc = there < 0 ? there : open_existing(path, &db, err);
    if (rc == 0) {
        rc = sql_copy(db, part.data, err);
        sql_close(db);
        if (rc == -ERR_DISK_FULL) {
            err_set(err, ERR_DISK_FULL, "The disk that the backup should go to is full.");
        }
        if (rc < 0) {
            unlink(part.data);
        }
    }
    return rc == 0 ? publish(part.data, to, there > 0, err) : rc;
}

/* ---- check ---- */

static int check_pages(struct sql *db, const struct store_check *c, struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_start(db, "PRAGMA integrity_check", SQL_NO_ARGS, &st, err);
    while (rc == 0 && (rc = sql_next(st, err)) == 1) {
        cleanup_mem char *line = sql_col_text(st, 0);
        rc = sql_row_check(st, err);
        if (rc == 0 && line && strcmp(line, "ok") != 0) {
            c->problem(c->context, "database", "", line);
        }
    }
    return rc;
}

static int check_references(struct sql *db, const struct store_check *c, struct err *err)
{
    int64_t count = 0;
    const int rc =
        sql_number(db, "SELECT count(*) FROM pragma_foreign_key_check", SQL_NO_ARGS, &count, err);
    if (rc > 0 && count > 0) {
        c->problem(c->context, "database", "", "Some rows refer to rows that are not there.");
    }
    return rc < 0 ? rc : 0;
}

/* Texts that are handed out as they are stored; models' descriptions are looked at with them. */
#define BROKEN(id, from, column)                                                                   \
    "SELECT DISTINCT " id " FROM " from " WHERE " column " <> '' AND NOT json_valid(" column ")"
#define EVENTS "events e JOIN jobs j ON j.key = e.job"
static const struct text {
    const char *kind, *column, *broken;
} texts[] = {
    {"dataset", "info", BROKEN("id", "datasets", "info")},
    {"dataset", "summary", BROKEN("id", "datasets", "summary")},
    {"job", "spec", BROKEN("id", "jobs", "spec")},
    {"job", "plan", BROKEN("id", "jobs", "plan")},
    {"job", "result", BROKEN("id", "jobs", "result")},
    {"job", "error", BROKEN("id", "jobs", "error")},
    {"job", "progress", BROKEN("id", "jobs", "progress")},
    {"job", "promotion", BROKEN("id", "jobs", "promotion")},
    {"job", "data of an event", BROKEN("j.id", EVENTS, "e.data")},
};
#undef EVENTS
#undef BROKEN

static int check_text(struct sql *db, const struct store_check *c, const struct text *t,
                      struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_start(db, t->broken, SQL_NO_ARGS, &st, err);
    while (rc == 0 && (rc = sql_next(st, err)) == 1) {
        cleanup_mem char *id = sql_col_text(st, 0);
        rc = sql_row_check(st, err);
        if (rc == 0) {
            char told[64];
            snprintf(told, sizeof(told), "The text \"%s\" of its row is no JSON.", t->column);
            c->problem(c->context, t->kind, id, told);
        }
    }
    return rc;
}

/* A database of an earlier version has not all of the columns, and is looked at once it is used. */
static int check_texts(struct sql *db, const struct store_check *c, struct err *err)
{
    int version = 0, rc = migrations_version(db, &version, err);
    if (rc < 0 || version < migrations.count) {
        return rc;
    }
    for (size_t i = 0; rc == 0 && i < sizeof(texts) / sizeof(texts[0]); i++) {
        rc = check_text(db, c, &texts[i], err);
    }
    return rc;
}

/* One that has been deleted since its row was read is no problem. */
static int check_dataset(struct sql *db, const struct store_check *c, const char *id, int64_t rows,
                         int64_t columns, struct err *err)
{
    static const char still[] = "SELECT count(*) FROM datasets WHERE id = ?1";
    struct err found = {.code = ERR_OK};
    int64_t there = 0;
    if (c->dataset(c->context, id, rows, columns, &found) == 0) {
        return 0;
    }
    const int rc = sql_number(db, still, SQL_ARGS(sql_text(id)), &there, err);
    if (rc > 0 && there > 0) {
        c->problem(c->context, "dataset", id, found.detail);
    }
    return rc < 0 ? rc : 0;
}

static int check_datasets(struct sql *db, struct store_check *c, struct err *err)
{
    static const char next[] = "SELECT id, rows, columns FROM datasets WHERE id > ?1 "
                               "ORDER BY id LIMIT 1";
    char id[64] = "";
    for (;;) {
        struct sql_stmt *st = NULL;
        int rc = sql_first(db, next, SQL_ARGS(sql_text(id)), &st, err);
        if (rc <= 0) {
            sql_done(st);
            return rc;
        }
        char found[sizeof id];
        sql_col_fixed(st, 0, found, sizeof found);
        const int64_t rows = sql_col_int(st, 1), columns = sql_col_int(st, 2);
        rc = sql_row_check(st, err);
        sql_done(st);
        memcpy(id, found, sizeof id);
        c->datasets++;
        rc = rc == 0 ? check_dataset(db, c, id, rows, columns, err) : rc;
        if (rc < 0) {
            return rc;
        }
    }
}

struct model {
    int64_t key, version, bytes, chunks;
    char sha256[SHA256_HEX_SIZE];
    char *name, *description;
};

/* What the chunks of the model really are: their number, size and digest. */
static int digest_chunks(struct sql *db, const struct model *m, struct sha256 *hash,
                         struct model *ret, struct err *err)
{
    static const char select[] = "SELECT data FROM model_chunks WHERE model = ?1 ORDER BY number";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_start(db, select, SQL_ARGS(sql_int(m->key)), &st, err);
    while (rc == 0 && (rc = sql_next(st, err)) == 1) {
        size_t size = 0;
        cleanup_mem void *data = sql_col_blob(st, 0, &size);
        rc = sql_row_check(st, err);
        if (rc == 0) {
            sha256_update(hash, data, size);
            ret->bytes += (int64_t)size;
            ret->chunks++;
        }
    }
    sha256_hex(hash, ret->sha256);
    return rc;
}

/* The whole file of a model, whose size was found right. */
static int read_chunks(struct sql *db, const struct model *m, char *file, struct err *err)
{
    static const char select[] = "SELECT data FROM model_chunks WHERE model = ?1 ORDER BY number";
    cleanup_sql struct sql_stmt *st = NULL;
    size_t have = 0;
    int rc = sql_start(db, select, SQL_ARGS(sql_int(m->key)), &st, err);
    while (rc == 0 && (rc = sql_next(st, err)) == 1) {
        size_t size = 0;
        cleanup_mem void *data = sql_col_blob(st, 0, &size);
        rc = sql_row_check(st, err);
        if (rc == 0 && size <= (size_t)m->bytes - have) {
            memcpy(file + have, data, size);
            have += size;
        }
    }
    return rc;
}

/* 0 with *found unchanged where it can be opened. */
static int open_model(struct sql *db, const struct store_check *c, const struct model *m,
                      struct err *found, struct err *err)
{
    cleanup_mem char *file = mem_alloc((size_t)m->bytes);
    if (!file) {
        err_set(found, ERR_NO_MEMORY, "There is not enough memory to open it.");
        return 0;
    }
    const int rc = read_chunks(db, m, file, err);
    if (rc == 0) {
        c->model(c->context, m->description, file, (size_t)m->bytes, found);
    }
    return rc;
}

static int look_at_model(struct sql *db, const struct store_check *c, const struct model *m,
                         struct err *found, struct err *err)
{
    struct model real = {.key = m->key};
    struct sha256 *hash = sha256_new();
    if (!hash) {
        return err_no_memory(err);
    }
    const int rc = digest_chunks(db, m, hash, &real, err);
    sha256_free(hash);
    if (rc < 0) {
        return rc;
    }
    if (real.bytes != m->bytes || real.chunks != m->chunks) {
        err_set(found, ERR_CORRUPT, "It is not as long as its row says.");
    } else if (strcmp(real.sha256, m->sha256) != 0) {
        err_set(found, ERR_CORRUPT, "Its bytes do not have the digest of its row.");
    } else {
        return open_model(db, c, m, found, err);
    }
    return 0;
}

/* One that has been deleted since its row was read is no problem. */
static int check_model(struct sql *db, const struct store_check *c, const struct model *m,
                       struct err *err)
{
    static const char still[] = "SELECT count(*) FROM models WHERE key = ?1";
    struct err found = {.code = ERR_OK};
    int64_t there = 0;
    int rc = look_at_model(db, c, m, &found, err);
    if (rc == 0 && found.code != ERR_OK) {
        rc = sql_number(db, still, SQL_ARGS(sql_int(m->key)), &there, err);
    }
    if (there > 0) {
        char id[192];
        snprintf(id, sizeof id, "%.160s/%lld", m->name ? m->name : "", (long long)m->version);
        c->problem(c->context, "model", id, found.detail);
    }
    return rc < 0 ? rc : 0;
}

static int check_models(struct sql *db, struct store_check *c, struct err *err)
{
    static const char next[] = "SELECT key, version, bytes, chunks, sha256, name, "
                               "description FROM models "
                               "WHERE key > ?1 AND version IS NOT NULL ORDER BY key LIMIT 1";
    struct model m = {.key = 0};
    for (;;) {
        struct sql_stmt *st = NULL;
        int rc = sql_first(db, next, SQL_ARGS(sql_int(m.key)), &st, err);
        if (rc <= 0) {
            sql_done(st);
            return rc;
        }
        m = (struct model){.key = sql_col_int(st, 0),
                           .version = sql_col_int(st, 1),
                           .bytes = sql_col_int(st, 2),
                           .chunks = sql_col_int(st, 3)};
        sql_col_fixed(st, 4, m.sha256, sizeof m.sha256);
        m.name = sql_col_text(st, 5);
        m.description = sql_col_text(st, 6);
        rc = sql_row_check(st, err);
        sql_done(st);
        c->models++;
        rc = rc == 0 ? check_model(db, c, &m, err) : rc;
        m.name = mem_free(m.name);
        m.description = mem_free(m.description);
        if (rc < 0) {
            return rc;
        }
    }
}

int store_check(const char *path, struct store_check *c, struct err *err)
{
    struct sql *db = NULL;
    int rc = open_existing(path, &db, err);
    if (rc < 0) {
        return rc;
    }
    rc = check_pages(db, c, err);
    rc = rc == 0 ? check_references(db, c, err) : rc;
    rc = rc == 0 ? check_texts(db, c, err) : rc;
    rc = rc == 0 ? check_datasets(db, c, err) : rc;
    rc = rc == 0 ? check_models(db, c, err) : rc;
    sql_close(db);
    return rc;
}
