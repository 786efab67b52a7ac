/*
 * The kernel oracle: products by cpu/plain.c and cpu/symmetric.c, and here what they share, blocks
 * and diagonals.
 *
 * The rows of a block are cut into groups, one panel each: wide ones, then narrow ones for the
 * rest.
 */
#include <omp.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cache.h"
#include "cpu/grid/grid.h"
#include "cpu/oracle.h"
#include "cpu/tile/isa.h"

#define SEGMENT 8             /* runs of Q's rows that one task of kblock takes */
#define TURNED_RUN (1L << 20) /* bytes of a run's turned rows */

/* What one thread works in for blocks. Layouts as in cpu/tile/tile.h; T arrays in space for
 * float64. */
struct scratch {
    double K[TILE_RUN * TILE_LANES];
    void *panel;
    struct run_rows rows;
} __attribute__((aligned(TILE_ALIGN)));

/* The groups of an oracle's rows, and a struct scratch for each thread. */
struct plan {
    int64_t wide_groups, groups;
    char *scratch;
    size_t scratch_size, panel_at; /* bytes; where a scratch has its panel, T[ld][lanes] */
};

static struct group group_at(const struct oracle *o, const struct plan *plan, int64_t g)
{
    const int wide = o->loops->wide, narrow = o->loops->narrow;
    struct group ret = {.first = g * wide, .lanes = wide};
    if (g >= plan->wide_groups) {
        ret.first = plan->wide_groups * wide + (g - plan->wide_groups) * narrow;
        ret.lanes = narrow;
    }
    ret.rows = (int)min_i64(ret.lanes, o->P.count - ret.first);
    return ret;
}

static struct scratch *my_scratch(const struct plan *plan)
{
    char *memory = plan->scratch + (size_t)omp_get_thread_num() * plan->scratch_size;
    struct scratch *s = (struct scratch *)(void *)memory;
    s->panel = memory + plan->panel_at;
    return s;
}

static bool view_valid(const struct view *v)
{
    return view_within(v, v->points->n);
}

/* Whether all powers of two are normal numbers: no two rows are farther apart than the origin is
 * from both together. */
static bool all_near(const struct points *p, const struct points *q)
{
    const double apart = p->reach + q->reach, most = p->dtype == DTYPE_F32 ? 120.0 : 1000.0;
    return (p->kernel.id == KERNEL_GAUSSIAN ? apart * apart : apart) <= most;
}

int oracle__init(struct oracle *o, struct backend *be, struct view P, struct view Q,
                 struct err *err)
{
    const struct points *p = P.points, *q = Q.points;
    const bool fits = p->d == q->d && p->dtype == q->dtype && p->kernel.id == q->kernel.id;
    const int rc = cpu__expect(fits && view_valid(&P) && view_valid(&Q), "kernel oracle", err);
    if (rc < 0) {
        return rc;
    }
    *o = (struct oracle){.loops = cpu_loops(be, p->dtype),
                         .kernel = q->kernel, /* Q's form: a row of P has the same bits anywhere */
                         .P = P,
                         .Q = Q,
                         .dtype = p->dtype,
                         .d = p->d,
                         .ld = p->ld,
                         .threads = be->threads,
                         .be = be};
    o->kernel.near = all_near(p, q);
    o->apart = o->kernel;
    o->apart.by_max = o->apart.by_powers = o->apart.by_inner = false; /* by_fixed gives 1 */
    return 0;
}

/* Rows of Q in a tile of kblock: whole panels. */
static int block_run(const struct oracle *o)
{
    return TILE_LANES / o->loops->wide * o->loops->wide;
}

static int plan_init(struct plan *plan, const struct oracle *o, struct err *err)
{
    /* The rest takes narrow panels unless they would fill a wide one. */
    const int wide = o->loops->wide;
    const int64_t narrow_groups = ceil_div(o->P.count % wide, o->loops->narrow);
    const bool fills = narrow_groups * o->loops->narrow == wide;
    plan->wide_groups = o->P.count / wide + fills;
    plan->groups = plan->wide_groups + (fills ? 0 : narrow_groups);
    plan->panel_at = sizeof(struct scratch) + oracle__run_size(o, TILE_LANES); /* a whole line */
    plan->scratch_size = plan->panel_at + (size_t)(o->ld + 1) * TILE_LANES * sizeof(double);
    plan->scratch = mem_aligned((size_t)o->threads, plan->scratch_size);
    return plan->scratch == NULL ? err_no_memory(err) : 0;
}

static void plan_deinit(struct plan *plan)
{
    plan->scratch = mem_free(plan->scratch);
}

void oracle__load_panel(const struct oracle *o, const struct tile_kernel *k, struct group g,
                        const void **rows, void *panel)
{
    const struct points *p = o->P.points;
    const size_t stride = (size_t)p->ld * dtype_size(p->dtype);
    const char *data = oracle__rows(p, k);
    for (int i = 0; i < g.lanes; i++) {
        const int64_t member = g.first + (i < g.rows ? i : g.rows - 1);
        rows[i] = data + (size_t)view_row(&o->P, member) * stride;
    }
    o->loops->pack(rows, o->ld, g.lanes, panel);
    if (tile_turns(k) && data == p->data) {
        o->loops->turn_panel(k, panel, o->d, g.lanes);
    }
}

int oracle__run_rows(const struct oracle *o)
{
    const int64_t row = o->ld * (int64_t)dtype_size(o->dtype);
    const int64_t step = o->loops->step, fit = TURNED_RUN / (row + 1);
    const int64_t rows = fit < TILE_SHORT ? TILE_SHORT : fit;
    return !oracle__turns_runs(o) || rows > TILE_RUN ? TILE_RUN : (int)(rows / step * step);
}

size_t oracle__run_size(const struct oracle *o, int rows)
{
    const size_t numbers = oracle__turns_runs(o) ? (size_t)rows * (size_t)o->ld : 0;
    const size_t size = sizeof(struct run_rows) + numbers * dtype_size(o->dtype);
    return (size + TILE_ALIGN - 1) / TILE_ALIGN * TILE_ALIGN;
}

/* The run's rows, turned. */
static void turn_rows(const struct oracle *o, int count, struct run_rows *rows)
{
    char *row = (char *)rows->turned;
    for (int j = 0; j < count; j++, row += (size_t)o->ld * dtype_size(o->dtype)) {
        o->loops->turn_row(&o->kernel, rows->z[j], o->d, row);
        rows->z[j] = row;
    }
}

/* each[j] <- points.far of member first + j, for all j < count + TILE_BLOCK. Whether there are any.
 */
static bool load_far(const struct oracle *o, int64_t first, int count, unsigned char *each)
{
    unsigned char any = 0;
    for (int j = 0; j < count; j++) {
        each[j] = o->Q.points->far[view_row(&o->Q, first + j)];
        any |= each[j];
    }
    memset(each + count, 0, TILE_BLOCK);
    return any != 0;
}

void oracle__load_rows(const struct oracle *o, const struct tile_kernel *k, int64_t first,
                       int count, struct run_rows *ret)
{
    const struct points *q = o->Q.points;
    const size_t stride = (size_t)q->ld * dtype_size(q->dtype);
    const char *data = oracle__rows(q, k);
    for (int j = 0; j < count; j++) {
        ret->z[j] = data + (size_t)view_row(&o->Q, first + j) * stride;
    }
    if (tile_turns(k) && data == q->data) {
        turn_rows(o, count, ret);
    }
    const void *spare = tile_turns(k) && count > 0 ? ret->z[0] : points_row(q, q->n);
    for (int j = count; j < count + TILE_BLOCK; j++) {
        ret->z[j] = spare; /* the origin is not turned */
    }
    ret->far = q->far != NULL && load_far(o, first, count, ret->each) ? ret->each : NULL;
}

/* ---- kmv ---- */

void oracle__load_weights(const struct product *p, int64_t first, int count, int padded, int ld,
                          void *weights)
{
    const struct mat *V = &p->V;
    const size_t size = dtype_size(p->weights);
    for (int64_t c = 0; c < V->cols; c++) {
        char *to = (char *)weights + (size_t)(c * ld) * size;
        const int64_t at = first + c * V->ld;
        if (p->weights == DTYPE_F32) {
            memcpy(to, (const float *)V->data + at, (size_t)count * size);
        } else if (V->dtype == DTYPE_F64) {
            memcpy(to, (const double *)V->data + at, (size_t)count * size);
        } else {
            cpu__convert(DTYPE_F64, to, DTYPE_F32, (const float *)V->data + at, count);
        }
        memset(to + (size_t)count * size, 0, (size_t)(padded - count) * size);
    }
}

void oracle__load_factors(const struct product *p, int64_t first, int count, void *ret)
{
    const struct points *q = p->o.Q.points;
    const struct mat factors = {.dtype = q->dtype, .rows = q->n, .cols = 1, .data = q->factors};
    const struct mat to = {.dtype = p->weights, .rows = count, .cols = 1, .data = ret};
    for (int j = 0; j < count; j++) {
        mat_set(&to, j, 0, mat_at(&factors, view_row(&p->o.Q, first + j), 0));
    }
}

void oracle__factor_weights(const struct product *p, int count, const void *factors, int ld,
                            void *weights)
{
    for (int64_t c = 0; c < p->V.cols; c++) {
        for (int j = 0; j < count && p->weights == DTYPE_F32; j++) {
            ((float *)weights)[c * ld + j] *= ((const float *)factors)[j];
        }
        for (int j = 0; j < count && p->weights == DTYPE_F64; j++) {
            ((double *)weights)[c * ld + j] *= ((const double *)factors)[j];
        }
    }
}

void oracle__write(const struct product *p, int64_t first, int64_t rows, const double *totals,
                   int64_t ld)
{
    for (int64_t c = 0; c < p->Y.cols; c++) {
        for (int64_t i = 0; i < rows; i++) {
            double y = p->a * totals[c * ld + i];
            if (p->b != 0.0) {
                y += p->b * mat_at(&p->Y, first + i, c);
            }
            mat_set(&p->Y, first + i, c, y);
        }
    }
}

int oracle__product_init(struct product *p, struct backend *be, struct view P, struct view Q,
                         const struct mat *V, const struct mat *Y, struct err *err)
{
    const bool fits = V->rows == Q.count && Y->rows == P.count && V->cols == Y->cols;
    int rc = cpu__expect(fits, "kmv", err);
    *p = (struct product){.a = 1.0, .V = *V, .Y = *Y};
    if (rc < 0 || (rc = oracle__init(&p->o, be, P, Q, err)) < 0) {
        return rc;
    }
    p->weights = p->o.dtype == DTYPE_F32 && V->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    p->sums = cpu_loops(be, p->weights);
    const bool all = P.index == NULL && P.first == 0 && P.count == P.points->n;
    p->cache = all && view_same(&P, &Q) ? P.points->cache : NULL;
    return 0;
}

int cpu__kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
             double b, const struct mat *Y, struct err *err)
{
    if (grid_applies(&P, &Q)) {
        return grid_product(be, P, Q, a, V, b, Y, err);
    }
    struct product p;
    int rc = oracle__product_init(&p, be, P, Q, V, Y, err);
    p.a = a;
    p.b = b;
    p.o.kernel.by_factor = cache_leaves_factors(p.cache, Q.points);
    const bool same = view_same(&P, &Q);
    int64_t cols = 0;
    for (int64_t c = 0; c < V->cols && rc == 0; c += cols) {
        const int64_t left = V->cols - c;
        const int64_t both =
            same ? oracle__symmetric_cols(P.count, p.o.loops->wide, Y->dtype, left) : 0;
        cols = both > 0 ? both : min_i64(TILE_COLS, left);
        p.V = mat_cols(*V, c, cols);
        p.Y = mat_cols(*Y, c, cols);
        rc = both > 0 ? oracle__symmetric_product(&p, err) : oracle__plain_product(&p, err);
        be->kernel_entries += rc == 0 ? P.count * Q.count : 0;
        be->under_way = 0;
    }
    return rc;
}

/* ---- kblock ---- */

/* s->K <- kernel values of the panel and members first .. first+count-1 of Q. */
static void load_values(const struct oracle *o, struct group g, int64_t first, int count,
                        struct scratch *s)
{
    oracle__load_rows(o, &o->apart, first, count, &s->rows);
    const struct tile t = {.kernel = &o->apart,
                           .panel = s->panel,
                           .z = s->rows.z,
                           .d = o->d,
                           .count = count,
                           .K = s->K};
    oracle__values(o, g.lanes, &t, NULL);
}

/* K(g, run) <- the tile, and K(run, g) <- its transpose when `mirror`. */
static void write_tile(const struct oracle *o, struct group g, int64_t first, int count,
                       const struct scratch *s, const struct mat *K, bool mirror)
{
    const size_t size = dtype_size(o->dtype);
    for (int j = 0; j < count; j++) {
        const struct mat column = mat_rows(mat_cols(*K, first + j, 1), g.first, g.rows);
        const char *values = (const char *)s->K + (size_t)(j * g.lanes) * size;
        cpu__convert(K->dtype, column.data, o->dtype, values, g.rows);
    }
    if (!mirror) {
        return;
    }
    const struct mat tile = {
        .dtype = o->dtype, .rows = g.lanes, .cols = count, .ld = g.lanes, .data = (void *)s->K};
    for (int i = 0; i < g.rows; i++) {
        for (int j = 0; j < count; j++) {
            mat_set(K, first + j, g.first + i, mat_at(&tile, i, j));
        }
    }
}

/* One group against one segment of Q. A symmetric block has its tiles below the diagonal computed
 * and mirrored; groups never straddle a run, so each entry is written once. */
static void block_task(const struct oracle *o, const struct plan *plan, struct group g,
                       int64_t segment, bool symmetric, const struct mat *K)
{
    cleanup_flush unsigned before = tile_flush_denormals();
    struct scratch *s = my_scratch(plan);
    const int64_t run = block_run(o), start = segment * SEGMENT * run;
    const int64_t diagonal = g.first / run * run; /* the run that holds the group */
    int64_t end = min_i64(start + SEGMENT * run, o->Q.count);
    end = symmetric ? min_i64(end, diagonal + run) : end;
    if (start >= end) {
        return;
    }
    oracle__load_panel(o, &o->apart, g, s->rows.z, s->panel);
    for (int64_t first = start; first < end; first += run) {
        const int count = (int)min_i64(run, end - first);
        load_values(o, g, first, count, s);
        write_tile(o, g, first, count, s, K, symmetric && first < diagonal);
    }
}

int cpu__kblock(struct backend *be, struct view P, struct view Q, const struct mat *K,
                struct err *err)
{
    struct oracle o;
    struct plan plan;
    int rc = cpu__expect(K->rows == P.count && K->cols == Q.count, "kblock", err);
    if (rc < 0 || (rc = oracle__init(&o, be, P, Q, err)) < 0 ||
        (rc = plan_init(&plan, &o, err)) < 0) {
        return rc;
    }
    const bool symmetric = view_same(&P, &Q);
    const int64_t segments = ceil_div(Q.count, SEGMENT * block_run(&o));
#pragma omp parallel for num_threads(o.threads) schedule(dynamic) collapse(2)
    for (int64_t i = 0; i < plan.groups; i++) {
        for (int64_t segment = 0; segment < segments; segment++) {
            block_task(&o, &plan, group_at(&o, &plan, i), segment, symmetric, K);
        }
    }
    be->kernel_entries += P.count * Q.count;
    plan_deinit(&plan);
    return 0;
}

/* ---- kdiag ---- */

static double dot_diagonal(const struct points *p, int64_t row)
{
    const struct rows X = {.dtype = p->dtype, .n = p->n, .d = p->d, .data = p->data};
    double sum = 0.0;
    for (int64_t k = 0; k < p->d; k++) {
        sum += rows_at(&X, row, k) * rows_at(&X, row, k);
    }
    /* kernel_eval on one feature with this square gives the function of the inner product. */
    const struct kernel k = {.id = p->kernel.id,
                             .d = 1,
                             .gamma = p->kernel.gamma,
                             .coef0 = p->kernel.coef0,
                             .degree = p->kernel.degree};
    return kernel_eval(&k, &sum, &(double){1.0});
}

int cpu__kdiag(struct backend *be, struct view P, const struct mat *d, struct err *err)
{
    const bool fits = view_valid(&P) && d->rows == P.count && d->cols == 1;
    const int rc = cpu__expect(fits, "kdiag", err);
    if (rc < 0) {
        return rc;
    }
    const bool distance = kernel_uses_distance(P.points->kernel.id);
#pragma omp parallel for num_threads(be->threads) if (!distance)
    for (int64_t i = 0; i < P.count; i++) {
        mat_set(d, i, 0, distance ? 1.0 : dot_diagonal(P.points, view_row(&P, i)));
    }
    return 0;
}
