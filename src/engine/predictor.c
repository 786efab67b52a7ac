#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/model.h"
#include "engine/standardize.h"

/* Rows in one oracle call, and the most numbers their features may take: memory stays bounded
 * however many rows are asked for. */
enum { CHUNK_ROWS = 4096, CHUNK_NUMBERS = 1 << 22 };

/* Below so many multiply-adds (some 100 us of one processor) other threads would take longer to
 * wake than the work lasts. */
#define ALONE 4e6

/* Multiply-adds of a kernel value beside those of its features, roughly. */
#define FUNCTION_COST 12

/* A panel has so many rows at least, also where fewer are asked for; but for centers with lanes. */
#define PANEL_ROWS 16

/* Multiply-adds of one row from which on centers get lanes: some 20 us of a processor for a panel.
 */
#define LANES_FROM 1e5
/* Centers may take this part of the free memory at most, for lanes to be made of them. */
#define LANES_SHARE 4

struct predictor {
    const struct model *m;
    struct backend *be;
    struct points *centers;
    bool lanes;   /* a few rows take no longer than as many of a panel */
    struct mat A; /* m x t float64 */
    struct mat Y; /* room x t float64 */
    int64_t chunk;
    int64_t room;    /* rows that the members below have room for; grows up to chunk */
    void *X;         /* [room, d] standardised, of the model's dtype */
    double *columns; /* [room, t] column-major */
    int64_t bytes;   /* of the backend, for centers and coefficients */
};

struct predictor *predictor_free(struct predictor *p)
{
    if (p == NULL) {
        return NULL;
    }
    p->be->ops->mat_free(p->be, &p->A);
    p->be->ops->mat_free(p->be, &p->Y);
    if (p->centers != NULL) {
        p->be->ops->points_free(p->be, p->centers);
    }
    mem_free(p->X);
    mem_free(p->columns);
    return mem_free(p);
}

int64_t predictor_bytes(const struct predictor *p)
{
    const struct model *m = p->m;
    const int64_t scales = 2 * (m->d + m->t) * (int64_t)sizeof(double);
    const int64_t row = m->d * (int64_t)dtype_size(m->dtype) + 2 * m->t * (int64_t)sizeof(double);
    const int64_t model =
        m->centers != NULL
            ? m->m * (m->d * (int64_t)dtype_size(m->dtype) + m->t * (int64_t)sizeof(double))
            : 0;
    return (int64_t)sizeof(*p) + p->bytes + scales + model + p->room * row;
}

/* coef [m, t] row-major into A. */
static int put_coefficients(struct predictor *p, struct err *err)
{
    const struct model *m = p->m;
    cleanup_mem double *columns = mem_array((size_t)(m->m * m->t), sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < m->m; i++) {
        for (int64_t j = 0; j < m->t; j++) {
            columns[i + j * m->m] = m->coef[i * m->t + j];
        }
    }
    const int r = p->be->ops->mat_new(p->be, DTYPE_F64, m->m, m->t, &p->A, err);
    return r == 0 ? p->be->ops->mat_put(p->be, columns, m->m, &p->A, err) : r;
}

static double row_work(const struct predictor *p)
{
    return (double)p->m->m * (double)(p->m->d + p->m->t + FUNCTION_COST);
}

/* Lanes make few rows fast, and take up to twice the centers' memory: where there is little, or
 * where they cannot be had, the model does without. */
static int spread(struct predictor *p, int64_t centers_bytes, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    int64_t bytes = 0;
    const bool worth = o->points_lanes != NULL && row_work(p) >= LANES_FROM &&
                       memory_available_on(p->be) / LANES_SHARE > centers_bytes;
    const int r = worth ? o->points_lanes(p->be, p->centers, &bytes, err) : 0;
    p->lanes = bytes > 0;
    return r == -ERR_NO_MEMORY ? 0 : r;
}

static int prepare(struct predictor *p, struct err *err)
{
    const struct model *m = p->m;
    const struct rows centers = {.dtype = m->dtype, .n = m->m, .d = m->d, .data = m->centers};
    const int64_t fitting = CHUNK_NUMBERS / m->d;
    const int64_t before = p->be->bytes;
    p->chunk = fitting < 1 ? 1 : fitting < CHUNK_ROWS ? fitting : CHUNK_ROWS;
    int r = p->be->ops->points_new(p->be, &m->kernel, m->dtype, &centers, &p->centers, err);
    r = r == 0 ? spread(p, p->be->bytes - before, err) : r;
    r = r == 0 ? put_coefficients(p, err) : r;
    p->bytes = p->be->bytes - before;
    return r;
}

int predictor_new(const struct model *m, struct backend *be, struct predictor **ret,
                  struct err *err)
{
    struct predictor *p = mem_zalloc(sizeof(*p));
    if (p == NULL) {
        return err_no_memory(err);
    }
    p->m = m;
    p->be = be;
    const int r = prepare(p, err);
    if (r < 0) {
        predictor_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

/* Room for so many rows, at most `chunk`. */
static int make_room(struct predictor *p, int64_t rows, struct err *err)
{
    const struct model *m = p->m;
    if (rows <= p->room) {
        return 0;
    }
    int64_t room = p->room > 0 ? p->room : PANEL_ROWS;
    while (room < rows) {
        room *= 2;
    }
    room = room < p->chunk ? room : p->chunk;
    p->room = 0;
    p->be->ops->mat_free(p->be, &p->Y);
    p->Y = (struct mat){.data = NULL};
    mem_free(p->X);
    mem_free(p->columns);
    p->X = mem_array((size_t)(room * m->d), dtype_size(m->dtype));
    p->columns = mem_array((size_t)(room * m->t), sizeof(double));
    if (p->X == NULL || p->columns == NULL) {
        return err_no_memory(err);
    }
    const int r = p->be->ops->mat_new(p->be, DTYPE_F64, room, m->t, &p->Y, err);
    p->room = r == 0 ? room : 0;
    return r;
}

/* The bits of the product do not depend on it. */
static int threads_for(const struct predictor *p, int64_t rows)
{
    const int64_t panels = (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const double work = row_work(p) * (double)(p->lanes ? rows : panels * PANEL_ROWS);
    return work < ALONE ? 1 : p->be->threads;
}

static int multiply(struct predictor *p, int64_t rows, const struct points *points,
                    const struct mat *Y, struct err *err)
{
    const int threads = p->be->threads;
    p->be->threads = threads_for(p, rows);
    const int r = p->be->ops->kmv(p->be, view_all(points, rows), view_all(p->centers, p->m->m), 1.0,
                                  &p->A, 0.0, Y, err);
    p->be->threads = threads;
    return r;
}

/* The first of the standardised rows that the kernel cannot take; `rows` where all are fine. */
static int64_t unfit_row(const struct predictor *p, int64_t rows)
{
    const struct model *m = p->m;
    const struct backend_ops *o = p->be->ops;
    const size_t size = (size_t)m->d * dtype_size(m->dtype);
    for (int64_t i = 0; i < rows; i++) {
        const struct rows one = {
            .dtype = m->dtype, .n = 1, .d = m->d, .data = (const char *)p->X + (size_t)i * size};
        struct points *points = NULL;
        if (o->points_new(p->be, &m->kernel, m->dtype, &one, &points, NULL) == -ERR_INVALID) {
            return i;
        }
        o->points_free(p->be, points);
    }
    return rows;
}

/* At most `chunk` rows. */
static int run_chunk(struct predictor *p, const double *X, int64_t rows, double *ret,
                     struct err *err)
{
    const struct model *m = p->m;
    const struct backend_ops *o = p->be->ops;
    struct points *points = NULL;
    int r = make_room(p, rows, err);
    for (int64_t i = 0; r == 0 && i < rows; i++) {
        standardize_row(X + i * m->d, m->d, m->feature_mean, m->feature_scale, m->dtype, p->X, i);
    }
    const struct rows host = {.dtype = m->dtype, .n = rows, .d = m->d, .data = p->X};
    r = r == 0 ? o->points_new(p->be, &m->kernel, m->dtype, &host, &points, err) : r;
    if (r < 0) {
        return r;
    }
    const struct mat Y = mat_rows(p->Y, 0, rows);
    r = multiply(p, rows, points, &Y, err);
    o->points_free(p->be, points);
    if (r == 0) {
        r = o->mat_get(p->be, &Y, p->columns, rows, err);
    }
    for (int64_t i = 0; r == 0 && i < rows; i++) {
        for (int64_t j = 0; j < m->t; j++) {
            ret[i * m->t + j] = m->target_mean[j] + m->target_scale[j] * p->columns[i + j * rows];
        }
    }
    return r;
}

int predictor_run(struct predictor *p, const double *X, int64_t rows, double *ret, struct err *err)
{
    for (int64_t first = 0; first < rows; first += p->chunk) {
        const int64_t count = rows - first < p->chunk ? rows - first : p->chunk;
        const int r = run_chunk(p, X + first * p->m->d, count, ret + first * p->m->t, err);
        if (r == -ERR_INVALID) {
            return err_set(err, ERR_INVALID,
                           "Row %lld (counted from 0) has features that are too large for the "
                           "model: scaled as its training rows were they exceed %s.",
                           (long long)(first + unfit_row(p, count)), dtype_name(p->m->dtype));
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
