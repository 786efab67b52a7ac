#include "server/log_copy.h"

#include "base/mem.h"
#include "server/app.h"
#include "server/offload.h"
#include "store/shrink.h"

enum {
    LONG_PAGES = 1000, /* 16 MiB: SQLite copies at so many */
    FEW_PAGES = 64,    /* are copied on the loop */
};

struct log_copy {
    struct app *app;
    int64_t pages, copied; /* in the log; of these, copied as far as is known */
    bool busy;
};

/* ---- on the other thread ---- */

struct copying {
    char path[APP_PATH_MAX];
    int64_t copied;
    int rc;
};

static void copy_work(void *context)
{
    struct copying *c = context;
    c->rc = store_copy_log(c->path, &c->copied, NULL);
}

/* What was written meanwhile is copied here where it is little, so that the next commit begins the
 * log anew: else one that is always written to would grow for ever. */
static void catch_up(struct log_copy *l)
{
    const int64_t left = l->pages - l->copied;
    if (l->pages > LONG_PAGES && left > 0 && left <= FEW_PAGES) {
        store_copy_log_here(l->app->store, &l->copied, NULL);
    }
}

static void copy_done(struct app *app, struct request *none, void *context)
{
    struct copying *c = context;
    struct log_copy *l = app->log_copy;
    (void)none;
    if (l != NULL) {
        l->busy = false;
        l->copied = c->rc == 0 ? c->copied : 0;
        catch_up(l);
    }
    mem_free(c);
}

/* Lack of memory or of threads: the next commit tries again. */
static void begin(struct log_copy *l)
{
    static const struct offload_ops ops = {.work = copy_work, .done = copy_done};
    struct copying *c = mem_zalloc(sizeof(*c));
    if (c == NULL) {
        return;
    }
    app_database_path(l->app, c->path);
    l->busy = offload(l->app, NULL, &ops, c, NULL) == 0;
    if (!l->busy) {
        mem_free(c);
    }
}

static void on_logged(void *context, int64_t pages)
{
    struct log_copy *l = context;
    l->copied = l->copied >= l->pages ? 0 : l->copied; /* it has begun anew, unless it is read */
    l->pages = pages;
    if (pages >= LONG_PAGES && pages - l->copied > FEW_PAGES && !l->busy) {
        begin(l);
    }
}

bool log_copy_all(struct log_copy *l)
{
    const bool few = l->pages - l->copied <= FEW_PAGES;
    if (!l->busy && !few) {
        begin(l);
    }
    return !l->busy && few;
}

int log_copy_new(struct app *app, struct log_copy **ret, struct err *err)
{
    struct log_copy *l = mem_zalloc(sizeof(*l));
    if (l == NULL) {
        return err_no_memory(err);
    }
    l->app = app;
    store_watch_log(app->store, on_logged, l);
    *ret = l;
    return 0;
}

struct log_copy *log_copy_free(struct log_copy *l)
{
    if (l != NULL) {
        store_watch_log(l->app->store, NULL, NULL);
    }
    return mem_free(l);
}
