#include "server/storage.h"

#include <sys/statvfs.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/jobs/trainer.h"
#include "server/log_copy.h"
#include "store/shrink.h"
#include "store/store.h"

enum { LOOK_MS = 500, SHRINK_MS = 25 };

/* Free pages of the database that stay in it for what comes next, unless the disk is short. */
#define SPARE_BYTES (16 << 20)

/* What a step of giving pages back takes of the file, and is to take of the loop's time. */
#define STEP_LEAST (128 << 10)
#define STEP_MOST (1 << 20)
static const double step_s = 0.004;

struct storage {
    struct app *app;
    uv_timer_t timer;
    enum err_code trouble;  /* when it was looked at last */
    enum err_code unshrunk; /* why nothing could be given back, as was logged last ... */
    double unshrunk_at;     /* ... and when, on the monotonic clock */
    int64_t step;           /* bytes */
};

/* A reason for giving nothing back that stays is logged again after so long. */
static const double unshrunk_again_s = 3600.0;

static int judge(const struct app *app, const struct statvfs *disk, int64_t bytes, struct err *err)
{
    const double available =
        (double)disk->f_bavail * (double)disk->f_frsize - (double)app->log_debt;
    const int64_t reserve = app->config.min_free_bytes;
    if (disk->f_flag & ST_RDONLY) {
        return err_set(err, ERR_READ_ONLY, "The storage is read-only.");
    }
    if (available >= (double)bytes + (double)reserve) {
        return 0;
    }
    return err_set(err, ERR_DISK_FULL,
                   "The storage is full: %.0f bytes are free, %lld are needed, and %lld are kept "
                   "for jobs that have begun (--min-free-bytes).",
                   available > 0.0 ? available : 0.0, (long long)bytes, (long long)reserve);
}

/* What is in the log is copied into the database some time, and takes its room then. */
static void look_at_log(struct app *app)
{
    int64_t debt = 0;
    if (store_log_debt(app->store, &debt, NULL) == 0) {
        app->log_debt = debt;
    }
}

/* What cannot be looked at will say so itself when it is written. */
int storage_room(struct app *app, int64_t bytes, struct err *err)
{
    struct statvfs disk;
    look_at_log(app);
    return statvfs(app->config.data_dir, &disk) == 0 ? judge(app, &disk, bytes, err) : 0;
}

int storage_room_at(const struct app *app, int fd, int64_t bytes, struct err *err)
{
    struct statvfs disk;
    return fstatvfs(fd, &disk) == 0 ? judge(app, &disk, bytes, err) : 0;
}

/* The log grows until it is cut. */
int storage_make_room(struct app *app, int64_t bytes, struct err *err)
{
    const int r = storage_room(app, bytes, err);
    return r == -ERR_DISK_FULL && store_cut_log(app->store, NULL) == 0
               ? storage_room(app, bytes, err)
               : r;
}

/* ---- looking ---- */

static enum err_code find_trouble(const struct storage *s, struct err *err)
{
    int r = storage_make_room(s->app, 0, err);
    if (r == 0 && store_refusal(s->app->store) != ERR_OK) {
        r = store_probe(s->app->store, err);
    }
    return r < 0 ? (enum err_code) - r : ERR_OK;
}

static void look(struct storage *s)
{
    struct err err = {.code = ERR_OK};
    const enum err_code found = find_trouble(s, &err);
    if (found == s->trouble) {
        return;
    }
    s->trouble = found;
    if (found != ERR_OK) {
        log_msg(&s->app->log, LOG_ERROR, "storage.trouble", "code", err_name(found), "detail",
                err.detail, NULL);
        return;
    }
    log_msg(&s->app->log, LOG_INFO, "storage.recovered", NULL);
    trainer_kick(s->app->trainer);
}

/* Not that somebody reads the database, which passes, nor what look() tells of. */
static void tell_unshrunk(struct storage *s, const struct err *why)
{
    const double now = clock_monotonic_s();
    const bool told = why->code == s->unshrunk && now < s->unshrunk_at + unshrunk_again_s;
    if (why->code == ERR_BUSY || why->code == ERR_DISK_FULL || told) {
        return;
    }
    s->unshrunk = why->code;
    s->unshrunk_at = now;
    log_msg(&s->app->log, LOG_WARNING, "storage.not_shrunk", "code", err_name(why->code), "detail",
            why->detail, NULL);
}

/* Slow disks are given less at a time. */
static int step(struct storage *s, int64_t keep, struct err *err)
{
    const double began = clock_monotonic_s();
    const int r = store_shrink(s->app->store, keep, s->step, err);
    const double seconds = clock_monotonic_s() - began;
    if (r == STORE_SHRINK_MORE && seconds > step_s && s->step > STEP_LEAST) {
        s->step /= 2;
    } else if (r == STORE_SHRINK_MORE && seconds < 0.4 * step_s && s->step < STEP_MOST) {
        s->step *= 2;
    }
    return r;
}

/* Gives some of what was deleted back to the file system; whether there is more. The log is cut
 * when it has been copied, else a look later. */
static bool shrink(struct storage *s)
{
    struct app *app = s->app;
    const int64_t keep = s->trouble == ERR_DISK_FULL ? 0 : SPARE_BYTES;
    struct err why;
    if (store_refusal(app->store) != ERR_OK) {
        return false;
    }
    int r = step(s, keep, &why);
    if (r == STORE_SHRINK_CUT) {
        r = log_copy_all(app->log_copy) ? store_end_shrinking(app->store, &why) : 0;
    }
    if (r < 0) {
        tell_unshrunk(s, &why);
    }
    return r == STORE_SHRINK_MORE;
}

static void on_timer(uv_timer_t *timer)
{
    struct storage *s = timer->data;
    look(s);
    uv_timer_start(timer, on_timer, shrink(s) ? SHRINK_MS : LOOK_MS, 0);
}

enum err_code storage_trouble(const struct app *app, const char **ret_reason)
{
    const enum err_code refusal = store_refusal(app->store);
    const enum err_code code = refusal == ERR_OK && app->storage ? app->storage->trouble : refusal;
    if (code != ERR_OK && ret_reason) {
        *ret_reason = code == ERR_DISK_FULL   ? "The storage is full."
                      : code == ERR_READ_ONLY ? "The storage is read-only."
                      : code == ERR_BUSY      ? "Another process has locked the database."
                                              : "The storage cannot be written.";
    }
    return code;
}

int storage_new(struct app *app, struct storage **ret, struct err *err)
{
    struct storage *s = mem_zalloc(sizeof *s);
    if (!s) {
        return err_no_memory(err);
    }
    s->app = app;
    s->step = STEP_MOST;
    uv_timer_init(app->loop, &s->timer);
    s->timer.data = s;
    uv_timer_start(&s->timer, on_timer, 0, 0);
    uv_unref((uv_handle_t *)&s->timer);
    *ret = s;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

struct storage *storage_stop(struct storage *s)
{
    if (s) {
        uv_close((uv_handle_t *)&s->timer, on_closed);
    }
    return NULL;
}
