#include "server/offload.h"

#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "server/app.h"

struct offloaded {
    uv_work_t work;
    struct app *app;
    struct request *request; /* NULL: none, or its client left */
    const struct offload_ops *ops;
    void *context;
};

static void on_gone(struct request *rq)
{
    struct offloaded *o = rq->deferral;
    o->request = NULL;
}

static void work(uv_work_t *w)
{
    struct offloaded *o = w->data;
    o->ops->work(o->context);
}

static void done(uv_work_t *w, int status)
{
    struct offloaded *o = w->data;
    (void)status; /* nothing is ever cancelled */
    o->app->offloaded--;
    if (o->request != NULL) {
        o->request->on_gone = NULL;
    }
    o->ops->done(o->app, o->request, o->context);
    mem_free(o);
}

int offload(struct app *app, struct request *rq, const struct offload_ops *ops, void *context,
            struct err *err)
{
    struct offloaded *o = mem_zalloc(sizeof(*o));
    if (o == NULL) {
        return err_no_memory(err);
    }
    *o = (struct offloaded){.app = app, .request = rq, .ops = ops, .context = context};
    o->work.data = o;
    const int rc = uv_queue_work(app->loop, &o->work, work, done);
    if (rc != 0) {
        mem_free(o);
        return err_set(err, ERR_INTERNAL, "No thread took the work: %s.", uv_strerror(rc));
    }
    app->offloaded++;
    if (rq != NULL) {
        rq->deferral = o;
        rq->on_gone = on_gone;
    }
    return 0;
}

struct discarded {
    int fd;
    char path[];
};

static void discard(int fd, const char *path)
{
    unlink(path);
    if (fd >= 0) {
        close(fd);
    }
}

static void discard_work(void *context)
{
    const struct discarded *d = context;
    discard(d->fd, d->path);
}

static void discard_done(struct app *app, struct request *rq, void *context)
{
    (void)app;
    (void)rq;
    mem_free(context);
}

void offload_discard(struct app *app, int fd, const char *path)
{
    static const struct offload_ops ops = {.work = discard_work, .done = discard_done};
    const size_t size = strlen(path) + 1;
    struct discarded *d = mem_alloc(sizeof(*d) + size);
    if (d != NULL) {
        d->fd = fd;
        memcpy(d->path, path, size);
    }
    if (d == NULL || offload(app, NULL, &ops, d, NULL) != 0) {
        mem_free(d);
        discard(fd, path);
    }
}
