#include "cpu/sweep.h"

#include <string.h>

#define BAND_BYTES (512 * 1024) /* panels and their sums: half of a second-level cache */
#define RUN_BYTES (16 * 1024)   /* rows of a run: half of a first-level cache */
#define LINE 64                 /* bytes of a cache line */
#define LONG_ROW (8 * LINE)     /* of so many bytes */
#define Z_NUMBERS 320           /* z_sums of a run, a vector each: half of a first-level cache */
#define Z_KEPT 1280             /* z_sums at most: a part of a second-level cache */

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + TILE_ALIGN - 1) / TILE_ALIGN * TILE_ALIGN;
}

static size_t panel_size(const struct sweep *s, int lanes)
{
    return (size_t)(s->p->o.ld * lanes) * s->number;
}

/* Of the weights or sums of one panel's rows. */
static size_t lane_size(const struct sweep *s, int lanes)
{
    return (size_t)(s->cols * lanes) * s->weight;
}

int sweep_run_length(enum tile_use use, int64_t row_size, int cols, int step)
{
    const int64_t rows = RUN_BYTES / (row_size + 1); /* which may have no bytes */
    const int64_t most = min_i64(rows, use == TILE_BOTH ? Z_NUMBERS / cols : TILE_RUN);
    int run = TILE_RUN;
    for (int parts = 2; run > most && run > TILE_SHORT; parts++) {
        run = TILE_RUN % (parts * step) == 0 ? TILE_RUN / parts : run;
    }
    return run;
}

/* Of the sums of rows of Q. */
static size_t z_size(const struct sweep *s)
{
    return (size_t)((s->span + TILE_BLOCK) * tile_z_ld(s->cols)) * TILE_ALIGN;
}

/* The parts of a band; a NULL base measures it. */
static size_t lay_out(const struct sweep *s, char *base, struct band *ret)
{
    const size_t panels = (size_t)s->panels, cols = (size_t)s->cols;
    const int wide = s->p->o.loops->wide;
    char *at = base;
    ret->panels = at;
    at += panels * panel_size(s, wide);
    ret->x_sums = at;
    at += panels * lane_size(s, wide);
    ret->x_weights = at;
    at += panels * lane_size(s, wide);
    ret->z_weights = at;
    at += whole_lines(cols * TILE_RUN * sizeof(double));
    ret->z_sums = at;
    at += z_size(s);
    ret->z_factors = at;
    at += whole_lines((size_t)s->span * sizeof(double)) + TILE_ALIGN; /* whole vectors are read */
    ret->rows = (struct run_rows *)(void *)at;
    at += oracle__run_size(&s->p->o, s->run);
    return (size_t)(at - base);
}

void sweep_init(struct sweep *s, const struct product *p, enum tile_use use, int64_t panels)
{
    *s = (struct sweep){.p = p,
                        .cols = (int)p->V.cols,
                        .number = dtype_size(p->o.dtype),
                        .weight = dtype_size(p->weights)};
    const int64_t row_size = p->o.ld * (int64_t)s->number;
    const int wide = p->o.loops->wide;
    const size_t size = panel_size(s, wide) + 2 * lane_size(s, wide);
    s->panels = (int)clamp(BAND_BYTES / (int64_t)size, 1, panels);
    s->run = sweep_run_length(use, row_size, s->cols, p->o.loops->step);
    s->span = (int)clamp(Z_KEPT / s->cols / s->run, 1, TILE_RUN / s->run) * s->run;
    s->size = lay_out(s, NULL, &(struct band){0});
}

void sweep_place(const struct sweep *s, char *memory, struct band *ret)
{
    *ret = (struct band){.first = 0};
    lay_out(s, memory, ret);
    memset(ret->z_sums, 0, z_size(s));
}

/* Rows first .. end-1 of a view, as the kernel takes them, on their way to the second-level cache:
 * the processor sees no stream in rows that are read a few at a time. */
static void fetch_rows(const struct view *v, const struct tile_kernel *k, int64_t first,
                       int64_t end)
{
    const struct points *p = v->points;
    const int64_t row_size = p->ld * (int64_t)dtype_size(p->dtype);
    const int64_t together = v->index == NULL ? end - first : 1; /* in memory */
    const char *data = oracle__rows(p, k);
    for (int64_t i = first; i < end; i += together) {
        const char *row = data + view_row(v, i) * row_size;
        for (int64_t at = 0; at < together * row_size; at += LINE) {
            __builtin_prefetch(row + at, 0, 2);
        }
    }
}

static const struct tile_kernel *kernel_of(const struct sweep *s, const struct band *b)
{
    return b->apart ? &s->p->o.apart : &s->p->o.kernel;
}

/* The i-th panel, while the rows of the one behind it come from memory. */
static void load_panel(const struct sweep *s, int i, struct band *b)
{
    const struct oracle *o = &s->p->o;
    const struct tile_kernel *kernel = kernel_of(s, b);
    const int64_t first = b->first + i * b->lanes, next = min_i64(first + b->lanes, b->end);
    const struct group g = {.first = first, .rows = (int)(next - first), .lanes = b->lanes};
    if (i == 0) {
        fetch_rows(&o->P, kernel, first, next);
    }
    fetch_rows(&o->P, kernel, next, min_i64(next + b->lanes, b->end));
    oracle__load_panel(o, kernel, g, b->rows->z, b->panels + (size_t)i * panel_size(s, b->lanes));
}

void sweep_load(const struct sweep *s, enum tile_use use, int64_t first, int64_t end, int lanes,
                struct band *b)
{
    const size_t step = lane_size(s, lanes);
    b->first = first;
    b->end = end;
    b->lanes = lanes;
    for (int i = 0; first + i * lanes < end; i++) {
        const int64_t at = first + i * lanes;
        if (b->kept.values == NULL) {
            load_panel(s, i, b);
        }
        memset(b->x_sums + (size_t)i * step, 0, step);
        if (use == TILE_BOTH) {
            oracle__load_weights(s->p, at, (int)min_i64(lanes, end - at), lanes, lanes,
                                 b->x_weights + (size_t)i * step);
        }
    }
}

/* Bytes from a row to the same one of the next run, where the tiles are to fetch that: rows of many
 * lines, one after the other. */
static int64_t rows_ahead(const struct sweep *s, bool more, const struct band *b)
{
    const struct oracle *o = &s->p->o;
    const int64_t row_size = o->ld * (int64_t)dtype_size(o->dtype);
    const bool kept = b->kept.values != NULL, turned = oracle__turns_runs(o);
    const bool follow = more && o->Q.index == NULL && !kept && !turned;
    return o->loops->fetches && follow && row_size >= LONG_ROW ? s->run * row_size : 0;
}

/* Rows of Q. */
struct run {
    int64_t at, next, after; /* this run ends where the next one begins, and that one ends */
    int held;                /* rows before it whose z_sums wait to be folded */
    bool last, drain;        /* `drain`: x_sums are added up behind it */
};

/* The first panel against a run. */
static struct tile first_tile(const struct sweep *s, const struct run *run, int64_t ahead,
                              const struct band *b)
{
    const size_t vector = (size_t)s->p->o.loops->narrow * s->number;
    return (struct tile){.kernel = kernel_of(s, b),
                         .panel = b->panels,
                         .z = b->rows->z,
                         .d = s->p->o.d,
                         .ahead = ahead,
                         .count = (int)(run->next - run->at),
                         .cols = s->cols,
                         .z_ld = tile_z_ld(s->cols),
                         .z_weights = b->z_weights,
                         .x_sums = b->x_sums,
                         .x_weights = b->x_weights,
                         .z_sums = b->z_sums + (size_t)(run->held * tile_z_ld(s->cols)) * vector,
                         .kept = cache_at(&b->kept, b->first, run->at),
                         .storage = b->kept.storage};
}

/* The tile of panel i, of the one before it. */
static void next_tile(const struct sweep *s, int i, int64_t z, const struct band *b, struct tile *t)
{
    const size_t lanes = lane_size(s, b->lanes);
    t->panel = (const char *)t->panel + panel_size(s, b->lanes);
    t->x_sums = (char *)t->x_sums + lanes;
    t->x_weights = (const char *)t->x_weights + lanes;
    t->ahead = 0;
    t->kept = cache_at(&b->kept, b->first + i * b->lanes, z);
}

/* All panels against one run. */
static void run_panels(const struct sweep *s, enum tile_use use, const struct run *run,
                       struct sweep_sums x, struct band *b)
{
    const int panels = (int)ceil_div(b->end - b->first, b->lanes);
    const int64_t ahead = rows_ahead(s, !run->last, b), rows = run->after - run->next;
    struct tile t = first_tile(s, run, ahead, b);
    for (int i = 0; i < panels; i++) {
        if (i > 0) {
            next_tile(s, i, run->at, b, &t);
        }
        if (b->kept.values == NULL && ahead == 0) {
            fetch_rows(&s->p->o.Q, kernel_of(s, b), run->next + rows * i / panels,
                       run->next + rows * (i + 1) / panels);
        }
        oracle__run(s->p, use, b->lanes, &t, b->rows->far);
        if (run->drain) {
            s->p->sums->drain(t.x_sums, b->lanes, s->cols, x.sums + i * b->lanes, x.ld);
        }
    }
}

static void load_run(const struct sweep *s, enum tile_use use, const struct run *run,
                     struct band *b)
{
    const int count = (int)(run->next - run->at);
    b->rows->far = NULL;
    if (b->kept.values == NULL) {
        oracle__load_rows(&s->p->o, kernel_of(s, b), run->at, count, b->rows);
    }
    oracle__load_weights(s->p, run->at, count, (int)ceil_div(count, TILE_BLOCK) * TILE_BLOCK,
                         TILE_RUN, b->z_weights);
    if (s->p->o.kernel.by_factor && !b->apart) {
        char *factors = b->z_factors + (size_t)run->held * s->weight;
        oracle__load_factors(s->p, run->at, count, factors);
        oracle__factor_weights(s->p, count, factors, TILE_RUN, b->z_weights);
    }
    if (use == TILE_ROWS && s->p->o.Q.index != NULL) {
        oracle__near_first(s->p, count, b->rows, b->z_weights);
    }
}

void sweep_run(const struct sweep *s, enum tile_use use, int64_t z_first, int64_t z_end,
               struct sweep_sums x, struct sweep_sums z, struct band *b)
{
    const int length = use == TILE_BOTH ? 2 * TILE_RUN : TILE_RUN; /* of a sum of T */
    const int begin = b->apart ? 0 : oracle__rows_to_block(&s->p->o, z_first);
    const void *factors = s->p->o.kernel.by_factor ? b->z_factors : NULL;
    struct run run = {.next = z_first};
    int pending = 0; /* rows since sums were drained */
    while (run.next < z_end) {
        run.at = run.next;
        run.next = min_i64(run.at + (run.at == z_first && begin > 0 ? begin : s->run), z_end);
        run.after = min_i64(run.next + s->run, z_end);
        run.last = run.next == z_end;
        const int count = (int)(run.next - run.at);
        pending += count;
        run.drain = count < s->run || pending + s->run > length || run.last;
        load_run(s, use, &run, b);
        run_panels(s, use, &run, x, b);
        pending = run.drain ? 0 : pending;
        run.held += count;
        if (count < s->run || run.held + s->run > s->span || run.last) {
            if (use == TILE_BOTH) {
                const int64_t folded = run.next - run.held - z_first;
                s->p->sums->fold(b->z_sums, factors, run.held, s->cols, z.sums + folded, z.ld);
            }
            run.held = 0;
        }
    }
}
