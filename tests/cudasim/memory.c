/*
 * Device memory: addresses of a reserved range that are given out once and never again. An
 * allocation ends at the end of a page (rounded up to 256 bytes, CUDA's alignment), and what is
 * left of its pages before and behind holds a pattern. Its pages become accessible when the device
 * at work first touches them, and inaccessible when that work is done.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cudasim/sim.h"

#define RANGE_BYTES ((size_t)1 << 40)
#define ALIGN 256
#define FILL 0xFF /* NaN in every type */
#define OPEN_MAX 4096

struct piece {
    char *data;
    size_t bytes;
    char *pages;
    size_t page_bytes;
    int device;
    bool live, open;
    struct sim_units *units; /* for watched kernels, from their first access on */
};

static struct {
    char *begin, *next, *end;
    struct piece *pieces; /* by address */
    size_t count, room;
    struct piece *open[OPEN_MAX];
    size_t open_count;
    size_t used[64]; /* by device */
    int working;     /* the device at work, -1: none */
    bool handling;   /* the handler is installed */
    struct sigaction before;
} memory = {.working = -1};

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

static void protect(const struct piece *p, int how)
{
    if (mprotect(p->pages, p->page_bytes, how) != 0) {
        sim_fault("mprotect failed");
    }
}

/* The piece whose pages the address is in, or the last one before it; NULL: none. */
static struct piece *piece_near(const char *at)
{
    size_t low = 0, high = memory.count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (memory.pieces[middle].pages <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? NULL : &memory.pieces[low - 1];
}

/* ---- faults ---- */

static void describe(const char *at)
{
    const struct piece *p = piece_near(at);
    if (memory.working < 0) {
        sim_fault("the host used device memory, at %p", (const void *)at);
    }
    if (p == NULL) {
        sim_fault("an access at %p, before all allocations", (const void *)at);
    }
    const size_t offset = (size_t)(at - p->data);
    if (at < p->pages + p->page_bytes && !p->live) {
        sim_fault("an access to freed memory, %zu bytes into %zu bytes", offset, p->bytes);
    }
    if (at < p->pages + p->page_bytes && p->device != memory.working) {
        sim_fault("an access to memory of device %d from device %d", p->device, memory.working);
    }
    if (at < p->data) {
        sim_fault("an access %zu bytes before an allocation of %zu bytes", (size_t)(p->data - at),
                  p->bytes);
    }
    sim_fault("an access %zu bytes behind the begin of an allocation of %zu bytes%s", offset,
              p->bytes, p->live ? "" : ", which is free");
}

/* Lets the device at work have the page; anything else is told, or left to whoever was there. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    char *const at = info->si_addr;
    (void)number;
    (void)context;
    if (!sim_memory_is_device(at)) {
        sigaction(SIGSEGV, &memory.before, NULL); /* the access is tried again, and handled there */
        memory.handling = false;
        return;
    }
    struct piece *p = piece_near(at);
    if (memory.working < 0 || p == NULL || !p->live || p->device != memory.working ||
        at >= p->pages + p->page_bytes) {
        describe(at);
    }
    protect(p, PROT_READ | PROT_WRITE);
    /* Threads of a library may meet here; the page is open for both then. */
    if (!__atomic_exchange_n(&p->open, true, __ATOMIC_SEQ_CST)) {
        const size_t place = __atomic_fetch_add(&memory.open_count, 1, __ATOMIC_SEQ_CST);
        if (place >= OPEN_MAX) {
            sim_fault("more than %d allocations in use at once", OPEN_MAX);
        }
        memory.open[place] = p;
    }
}

/* Test frameworks take the signal for themselves before each test, so it is taken each time. */
static void take_signal(void)
{
    static char stack[64 << 10];
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction before;
    const stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    if (!memory.handling) {
        sigaltstack(&alternative, NULL);
    }
    sigaction(SIGSEGV, &action, &before);
    if (before.sa_sigaction != on_fault) {
        memory.before = before;
    }
    memory.handling = true;
}

static bool all_fill(const char *at, const char *end)
{
    while (at < end && *(const unsigned char *)at == FILL) {
        at++;
    }
    return at == end;
}

/* Only of open pieces. */
static void check_surroundings(const struct piece *p)
{
    if (!all_fill(p->pages, p->data)) {
        sim_fault("memory before an allocation of %zu bytes was written", p->bytes);
    }
    if (!all_fill(p->data + p->bytes, p->pages + p->page_bytes)) {
        sim_fault("memory behind an allocation of %zu bytes was written", p->bytes);
    }
}

void sim_memory_enter(int device)
{
    take_signal();
    memory.working = device;
}

int sim_working_device(void)
{
    return memory.working;
}

void sim_memory_leave(void)
{
    for (size_t i = 0; i < memory.open_count; i++) {
        struct piece *p = memory.open[i];
        check_surroundings(p);
        protect(p, PROT_NONE);
        p->open = false;
    }
    memory.open_count = 0;
    memory.working = -1;
}

/* ---- allocations ---- */

static void reserve(void)
{
    void *range =
        mmap(NULL, RANGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        sim_fault("no addresses left for device memory");
    }
    memory.begin = memory.next = range;
    memory.end = memory.begin + RANGE_BYTES;
}

/* Pieces move when the table grows, so none may be open. */
static struct piece *add_piece(void)
{
    if (memory.open_count > 0) {
        sim_fault("memory was asked for by a device at work");
    }
    if (memory.count == memory.room) {
        memory.room = memory.room > 0 ? 2 * memory.room : 64;
        memory.pieces = realloc(memory.pieces, memory.room * sizeof *memory.pieces);
        if (memory.pieces == NULL) {
            sim_fault("no memory on the host");
        }
    }
    return &memory.pieces[memory.count++];
}

void *sim_memory_new(int device, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > sim_memory_left(device)) {
        return NULL;
    }
    if (memory.begin == NULL) {
        reserve();
    }
    struct piece p = {
        .bytes = bytes, .page_bytes = round_up(bytes, page), .device = device, .live = true};
    if (p.page_bytes + 2 * page > (size_t)(memory.end - memory.next)) {
        sim_fault("no addresses left for device memory");
    }
    p.pages = memory.next + page;
    p.data = p.pages + p.page_bytes - round_up(bytes, ALIGN);
    memory.next = p.pages + p.page_bytes;
    memory.used[device] += bytes;
    protect(&p, PROT_READ | PROT_WRITE);
    memset(p.pages, FILL, p.page_bytes);
    protect(&p, PROT_NONE);
    take_signal();
    *add_piece() = p;
    return p.data;
}

void sim_memory_free(void *data)
{
    struct piece *p = sim_memory_is_device(data) ? piece_near(data) : NULL;
    if (p == NULL || p->data != (char *)data) {
        sim_fault("free of %p, which no allocation begins at", data);
    }
    if (!p->live) {
        sim_fault("an allocation of %zu bytes is freed twice", p->bytes);
    }
    sim_streams_finish(p->device);
    p->live = false;
    free(p->units);
    p->units = NULL;
    memory.used[p->device] -= p->bytes;
    (void)madvise(p->pages, p->page_bytes, MADV_DONTNEED);
}

size_t sim_memory_left(int device)
{
    const size_t total = sim_memory_total();
    return memory.used[device] < total ? total - memory.used[device] : 0;
}

bool sim_memory_is_device(const void *data)
{
    const char *at = data;
    return memory.begin != NULL && at >= memory.begin && at < memory.end;
}

bool sim_memory_holds(int device, const void *data, size_t bytes)
{
    const char *at = data;
    const struct piece *p = sim_memory_is_device(data) ? piece_near(at) : NULL;
    return p != NULL && p->live && p->device == device && at >= p->data && bytes <= p->bytes &&
           at + bytes <= p->data + p->bytes;
}

bool sim_memory_units(const void *at, size_t bytes, struct sim_units **ret, size_t *ret_offset)
{
    if (!sim_memory_is_device(at)) {
        return false;
    }
    if (!sim_memory_holds(memory.working, at, bytes)) {
        describe(at);
    }
    struct piece *p = piece_near(at);
    if (p->units == NULL) {
        p->units = sim_units_new(p->bytes);
    }
    *ret = p->units;
    *ret_offset = (size_t)((const char *)at - p->data);
    return true;
}
