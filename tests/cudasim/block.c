/*
 * Kernels, block by block. Every thread of a block runs until it ends or has to wait for others;
 * who comes next, and which block, is drawn anew each time. Threads that end without waiting share
 * one stack.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudasim/sim.h"

enum state { READY, AT_BARRIER, AT_MEETING, ENDED, STATES };

struct thread {
    enum state state;
    struct sim_size index;
    struct sim_fiber *fiber; /* from its first step to its end */
    struct sim_copies copies;
    struct sim_group_thread group;
    bool watched;
    /* AT_MEETING: who is waited for, and what for. No mask: the group. */
    unsigned mask;
    const char *name;
    void *mine;
};

struct sim_place sim_place;

static const struct sim_launch *launch; /* what runs */
static struct thread threads[SIM_BLOCK_MAX];
static unsigned thread_count;
static unsigned count_of[STATES]; /* threads */
static struct thread *now;        /* who runs */
static uint32_t launches, blocks_begun, block_number, epoch;
static uint16_t warp_epochs[SIM_BLOCK_MAX / SIM_WARP];
static struct sim_fiber *idle[SIM_BLOCK_MAX];
static unsigned idle_count;

/* ---- where ---- */

bool sim_where(char *text, size_t bytes)
{
    if (launch == NULL) {
        return false;
    }
    const struct sim_size b = sim_place.block, t = sim_place.thread;
    snprintf(text, bytes, "%s:%d: start(%s): block (%u, %u, %u)%s ", launch->file, launch->line,
             launch->what, b.x, b.y, b.z, now == NULL ? ":" : ",");
    if (now != NULL) {
        const size_t used = strlen(text);
        snprintf(text + used, bytes - used, "thread (%u, %u, %u): ", t.x, t.y, t.z);
    }
    return true;
}

/* ---- orders ---- */

/* The numbers 0 .. count-1, each once: a step that has no divisor in common with count. */
struct order {
    uint64_t count, at, step;
};

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static struct order order_of(uint64_t count)
{
    struct order order = {.count = count, .at = sim_random() % count, .step = 1};
    do {
        order.step = 1 + sim_random() % count;
    } while (common_divisor(order.step, count) != 1);
    return order;
}

static uint64_t order_next(struct order *order)
{
    const uint64_t at = order->at, next = at + order->step; /* step <= count */
    order->at = next < order->count ? next : next - order->count;
    return at;
}

/* ---- threads ---- */

static void change(struct thread *t, enum state state)
{
    count_of[t->state]--;
    count_of[state]++;
    t->state = state;
}

/* Of all threads. */
static void all_ready(void)
{
    for (unsigned i = 0; i < thread_count; i++) {
        threads[i].state = READY;
    }
    memset(count_of, 0, sizeof count_of);
    count_of[READY] = thread_count;
}

/* What a fiber does: the kernel for the thread that it was given, again and again. */
static void run_threads(void)
{
    for (;;) {
        launch->run(launch);
        sim_group_thread_ends();
        now->watched = false;
        change(now, ENDED);
        idle[idle_count++] = now->fiber;
        now->fiber = NULL;
        sim_fiber_yield();
    }
}

static void resume(struct thread *t)
{
    if (t->fiber == NULL) {
        t->fiber = idle_count > 0 ? idle[--idle_count] : sim_fiber_new(run_threads);
    }
    now = t;
    sim_place.thread = t->index;
    sim_fiber_resume(t->fiber);
    now = NULL;
}

struct sim_group_thread *sim_group_thread(void)
{
    return &now->group;
}

uint32_t sim_fences_of(unsigned thread)
{
    return threads[thread].group.fences;
}

unsigned sim_thread_number(void)
{
    return (unsigned)(now - threads);
}

struct sim_copies *sim_thread_copies(void)
{
    return &now->copies;
}

uint32_t sim_now(struct sim_use *ret)
{
    *ret = (struct sim_use){.block = block_number,
                            .epoch = epoch,
                            .thread = (uint16_t)(now - threads),
                            .warp_epoch = warp_epochs[(now - threads) / SIM_WARP]};
    return launches;
}

uint32_t sim_block_begun(void)
{
    return blocks_begun;
}

bool sim_watched(void)
{
    return now != NULL && now->watched;
}

void sim_begin_watch(void)
{
    now->watched = true;
}

void sim_warp_barrier(void)
{
    warp_epochs[(now - threads) / SIM_WARP]++;
}

void sim_barrier(void)
{
    change(now, AT_BARRIER);
    sim_fiber_yield();
}

/* ---- meetings of a warp's lanes ---- */

/* The lanes of the warp that wait where this one does; 0: not all of the mask are there. */
static bool all_there(struct thread *warp, const struct thread *t, void **lanes)
{
    for (unsigned lane = 0; lane < SIM_WARP; lane++) {
        const struct thread *other = &warp[lane];
        lanes[lane] = NULL;
        if ((t->mask >> lane & 1u) == 0) {
            continue;
        }
        if (warp + lane >= threads + thread_count) {
            sim_fault("%s: lane %u of the mask %#x is not in the block", t->name, lane, t->mask);
        }
        if (other->state == ENDED) {
            sim_fault("%s: lane %u of the mask %#x has ended", t->name, lane, t->mask);
        }
        if (other->state != AT_MEETING || other->mask != t->mask || other->name != t->name) {
            return false;
        }
        lanes[lane] = other->mine;
    }
    return true;
}

static void come_to_meeting(unsigned mask, const char *name, void *mine)
{
    now->mask = mask;
    now->name = name;
    now->mine = mine;
    change(now, AT_MEETING);
}

void sim_together(unsigned mask, const char *name, void *mine,
                  void (*act)(void **lanes, unsigned mask))
{
    struct thread *const warp = threads + (now - threads) / SIM_WARP * SIM_WARP;
    void *lanes[SIM_WARP];
    if ((mask >> (now - warp) & 1u) == 0) {
        sim_fault("%s: the mask %#x is without the lane that calls", name, mask);
    }
    come_to_meeting(mask, name, mine);
    if (!all_there(warp, now, lanes)) {
        sim_fiber_yield();
        return;
    }
    act(lanes, mask);
    for (unsigned lane = 0; lane < SIM_WARP; lane++) {
        if ((mask >> lane & 1u) != 0) {
            change(&warp[lane], READY);
        }
    }
    sim_fiber_yield(); /* the others may come first */
}

/* The threads of the group that wait where this one does; false: not all are there. */
static bool group_there(struct thread *first, const char *name, void **mine)
{
    if (first + SIM_GROUP > threads + thread_count) {
        sim_fault("%s: the group of thread %u has %u threads, not %d", name,
                  (unsigned)(first - threads), (unsigned)(threads + thread_count - first),
                  SIM_GROUP);
    }
    for (unsigned i = 0; i < SIM_GROUP; i++) {
        const struct thread *t = &first[i];
        if (t->state == ENDED) {
            sim_fault("%s: thread %u of the group has ended", name, i);
        }
        if (t->state != AT_MEETING || t->mask != 0 || t->name != name) {
            return false;
        }
        mine[i] = t->mine;
    }
    return true;
}

void sim_group_together(const char *name, void *mine, void (*act)(void **threads))
{
    struct thread *const first = threads + (now - threads) / SIM_GROUP * SIM_GROUP;
    void *all[SIM_GROUP];
    come_to_meeting(0, name, mine);
    if (!group_there(first, name, all)) {
        sim_fiber_yield();
        return;
    }
    act(all);
    for (unsigned i = 0; i < SIM_GROUP; i++) {
        change(&first[i], READY);
    }
    sim_fiber_yield(); /* the others may come first */
}

long long sim_atomic_min(long long *at, long long value)
{
    const long long old = *at;
    *at = value < old ? value : old;
    return old;
}

/* ---- blocks ---- */

/* Nobody can go on. Returns false when the block is done. */
static bool pass_barrier(void)
{
    const unsigned ended = count_of[ENDED], waiting = count_of[AT_BARRIER];
    if (ended == thread_count) {
        return false;
    }
    if (waiting < thread_count) {
        for (unsigned i = 0; i < thread_count; i++) {
            if (threads[i].state == AT_MEETING) {
                sim_fault("thread %u waits in %s for %s that do not come (mask %#x)", i,
                          threads[i].name, threads[i].mask != 0 ? "lanes" : "warps",
                          threads[i].mask);
            }
        }
        sim_fault("%u threads wait at __syncthreads(), and %u have ended", waiting, ended);
    }
    all_ready();
    epoch++;
    return true;
}

static void run_block(void)
{
    for (unsigned i = 0; i < thread_count; i++) {
        threads[i].copies.count = 0;
        threads[i].copies.group = 0;
        threads[i].group.count = 0;
        threads[i].group.group = 0;
        threads[i].group.fences = 1;
        threads[i].group.fenced = false;
    }
    all_ready();
    epoch++;
    blocks_begun++;
    sim_shared_begin(launch->dynamic_bytes);
    sim_arrivals_begin();
    do {
        while (count_of[READY] > 0) {
            struct order order = order_of(thread_count);
            for (unsigned i = 0; i < thread_count; i++) {
                struct thread *t = &threads[order_next(&order)];
                if (t->state == READY) {
                    resume(t);
                }
            }
        }
    } while (pass_barrier());
    sim_arrivals_end();
    sim_shared_end();
}

static void number_threads(const struct sim_size *block)
{
    thread_count = block->x * block->y * block->z;
    for (unsigned i = 0; i < thread_count; i++) {
        threads[i].index =
            (struct sim_size){i % block->x, i / block->x % block->y, i / block->x / block->y};
    }
}

static void run_grid(void *argument)
{
    struct sim_launch here = *(const struct sim_launch *)argument;
    here.arguments = (const char *)argument + SIM_LAUNCH_BYTES;
    const struct sim_size grid = here.grid;
    struct order order = order_of((uint64_t)grid.x * grid.y * grid.z);
    launch = &here;
    launches++;
    sim_place.block_size = here.block;
    sim_place.grid_size = grid;
    number_threads(&here.block);
    for (uint64_t i = 0; i < order.count; i++) {
        const uint64_t b = order_next(&order);
        block_number = (uint32_t)b;
        sim_place.block = (struct sim_size){(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                                            (unsigned)(b / grid.x / grid.y)};
        run_block();
    }
    launch = NULL;
}

/* ---- starts ---- */

#define ALLOWED_MAX 256

static struct {
    const void *kernel;
    size_t bytes;
} allowed[ALLOWED_MAX];
static int allowed_count;

int sim_allow_dynamic(const void *kernel, size_t bytes)
{
    if (bytes > sim_shared_max(sim_current_device())) {
        return sim_error(cudaErrorInvalidValue);
    }
    int i = 0;
    while (i < allowed_count && allowed[i].kernel != kernel) {
        i++;
    }
    if (i == ALLOWED_MAX) {
        sim_fault("more than %d kernels with dynamic shared memory", ALLOWED_MAX);
    }
    allowed[i].kernel = kernel;
    allowed[i].bytes = bytes;
    allowed_count = i == allowed_count ? i + 1 : allowed_count;
    return cudaSuccess;
}

static size_t dynamic_limit(const void *kernel)
{
    for (int i = 0; i < allowed_count; i++) {
        if (allowed[i].kernel == kernel && allowed[i].bytes > SIM_STATIC_MAX) {
            return allowed[i].bytes;
        }
    }
    return SIM_STATIC_MAX;
}

static bool within_limits(const struct sim_launch *l)
{
    const struct sim_size g = l->grid, b = l->block;
    return g.x >= 1 && g.y >= 1 && g.z >= 1 && g.x <= SIM_GRID_X_MAX && g.y <= SIM_GRID_YZ_MAX &&
           g.z <= SIM_GRID_YZ_MAX && b.x >= 1 && b.y >= 1 && b.z >= 1 && b.x <= SIM_BLOCK_MAX &&
           b.y <= SIM_BLOCK_MAX && b.z <= SIM_BLOCK_Z_MAX &&
           (uint64_t)b.x * b.y * b.z <= SIM_BLOCK_MAX;
}

int sim_start(const struct sim_launch *l, void *stream)
{
    if (!within_limits(l)) {
        (void)sim_error(cudaErrorInvalidConfiguration);
        return cudaGetLastError();
    }
    if (l->dynamic_bytes > dynamic_limit(l->kernel)) {
        (void)sim_error(cudaErrorInvalidValue);
        return cudaGetLastError();
    }
    if (sim_cannot_start(l->file)) {
        (void)sim_error(cudaErrorLaunchOutOfResources);
        return cudaGetLastError();
    }
    const size_t bytes = SIM_LAUNCH_BYTES + l->arguments_bytes;
    char *copy = malloc(bytes);
    if (copy == NULL) {
        sim_fault("no memory on the host");
    }
    memcpy(copy, l, sizeof *l);
    memcpy(copy + SIM_LAUNCH_BYTES, l->arguments, l->arguments_bytes);
    (void)sim_stream_push(stream, run_grid, copy, bytes);
    free(copy);
    return cudaGetLastError();
}
