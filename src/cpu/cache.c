#include "cpu/cache.h"
#include "cpu/tile/isa.h"

#include <omp.h>
#include <string.h>

#include "base/mem.h"

#define PIECE_BYTES (32L << 20) /* a thread's, between two looks whether to stop */

static int64_t panel_rows(const struct symmetric_task *t)
{
    return t->z_end - t->z_first + TILE_BLOCK; /* tiles read and write whole blocks */
}

static size_t task_bytes(const struct cache *c, int64_t task)
{
    const struct symmetric_task t = oracle__symmetric_task(&c->grid, task);
    return (size_t)(ceil_div(t.end - t.first, c->wide) * panel_rows(&t)) * c->row_bytes;
}

struct cache_tiles cache_tiles(const struct cache *c, int64_t task)
{
    if (c == NULL || c->at[task] == c->at[task + 1]) {
        return (struct cache_tiles){.values = NULL};
    }
    const struct symmetric_task t = oracle__symmetric_task(&c->grid, task);
    return (struct cache_tiles){
        .values = c->values + c->at[task],
        .storage = c->storage,
        .wide = c->wide,
        .row_bytes = c->row_bytes,
        .first = t.first,
        .z_first = t.z_first,
        .panel_rows = panel_rows(&t),
    };
}

/* ---- what is kept ---- */

/* All tasks, or as many as keep pace with an even share of the bytes. */
static void choose_tasks(struct cache *c, size_t bytes)
{
    size_t all = 0, used = 0;
    for (int64_t i = 0; i < c->grid.tasks; i++) {
        all += task_bytes(c, i);
    }
    for (int64_t i = 0; i < c->grid.tasks; i++) {
        const size_t size = task_bytes(c, i);
        const double share = (double)bytes * (double)(i + 1) / (double)c->grid.tasks;
        c->at[i] = used;
        used += all <= bytes || (double)(used + size) <= share ? size : 0;
    }
    c->at[c->grid.tasks] = used;
}

static size_t cache_bytes(const struct cache *c)
{
    return c->values != NULL ? c->at[c->grid.tasks] : 0;
}

/* NULL when nothing fits or there is no memory. */
static struct cache *cache_new(struct backend *be, const struct points *p, size_t bytes,
                               enum kernel_storage storage)
{
    const int wide = cpu_loops(be, p->dtype)->wide;
    const size_t size = storage == KERNEL_STORE_HALF ? sizeof(uint16_t) : dtype_size(p->dtype);
    struct cache *c = mem_zalloc(sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->grid = oracle__symmetric_grid(p->n, wide);
    c->storage = storage;
    c->wide = wide;
    c->row_bytes = (size_t)wide * size;
    c->at = mem_array((size_t)c->grid.tasks + 1, sizeof *c->at);
    if (c->at != NULL) {
        choose_tasks(c, bytes);
    }
    if (c->at != NULL && c->at[c->grid.tasks] > 0) {
        c->values = mem_huge(c->at[c->grid.tasks], 1);
    }
    if (c->values == NULL) {
        return cache_free(be, c);
    }
    cpu__account(be, (int64_t)cache_bytes(c));
    return c;
}

struct cache *cache_free(struct backend *be, struct cache *c)
{
    if (c != NULL) {
        cpu__account(be, -(int64_t)cache_bytes(c));
        mem_free(c->values);
        mem_free(c->at);
    }
    return mem_free(c);
}

/* ---- computing it ---- */

/* What one thread works in. */
struct filler {
    const struct oracle *o;
    char *panel; /* T[ld][wide] */
    char *K;     /* T[TILE_RUN][wide] */
    struct run_rows *rows;
    int run;
    struct cache_tiles kept;
};

/* Rows z .. z+count-1 of the loaded panel, which begins at row x; its own rows as products take
 * them. */
static void fill_tile(struct filler *f, int64_t x, int64_t z, int count)
{
    const struct oracle *o = f->o;
    const bool half = f->kept.storage == KERNEL_STORE_HALF;
    void *to = cache_at(&f->kept, x, z);
    const struct tile_kernel *kernel = z == x ? &o->apart : &o->kernel;
    oracle__load_rows(o, kernel, z, count, f->rows);
    const struct tile t = {.kernel = kernel,
                           .panel = f->panel,
                           .z = f->rows->z,
                           .d = o->d,
                           .count = count,
                           .K = half ? f->K : to};
    oracle__values(o, f->kept.wide, &t, f->rows->far);
    if (half) {
        o->loops->to_half(f->K, (int64_t)count * f->kept.wide, to);
    }
}

/* The spare rows behind the last one are 0, since tiles multiply them with weights of 0. */
static void fill_task(struct filler *f, const struct symmetric_task *t)
{
    const int wide = f->kept.wide;
    for (int64_t x = t->first; x < t->end; x += wide) {
        const struct group g = {.first = x, .rows = (int)min_i64(wide, t->end - x), .lanes = wide};
        if (t->step == 0) {
            oracle__load_panel(f->o, &f->o->apart, g, f->rows->z, f->panel);
            fill_tile(f, x, x, g.rows);
        }
        if (t->step != 0 || oracle__loads_apart(f->o)) {
            oracle__load_panel(f->o, &f->o->kernel, g, f->rows->z, f->panel);
        }
        const int64_t z_first = t->step == 0 ? x + g.rows : t->z_first;
        const int begin = oracle__rows_to_block(f->o, z_first);
        for (int64_t z = z_first, next; z < t->z_end; z = next) {
            next = min_i64(z + (z == z_first && begin > 0 ? begin : f->run), t->z_end);
            fill_tile(f, x, z, (int)(next - z));
        }
        memset(cache_at(&f->kept, x, t->z_end), 0, TILE_BLOCK * f->kept.row_bytes);
    }
}

/* Tasks first .. end-1. */
static int fill_piece(struct cache *c, const struct oracle *o, int64_t first, int64_t end,
                      struct err *err)
{
    const size_t panel = (size_t)(o->ld * c->wide) * sizeof(double);
    const size_t K = (size_t)(TILE_RUN * c->wide) * sizeof(double);
    const int run = oracle__run_rows(o), most = run > c->wide ? run : c->wide;
    const size_t each = panel + K + oracle__run_size(o, most);
    cleanup_mem char *scratch = mem_aligned((size_t)o->threads, each);
    if (scratch == NULL) {
        return err_no_memory(err);
    }
#pragma omp parallel for num_threads(o->threads) schedule(dynamic)
    for (int64_t i = first; i < end; i++) {
        cleanup_flush unsigned before = tile_flush_denormals();
        char *mine = scratch + (size_t)omp_get_thread_num() * each;
        struct filler f = {.o = o,
                           .panel = mine,
                           .K = mine + panel,
                           .rows = (struct run_rows *)(void *)(mine + panel + K),
                           .run = run,
                           .kept = cache_tiles(c, i)};
        const struct symmetric_task t = oracle__symmetric_task(&c->grid, i);
        if (f.kept.values != NULL) {
            fill_task(&f, &t);
        }
    }
    return 0;
}

/* All tasks, with looks at be->stop between pieces. */
static int cache_fill(struct backend *be, struct cache *c, const struct oracle *o, struct err *err)
{
    const size_t piece = (size_t)o->threads * PIECE_BYTES;
    int rc = 0;
    for (int64_t first = 0, next = 0; rc == 0 && first < c->grid.tasks; first = next) {
        while (next < c->grid.tasks && c->at[next] - c->at[first] < piece) {
            next++;
        }
        rc = be->stop != NULL ? be->stop(be->stop_context, err) : 0;
        rc = rc == 0 ? fill_piece(c, o, first, next, err) : rc;
    }
    return rc;
}

static int fill_all(struct backend *be, struct cache *c, const struct points *p, struct err *err)
{
    const struct view all = view_all(p, p->n);
    struct oracle o;
    const int rc = oracle__init(&o, be, all, all, err);
    o.kernel.by_factor = cache_leaves_factors(c, p);
    return rc == 0 ? cache_fill(be, c, &o, err) : rc;
}

int cpu__points_cache(struct backend *be, struct points *p, int64_t bytes,
                      enum kernel_storage storage, int64_t *ret_bytes, struct err *err)
{
    const int fits = kernel_check_storage(p->kernel.id, storage, err);
    if (fits < 0) {
        return fits;
    }
    p->cache = cache_free(be, p->cache);
    *ret_bytes = 0;
    const bool symmetric = p->n > cpu_loops(be, p->dtype)->wide;
    struct cache *c = symmetric && bytes > 0 ? cache_new(be, p, (size_t)bytes, storage) : NULL;
    if (c == NULL) {
        return 0;
    }
    const int rc = fill_all(be, c, p, err);
    if (rc < 0) {
        cache_free(be, c);
        return rc == -ERR_NO_MEMORY ? 0 : rc;
    }
    p->cache = c;
    *ret_bytes = (int64_t)cache_bytes(c);
    return 0;
}
