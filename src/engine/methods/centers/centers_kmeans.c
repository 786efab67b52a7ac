/*
 * Centers of clusters: m free points that lower the quantization error sum_i min_j |x_i - z_j|^2.
 *
 * Papers: seeds by k-means++ on a sample (kmeans_seed.h); D. Sculley, "Web-scale k-means
 * clustering", WWW 2010, mini-batches; used as centers of kernel models by A. Abedsoltan, M.
 * Belkin, P. Pandit, "Toward large kernel models", arXiv:2302.02605.
 *
 * A batch of b rows with centers Z and the number c_j of rows that each center has had so far:
 *
 *     j(x) = argmin_j |x - z_j|   for every row x of the batch
 *     c_j += h_j,   z_j += sum_x (x - z_j) / c_j    over the h_j rows x with j(x) = j
 *
 * which is Sculley's step for all rows of the batch at once. Batches are made of runs of RUN
 * neighbouring rows at random places, since single rows of a mapped file would cost a page each;
 * every pass over the rows has an order of its own. A center that no row has come to during WINDOW
 * m rows starts afresh on one of the rows of the last batch that are farthest from their centers.
 *
 * What comes out depends on the task, not on the pieces that batches are done in. Cost: (N + T) m d
 * multiplications for a sample of N rows and T rows in batches. Memory: (8 to 20) m d bytes, the
 * sample while seeds are drawn from it, and PIECE_ROWS rows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/methods/centers/center_draw.h"
#include "engine/methods/centers/kmeans_seed.h"
#include "engine/methods/methods.h"

enum { RUN = 32, WINDOW = 20, PIECE_ROWS = 16384 };

/* Distances a step. */
#define STEP_VALUES 1e8

/* Seeds and batches by default. */
enum { SAMPLE_A_CENTER = 10, SAMPLE_LEAST = 20000, BATCH_LEAST = 4096, ROWS_A_CENTER = 100 };
enum { ROWS_LEAST = 200000, PASSES = 3 };

struct far_row {
    double distance;
    int64_t row;
};

struct center_selection {
    struct center_task task;
    int64_t wanted, d;
    struct nearest nearest;
    struct kmeans_seed seeds;
    int64_t sample_rows;
    int64_t *sample; /* [sample_rows]: ascending; NULL once the seeds are there */
    void *X;         /* [sample_rows, d], then [PIECE_ROWS, d] */
    struct center_draw draw;
    struct center_set set; /* the seeds, then the centers */
    enum { LOAD, SEED, FILL, BATCH, TOP_UP } phase;

    int64_t m;
    double *Z;             /* [m, d] */
    double *sums;          /* [m, d]: of x - z in this batch */
    int64_t *hits;         /* [m]: of this batch */
    int64_t *had, *lately; /* [m]: in all, and since the last look for lost centers */
    void *Z_rounded;       /* [m, d] in the rows' type */
    struct points *points; /* the same, for this batch */
    double *Z_norms;       /* [m] */
    int64_t batch, at;     /* rows of a batch, and how many of them are done */
    int64_t rows, done;    /* to be seen in batches, and seen */
    int64_t window;        /* seen since the last look for lost centers */
    int64_t place;         /* in the order of the runs */
    int64_t index[PIECE_ROWS], which[PIECE_ROWS];
    double distance[PIECE_ROWS], norms[PIECE_ROWS];
    struct far_row *far; /* [batch] */
};

static void teardown(struct center_selection *s)
{
    if (s == NULL) {
        return;
    }
    if (s->nearest.be != NULL) {
        s->nearest.be->ops->points_free(s->nearest.be, s->points);
    }
    kmeans_seed_deinit(&s->seeds);
    nearest_deinit(&s->nearest);
    center_draw_deinit(&s->draw);
    center_set_deinit(&s->set);
    mem_free(s->sample);
    mem_free(s->X);
    mem_free(s->Z);
    mem_free(s->sums);
    mem_free(s->hits);
    mem_free(s->had);
    mem_free(s->lately);
    mem_free(s->Z_rounded);
    mem_free(s->Z_norms);
    mem_free(s->far);
    mem_free(s);
}

/* Centers count up to n, so that their multiples do not overflow. */
static void choose_sizes(struct center_selection *s, const struct param_set *params)
{
    const int64_t n = s->task.rows->n, m = s->wanted;
    const struct param_value *sample = param_get(params, "sample");
    const struct param_value *batch = param_get(params, "batch_size");
    const struct param_value *rows = param_get(params, "rows");
    s->sample_rows = sample->is_auto ? max_i64(SAMPLE_A_CENTER * m, SAMPLE_LEAST)
                                     : max_i64((int64_t)sample->real, m);
    s->sample_rows = min_i64(s->sample_rows, n);
    s->batch = batch->is_auto ? max_i64(2 * m, BATCH_LEAST) : (int64_t)batch->real;
    s->batch = min_i64(s->batch, n);
    s->rows = rows->is_auto ? min_i64(max_i64(ROWS_A_CENTER * m, ROWS_LEAST), PASSES * n)
                            : (int64_t)rows->real;
}

static int setup(const struct center_task *task, const struct param_set *params,
                 struct center_selection **ret, struct err *err)
{
    int rc = center_task_check(task, false, err);
    if (rc < 0) {
        return rc;
    }
    struct center_selection *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->task = *task;
    s->wanted = center_task_wanted(task);
    s->d = task->rows->d;
    choose_sizes(s, params);
    center_set_init(&s->set, s->d, task->rows->dtype);
    rc = nearest_init(&s->nearest, task->be, task->rows->dtype, s->d, err);
    if (rc == 0) {
        rc = center_draw_init(&s->draw, task->rows, task->rows->dtype, task->seed, err);
    }
    if (rc < 0) {
        teardown(s);
        return rc;
    }
    *ret = s;
    return 0;
}

/* ---- seeds ---- */

static int load_sample(struct center_selection *s, struct err *err)
{
    const struct row_source *rows = s->task.rows;
    const struct row_order order = row_order_new(s->task.seed, ORDER_SAMPLE, 0, rows->n);
    s->sample = mem_array((size_t)s->sample_rows, sizeof(*s->sample));
    s->X = mem_array((size_t)s->sample_rows, (size_t)s->d * dtype_size(rows->dtype));
    if (s->sample == NULL || s->X == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < s->sample_rows; i++) {
        s->sample[i] = row_order_at(&order, i);
    }
    center_sort_rows(s->sample, s->sample_rows);
    const int rc = rows->read(rows, 0, s->sample, s->sample_rows, s->X, NULL, err);
    return rc == 0 ? kmeans_seed_init(&s->seeds, &s->nearest, s->X, s->sample_rows, s->wanted,
                                      s->task.seed, err)
                   : rc;
}

static int gather_seeds(struct center_selection *s, struct err *err)
{
    const size_t size = (size_t)s->d * dtype_size(s->task.rows->dtype);
    int rc = 0;
    for (int64_t j = 0; rc >= 0 && j < s->seeds.count; j++) {
        const char *point = (const char *)s->X + (size_t)s->seeds.chosen[j] * size;
        rc = center_set_add(&s->set, point, -1, 1.0, err);
    }
    kmeans_seed_deinit(&s->seeds);
    s->sample = mem_free(s->sample);
    s->X = mem_free(s->X);
    return rc < 0 ? rc : 0;
}

static int start_batches(struct center_selection *s, struct err *err)
{
    const size_t m = (size_t)s->set.m, d = (size_t)s->d;
    s->m = s->set.m;
    s->Z = mem_array(m * d, sizeof(double));
    s->sums = mem_zarray(m * d, sizeof(double));
    s->hits = mem_zarray(m, sizeof(*s->hits));
    s->had = mem_zarray(m, sizeof(*s->had));
    s->lately = mem_zarray(m, sizeof(*s->lately));
    s->Z_rounded = mem_array(m * d, dtype_size(s->set.dtype));
    s->Z_norms = mem_array(m, sizeof(double));
    s->far = mem_array((size_t)s->batch, sizeof(*s->far));
    s->X = mem_array(PIECE_ROWS, d * dtype_size(s->set.dtype));
    if (!(s->Z && s->sums && s->hits && s->had && s->lately && s->Z_rounded && s->Z_norms &&
          s->far && s->X)) {
        return err_no_memory(err);
    }
    const struct rows seeds = {.dtype = s->set.dtype, .n = s->m, .d = s->d, .data = s->set.points};
    for (int64_t i = 0; i < s->m * s->d; i++) {
        s->Z[i] = rows_at(&seeds, i / s->d, i % s->d);
    }
    center_set_clear(&s->set);
    return 0;
}

/* ---- batches ---- */

/* The next rows, by runs of every pass's own order. */
static void next_rows(struct center_selection *s, int64_t count)
{
    const int64_t n = s->task.rows->n, runs = (n + RUN - 1) / RUN;
    for (int64_t i = 0; i < count;) {
        const int64_t pass = s->place / (runs * RUN), place = s->place % (runs * RUN);
        const struct row_order order = row_order_new(s->task.seed, ORDER_KMEANS_PASS, pass, runs);
        const int64_t row = row_order_at(&order, place / RUN) * RUN + place % RUN;
        s->place++;
        if (row < n) {
            s->index[i++] = row;
        }
    }
}

static void round_centers(struct center_selection *s)
{
    for (int64_t i = 0; i < s->m * s->d; i++) {
        if (s->set.dtype == DTYPE_F32) {
            ((float *)s->Z_rounded)[i] = (float)s->Z[i];
        } else {
            ((double *)s->Z_rounded)[i] = s->Z[i];
        }
    }
}

static void add_rows(struct center_selection *s, int64_t count)
{
    const struct rows X = {.dtype = s->set.dtype, .n = count, .d = s->d, .data = s->X};
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = s->which[i];
        double *sum = s->sums + j * s->d;
        const double *z = s->Z + j * s->d;
        s->hits[j]++;
        for (int64_t k = 0; k < s->d; k++) {
            sum[k] += rows_at(&X, i, k) - z[k];
        }
        s->far[s->at + i] = (struct far_row){.distance = s->distance[i], .row = s->index[i]};
    }
}

/* The next piece of a batch: its rows find their centers. */
static int assign(struct center_selection *s, int64_t count, struct err *err)
{
    const struct row_source *rows = s->task.rows;
    const struct backend_ops *o = s->nearest.be->ops;
    struct points *P = NULL;
    next_rows(s, count);
    int rc = rows->read(rows, 0, s->index, count, s->X, NULL, err);
    if (rc == 0 && s->points == NULL) {
        round_centers(s);
        rc = nearest_points(&s->nearest, s->Z_rounded, s->m, &s->points, s->Z_norms, err);
    }
    if (rc == 0) {
        rc = nearest_points(&s->nearest, s->X, count, &P, s->norms, err);
    }
    for (int64_t i = 0; i < count; i++) {
        s->distance[i] = INFINITY;
        s->which[i] = 0;
    }
    if (rc == 0) {
        rc = nearest_update(&s->nearest, view_all(P, count), s->norms, view_all(s->points, s->m),
                            s->Z_norms, s->distance, s->which, err);
    }
    o->points_free(s->nearest.be, P);
    if (rc == 0) {
        add_rows(s, count);
    }
    return rc;
}

static void move_centers(struct center_selection *s)
{
    for (int64_t j = 0; j < s->m; j++) {
        double *z = s->Z + j * s->d, *sum = s->sums + j * s->d;
        s->had[j] += s->hits[j];
        s->lately[j] += s->hits[j];
        for (int64_t k = 0; s->hits[j] > 0 && k < s->d; k++) {
            z[k] += sum[k] / (double)s->had[j];
            sum[k] = 0;
        }
        s->hits[j] = 0;
    }
}

static int compare_far(const void *x, const void *y)
{
    const struct far_row *a = x, *b = y;
    return a->distance != b->distance ? (a->distance < b->distance) - (a->distance > b->distance)
                                      : (a->row > b->row) - (a->row < b->row);
}

/* Center j goes to the farthest row of the batch, from *next on, that no other has gone to. */
static int start_afresh(struct center_selection *s, int64_t j, int64_t *next,
                        struct point_table *taken, struct err *err)
{
    const struct row_source *rows = s->task.rows;
    for (; *next < s->batch && s->far[*next].distance > 0; ++*next) {
        int rc = rows->read(rows, 0, &s->far[*next].row, 1, s->X, NULL, err);
        if (rc < 0) {
            return rc;
        }
        const int64_t at =
            point_table_put(taken, fingerprint_of(s->X, s->d, s->set.dtype), *next, err);
        if (at < 0) {
            return (int)at;
        }
        if (at == *next) {
            const struct rows X = {.dtype = s->set.dtype, .n = 1, .d = s->d, .data = s->X};
            for (int64_t k = 0; k < s->d; k++) {
                s->Z[j * s->d + k] = rows_at(&X, 0, k);
            }
            s->had[j] = 0;
            ++*next;
            return 0;
        }
    }
    return 0;
}

static int replace_lost(struct center_selection *s, struct err *err)
{
    struct point_table taken = {.slots = 0};
    int64_t next = 0;
    int rc = 0;
    bool sorted = false;
    for (int64_t j = 0; rc == 0 && j < s->m; j++) {
        if (s->lately[j] == 0) {
            if (!sorted) {
                qsort(s->far, (size_t)s->batch, sizeof(*s->far), compare_far);
                sorted = true;
            }
            rc = start_afresh(s, j, &next, &taken, err);
        }
        s->lately[j] = 0;
    }
    point_table_deinit(&taken);
    return rc;
}

static int finish_batch(struct center_selection *s, struct err *err)
{
    move_centers(s);
    s->nearest.be->ops->points_free(s->nearest.be, s->points);
    s->points = NULL;
    s->done += s->batch;
    s->window += s->batch;
    s->at = 0;
    /* The last batch leaves centers where they are: nothing would move them off their row. */
    if (s->window < WINDOW * s->m || s->done >= s->rows) {
        return 0;
    }
    s->window = 0;
    return replace_lost(s, err);
}

/* 1: all batches are done. */
static int step_batch(struct center_selection *s, struct err *err)
{
    const double piece = STEP_VALUES / (double)s->m;
    int64_t count = min_i64(s->batch - s->at, PIECE_ROWS);
    count = piece < (double)count ? max_i64((int64_t)piece, 1) : count;
    int rc = assign(s, count, err);
    if (rc < 0) {
        return rc;
    }
    s->at += count;
    if (s->at == s->batch) {
        rc = finish_batch(s, err);
    }
    return rc < 0 ? rc : s->done >= s->rows;
}

/* Two that have come to the same point are one; rows make up for it. */
static int finish(struct center_selection *s, struct err *err)
{
    const size_t size = (size_t)s->d * dtype_size(s->set.dtype);
    int rc = 0;
    round_centers(s);
    for (int64_t j = 0; rc >= 0 && j < s->m; j++) {
        rc = center_set_add(&s->set, (const char *)s->Z_rounded + (size_t)j * size, -1, 1.0, err);
    }
    s->draw.next = 0;
    s->phase = TOP_UP;
    return rc < 0 ? rc : 0;
}

/* ---- the whole ---- */

static double fraction(const struct center_selection *s)
{
    const double seeding = (double)s->sample_rows, batches = (double)s->rows;
    const double seeded = s->phase == SEED   ? (double)s->seeds.count / (double)s->wanted
                          : s->phase >= FILL ? 1.0
                                             : 0.0;
    return fmin((seeding * seeded + (double)(s->done + s->at)) / (seeding + batches), 1.0);
}

static int advance(struct center_selection *s, struct err *err)
{
    int rc = 0;
    switch (s->phase) {
    case LOAD:
        rc = load_sample(s, err);
        s->phase = SEED;
        return rc;
    case SEED:
        rc = kmeans_seed_step(&s->seeds, err);
        if (rc > 0) {
            s->phase = FILL;
            rc = gather_seeds(s, err);
        }
        return rc;
    case FILL:
        rc = center_draw_step(&s->draw, &s->set, s->wanted, 1.0, true, err);
        if (rc > 0) {
            s->phase = BATCH;
            rc = start_batches(s, err);
        }
        return rc;
    case BATCH:
        rc = s->rows > 0 ? step_batch(s, err) : 1;
        return rc > 0 ? finish(s, err) : rc;
    case TOP_UP:
        break;
    }
    return center_draw_step(&s->draw, &s->set, s->m, 1.0, true, err);
}

static int step(struct center_selection *s, double *ret_fraction, struct err *err)
{
    const int rc = advance(s, err);
    *ret_fraction = rc > 0 ? 1.0 : fraction(s);
    return rc;
}

static int take(struct center_selection *s, struct centers *ret, struct err *err)
{
    return center_set_take(&s->set, 0, ret, err);
}

const struct center_ops centers_kmeans_ops = {
    .name = "kmeans",
    .setup = setup,
    .step = step,
    .take = take,
    .teardown = teardown,
};
