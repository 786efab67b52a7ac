/*
 * Copies to shared memory by the copy engine, as src/gpu/warpgroup.cuh has them: whoever waits
 * first for a turn finds all of its bytes, and until then there is nothing but NaN.
 */
#include <cuda_runtime.h>
#include <string.h>

#include "cudasim/sim.h"

#define ARRIVALS_MAX 16
#define COPIES_MAX 16 /* of a turn */
#define LOOKS_MAX 100000
#define FILL 0xFF

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct arrival {
    const void *at;
    bool fenced; /* others may use it */
    bool expects;
    int64_t turns; /* that have come */
    size_t left;   /* bytes that no copy has named yet */
    int copies;
    struct copy copy[COPIES_MAX];
};

static struct arrival arrivals[ARRIVALS_MAX];
static int count;

void sim_arrivals_begin(void)
{
    count = 0;
}

void sim_arrivals_end(void)
{
    for (int i = 0; i < count; i++) {
        if (arrivals[i].expects) {
            sim_fault("a block ends with copies on their way that nobody has waited for");
        }
    }
}

static struct arrival *find(const void *at)
{
    for (int i = 0; i < count; i++) {
        if (arrivals[i].at == at) {
            return &arrivals[i];
        }
    }
    sim_fault("an arrival that was not begun");
}

void sim_arrival_begin(void *arrival)
{
    if (sim_capability(sim_working_device()) < 90) {
        sim_fault("the copy engine on a device of compute capability below 9.0");
    }
    if (!sim_shared_holds(arrival, 8) || (uintptr_t)arrival % 8 != 0 || count == ARRIVALS_MAX) {
        sim_fault("an arrival that is not in shared memory, or one too many");
    }
    arrivals[count++] = (struct arrival){.at = arrival};
}

void sim_arrivals_fence(void)
{
    for (int i = 0; i < count; i++) {
        arrivals[i].fenced = true;
    }
}

void sim_arrival_expect(void *arrival, size_t bytes)
{
    struct arrival *a = find(arrival);
    if (!a->fenced || a->expects) {
        sim_fault(a->fenced ? "bytes are expected before the last ones have come"
                            : "an arrival is used with no fence behind its begin");
    }
    a->expects = true;
    a->left = bytes;
    a->copies = 0;
}

void sim_arrival_copy(void *to, const void *from, size_t bytes, void *arrival)
{
    struct arrival *a = find(arrival);
    if (!a->expects || bytes > a->left || a->copies == COPIES_MAX) {
        sim_fault("a copy of more bytes than are expected");
    }
    if (bytes % 16 != 0 || (uintptr_t)to % 16 != 0 || (uintptr_t)from % 16 != 0) {
        sim_fault("a copy by the engine of %zu bytes, or to or from what is no multiple of 16",
                  bytes);
    }
    if (!sim_shared_holds(to, bytes) || !sim_memory_holds(sim_working_device(), from, bytes)) {
        sim_fault("a copy by the engine that is not from device memory to shared memory");
    }
    sim_watch(to, bytes, true);
    sim_watch(from, bytes, false);
    memset(to, FILL, bytes);
    a->copy[a->copies++] = (struct copy){.to = to, .from = from, .bytes = bytes};
    a->left -= bytes;
}

static void come(struct arrival *a)
{
    for (int i = 0; i < a->copies; i++) {
        memcpy(a->copy[i].to, a->copy[i].from, a->copy[i].bytes);
        sim_group_note_copy(a->copy[i].to, a->copy[i].bytes);
    }
    a->expects = false;
    a->turns++;
}

void sim_arrival_wait(void *arrival, int parity)
{
    struct arrival *a = find(arrival);
    if (!a->fenced) {
        sim_fault("an arrival is used with no fence behind its begin");
    }
    for (int looks = 0; a->turns % 2 == parity; looks++) {
        if (a->expects && a->left == 0) {
            come(a);
            return;
        }
        if (looks == LOOKS_MAX) {
            sim_fault("a thread waits for copies that do not come");
        }
        sim_fiber_yield();
    }
}
