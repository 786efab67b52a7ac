#include "server/jobs/dispatch.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/pool/pool.h"

/* For so long what was read of the system's memory tells why jobs wait. */
#define FRESH_S 0.1
/* Of a worker: any, those of its kind, its own. */
#define OFFERS_PER_WORKER 3

static bool is_idle(const struct slot *s)
{
    return slot_kind(s) == SLOT_TRAIN && slot_state(s) == SLOT_IDLE;
}

/* 2: the job may start with that share, 1: once jobs at work have ended, 0: not even then. */
static int fit(const struct room_share *share, double bytes)
{
    return bytes <= share->now ? 2 : bytes <= share->later ? 1 : 0;
}

/* Of the idle workers that such a job may run on, the place of the one that it fits best; -1: none.
 * Among equals the first of the pool, where GPUs come first, whatever pages their processes have;
 * where it fits nowhere, the one where it would have most. */
static int best_place(const struct dispatch *d, const struct app *app, const char *device,
                      double bytes)
{
    int best = -1, best_fit = 0;
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (!is_idle(s) || !slot_takes(s, device)) {
            continue;
        }
        const int f = fit(&d->shares[i], bytes);
        const bool more = f == 0 && best >= 0 && d->shares[i].now > d->shares[best].now;
        if (best < 0 || f > best_fit || (f == best_fit && more)) {
            best = i;
            best_fit = f;
        }
    }
    return best;
}

static int read_memory(struct dispatch *d, const struct app *app, struct err *err)
{
    const int size = pool_size(app->pool);
    if (d->shares == NULL) {
        d->shares = mem_zarray((size_t)size, sizeof(*d->shares));
        d->offers = mem_zarray((size_t)size * OFFERS_PER_WORKER, sizeof(*d->offers));
        if (d->shares == NULL || d->offers == NULL) {
            dispatch_deinit(d);
            return err_no_memory(err);
        }
    }
    const struct room room = room_look(app);
    for (int i = 0; i < size; i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (is_idle(s)) {
            d->shares[i] = room_for(&room, s);
        }
    }
    d->read_s = clock_monotonic_s();
    return 0;
}

void dispatch_deinit(struct dispatch *d)
{
    d->shares = mem_free(d->shares);
    d->offers = mem_free(d->offers);
}

/* ---- offers ---- */

static int64_t whole_bytes(double bytes)
{
    return bytes < 9e18 ? (int64_t)fmax(bytes, 0) : INT64_MAX;
}

/* Appends the offer for jobs that ask so, where there is none yet; some idle worker takes them. */
static int offer(const struct app *app, struct dispatch *d, int count, const char *device,
                 bool any_size)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(d->offers[i].device, device) == 0) {
            return count;
        }
    }
    double most = 0;
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        most = is_idle(s) && slot_takes(s, device) ? fmax(most, d->shares[i].later) : most;
    }
    d->offers[count] = (struct jobs_offer){.device = device,
                                           .most_bytes = any_size ? INT64_MAX : whole_bytes(most)};
    return count + 1;
}

/* The kind is what stands before the colon of some device, which is a word of its own. */
static const char *kind_of(const struct slot *s)
{
    return slot_takes(s, "cpu") ? "cpu" : "cuda";
}

static int make_offers(const struct app *app, struct dispatch *d, bool any_size)
{
    int count = 0;
    for (int i = 0; i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        if (is_idle(s)) {
            count = offer(app, d, count, "auto", any_size);
            count = offer(app, d, count, kind_of(s), any_size);
            count = offer(app, d, count, slot_device(s), any_size);
        }
    }
    return count;
}

/* ---- the next job ---- */

static bool any_idle(const struct app *app)
{
    for (int i = 0; i < pool_size(app->pool); i++) {
        if (is_idle(pool_slot(app->pool, i))) {
            return true;
        }
    }
    return false;
}

/* First of all jobs, then of those that are not too large even once jobs at work have ended. */
int dispatch_next(struct dispatch *d, const struct app *app, int64_t now_ms,
                  struct job_head *ret_job, struct slot **ret_slot, struct err *err)
{
    d->waits = false;
    d->held.id[0] = '\0';
    if (!any_idle(app)) {
        return 0;
    }
    int r = read_memory(d, app, err);
    for (int pass = 0; r == 0 && pass < 2; pass++) {
        struct job_head head;
        const int count = make_offers(app, d, pass == 0);
        r = jobs_next(app->store, d->offers, count, now_ms, &head, err);
        const double bytes = r > 0 ? (double)head.host_bytes : 0;
        const int place = r > 0 ? best_place(d, app, head.wanted_device, bytes) : -1;
        if (place < 0) {
            return r < 0 ? r : 0;
        }
        const int f = fit(&d->shares[place], bytes);
        if (f == 2) {
            *ret_job = head;
            *ret_slot = pool_slot(app->pool, place);
            return 1;
        }
        d->waits = true;
        if (f == 1) {
            d->held = head;
            return 0;
        }
        r = 0;
    }
    return r;
}

/* ---- why a job waits ---- */

enum dispatch_lack dispatch_lack(struct dispatch *d, const struct app *app,
                                 const struct job_row *job, struct dispatch_memory *ret)
{
    const bool fresh = d->shares != NULL && clock_monotonic_s() - d->read_s <= FRESH_S;
    if (!fresh && read_memory(d, app, NULL) < 0) {
        return DISPATCH_NOTHING;
    }
    const double bytes = (double)job->host_bytes;
    const int place = best_place(d, app, job->wanted_device, bytes);
    if (place < 0) {
        return DISPATCH_NOTHING;
    }
    const struct room_share share = d->shares[place];
    if (bytes > share.now) {
        *ret = (struct dispatch_memory){.needed = bytes - share.has,
                                        .free = share.now - share.has,
                                        .ours = bytes <= share.later};
        return DISPATCH_MEMORY;
    }
    const bool behind = d->held.id[0] != '\0' && strcmp(d->held.id, job->id) != 0 &&
                        d->held.priority >= job->priority;
    return behind ? DISPATCH_TURN : DISPATCH_NOTHING;
}
