#include "server/offload.h"

#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"

struct offloaded {
    uv_work_t work;
    struct offload_line *line; /* NULL: none */
    struct offloaded *next;    /* in the line, while it waits */
    double due;                /* when it would end, had it begun when it came */
    bool brief;
    bool beside; /* under way beside `most` of its line */
    struct app *app;
    struct request *request; /* NULL: none, or its client left */
    const struct offload_ops *ops;
    void *context;
};

static void on_gone(struct request *rq)
{
    struct offloaded *o = rq->deferral;
    o->request = NULL;
    if (o->ops->left != NULL) {
        o->ops->left(o->context);
    }
}

static void work(uv_work_t *w)
{
    struct offloaded *o = w->data;
    o->ops->work(o->context);
}

static void leave_line(struct offloaded *o);

static void done(uv_work_t *w, int status)
{
    struct offloaded *o = w->data;
    (void)status; /* nothing is ever cancelled */
    o->app->offloaded--;
    if (o->line != NULL) {
        leave_line(o);
    }
    if (o->request != NULL) {
        o->request->on_gone = NULL;
    }
    o->ops->done(o->app, o->request, o->context);
    mem_free(o);
}

static void defer(struct offloaded *o, void (*gone)(struct request *rq))
{
    if (o->request != NULL) {
        o->request->deferral = o;
        o->request->on_gone = gone;
    }
}

/* On failure o stays with the caller. */
static int start(struct offloaded *o, struct err *err)
{
    const int rc = uv_queue_work(o->app->loop, &o->work, work, done);
    if (rc != 0) {
        return err_set(err, ERR_INTERNAL, "No thread took the work: %s.", uv_strerror(rc));
    }
    o->app->offloaded++;
    defer(o, on_gone);
    return 0;
}

static struct offloaded *offloaded_new(struct app *app, struct request *rq,
                                       const struct offload_ops *ops, void *context,
                                       struct err *err)
{
    struct offloaded *o = mem_zalloc(sizeof(*o));
    if (o == NULL) {
        err_no_memory(err);
        return NULL;
    }
    *o = (struct offloaded){.app = app, .request = rq, .ops = ops, .context = context};
    o->work.data = o;
    return o;
}

int offload(struct app *app, struct request *rq, const struct offload_ops *ops, void *context,
            struct err *err)
{
    struct offloaded *o = offloaded_new(app, rq, ops, context, err);
    if (o == NULL) {
        return -ERR_NO_MEMORY;
    }
    const int rc = start(o, err);
    if (rc != 0) {
        mem_free(o);
    }
    return rc;
}

/* ---- lines ---- */

/* The work will not be done. */
static void drop(struct offloaded *o)
{
    o->ops->dropped(o->app, o->context);
    mem_free(o);
}

static void take_out(struct offload_line *line, const struct offloaded *o)
{
    struct offloaded **at = &line->first;
    while (*at != o) {
        at = &(*at)->next;
    }
    *at = o->next;
}

static void gone_from_line(struct request *rq)
{
    struct offloaded *o = rq->deferral;
    take_out(o->line, o);
    drop(o);
}

static void wait_in(struct offload_line *line, struct offloaded *o)
{
    struct offloaded **at = &line->first;
    while (*at != NULL && (*at)->due <= o->due) {
        at = &(*at)->next;
    }
    o->next = *at;
    *at = o;
    defer(o, gone_from_line);
}

static bool has_room(const struct offload_line *line, const struct offloaded *o)
{
    return line->running < line->most || (o->brief && line->running_brief < line->most_brief);
}

/* On failure o stays with the caller. */
static int start_in(struct offload_line *line, struct offloaded *o, struct err *err)
{
    const int rc = start(o, err);
    if (rc == 0) {
        o->beside = line->running >= line->most;
        ++*(o->beside ? &line->running_brief : &line->running);
    }
    return rc;
}

static void begin(struct offload_line *line, struct offloaded *o)
{
    struct err err;
    take_out(line, o);
    if (start_in(line, o, &err) != 0) {
        o->request->on_gone = NULL;
        reply_error(o->request, &err);
        drop(o);
    }
}

/* The first of those that wait for which there is room. */
static struct offloaded *next_in(const struct offload_line *line)
{
    struct offloaded *o = line->first;
    while (o != NULL && !has_room(line, o)) {
        o = o->next;
    }
    return o;
}

static void leave_line(struct offloaded *o)
{
    struct offload_line *line = o->line;
    --*(o->beside ? &line->running_brief : &line->running);
    for (struct offloaded *next; (next = next_in(line)) != NULL;) {
        begin(line, next);
    }
}

int offload_in_line(struct app *app, struct offload_line *line, struct request *rq,
                    struct offload_cost cost, const struct offload_ops *ops, void *context,
                    struct err *err)
{
    struct offloaded *o = offloaded_new(app, rq, ops, context, err);
    if (o == NULL) {
        return -ERR_NO_MEMORY;
    }
    o->line = line;
    o->due = clock_monotonic_s() + cost.seconds;
    o->brief = cost.brief;
    if (!has_room(line, o)) {
        wait_in(line, o);
        return 0;
    }
    const int rc = start_in(line, o, err);
    if (rc != 0) {
        mem_free(o);
    }
    return rc;
}

/* ---- removing files ---- */

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
