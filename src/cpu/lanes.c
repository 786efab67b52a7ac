#include "cpu/lanes.h"

#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cache.h"
#include "cpu/tile/isa.h"

#define PANEL_LANES (TILE_DEEP * TILE_LANES) /* of a panel, at most */
#define FUNCTION_COST 12                     /* of a value's function, in features */
#define WEIGHTS_COST 24                      /* of a weight that is put in order, likewise */

struct lanes *lanes_free(struct backend *be, struct lanes *l)
{
    if (l != NULL) {
        cpu__account(be, -(int64_t)((size_t)l->groups * l->group_size));
        mem_free(l->panels);
    }
    return mem_free(l);
}

/* Rows `at` .. at + deep - 1 of the runs of a group. What is beyond the last row is zero: its
 * weight is, too, and no kernel value of the origin is infinite, however large the row that meets
 * it. */
static void load_panel(const struct points *p, const struct tile_loops *loops, int64_t group,
                       int64_t at, void *panel)
{
    const void *rows[PANEL_LANES];
    for (int v = 0; v < loops->deep; v++) {
        for (int i = 0; i < loops->narrow; i++) {
            const int64_t row = (group * loops->narrow + i) * TILE_RUN + at + v;
            rows[v * loops->narrow + i] = points_row(p, min_i64(row, p->n));
        }
    }
    const int lanes = loops->deep * loops->narrow;
    loops->pack(rows, p->ld, lanes, panel);
    if (tile_turns(&p->kernel)) {
        loops->turn_panel(&p->kernel, panel, p->d, lanes);
    }
}

static void fill(struct backend *be, const struct points *p, const struct lanes *l)
{
    const struct tile_loops *loops = cpu_loops(be, p->dtype);
    const size_t size = l->group_size / (size_t)(TILE_RUN / loops->deep);
#pragma omp parallel for num_threads(be->threads) if (l->groups > 16)
    for (int64_t g = 0; g < l->groups; g++) {
        char *panel = l->panels + (size_t)g * l->group_size;
        for (int64_t at = 0; at < TILE_RUN; at += loops->deep, panel += size) {
            load_panel(p, loops, g, at, panel);
        }
    }
}

/* Lanes meet their far rows one at a time, where the others would wait: so all rows take the same
 * form, and have the bits that tiles give them. */
static void points_apart(struct backend *be, struct points *p)
{
    if (p->far != NULL) {
        const int64_t factor = p->factors != NULL ? (int64_t)dtype_size(p->dtype) : 0;
        cpu__account(be, -(p->n + 1) * (1 + factor));
        p->far = mem_free(p->far);
        p->factors = mem_free(p->factors);
        p->cache = cache_free(be, p->cache); /* its values are of that form */
        p->kernel.by_max = p->kernel.by_inner = false;
    }
}

int cpu__points_lanes(struct backend *be, struct points *p, int64_t *ret_bytes, struct err *err)
{
    const int64_t lanes = cpu_loops(be, p->dtype)->narrow, runs = ceil_div(p->n, TILE_RUN);
    *ret_bytes = 0;
    p->lanes = lanes_free(be, p->lanes);
    if (2 * runs <= lanes) { /* more than half of the memory would hold nothing */
        return 0;
    }
    struct lanes *l = mem_zalloc(sizeof *l);
    if (l == NULL) {
        return err_no_memory(err);
    }
    l->runs = runs;
    l->groups = ceil_div(runs, lanes);
    l->group_size = (size_t)(TILE_RUN * lanes * p->ld) * dtype_size(p->dtype);
    l->panels = mem_aligned((size_t)l->groups, l->group_size);
    if (l->panels == NULL) {
        mem_free(l);
        return err_no_memory(err);
    }
    points_apart(be, p);
    fill(be, p, l);
    *ret_bytes = (int64_t)((size_t)l->groups * l->group_size);
    cpu__account(be, *ret_bytes);
    p->lanes = l;
    return 0;
}

/* ---- when ---- */

int64_t oracle__few_rows(const struct product *p)
{
    const struct oracle *o = &p->o;
    const struct lanes *l = o->Q.points->lanes;
    const int wide = o->loops->wide, narrow = o->loops->narrow;
    const int64_t rest = o->P.count % narrow, cols = p->V.cols;
    const bool all = o->Q.index == NULL && o->Q.count == o->Q.points->n;
    if (l == NULL || !all || rest == 0 || o->P.count % wide > wide - narrow) {
        return 0;
    }
    /* In vectors of numbers: a panel of the rest, or each row by itself and once the weights. */
    const int64_t row = o->d + FUNCTION_COST + 2 * cols;
    const int64_t few = l->groups * TILE_RUN * (rest * row + WEIGHTS_COST * cols);
    return few < o->Q.count * row ? rest : 0;
}

/* ---- the product ---- */

struct few {
    const struct product *p;
    const struct lanes *l;
    int lanes, rows, cols;
    const void *z[TILE_LANES];
    double *runs; /* [rows][cols][groups][lanes]: their sums */
    char *scratch;
    size_t size; /* of weights of a group, W[cols][TILE_RUN][lanes]; twice for each thread */
    size_t sums; /* of W[rows][cols][lanes], behind them */
};

/* W[cols][TILE_RUN][lanes] in `to`, by way of W[cols][lanes][TILE_RUN]. */
static void load_weights(const struct few *f, int64_t group, char *to)
{
    const struct product *p = f->p;
    const size_t run = TILE_RUN * dtype_size(p->weights), column = run * (size_t)f->lanes;
    char *by_run = to + f->size;
    for (int i = 0; i < f->lanes; i++) {
        const int64_t first = min_i64((group * f->lanes + i) * TILE_RUN, p->o.Q.count);
        const int count = (int)min_i64(TILE_RUN, p->o.Q.count - first);
        oracle__load_weights(p, first, count, TILE_RUN, TILE_RUN * f->lanes,
                             by_run + (size_t)i * run);
        if (p->o.kernel.by_factor) {
            double factors[TILE_RUN];
            oracle__load_factors(p, first, count, factors);
            oracle__factor_weights(p, count, factors, TILE_RUN * f->lanes,
                                   by_run + (size_t)i * run);
        }
    }
    for (int c = 0; c < f->cols; c++) {
        const void *rows[TILE_LANES];
        for (int i = 0; i < f->lanes; i++) {
            rows[i] = by_run + (size_t)c * column + (size_t)i * run;
        }
        p->sums->pack(rows, TILE_RUN, f->lanes, to + (size_t)c * column);
    }
}

static void sum_group(const struct few *f, int64_t group)
{
    const struct oracle *o = &f->p->o;
    char *weights = f->scratch + (size_t)omp_get_thread_num() * (2 * f->size + f->sums);
    char *sums = weights + 2 * f->size;
    const struct lane_tile t = {.kernel = &o->kernel,
                                .panels = f->l->panels + (size_t)group * f->l->group_size,
                                .z = f->z,
                                .d = o->d,
                                .ld = o->ld,
                                .rows = f->rows,
                                .cols = f->cols,
                                .weights = weights,
                                .sums = sums};
    load_weights(f, group, weights);
    memset(sums, 0, f->sums);
    (f->p->weights == DTYPE_F32 ? o->loops->run_lanes : o->loops->run_lanes_f64)(&t);
    f->p->sums->drain(sums, f->lanes, f->rows * f->cols, f->runs + group * f->lanes,
                      f->l->groups * f->lanes);
}

/* The sums of one row and column, in the order of cpu/plain.c. */
static double add_runs(const struct few *f, const double *runs)
{
    double total = 0.0;
    for (int64_t first = 0; first < f->l->runs; first += PLAIN_CHUNK) {
        double sum = 0.0;
        for (int64_t i = first; i < min_i64(first + PLAIN_CHUNK, f->l->runs); i++) {
            sum += runs[i];
        }
        total += sum;
    }
    return total;
}

static void write_sums(const struct few *f)
{
    double totals[TILE_LANES * TILE_COLS]; /* [cols][rows] */
    for (int i = 0; i < f->rows; i++) {
        for (int c = 0; c < f->cols; c++) {
            const int64_t at = (i * f->cols + c) * f->l->groups * f->lanes;
            totals[c * f->rows + i] = add_runs(f, f->runs + at);
        }
    }
    oracle__write(f->p, f->p->o.P.count - f->rows, f->rows, totals, f->rows);
}

/* Row i of a panel of so many numbers a row. */
static void take_row(const struct oracle *o, const char *panel, int lanes, int i, char *ret)
{
    const size_t size = dtype_size(o->dtype);
    panel += (size_t)i * size;
    for (int64_t k = 0; k < o->ld; k++, panel += (size_t)lanes * size, ret += size) {
        if (size == sizeof(float)) {
            memcpy(ret, panel, sizeof(float));
        } else {
            memcpy(ret, panel, sizeof(double));
        }
    }
}

/* The few rows, turned, out of a narrow panel of them, which lies behind `to`. */
static void turn_few(struct few *f, char *to)
{
    const struct oracle *o = &f->p->o;
    const size_t row = (size_t)o->ld * dtype_size(o->dtype);
    char *panel = to + (size_t)f->lanes * row;
    const struct group g = {.first = o->P.count - f->rows, .rows = f->rows, .lanes = f->lanes};
    oracle__load_panel(o, &o->kernel, g, f->z, panel);
    for (int i = 0; i < f->rows; i++, to += row) {
        take_row(o, panel, f->lanes, i, to);
        f->z[i] = to;
    }
}

int oracle__few_product(const struct product *p, int64_t rows, struct err *err)
{
    const struct oracle *o = &p->o;
    struct few f = {.p = p,
                    .l = o->Q.points->lanes,
                    .lanes = o->loops->narrow,
                    .rows = (int)rows,
                    .cols = (int)p->V.cols};
    const size_t vector = (size_t)(f.cols * f.lanes) * dtype_size(p->weights);
    f.size = vector * TILE_RUN;
    f.sums = vector * (size_t)rows;
    for (int64_t i = 0; i < rows; i++) {
        f.z[i] = points_row(o->P.points, view_row(&o->P, o->P.count - rows + i));
    }
    cleanup_mem char *scratch = mem_aligned((size_t)o->threads, 2 * f.size + f.sums);
    cleanup_mem double *runs =
        mem_zarray((size_t)(f.l->groups * f.lanes), (size_t)(f.rows * f.cols) * sizeof *runs);
    const size_t numbers = tile_turns(&o->kernel) ? 2 * (size_t)(f.lanes * o->ld) : 1;
    cleanup_mem char *turned = mem_aligned(numbers, dtype_size(o->dtype));
    if (scratch == NULL || runs == NULL || turned == NULL) {
        return err_no_memory(err);
    }
    if (tile_turns(&o->kernel)) {
        turn_few(&f, turned);
    }
    f.scratch = scratch;
    f.runs = runs;
#pragma omp parallel for num_threads(o->threads) schedule(static)
    for (int64_t g = 0; g < f.l->groups; g++) {
        cleanup_flush unsigned before = tile_flush_denormals();
        sum_group(&f, g);
    }
    write_sums(&f);
    return 0;
}
