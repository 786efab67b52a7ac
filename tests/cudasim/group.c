/*
 * Products of matrices by a group of four warps (src/gpu/warpgroup.cuh), and what they ask for.
 * They run beside the threads: when a product reads its matrix in shared memory, at once or when it
 * is first waited for, is drawn, and its registers are no numbers until then. What a thread writes
 * to shared memory a product finds only behind that thread's fence; known are the writes of copies,
 * and all of watched kernels.
 */
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cudasim/sim.h"

#define M 64
#define N_MAX 128
#define K 16
#define REGISTERS_MAX (N_MAX / 2) /* of C, of a thread */
#define UNIT 16                   /* bytes whose last writer is known */

/* ---- the fence between threads and products ---- */

/* By unit of shared memory: who wrote it last, and how many fences it had passed then. */
static struct {
    uint32_t fences; /* 0: nobody */
    unsigned thread;
} written[SIM_SHARED_SPACE / UNIT];

void sim_group_block_begins(void)
{
    memset(written, 0, sizeof written);
}

void sim_group_note_write(const void *at, size_t bytes)
{
    const size_t first = sim_shared_offset(at);
    for (size_t i = first / UNIT; i <= (first + bytes - 1) / UNIT; i++) {
        written[i].thread = sim_thread_number();
        written[i].fences = sim_group_thread()->fences;
    }
}

void sim_shared_fence(void)
{
    sim_group_thread()->fences++;
}

void sim_group_note_copy(const void *at, size_t bytes)
{
    const size_t first = sim_shared_offset(at) / UNIT;
    for (size_t i = first; i < first + bytes / UNIT; i++) {
        written[i].fences = 0;
    }
}

/* A piece of a matrix, as the asynchronous proxy sees it. */
static const uint16_t *read_piece(size_t offset)
{
    const void *at = sim_shared_at(offset);
    if (offset + UNIT > SIM_SHARED_SPACE || !sim_shared_holds(at, UNIT)) {
        sim_fault("wgmma reads shared memory outside of what the kernel has");
    }
    const unsigned writer = written[offset / UNIT].thread;
    if (written[offset / UNIT].fences != 0 &&
        written[offset / UNIT].fences == sim_fences_of(writer)) {
        sim_fault("wgmma reads what thread %u wrote, with no fence.proxy.async behind it", writer);
    }
    sim_watch(at, UNIT, false);
    return at;
}

/* ---- matrices ---- */

uint64_t sim_group_address(const void *at)
{
    const size_t offset = sim_shared_offset(at);
    if (!sim_shared_holds(at, 1) || offset % UNIT != 0) {
        sim_fault("a matrix that is not in shared memory, or not aligned to 16 bytes");
    }
    return offset / UNIT;
}

/* `rows` rows of A, or columns of B, times `sign`, K-major and not swizzled: pieces of 8 numbers of
 * k, 8 columns' pieces together; their begin, then the offset between the halves of k, and that
 * between 8 columns and the next. `broken`: 1 takes columns for each other. */
static void read_matrix(uint64_t descriptor, size_t rows, float sign, size_t broken,
                        double (*ret)[K])
{
    const size_t begin = (descriptor & 0x3fff) * UNIT;
    const size_t half = (descriptor >> 16 & 0x3fff) * UNIT;
    const size_t columns = (descriptor >> 32 & 0x3fff) * UNIT;
    if (descriptor >> 46 != 0) {
        sim_fault("a descriptor of a matrix with an offset or a swizzle, which are not simulated");
    }
    for (size_t n = 0; n < rows; n++) {
        float numbers[K];
        for (size_t h = 0; h < 2; h++) {
            const uint16_t *piece =
                read_piece(begin + n / 8 * columns + h * half + (n % 8 ^ broken) * UNIT);
            for (size_t k = 0; k < 8; k++) {
                numbers[8 * h + k] = sign * sim_float16_value(piece[k]);
            }
        }
        sim_order_numbers(numbers, K, ret[n]);
    }
}

/* ---- products ---- */

/* One that is not waited for: what the threads of its group will find in their registers. */
struct work {
    int users; /* threads that have not waited for it */
    bool done, adds;
    int registers; /* of a thread */
    uint64_t a, b;
    struct work *before; /* whose C this one adds to */
    float c[SIM_GROUP][REGISTERS_MAX];
};

struct sim_pending {
    float *c;
    struct work *work;
    int64_t group;
};

/* Row and column of a thread's register. */
static float *place_of(struct work *w, int thread, int i, int *ret_row, int *ret_column)
{
    const int g = thread % 32 / 4, t = thread % 4;
    *ret_row = thread / 32 * 16 + g + i % 4 / 2 * 8;
    *ret_column = i / 4 * 8 + 2 * t + i % 2;
    return &w->c[thread][i];
}

static void compute(struct work *w)
{
    double a[M][K], b[N_MAX][K];
    if (w->done) {
        return;
    }
    read_matrix(w->a, M, -1.0F, 0, a);
    read_matrix(w->b, 2 * (size_t)w->registers, 1.0F, sim_has_fault("wgmma") ? 1 : 0, b);
    for (int thread = 0; thread < SIM_GROUP; thread++) {
        for (int i = 0; i < w->registers; i++) {
            int row, column;
            float *c = place_of(w, thread, i, &row, &column);
            *c = sim_inner_product(w->adds ? *c : 0.0F, a[row], b[column], K);
        }
    }
    w->done = true;
}

/* The thread's product on its way that has these registers; NULL: none. */
static struct sim_pending *find_pending(const float *c)
{
    struct sim_group_thread *t = sim_group_thread();
    for (size_t i = t->count; i > 0; i--) {
        if (t->pending[i - 1].c == c) {
            return &t->pending[i - 1];
        }
    }
    return NULL;
}

static void add_pending(float *c, struct work *work)
{
    struct sim_group_thread *t = sim_group_thread();
    if (t->count == t->room) {
        t->room = t->room > 0 ? 2 * t->room : 8;
        t->pending = realloc(t->pending, t->room * sizeof *t->pending);
        if (t->pending == NULL) {
            sim_fault("no memory on the host");
        }
    }
    t->pending[t->count++] = (struct sim_pending){.c = c, .work = work, .group = t->group};
}

static void nothing(void **threads)
{
    (void)threads;
}

/* What a thread brings, and what comes of all threads'. */
struct meeting {
    const struct sim_group_product *product;
    const float *registers; /* of C, or NULL: they are on their way */
    struct work *before, *work;
};

static void act(void **threads)
{
    struct meeting *const *all = (struct meeting *const *)threads;
    struct work *w = calloc(1, sizeof *w);
    if (w == NULL) {
        sim_fault("no memory on the host");
    }
    w->users = SIM_GROUP;
    w->adds = all[0]->product->adds;
    w->registers = all[0]->product->registers;
    w->a = all[0]->product->a;
    w->b = all[0]->product->b;
    w->before = w->adds ? all[0]->before : NULL;
    for (int i = 0; i < SIM_GROUP; i++) {
        const struct sim_group_product *its = all[i]->product;
        if (its->a != w->a || its->b != w->b || its->adds != w->adds) {
            sim_fault("wgmma with another matrix, or another kind of sum, in thread %d", i);
        }
        if (w->adds && all[i]->registers != NULL) {
            memcpy(w->c[i], all[i]->registers, (size_t)w->registers * sizeof(float));
        }
        all[i]->work = w;
    }
    if (w->before == NULL && sim_random() % 2 == 0) {
        compute(w);
    }
}

/* Products before it have the same registers, which they leave to it. */
static void finish(struct work *w)
{
    if (w->before != NULL && !w->done) {
        finish(w->before);
        memcpy(w->c, w->before->c, sizeof w->c);
    }
    compute(w);
}

static void fill_with_no_numbers(const struct sim_group_product *product)
{
    for (int i = 0; i < product->registers; i++) {
        product->c[i] = NAN;
    }
}

static void check_use(const struct sim_group_product *product, const struct sim_pending *before)
{
    if (sim_capability(sim_working_device()) != 90) {
        sim_fault("wgmma on a device of another compute capability than 9.0");
    }
    if (!sim_group_thread()->fenced) {
        sim_fault("wgmma without wgmma.fence since its registers were touched");
    }
    for (int i = 0; before != NULL && i < product->registers; i++) {
        if (!isnan(product->c[i])) {
            sim_fault("registers of a wgmma were touched before they were waited for");
        }
    }
}

void sim_group_multiply(const struct sim_group_product *product)
{
    const struct sim_pending *before = find_pending(product->c);
    struct meeting mine = {.product = product,
                           .registers = before == NULL ? product->c : NULL,
                           .before = before != NULL ? before->work : NULL};
    check_use(product, before);
    if (sim_has_fault("wgmma-trap")) {
        sim_break(cudaErrorIllegalInstruction);
    }
    sim_group_together("wgmma.mma_async", &mine, act);
    fill_with_no_numbers(product);
    add_pending(product->c, mine.work);
}

void sim_group_fence(void)
{
    sim_group_together("wgmma.fence", NULL, nothing);
    sim_group_thread()->fenced = true;
}

void sim_group_commit(void)
{
    sim_group_together("wgmma.commit_group", NULL, nothing);
    sim_group_thread()->group++;
}

static void let_go(struct work *w)
{
    if (--w->users == 0) {
        free(w);
    }
}

void sim_group_wait(int64_t pending)
{
    struct sim_group_thread *t = sim_group_thread();
    size_t left = 0;
    sim_group_together("wgmma.wait_group", NULL, nothing);
    if (t->count > 0 && t->pending[t->count - 1].group == t->group) {
        sim_fault("wgmma.wait_group, and a wgmma that no wgmma.commit_group has taken in");
    }
    for (size_t i = 0; i < t->count; i++) {
        const struct sim_pending p = t->pending[i];
        if (p.group >= t->group - pending) {
            t->pending[left++] = p;
            continue;
        }
        finish(p.work);
        memcpy(p.c, p.work->c[sim_thread_number() % SIM_GROUP],
               (size_t)p.work->registers * sizeof(float));
        let_go(p.work);
    }
    t->count = left;
    t->fenced = false;
}

void sim_group_thread_ends(void)
{
    if (sim_group_thread()->count > 0) {
        sim_fault("a thread ends with a wgmma that it has not waited for");
    }
}
