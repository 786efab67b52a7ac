/*
 * The kernel oracle: which thread computes which tile, and in which order sums are added.
 *
 * The rows of P are cut into groups, one panel each: wide ones, then narrow ones for the rest. The
 * rows of Q are cut into chunks of fixed length. One task sums one group over one chunk; a group's
 * chunk sums are added in order. Neither the number of rows nor the number of threads changes what
 * is added to what, so a row of the product has the same bits always.
 */
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "engine/cpu.h"

#define CHUNK (64 * TILE_RUN)  /* rows of Q; fixed, see above */
#define SEGMENT (8 * TILE_RUN) /* rows of Q one task of kblock takes */

/* What one thread works in. Layouts as in cpu_tile.h; T arrays in space for float64. */
struct scratch {
    double K[TILE_RUN * TILE_LANES];
    double weights[TILE_COLS * TILE_RUN];
    double sums[TILE_COLS * TILE_LANES];
    double totals[TILE_COLS * TILE_LANES];
    const void *z[TILE_RUN];
    double panel[]; /* T[d][lanes] */
} __attribute__((aligned(64)));

/* Everything a task needs to know; read-only while threads run. */
struct oracle {
    const struct tile_loops *loops;
    struct view P, Q;
    enum dtype dtype;
    int64_t d;
    int threads;
    int64_t wide_groups, groups;
    char *scratch; /* one struct scratch a thread */
    size_t scratch_size;
};

struct group {
    int64_t first; /* member of P */
    int rows;      /* 1 .. lanes */
    int lanes;
};

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static struct group group_at(const struct oracle *o, int64_t g)
{
    const int wide = o->loops->wide, narrow = o->loops->narrow;
    struct group ret = {.first = g * wide, .lanes = wide};
    if (g >= o->wide_groups) {
        ret.first = o->wide_groups * wide + (g - o->wide_groups) * narrow;
        ret.lanes = narrow;
    }
    ret.rows = (int)min_i64(ret.lanes, o->P.count - ret.first);
    return ret;
}

static struct scratch *my_scratch(const struct oracle *o)
{
    return (struct scratch *)(void *)(o->scratch + (size_t)omp_get_thread_num() * o->scratch_size);
}

static bool view_valid(const struct view *v)
{
    if (v->count < 0) {
        return false;
    }
    if (v->index == NULL) {
        return v->first >= 0 && v->first <= v->points->n - v->count;
    }
    bool valid = true;
    for (int64_t i = 0; i < v->count; i++) {
        valid = valid && v->index[i] >= 0 && v->index[i] < v->points->n;
    }
    return valid;
}

static int oracle_init(struct oracle *o, struct backend *be, struct view P, struct view Q,
                       struct err *err)
{
    const struct points *p = P.points, *q = Q.points;
    const bool fits = p->d == q->d && p->dtype == q->dtype && p->kernel.id == q->kernel.id;
    const int rc = cpu__expect(fits && view_valid(&P) && view_valid(&Q), "kernel oracle", err);
    if (rc < 0) {
        return rc;
    }
    *o = (struct oracle){.loops = cpu_loops(be, p->dtype),
                         .P = P,
                         .Q = Q,
                         .dtype = p->dtype,
                         .d = p->d,
                         .threads = be->threads};
    /* The rest takes narrow panels unless they would fill a wide one. */
    const int wide = o->loops->wide;
    const int64_t narrow_groups = ceil_div(P.count % wide, o->loops->narrow);
    const bool fills = narrow_groups * o->loops->narrow == wide;
    o->wide_groups = P.count / wide + fills;
    o->groups = o->wide_groups + (fills ? 0 : narrow_groups);
    o->scratch_size = sizeof(struct scratch) + (size_t)(o->d + 1) * TILE_LANES * sizeof(double);
    o->scratch = mem_aligned((size_t)o->threads, o->scratch_size);
    return o->scratch == NULL ? err_no_memory(err) : 0;
}

static void oracle_deinit(struct oracle *o)
{
    o->scratch = mem_free(o->scratch);
}

/* Lanes without a row repeat the last row; what they give is dropped. */
static void load_panel(const struct oracle *o, struct group g, struct scratch *s)
{
    for (int i = 0; i < g.lanes; i++) {
        const int64_t member = g.first + (i < g.rows ? i : g.rows - 1);
        const void *row = points_row(o->P.points, view_row(&o->P, member));
        if (o->dtype == DTYPE_F32) {
            float *panel = (float *)s->panel + i;
            for (int64_t k = 0; k < o->d; k++) {
                panel[k * g.lanes] = ((const float *)row)[k];
            }
        } else {
            double *panel = s->panel + i;
            for (int64_t k = 0; k < o->d; k++) {
                panel[k * g.lanes] = ((const double *)row)[k];
            }
        }
    }
}

/* s->K <- kernel values of the panel and members first .. first+count-1 of Q. */
static void load_values(const struct oracle *o, struct group g, int64_t first, int count,
                        struct scratch *s)
{
    for (int j = 0; j < count; j++) {
        s->z[j] = points_row(o->Q.points, view_row(&o->Q, first + j));
    }
    for (int j = count; j % TILE_STEP != 0; j++) {
        s->z[j] = s->z[count - 1];
    }
    o->loops->values(&o->P.points->kernel, g.lanes, s->panel, s->z, o->d, count, s->K);
}

/* ---- kmv ---- */

struct product {
    struct oracle o;
    double a, b;
    struct mat V, Y;    /* the columns of this pass, at most TILE_COLS */
    enum dtype weights; /* float32 only when points and vectors are */
};

/* s->sums <- the group's kernel values times V over one chunk of Q. */
static void sum_chunk(const struct product *p, struct group g, int64_t chunk, struct scratch *s)
{
    const int cols = (int)p->V.cols;
    memset(s->sums, 0, (size_t)(cols * g.lanes) * sizeof *s->sums);
    const int64_t end = min_i64((chunk + 1) * CHUNK, p->o.Q.count);
    for (int64_t first = chunk * CHUNK; first < end; first += TILE_RUN) {
        const int count = (int)min_i64(TILE_RUN, end - first);
        load_values(&p->o, g, first, count, s);
        for (int c = 0; c < cols; c++) {
            const size_t at = (size_t)c * TILE_RUN * dtype_size(p->weights);
            const struct mat column = mat_rows(mat_cols(p->V, c, 1), first, count);
            cpu__convert(p->weights, (char *)s->weights + at, p->V.dtype, column.data, count);
        }
        if (p->weights == DTYPE_F32) {
            p->o.loops->apply(g.lanes, s->K, count, s->weights, cols, s->sums);
        } else {
            p->o.loops->apply_f64(g.lanes, s->K, count, s->weights, cols, s->sums);
        }
    }
}

static void add_to(double *restrict totals, const double *restrict sums, int n)
{
    for (int i = 0; i < n; i++) {
        totals[i] += sums[i];
    }
}

/* Y <- a totals + b Y for the group's rows. */
static void write_rows(const struct product *p, struct group g, const double *totals)
{
    for (int64_t c = 0; c < p->Y.cols; c++) {
        for (int i = 0; i < g.rows; i++) {
            double y = p->a * totals[c * g.lanes + i];
            if (p->b != 0.0) {
                y += p->b * mat_at(&p->Y, g.first + i, c);
            }
            mat_set(&p->Y, g.first + i, c, y);
        }
    }
}

/* Many groups: a thread takes a group over all of Q. */
static void product_by_groups(const struct product *p, int64_t chunks)
{
#pragma omp parallel for num_threads(p->o.threads) schedule(dynamic)
    for (int64_t i = 0; i < p->o.groups; i++) {
        struct scratch *s = my_scratch(&p->o);
        const struct group g = group_at(&p->o, i);
        const int n = (int)p->V.cols * g.lanes;
        memset(s->totals, 0, (size_t)n * sizeof *s->totals);
        load_panel(&p->o, g, s);
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            sum_chunk(p, g, chunk, s);
            add_to(s->totals, s->sums, n);
        }
        write_rows(p, g, s->totals);
    }
}

/* Few groups: threads share one group's chunks, a wave of them at a time; `sums` has room for
 * one wave, `totals` for one group. */
static void product_group(const struct product *p, struct group g, int64_t chunks, int64_t wave,
                          double *sums, double *totals)
{
    const int n = (int)p->V.cols * g.lanes;
    memset(totals, 0, (size_t)n * sizeof *totals);
    for (int64_t first = 0; first < chunks; first += wave) {
        const int64_t end = min_i64(first + wave, chunks);
#pragma omp parallel num_threads(p->o.threads)
        {
            struct scratch *s = my_scratch(&p->o);
            load_panel(&p->o, g, s);
#pragma omp for schedule(dynamic)
            for (int64_t chunk = first; chunk < end; chunk++) {
                sum_chunk(p, g, chunk, s);
                memcpy(sums + (chunk - first) * n, s->sums, (size_t)n * sizeof *sums);
            }
        }
        for (int64_t chunk = first; chunk < end; chunk++) {
            add_to(totals, sums + (chunk - first) * n, n);
        }
    }
    write_rows(p, g, totals);
}

static int product_by_chunks(const struct product *p, int64_t chunks, struct err *err)
{
    const int64_t wave = min_i64(chunks, 8L * p->o.threads);
    const size_t n = (size_t)p->V.cols * TILE_LANES;
    cleanup_mem double *sums = mem_array((size_t)wave + 1, n * sizeof *sums);
    if (sums == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < p->o.groups; i++) {
        product_group(p, group_at(&p->o, i), chunks, wave, sums, sums + (size_t)wave * n);
    }
    return 0;
}

static int product_run(const struct product *p, struct err *err)
{
    const int64_t chunks = ceil_div(p->o.Q.count, CHUNK);
    if (p->o.groups >= 2L * p->o.threads || chunks < 2) {
        product_by_groups(p, chunks);
        return 0;
    }
    return product_by_chunks(p, chunks, err);
}

int cpu__kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
             double b, const struct mat *Y, struct err *err)
{
    const bool fits = V->rows == Q.count && Y->rows == P.count && V->cols == Y->cols;
    int rc = cpu__expect(fits, "kmv", err);
    struct product p = {.a = a, .b = b};
    if (rc < 0 || (rc = oracle_init(&p.o, be, P, Q, err)) < 0) {
        return rc;
    }
    p.weights = p.o.dtype == DTYPE_F32 && V->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    for (int64_t c = 0; c < V->cols && rc == 0; c += TILE_COLS) {
        const int64_t cols = min_i64(TILE_COLS, V->cols - c);
        p.V = mat_cols(*V, c, cols);
        p.Y = mat_cols(*Y, c, cols);
        rc = product_run(&p, err);
        be->kernel_entries += P.count * Q.count;
    }
    oracle_deinit(&p.o);
    return rc;
}

/* ---- kblock ---- */

static bool same_view(const struct view *P, const struct view *Q)
{
    return P->points == Q->points && P->count == Q->count && P->index == Q->index &&
           (P->index != NULL || P->first == Q->first);
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
static void block_task(const struct oracle *o, struct group g, int64_t segment, bool symmetric,
                       const struct mat *K)
{
    struct scratch *s = my_scratch(o);
    const int64_t diagonal = g.first / TILE_RUN * TILE_RUN; /* the run that holds the group */
    int64_t end = min_i64((segment + 1) * SEGMENT, o->Q.count);
    end = symmetric ? min_i64(end, diagonal + TILE_RUN) : end;
    if (segment * SEGMENT >= end) {
        return;
    }
    load_panel(o, g, s);
    for (int64_t first = segment * SEGMENT; first < end; first += TILE_RUN) {
        const int count = (int)min_i64(TILE_RUN, end - first);
        load_values(o, g, first, count, s);
        write_tile(o, g, first, count, s, K, symmetric && first < diagonal);
    }
}

int cpu__kblock(struct backend *be, struct view P, struct view Q, const struct mat *K,
                struct err *err)
{
    struct oracle o;
    int rc = cpu__expect(K->rows == P.count && K->cols == Q.count, "kblock", err);
    if (rc < 0 || (rc = oracle_init(&o, be, P, Q, err)) < 0) {
        return rc;
    }
    const bool symmetric = same_view(&P, &Q);
    const int64_t segments = ceil_div(Q.count, SEGMENT);
#pragma omp parallel for num_threads(o.threads) schedule(dynamic) collapse(2)
    for (int64_t i = 0; i < o.groups; i++) {
        for (int64_t segment = 0; segment < segments; segment++) {
            block_task(&o, group_at(&o, i), segment, symmetric, K);
        }
    }
    be->kernel_entries += P.count * Q.count;
    oracle_deinit(&o);
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
