#include "server/offload.h"

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
