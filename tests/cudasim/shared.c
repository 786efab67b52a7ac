/*
 * A block's shared memory: parts that its kernel names by type, in the order in which the block
 * first asks for them, with a pattern between them, and copies to it that arrive late.
 */
#include <stdlib.h>
#include <string.h>

#include "cudasim/sim.h"

#define PARTS_MAX 64
#define GAP 256
#define FILL 0xFF

struct part {
    const void *key;
    char *data;
    size_t bytes;
};

static _Alignas(256) char arena[SIM_SHARED_MAX + SIM_STATIC_MAX + PARTS_MAX * 2 * GAP];
static struct part parts[PARTS_MAX];
static int part_count;
static size_t arena_used, static_bytes;

static const char dynamic_key;

static void *add_part(const void *key, size_t bytes, size_t align)
{
    const size_t begin = (arena_used + align - 1) / align * align;
    if (part_count == PARTS_MAX) {
        sim_fault("more than %d kinds of shared memory", PARTS_MAX);
    }
    struct part *part = &parts[part_count++];
    *part = (struct part){.key = key, .data = arena + begin, .bytes = bytes};
    memset(arena + arena_used, FILL, begin + bytes + GAP - arena_used);
    arena_used = begin + bytes + GAP;
    return part->data;
}

void sim_shared_begin(size_t dynamic_bytes)
{
    memset(arena, FILL, GAP);
    arena_used = GAP;
    static_bytes = 0;
    part_count = 0;
    sim_group_block_begins();
    (void)add_part(&dynamic_key, dynamic_bytes, GAP);
}

void *sim_dynamic_shared(void)
{
    return parts[0].data;
}

void *sim_shared(const void *key, size_t bytes, size_t align)
{
    for (int i = 1; i < part_count; i++) {
        if (parts[i].key == key) {
            return parts[i].data;
        }
    }
    static_bytes += bytes;
    if (static_bytes > SIM_STATIC_MAX) {
        sim_fault("%zu bytes of shared memory in one kernel; the limit is %zu", static_bytes,
                  SIM_STATIC_MAX);
    }
    if (static_bytes + parts[0].bytes > sim_shared_max(sim_working_device())) {
        sim_fault("%zu bytes of shared memory, dynamic ones included; the limit is %zu",
                  static_bytes + parts[0].bytes, sim_shared_max(sim_working_device()));
    }
    return add_part(key, bytes, align);
}

bool sim_shared_holds(const void *data, size_t bytes)
{
    const char *at = data;
    for (int i = 0; i < part_count; i++) {
        if (at >= parts[i].data && at + bytes <= parts[i].data + parts[i].bytes) {
            return true;
        }
    }
    return false;
}

_Static_assert(sizeof arena <= SIM_SHARED_SPACE, "sim.h says how large offsets are");

size_t sim_shared_offset(const void *at)
{
    return (size_t)((const char *)at - arena);
}

const void *sim_shared_at(size_t offset)
{
    return arena + offset;
}

bool sim_shared_units(const void *at, size_t bytes, struct sim_units **ret, size_t *ret_offset)
{
    static struct sim_units *units;
    const char *from = at;
    if (from < arena || from >= arena + sizeof arena) {
        return false;
    }
    if (!sim_shared_holds(at, bytes)) {
        sim_fault("%zu bytes of shared memory are used outside of what the kernel has", bytes);
    }
    if (units == NULL) {
        units = sim_units_new(sizeof arena);
    }
    *ret = units;
    *ret_offset = (size_t)(from - arena);
    return true;
}

void sim_shared_end(void)
{
    const char *gap = arena;
    for (int i = 0; i <= part_count; i++) {
        const char *end = i < part_count ? parts[i].data : arena + arena_used;
        for (; gap < end; gap++) {
            if (*(const unsigned char *)gap != FILL) {
                sim_fault("shared memory outside of what the kernel has was written");
            }
        }
        gap = i < part_count ? end + parts[i].bytes : end;
    }
}

/* ---- copies that arrive late ---- */

struct sim_copy {
    void *to;
    const void *from;
    size_t bytes, zeros;
    int64_t group;
};

void sim_copy_async(void *to, const void *from, size_t bytes, size_t zeros)
{
    struct sim_copies *copies = sim_thread_copies();
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes) {
        sim_fault("an asynchronous copy of %zu bytes, %zu of them zeros", bytes, zeros);
    }
    if ((uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0) {
        sim_fault("an asynchronous copy of %zu bytes is not aligned to them", bytes);
    }
    /* What is filled with zeros is not read, but a checker of memory may take it for read. */
    if (!sim_shared_holds(to, bytes) || !sim_memory_holds(sim_working_device(), from, bytes)) {
        sim_fault("an asynchronous copy that is not from device memory to shared memory");
    }
    if (copies->count == copies->room) {
        copies->room = copies->room > 0 ? 2 * copies->room : 16;
        copies->list = realloc(copies->list, copies->room * sizeof *copies->list);
        if (copies->list == NULL) {
            sim_fault("no memory on the host");
        }
    }
    sim_watch(to, bytes, true);
    memset(to, FILL, bytes);
    copies->list[copies->count++] = (struct sim_copy){
        .to = to, .from = from, .bytes = bytes, .zeros = zeros, .group = copies->group};
}

void sim_copy_commit(void)
{
    sim_thread_copies()->group++;
}

void sim_copy_wait(size_t pending)
{
    struct sim_copies *copies = sim_thread_copies();
    size_t left = 0;
    for (size_t i = 0; i < copies->count; i++) {
        const struct sim_copy *c = &copies->list[i];
        if (c->group >= copies->group - (int64_t)pending) {
            copies->list[left++] = *c;
            continue;
        }
        sim_watch(c->to, c->bytes, true);
        if (c->zeros < c->bytes) {
            sim_watch(c->from, c->bytes - c->zeros, false);
        }
        memcpy(c->to, c->from, c->bytes - c->zeros);
        memset((char *)c->to + c->bytes - c->zeros, 0, c->zeros);
        sim_group_note_write(c->to, c->bytes);
    }
    copies->count = left;
}
