/*
 * Watched kernels: where kernels are compiled with -fsanitize=thread, the compiler calls the
 * functions below before each access to memory (they are ThreadSanitizer's, which is not linked).
 * Every access must be to memory that a kernel can reach, and no two threads may use the same
 * memory, one of them writing, unless a barrier lies between: __syncthreads in a block, __syncwarp
 * in a warp, a launch between blocks. Shared memory that no thread of the block wrote holds
 * anything on a device, so that reading it is a fault, whatever becomes of the number: NaN, which
 * it holds here, is often compared away. Accesses are told apart in units of two bytes.
 */
#include <stdlib.h>

#include "cudasim/sim.h"

#define UNIT 2
#define SEVERAL_THREADS 1u
#define SEVERAL_WARPS 2u
#define SEVERAL_BLOCKS 4u

/* Who used a unit last, for writing and for reading. */
struct sim_units {
    uint32_t era;     /* of the uses: a launch, or a block for what ends with it; 0: none */
    uint32_t several; /* there were other readers than the last */
    bool written, read;
    struct sim_use writer, reader;
};

struct sim_units *sim_units_new(size_t bytes)
{
    struct sim_units *units = calloc(bytes / UNIT + 1, sizeof *units);
    if (units == NULL) {
        sim_fault("no memory on the host");
    }
    return units;
}

/* Nothing orders the earlier use before this one. */
static bool meets(const struct sim_use *earlier, const struct sim_use *use)
{
    if (earlier->block != use->block) {
        return true;
    }
    if (earlier->thread == use->thread || earlier->epoch != use->epoch) {
        return false;
    }
    return earlier->thread / SIM_WARP != use->thread / SIM_WARP ||
           earlier->warp_epoch == use->warp_epoch;
}

static void tell_race(const struct sim_use *earlier, const char *did, const char *does)
{
    sim_fault("%s what thread %u of block %u %s, with no barrier between", does, earlier->thread,
              earlier->block, did);
}

/* Whether all reads so far come before this use; unit->reader is the last of them. */
static bool readers_done(const struct sim_units *unit, const struct sim_use *use)
{
    if ((unit->several & SEVERAL_BLOCKS) != 0 || unit->reader.block != use->block) {
        return false;
    }
    if (unit->reader.epoch != use->epoch) {
        return true;
    }
    return (unit->several & SEVERAL_WARPS) == 0 &&
           unit->reader.thread / SIM_WARP == use->thread / SIM_WARP &&
           unit->reader.warp_epoch != use->warp_epoch;
}

static void read_unit(struct sim_units *unit, const struct sim_use *use)
{
    if (unit->written && meets(&unit->writer, use)) {
        tell_race(&unit->writer, "wrote", "reads");
    }
    if (unit->read && readers_done(unit, use)) {
        unit->several = 0;
    } else if (unit->read) {
        unit->several |= unit->reader.block != use->block ? SEVERAL_BLOCKS : 0;
        unit->several |= unit->reader.thread != use->thread ? SEVERAL_THREADS : 0;
        unit->several |=
            unit->reader.thread / SIM_WARP != use->thread / SIM_WARP ? SEVERAL_WARPS : 0;
    }
    unit->reader = *use;
    unit->read = true;
}

static void write_unit(struct sim_units *unit, const struct sim_use *use)
{
    if (unit->written && meets(&unit->writer, use)) {
        tell_race(&unit->writer, "wrote", "writes");
    }
    if (unit->read && meets(&unit->reader, use)) {
        tell_race(&unit->reader, "read", "writes");
    }
    if (unit->read && unit->several != 0 && !readers_done(unit, use)) {
        sim_fault("writes what others read, with no barrier between");
    }
    unit->writer = *use;
    unit->written = true;
    unit->read = false;
    unit->several = 0;
}

/* The unit as it is after what happened in this era. */
static struct sim_units *unit_of(struct sim_units *units, size_t i, uint32_t era)
{
    if (units[i].era != era) {
        units[i] = (struct sim_units){.era = era};
    }
    return &units[i];
}

/* Bytes offset .. offset+bytes-1 of what the units are of. */
static void use_units(struct sim_units *units, size_t offset, size_t bytes, bool write,
                      uint32_t era, const struct sim_use *use)
{
    for (size_t i = offset / UNIT; i <= (offset + bytes - 1) / UNIT; i++) {
        struct sim_units *const unit = unit_of(units, i, era);
        if (write) {
            write_unit(unit, use);
        } else {
            read_unit(unit, use);
        }
    }
}

/* A block begins with shared memory that nobody has written. */
static void check_written(struct sim_units *units, size_t offset, size_t bytes, uint32_t era)
{
    for (size_t i = offset / UNIT; i <= (offset + bytes - 1) / UNIT; i++) {
        if (!unit_of(units, i, era)->written) {
            sim_fault("reads %zu bytes of shared memory that no thread of the block wrote", bytes);
        }
    }
}

static bool is_place(const void *at)
{
    const char *begin = (const char *)&sim_place;
    return (const char *)at >= begin && (const char *)at < begin + sizeof sim_place;
}

void sim_watch(const void *at, size_t bytes, bool write)
{
    struct sim_units *units = NULL;
    struct sim_use use;
    size_t offset = 0;
    if (!sim_watched() || sim_fiber_holds(at)) {
        return;
    }
    const uint32_t launch = sim_now(&use);
    if (sim_shared_units(at, bytes, &units, &offset)) {
        if (!write) {
            check_written(units, offset, bytes, sim_block_begun());
        }
        use_units(units, offset, bytes, write, sim_block_begun(), &use);
        if (write) {
            sim_group_note_write(at, bytes);
        }
    } else if (sim_memory_units(at, bytes, &units, &offset)) {
        use_units(units, offset, bytes, write, launch, &use);
    } else if (write || !(is_place(at) || sim_constant(at))) {
        sim_fault("%s %zu bytes at %p, where a kernel has no memory", write ? "writes" : "reads",
                  bytes, at);
    }
}

/* A device breaks where a number, or a vector of some, is not at a multiple of its size. Vectors
 * whose numbers this compiler takes one by one are not seen. */
static void check_aligned(const void *at, size_t bytes, bool write)
{
    if (sim_watched() && (uintptr_t)at % bytes != 0 && !sim_fiber_holds(at) && !sim_constant(at)) {
        sim_fault("%s %zu bytes at %p, which is not aligned to them", write ? "writes" : "reads",
                  bytes, at);
    }
}

/* ---- what the compiler calls ---- */

#define WATCH(bytes)                                                                               \
    void __tsan_read##bytes(const void *at);                                                       \
    void __tsan_write##bytes(const void *at);                                                      \
    void __tsan_unaligned_read##bytes(const void *at);                                             \
    void __tsan_unaligned_write##bytes(const void *at);                                            \
    void __tsan_read##bytes(const void *at)                                                        \
    {                                                                                              \
        check_aligned(at, bytes, false);                                                           \
        sim_watch(at, bytes, false);                                                               \
    }                                                                                              \
    void __tsan_write##bytes(const void *at)                                                       \
    {                                                                                              \
        check_aligned(at, bytes, true);                                                            \
        sim_watch(at, bytes, true);                                                                \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(const void *at)                                              \
    {                                                                                              \
        sim_watch(at, bytes, false);                                                               \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(const void *at)                                             \
    {                                                                                              \
        sim_watch(at, bytes, true);                                                                \
    }

WATCH(1)
WATCH(2)
WATCH(4)
WATCH(8)
WATCH(16)

void __tsan_read_range(const void *at, size_t bytes);
void __tsan_write_range(const void *at, size_t bytes);
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);

void __tsan_read_range(const void *at, size_t bytes)
{
    sim_watch(at, bytes, false);
}

void __tsan_write_range(const void *at, size_t bytes)
{
    sim_watch(at, bytes, true);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void)
{
}
