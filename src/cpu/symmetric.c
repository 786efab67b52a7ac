/*
 * Y <- a K(P,P) V + b Y with every tile evaluated once and used for both sides.
 *
 * The rows are cut into blocks. In step s the blocks (I, I+s), indices modulo the number of
 * blocks, are tasks: over all steps each pair of blocks comes once. A task sums into buffers of its
 * own, and adds them to the totals of its two blocks when it is its turn there: turns follow the
 * order of tasks, so sums are added in one order whatever the number of threads. Threads take
 * tasks in that order too, so a turn that is waited for always belongs to a task at work.
 *
 * Memory: for each thread up to some three megabytes, and when Y is float32, totals of 8 bytes a
 * number; they set how many columns a product takes at a time. A float64 Y holds its own totals.
 *
 * Where a task's kernel values are kept (cpu/cache.h) its tiles read them instead of computing
 * them: the same sums in the same order.
 */
#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/sweep.h"
#include "cpu/tile/isa.h"

#define TOTALS_MAX (48L << 20) /* bytes beside a float32 Y */
#define BLOCK_ROWS 2048        /* at most; what packing a panel costs is spread over them */
#define BLOCKS 8               /* at least, rows permitting, so that threads are kept busy */

struct symmetric {
    const struct product *p;
    struct sweep sweep;
    int cols;
    int wide;
    struct symmetric_grid grid;
    int64_t n, block;          /* of the grid */
    const struct cache *cache; /* NULL: no values are kept */
    double *totals;            /* [cols][ld] */
    int64_t ld;
    double factor; /* what is added to totals: so many times the sums */
    atomic_int_fast64_t next;
    atomic_int_fast64_t *turn; /* of each block */
    char *scratch;
    size_t scratch_size; /* bytes a thread */
};

/* What one thread works in. */
struct buffers {
    struct band band;
    double *x_totals, *z_totals; /* [cols][block] */
};

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

int64_t oracle__symmetric_cols(int64_t n, int wide, enum dtype sums, int64_t cols)
{
    const int64_t room = TOTALS_MAX / (int64_t)sizeof(double);
    const int64_t most = sums == DTYPE_F64 || n * TILE_COLS <= room ? TILE_COLS : room / n;
    if (n <= wide || most == 0) {
        return 0;
    }
    /* A plain product evaluates each value twice, for TILE_COLS columns at a time. */
    return ceil_div(cols, most) < 2 * ceil_div(cols, TILE_COLS) ? min_i64(most, cols) : 0;
}

struct symmetric_grid oracle__symmetric_grid(int64_t n, int64_t wide)
{
    const int64_t most = BLOCK_ROWS / wide * wide;
    struct symmetric_grid g = {.n = n};
    g.block = clamp(ceil_div(ceil_div(n, BLOCKS), wide) * wide, wide, most);
    g.blocks = ceil_div(n, g.block);
    g.tasks = g.blocks * (g.blocks + 1) / 2;
    return g;
}

struct symmetric_task oracle__symmetric_task(const struct symmetric_grid *g, int64_t task)
{
    const int64_t step = task / g->blocks, I = task % g->blocks, J = (I + step) % g->blocks;
    return (struct symmetric_task){
        .step = step,
        .I = I,
        .J = J,
        .first = I * g->block,
        .end = min_i64((I + 1) * g->block, g->n),
        .z_first = J * g->block,
        .z_end = min_i64((J + 1) * g->block, g->n),
    };
}

static void symmetric_plan(struct symmetric *s)
{
    s->grid = oracle__symmetric_grid(s->p->o.P.count, s->wide);
    s->n = s->grid.n;
    s->block = s->grid.block;
    sweep_init(&s->sweep, s->p, TILE_BOTH, s->block / s->wide);
    s->scratch_size = s->sweep.size + 2 * (size_t)(s->cols * s->block) * sizeof(double);
}

size_t oracle__symmetric_scratch(const struct product *p)
{
    struct symmetric s = {.p = p, .cols = (int)p->V.cols, .wide = p->o.loops->wide};
    symmetric_plan(&s);
    return s.scratch_size;
}

/* ---- one task ---- */

/* Each panel of a band with its own rows, once. */
static void own_rows(const struct symmetric *s, int64_t first, int64_t end, double *totals,
                     struct buffers *b)
{
    b->band.apart = true;
    for (int64_t x = first; x < end; x += s->wide) {
        const int64_t next = min_i64(x + s->wide, end);
        const struct sweep_sums here = {.sums = totals + (x - first), .ld = s->block};
        sweep_load(&s->sweep, TILE_ROWS, x, next, s->wide, &b->band);
        sweep_run(&s->sweep, TILE_ROWS, x, next, here, here, &b->band);
    }
    b->band.apart = false;
}

/* The loaded band with itself: the panels before each one with its rows. */
static void triangle(const struct symmetric *s, double *totals, struct buffers *b)
{
    const int64_t first = b->band.first, end = b->band.end;
    const struct sweep_sums before = {.sums = totals, .ld = s->block};
    for (int64_t z = first + s->wide; z < end; z += s->wide) {
        const struct sweep_sums here = {.sums = totals + (z - first), .ld = s->block};
        b->band.end = z;
        sweep_run(&s->sweep, TILE_BOTH, z, min_i64(z + s->wide, end), before, here, &b->band);
    }
    b->band.end = end;
}

/* A block with itself: bands with themselves, and each with the rows after it. */
static void diagonal_task(const struct symmetric *s, const struct symmetric_task *t,
                          struct buffers *b)
{
    const int64_t step = (int64_t)s->sweep.panels * s->wide;
    for (int64_t x = t->first; x < t->end; x += step) {
        const int64_t next = min_i64(x + step, t->end);
        double *totals = b->x_totals + (x - t->first);
        const struct sweep_sums here = {.sums = totals, .ld = s->block};
        const struct sweep_sums after = {.sums = totals + (next - x), .ld = s->block};
        own_rows(s, x, next, totals, b);
        sweep_load(&s->sweep, TILE_BOTH, x, next, s->wide, &b->band);
        triangle(s, totals, b);
        sweep_run(&s->sweep, TILE_BOTH, next, t->end, here, after, &b->band);
    }
}

static void pair_task(const struct symmetric *s, const struct symmetric_task *t, struct buffers *b)
{
    const int64_t step = (int64_t)s->sweep.panels * s->wide;
    const struct sweep_sums z_totals = {.sums = b->z_totals, .ld = s->block};
    for (int64_t x = t->first; x < t->end; x += step) {
        const struct sweep_sums x_totals = {.sums = b->x_totals + (x - t->first), .ld = s->block};
        sweep_load(&s->sweep, TILE_BOTH, x, min_i64(x + step, t->end), s->wide, &b->band);
        sweep_run(&s->sweep, TILE_BOTH, t->z_first, t->z_end, x_totals, z_totals, &b->band);
    }
}

/* ---- who adds when ---- */

/* Waits until `turn` contributions have been added to the block, then adds one more. */
static void add_in_turn(struct symmetric *s, int64_t block, int64_t turn, const double *sums)
{
    while (atomic_load_explicit(&s->turn[block], memory_order_acquire) != turn) {
        sched_yield();
    }
    const int64_t first = block * s->block, rows = min_i64(s->block, s->n - first);
    for (int c = 0; c < s->cols; c++) {
        double *restrict totals = s->totals + c * s->ld + first;
        const double *restrict column = sums + c * s->block;
        for (int64_t i = 0; i < rows; i++) {
            totals[i] += s->factor * column[i];
        }
    }
    atomic_store_explicit(&s->turn[block], turn + 1, memory_order_release);
}

static void run_task(struct symmetric *s, int64_t task, struct buffers *b)
{
    const struct symmetric_task t = oracle__symmetric_task(&s->grid, task);
    const size_t sums = (size_t)(s->cols * s->block) * sizeof(double);
    b->band.kept = cache_tiles(s->cache, task);
    memset(b->x_totals, 0, sums);
    if (t.step == 0) {
        diagonal_task(s, &t, b);
        add_in_turn(s, t.I, 0, b->x_totals);
        return;
    }
    memset(b->z_totals, 0, sums);
    pair_task(s, &t, b);
    /* In this step block X is added to by the tasks X and X - step; the lower index goes first. */
    add_in_turn(s, t.I, 2 * t.step - 1 + (t.I >= t.step), b->x_totals);
    add_in_turn(s, t.J, 2 * t.step - 1 + (t.J < t.step), b->z_totals);
}

static int run_tasks(struct symmetric *s, struct err *err)
{
    const int64_t tasks = s->grid.tasks;
    struct halt halt = oracle__halt(&s->p->o, tasks, err);
#pragma omp parallel num_threads(s->p->o.threads)
    {
        cleanup_flush unsigned before = tile_flush_denormals();
        char *memory = s->scratch + (size_t)omp_get_thread_num() * s->scratch_size;
        struct buffers b;
        sweep_place(&s->sweep, memory, &b.band);
        b.x_totals = (double *)(void *)(memory + s->sweep.size);
        b.z_totals = b.x_totals + s->cols * s->block;
        int64_t task;
        while (oracle__goes_on(&halt) && (task = atomic_fetch_add(&s->next, 1)) < tasks) {
            run_task(s, task, &b);
        }
    }
    return halt.result;
}

/* Y <- b Y, for sums to be added to. */
static void scale_rows(const struct product *p)
{
    for (int64_t c = 0; c < p->Y.cols; c++) {
        double *y = (double *)p->Y.data + c * p->Y.ld;
        for (int64_t i = 0; i < p->Y.rows; i++) {
            y[i] = p->b != 0.0 ? p->b * y[i] : 0.0;
        }
    }
}

int oracle__symmetric_product(struct product *p, struct err *err)
{
    struct symmetric s = {
        .p = p, .cols = (int)p->V.cols, .wide = p->o.loops->wide, .cache = p->cache};
    symmetric_plan(&s);
    const bool in_place = p->Y.dtype == DTYPE_F64;
    const size_t numbers = in_place ? 0 : (size_t)s.n * (size_t)s.cols;
    cleanup_mem double *totals = mem_zarray(numbers, sizeof *totals);
    cleanup_mem atomic_int_fast64_t *turn = mem_zarray((size_t)s.grid.blocks, sizeof *turn);
    cleanup_mem char *scratch = mem_aligned((size_t)p->o.threads, s.scratch_size);
    if (totals == NULL || turn == NULL || scratch == NULL) {
        return err_no_memory(err);
    }
    if (in_place) {
        scale_rows(p);
    }
    s.totals = in_place ? p->Y.data : totals;
    s.ld = in_place ? p->Y.ld : s.n;
    s.factor = in_place ? p->a : 1.0;
    s.turn = turn;
    s.scratch = scratch;
    const int rc = run_tasks(&s, err);
    if (rc == 0 && !in_place) {
        oracle__write(p, 0, s.n, totals, s.n);
    }
    return rc;
}
