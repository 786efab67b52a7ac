/*
 * Y <- K' diag(w) (K V - T) + b Y, K = K(P,Q), with every kernel value evaluated once.
 *
 * P's rows go in panels. A panel's values against all of Q are kept in a buffer while they are
 * multiplied with V; then they meet the panel's weighted sums on their way back, a few panels
 * together. The buffer stays in the outer caches; where Q is so large that it would not, the
 * values are evaluated again instead.
 *
 * A task is TASK_ROWS rows of P. Tasks have sums of their own, which are added to the totals in the
 * order of the tasks, so the bits depend on the shape alone.
 *
 * Memory: for each thread the buffer and a number for each of Y's, of as many columns as fit.
 */
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/oracle.h"
#include "cpu/tile/isa.h"

#define TASK_ROWS 1024
#define GROUP_BYTES (512L << 10) /* of the values of the panels that go together */
#define PANEL_BYTES (16L << 20)  /* of one panel's values, at most */
#define PANELS 8                 /* together at most */
#define TOTALS_BYTES (32L << 20) /* of all threads' sums */
#define Z_ROWS (TILE_RUN + TILE_BLOCK)

struct normal {
    const struct product *p;
    const double *weights; /* of P's members, or NULL */
    const struct mat *T;   /* p x cols, or NULL */
    const struct mat *U;   /* likewise: where the sums go besides */
    int cols, wide, panels, run;
    bool keeps;
    int64_t q, tasks;
    size_t panel_size, values_size, lane_size; /* bytes; of a panel, its values, [cols][wide] */
    double *totals;                            /* [cols][q] */
    atomic_int_fast64_t next, turn;
    char *scratch;
    size_t scratch_size;
};

/* What one thread works in. */
struct buffers {
    char *panels;     /* T[panels][ld][wide] */
    char *values;     /* T[panels][q and spare rows][wide] */
    char *x_weights;  /* W[panels][cols][wide] */
    char *x_sums;     /* W[cols][wide] */
    char *z_weights;  /* W[cols][TILE_RUN] */
    char *z_sums;     /* [Z_ROWS][tile_z_ld] vectors */
    double *x_totals; /* [cols][wide] */
    double *z_totals; /* [cols][q] */
    struct run_rows *rows;
};

static size_t whole_lines(size_t bytes)
{
    return (bytes + TILE_ALIGN - 1) / TILE_ALIGN * TILE_ALIGN;
}

/* The parts of a thread's scratch; `base` NULL measures it. */
static size_t lay_out(const struct normal *s, char *base, struct buffers *ret)
{
    const size_t panels = (size_t)s->panels, cols = (size_t)s->cols;
    const size_t sizes[] = {
        panels * s->panel_size,
        s->keeps ? panels * s->values_size : 0,
        panels * s->lane_size,
        s->lane_size,
        cols * TILE_RUN * sizeof(double),
        Z_ROWS * (size_t)tile_z_ld(s->cols) * TILE_ALIGN,
        cols * (size_t)s->wide * sizeof(double),
        cols * (size_t)s->q * sizeof(double),
        oracle__run_size(&s->p->o, s->run),
    };
    char *parts[sizeof sizes / sizeof sizes[0]];
    size_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        parts[i] = base + at;
        at += whole_lines(sizes[i]);
    }
    *ret = (struct buffers){.panels = parts[0],
                            .values = s->keeps ? parts[1] : NULL,
                            .x_weights = parts[2],
                            .x_sums = parts[3],
                            .z_weights = parts[4],
                            .z_sums = parts[5],
                            .x_totals = (double *)(void *)parts[6],
                            .z_totals = (double *)(void *)parts[7],
                            .rows = (struct run_rows *)(void *)parts[8]};
    return at;
}

static void normal_plan(struct normal *s)
{
    const struct oracle *o = &s->p->o;
    const int64_t size = (int64_t)dtype_size(o->dtype);
    s->q = o->Q.count;
    s->tasks = ceil_div(o->P.count, TASK_ROWS);
    s->panel_size = (size_t)(o->ld * s->wide * size);
    s->values_size = (size_t)((s->q + TILE_BLOCK) * s->wide * size);
    s->lane_size = (size_t)(s->cols * s->wide) * dtype_size(s->p->weights);
    s->keeps = s->values_size <= PANEL_BYTES;
    const int64_t fit = GROUP_BYTES / (int64_t)(s->values_size + s->panel_size);
    s->panels = (int)(fit < 1 ? 1 : min_i64(fit, PANELS));
    s->scratch_size = lay_out(s, NULL, &(struct buffers){0});
}

size_t oracle__normal_scratch(const struct product *p)
{
    struct normal s = {
        .p = p, .cols = (int)p->V.cols, .wide = p->o.loops->wide, .run = oracle__run_rows(&p->o)};
    normal_plan(&s);
    return s.scratch_size;
}

static struct tile tile_of(const struct normal *s, const struct buffers *b, int panel, int64_t z,
                           int count)
{
    const struct oracle *o = &s->p->o;
    char *values = b->values != NULL ? b->values + (size_t)panel * s->values_size +
                                           (size_t)z * (size_t)s->wide * dtype_size(o->dtype)
                                     : NULL;
    return (struct tile){.kernel = &o->kernel,
                         .panel = b->panels + (size_t)panel * s->panel_size,
                         .z = b->rows->z,
                         .d = o->d,
                         .count = count,
                         .K = values,
                         .cols = s->cols,
                         .z_ld = tile_z_ld(s->cols),
                         .z_weights = b->z_weights,
                         .x_sums = b->x_sums,
                         .x_weights = b->x_weights + (size_t)panel * s->lane_size,
                         .z_sums = b->z_sums,
                         .kept = values,
                         .storage = KERNEL_STORE_EXACT};
}

/* x_weights and U <- w o (the panel's sums - T); 0 for lanes without a row. */
static void weigh(const struct normal *s, struct group g, void *to, const double *totals)
{
    for (int c = 0; c < s->cols; c++) {
        for (int i = 0; i < s->wide; i++) {
            const int k = c * s->wide + i;
            const bool there = i < g.rows;
            const double w = s->weights != NULL && there ? s->weights[g.first + i] : 1.0;
            const double y = s->T != NULL && there ? mat_at(s->T, g.first + i, c) : 0.0;
            const double value = there ? w * (totals[k] - y) : 0.0;
            if (s->U != NULL && there) {
                mat_set(s->U, g.first + i, c, value);
            }
            if (s->p->weights == DTYPE_F32) {
                ((float *)to)[k] = (float)value;
            } else {
                ((double *)to)[k] = value;
            }
        }
    }
}

/* One panel against all of Q: its values, and w o (K V) in its x_weights. */
static void forward(const struct normal *s, struct group g, int panel, struct buffers *b)
{
    const struct product *p = s->p;
    memset(b->x_totals, 0, (size_t)(s->cols * s->wide) * sizeof(double));
    memset(b->x_sums, 0, s->lane_size);
    oracle__load_panel(&p->o, &p->o.kernel, g, b->rows->z,
                       b->panels + (size_t)panel * s->panel_size);
    for (int64_t z = 0; z < s->q; z += s->run) {
        const int count = (int)min_i64(s->run, s->q - z);
        struct tile t = tile_of(s, b, panel, z, count);
        oracle__load_rows(&p->o, &p->o.kernel, z, count, b->rows);
        oracle__load_weights(p, z, count, TILE_RUN, TILE_RUN, b->z_weights);
        if (b->values != NULL) {
            t.kept = NULL;
            oracle__values(&p->o, s->wide, &t, b->rows->far);
            t.kept = t.K;
        }
        oracle__run(p, TILE_ROWS, s->wide, &t, b->rows->far);
        p->sums->drain(b->x_sums, s->wide, s->cols, b->x_totals, s->wide);
    }
    weigh(s, g, b->x_weights + (size_t)panel * s->lane_size, b->x_totals);
}

/* z_totals <- z_totals + K' x_weights of the group's panels. */
static void backward(const struct normal *s, int panels, struct buffers *b)
{
    const struct product *p = s->p;
    for (int64_t z = 0; z < s->q; z += s->run) {
        const int count = (int)min_i64(s->run, s->q - z);
        oracle__load_rows(&p->o, &p->o.kernel, z, count, b->rows);
        for (int i = 0; i < panels; i++) {
            const struct tile t = tile_of(s, b, i, z, count);
            oracle__run(p, TILE_COLUMNS, s->wide, &t, b->rows->far);
        }
        p->sums->fold(b->z_sums, NULL, count, s->cols, b->z_totals + z, s->q);
    }
}

static void add_in_turn(struct normal *s, int64_t task, const double *sums)
{
    while (atomic_load_explicit(&s->turn, memory_order_acquire) != task) {
        sched_yield();
    }
    for (int64_t i = 0; i < s->cols * s->q; i++) {
        s->totals[i] += sums[i];
    }
    atomic_store_explicit(&s->turn, task + 1, memory_order_release);
}

static void run_task(struct normal *s, int64_t task, struct buffers *b)
{
    const int64_t end = min_i64((task + 1) * TASK_ROWS, s->p->o.P.count);
    memset(b->z_totals, 0, (size_t)(s->cols * s->q) * sizeof(double));
    for (int64_t x = task * TASK_ROWS; x < end;) {
        int panels = 0;
        for (; panels < s->panels && x < end; panels++, x += s->wide) {
            const struct group g = {
                .first = x, .rows = (int)min_i64(s->wide, end - x), .lanes = s->wide};
            forward(s, g, panels, b);
        }
        backward(s, panels, b);
    }
    add_in_turn(s, task, b->z_totals);
}

static int normal_product(struct product *p, const double *weights, const struct mat *T,
                          const struct mat *U, struct err *err)
{
    struct normal s = {.p = p,
                       .weights = weights,
                       .T = T,
                       .U = U,
                       .cols = (int)p->V.cols,
                       .wide = p->o.loops->wide,
                       .run = oracle__run_rows(&p->o)};
    normal_plan(&s);
    cleanup_mem double *totals = mem_zarray((size_t)s.q, (size_t)s.cols * sizeof *totals);
    cleanup_mem char *scratch = mem_aligned((size_t)p->o.threads, s.scratch_size);
    if (totals == NULL || scratch == NULL) {
        return err_no_memory(err);
    }
    s.totals = totals;
    struct halt halt = oracle__halt(&p->o, s.tasks, err);
    halt.each *= 2.0; /* as they are counted */
#pragma omp parallel num_threads(p->o.threads)
    {
        cleanup_flush unsigned before = tile_flush_denormals();
        struct buffers b;
        lay_out(&s, scratch + (size_t)omp_get_thread_num() * s.scratch_size, &b);
        memset(b.z_sums, 0, (size_t)(Z_ROWS * tile_z_ld(s.cols)) * TILE_ALIGN);
        int64_t task;
        while (oracle__goes_on(&halt) && (task = atomic_fetch_add(&s.next, 1)) < s.tasks) {
            run_task(&s, task, &b);
        }
    }
    if (halt.result == 0) {
        oracle__write(p, 0, s.q, totals, s.q);
    }
    return halt.result;
}

int cpu__kmtkv(struct backend *be, struct view P, struct view Q, const double *weights,
               const struct mat *V, const struct mat *T, const struct mat *U, bool add,
               const struct mat *Y, struct err *err)
{
    const bool fits = V->rows == Q.count && Y->rows == Q.count && V->cols == Y->cols &&
                      (T == NULL || (T->rows == P.count && T->cols == V->cols)) &&
                      (U == NULL || (U->rows == P.count && U->cols == V->cols));
    struct product p = {.a = 1.0, .b = add ? 1.0 : 0.0};
    int rc = cpu__expect(fits, "kmtkv", err);
    if (rc < 0 || (rc = oracle__init(&p.o, be, P, Q, err)) < 0 || Q.count == 0) {
        return rc;
    }
    p.weights = p.o.dtype == DTYPE_F32 && V->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    p.sums = cpu_loops(be, p.weights);
    /* A column's bits do not depend on how many go together. */
    const int64_t each = Q.count * (be->threads + 1) * (int64_t)sizeof(double);
    const int64_t fit = TOTALS_BYTES / each < 1 ? 1 : min_i64(TOTALS_BYTES / each, TILE_COLS);
    for (int64_t c = 0; c < V->cols && rc == 0; c += fit) {
        p.V = mat_cols(*V, c, min_i64(fit, V->cols - c));
        p.Y = mat_cols(*Y, c, p.V.cols);
        const struct mat part = T != NULL ? mat_cols(*T, c, p.V.cols) : (struct mat){0};
        const struct mat out = U != NULL ? mat_cols(*U, c, p.V.cols) : (struct mat){0};
        rc = normal_product(&p, weights, T != NULL ? &part : NULL, U != NULL ? &out : NULL, err);
        be->kernel_entries += rc == 0 ? 2 * P.count * Q.count : 0;
        be->under_way = 0;
    }
    return rc;
}
