#include "store/shrink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "store/internal.h"
#include "store/migrations.h"

/* A database of the older form is written anew at start up to so much in it: about a second. */
#define REWRITE_MAX (256 << 20)

struct pages {
    int64_t size, count, free;
    int64_t vacuum; /* PRAGMA auto_vacuum: 2 is INCREMENTAL */
};

static int read_pages(struct sql *db, struct pages *ret, struct err *err)
{
    static const char size[] = "PRAGMA page_size", count[] = "PRAGMA page_count",
                      free[] = "PRAGMA freelist_count", vacuum[] = "PRAGMA auto_vacuum";
    *ret = (struct pages){.size = 0};
    int rc = sql_number(db, size, SQL_NO_ARGS, &ret->size, err);
    rc = rc < 0 ? rc : sql_number(db, count, SQL_NO_ARGS, &ret->count, err);
    rc = rc < 0 ? rc : sql_number(db, free, SQL_NO_ARGS, &ret->free, err);
    rc = rc < 0 ? rc : sql_number(db, vacuum, SQL_NO_ARGS, &ret->vacuum, err);
    return rc < 0 ? rc : 0;
}

/* ---- step by step ---- */

int store_log_debt(struct store *s, int64_t *ret, struct err *err)
{
    struct pages p;
    struct stat file;
    const int rc = read_pages(s->db, &p, err);
    if (rc < 0 || stat(s->path, &file) < 0) {
        return rc < 0 ? rc : err_errno(err, "look at the database");
    }
    const int64_t debt = p.count * p.size - file.st_size;
    *ret = debt > 0 ? debt : 0;
    return 0;
}

/* A copy that fails for lack of room would have taken what is left of the disk. */
static int check_growth(struct store *s, struct err *err)
{
    struct statvfs disk;
    int64_t debt = 0;
    const int rc = store_log_debt(s, &debt, err);
    if (rc < 0 || statvfs(s->path, &disk) < 0) {
        return rc < 0 ? rc : err_errno(err, "look at the disk");
    }
    return (double)debt <= (double)disk.f_bavail * (double)disk.f_frsize
               ? 0
               : err_set(err, ERR_DISK_FULL, "There is no room to copy the database's log.");
}

int store_cut_log(struct store *s, struct err *err)
{
    const int rc = check_growth(s, err);
    return rc < 0 ? rc : sql_cut_log(s->db, err);
}

int store_end_shrinking(struct store *s, struct err *err)
{
    const int rc = store_cut_log(s, err);
    s->shrinking = s->shrinking && rc < 0;
    return rc;
}

static int free_pages(struct sql *db, int64_t pages, struct err *err)
{
    char text[64];
    snprintf(text, sizeof text, "PRAGMA incremental_vacuum(%lld)", (long long)pages);
    const int rc = sql_begin(db, err);
    return rc < 0 ? rc : sql_end(db, sql_script(db, text, err), err);
}

void store_watch_log(struct store *s, void (*logged)(void *context, int64_t pages), void *context)
{
    sql_watch_log(s->db, logged, context);
}

int store_copy_log_here(struct store *s, int64_t *ret_copied, struct err *err)
{
    int64_t pages = 0;
    return sql_copy_log(s->db, &pages, ret_copied, err);
}

int store_copy_log(const char *path, int64_t *ret_copied, struct err *err)
{
    struct sql *db = NULL;
    int64_t pages = 0;
    int rc = sql_open(path, &db, err);
    rc = rc == 0 ? sql_script(db, "PRAGMA synchronous = FULL", err) : rc;
    rc = rc == 0 ? sql_copy_log(db, &pages, ret_copied, err) : rc;
    sql_close(db);
    return rc;
}

/* What comes and goes all the time is not given back each time: it begins at twice what is kept. */
int store_shrink(struct store *s, int64_t keep_bytes, int64_t most_bytes, struct err *err)
{
    struct pages p;
    int rc = read_pages(s->db, &p, err);
    if (rc < 0 || p.vacuum != 2 || p.size < 1) {
        return rc;
    }
    const int64_t keep = keep_bytes / p.size, over = p.free - keep;
    if (over <= 0 || (!s->shrinking && over < keep)) {
        return s->shrinking ? STORE_SHRINK_CUT : 0;
    }
    const int64_t most = most_bytes > p.size ? most_bytes / p.size : 1;
    rc = free_pages(s->db, over < most ? over : most, err);
    s->shrinking = s->shrinking || rc == 0;
    return rc < 0 ? rc : STORE_SHRINK_MORE;
}

/* ---- at once ---- */

/* The log is gone with this, so that no other program takes it for that of the new file. */
static int leave_log(struct sql *db, struct err *err)
{
    static const char mode[] = "PRAGMA journal_mode = DELETE";
    static const char left[] = "SELECT count(*) FROM pragma_journal_mode "
                               "WHERE journal_mode = 'delete'";
    int64_t alone = 0;
    int rc = sql_run(db, mode, SQL_NO_ARGS, err);
    rc = rc < 0 ? rc : sql_number(db, left, SQL_NO_ARGS, &alone, err);
    return rc < 0       ? rc
           : alone == 1 ? 0
                        : err_set(err, ERR_BUSY, "Another process is using the database.");
}

static int write_anew(const char *path, const char *part, struct err *err)
{
    static const char vacuum[] = "VACUUM INTO ?1";
    struct sql *db = NULL;
    int rc = sql_open(path, &db, err);
    if (rc < 0) {
        return rc;
    }
    rc = leave_log(db, err);
    rc = rc == 0 ? sql_script(db, "PRAGMA auto_vacuum = INCREMENTAL", err) : rc;
    rc = rc == 0 ? sql_run(db, vacuum, SQL_ARGS(sql_text(part)), err) : rc;
    sql_close(db);
    return rc;
}

/* Whoever may read the one may read the other, also where root wrote it. */
static int replace(const char *part, const char *path, struct err *err)
{
    struct stat old;
    const int fd = open(part, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_errno(err, "open the new database");
    }
    int rc = stat(path, &old) == 0 && fchown(fd, old.st_uid, old.st_gid) == 0 &&
                     fchmod(fd, old.st_mode & 07777) == 0
                 ? 0
                 : err_errno(err, "give the new database its owner");
    rc = rc == 0 ? file_publish(fd, part, path, err) : rc;
    close(fd);
    return rc;
}

/* Under the lock, with no connection of this process. */
static int rewrite(const char *path, struct err *err)
{
    cleanup_buf struct buf part = BUF_INIT;
    buf_printf(&part, "%s-new", path);
    if (part.failed) {
        return err_no_memory(err);
    }
    unlink(part.data); /* of one that was killed */
    int rc = write_anew(path, part.data, err);
    rc = rc == 0 ? replace(part.data, path, err) : rc;
    if (rc < 0) {
        unlink(part.data);
    }
    return rc;
}

/* Only where it leaves room on the disk, and does not take long. */
static bool worth_rewriting(struct sql *db, const char *path)
{
    struct statvfs disk;
    struct pages p;
    if (read_pages(db, &p, NULL) < 0 || p.count == 0 || p.vacuum == 2 || statvfs(path, &disk) < 0) {
        return false;
    }
    const double used = (double)(p.count - p.free) * (double)p.size;
    return used <= REWRITE_MAX && 2.0 * used < (double)disk.f_bavail * (double)disk.f_frsize;
}

int shrink__modernize(struct store *s, struct err *err)
{
    if (!worth_rewriting(s->db, s->path)) {
        return 0;
    }
    s->db = sql_close(s->db);
    rewrite(s->path, &s->not_rewritten);
    return sql_open(s->path, &s->db, err);
}

const struct err *store_not_rewritten(const struct store *s)
{
    return s->not_rewritten.code != ERR_OK ? &s->not_rewritten : NULL;
}

/* One of ours, of a version that this program knows. */
static int look_at(const char *path, struct err *err)
{
    int version = 0;
    struct sql *db = NULL;
    int rc = sql_open(path, &db, err);
    rc = rc < 0 ? rc : migrations_version(db, &version, err);
    rc = rc < 0 ? rc : migrations_check(version, &migrations, err);
    sql_close(db);
    return rc;
}

static int file_size(const char *path, int64_t *ret, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "There is no database there.")
                               : err_errno(err, "look for the database");
    }
    *ret = st.st_size;
    return 0;
}

int store_compact(const char *path, int64_t *ret_before, int64_t *ret_after, struct err *err)
{
    int fd = -1;
    int rc = file_size(path, ret_before, err);
    rc = rc < 0 ? rc : store__lock(path, &fd, err);
    rc = rc < 0 ? rc : look_at(path, err);
    rc = rc < 0 ? rc : rewrite(path, err);
    rc = rc < 0 ? rc : file_size(path, ret_after, err);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}
