#include "server/pool/roster.h"

#include "server/pool/probe.h"

static void add(struct roster *to, enum slot_kind kind, const char *device, const char *program)
{
    to->places[to->count++] =
        (struct pool_place){.kind = kind, .device = device, .program = program};
}

static void add_gpus(const struct roster_options *o, enum slot_kind kind, uint64_t gpus,
                     struct roster *to)
{
    char *const device = to->devices[to->gpu_count++];
    placement_device(gpus, device);
    add(to, kind, device, o->cuda_program);
}

/* Several together come first: they are the fastest. */
static void add_all(const struct roster_options *o, enum slot_kind kind, const struct placement *p,
                    struct roster *to)
{
    for (int i = 0; i < p->group_count; i++) {
        add_gpus(o, kind, p->groups[i], to);
    }
    for (int i = 0; i < PLACEMENT_CUDA_MAX; i++) {
        if (p->cuda >> i & 1) {
            add_gpus(o, kind, UINT64_C(1) << i, to);
        }
    }
    for (int i = 0; i < p->cpu; i++) {
        add(to, kind, "cpu", o->program);
    }
}

/* "all" becomes those that there are; one that is named has to be among them. */
static int settle(struct placement *p, uint64_t found, struct err *err)
{
    if (p->cuda_all) {
        p->cuda_all = false;
        p->cuda = found;
    }
    const uint64_t missing = placement_gpus(p) & ~found;
    return missing == 0 ? 0
                        : err_set(err, ERR_UNSUPPORTED, "There is no cuda:%d on this machine.",
                                  __builtin_ctzll(missing));
}

static bool wants_cuda(const struct placement *p)
{
    return p->cuda_all || placement_gpus(p) != 0;
}

static int settle_both(const char *program, struct placement *train, struct placement *serve,
                       struct err *err)
{
    uint64_t found = 0;
    struct err why;
    if (!wants_cuda(train) && !wants_cuda(serve)) {
        return 0;
    }
    int r = probe_cuda(program, &found, &why);
    r = r == 0 ? settle(train, found, &why) : r;
    r = r == 0 ? settle(serve, found, &why) : r;
    return r == 0
               ? 0
               : err_set(err, why.code, "--workers or --serve-workers names GPUs, but %s says: %s",
                         program, why.detail);
}

int roster_make(const struct roster_options *o, struct roster *ret, struct err *err)
{
    struct placement train = o->train, serve = o->serve;
    const int r = settle_both(o->cuda_program, &train, &serve, err);
    ret->count = ret->gpu_count = 0;
    if (r == 0) {
        add_all(o, SLOT_TRAIN, &train, ret);
        add_all(o, SLOT_SERVE, &serve, ret);
    }
    return r;
}
