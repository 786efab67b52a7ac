#include <math.h>

#include "base/mem.h"
#include "engine/data/standardize.h"
#include "engine/memory.h"
#include "engine/model/model.h"

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
    bool lanes;     /* a few rows take no longer than as many of a panel */
    struct mat A;   /* m x t float64 */
    struct mat Y;   /* room x t float64 */
    struct mat V;   /* m x p float64: the model's variance_factor */
    int64_t varied; /* rows that the two below have room for */
    struct mat Q;   /* varied x p float64: K V */
    struct mat q;   /* varied x 1 */
    double *left;   /* [room] k(x,x) - |V' k|^2 */
    int64_t chunk;
    int64_t room;    /* rows that the members below have room for; grows up to chunk */
    void *X;         /* [room, d] standardised, of the model's dtype */
    double *columns; /* [room, t] column-major */
    int64_t bytes;   /* of the backend, for centers, coefficients and V */
};

struct predictor *predictor_free(struct predictor *p)
{
    if (p == NULL) {
        return NULL;
    }
    p->be->ops->mat_free(p->be, &p->A);
    p->be->ops->mat_free(p->be, &p->Y);
    p->be->ops->mat_free(p->be, &p->V);
    p->be->ops->mat_free(p->be, &p->Q);
    p->be->ops->mat_free(p->be, &p->q);
    if (p->centers != NULL) {
        p->be->ops->points_free(p->be, p->centers);
    }
    mem_free(p->X);
    mem_free(p->columns);
    mem_free(p->left);
    return mem_free(p);
}

int64_t predictor_bytes(const struct predictor *p)
{
    const struct model *m = p->m;
    const int64_t scales = 2 * (m->d + m->t) * (int64_t)sizeof(double);
    const int64_t row =
        m->d * (int64_t)dtype_size(m->dtype) + (2 * m->t + 1) * (int64_t)sizeof(double);
    const int64_t varied = p->varied * (m->p + 1) * (int64_t)sizeof(double);
    const int64_t model = m->centers != NULL ? m->m * (m->d * (int64_t)dtype_size(m->dtype) +
                                                       (m->t + m->p) * (int64_t)sizeof(double))
                                             : 0;
    return (int64_t)sizeof(*p) + p->bytes + scales + model + p->room * row + varied;
}

/* [m, columns] row-major into a new matrix, a column at a time. */
static int put_rows(struct predictor *p, const double *rows, int64_t columns, struct mat *ret,
                    struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    const int64_t m = p->m->m;
    cleanup_mem double *column = mem_array((size_t)m, sizeof(double));
    int r =
        column != NULL ? o->mat_new(p->be, DTYPE_F64, m, columns, ret, err) : err_no_memory(err);
    for (int64_t j = 0; r == 0 && j < columns; j++) {
        for (int64_t i = 0; i < m; i++) {
            column[i] = rows[i * columns + j];
        }
        const struct mat to = mat_cols(*ret, j, 1);
        r = o->mat_put(p->be, column, m, &to, err);
    }
    return r;
}

/* Of a product with so many columns. */
static double row_work(const struct predictor *p, int64_t columns)
{
    return (double)p->m->m * (double)(p->m->d + columns + FUNCTION_COST);
}

/* Lanes make few rows fast, and take up to twice the centers' memory: where there is little, or
 * where they cannot be had, the model does without. */
static int spread(struct predictor *p, int64_t centers_bytes, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    int64_t bytes = 0;
    const bool worth = o->points_lanes != NULL && row_work(p, p->m->t) >= LANES_FROM &&
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
    r = r == 0 ? put_rows(p, m->coef, m->t, &p->A, err) : r;
    r = r == 0 && m->p > 0 ? put_rows(p, m->variance_factor, m->p, &p->V, err) : r;
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
    mem_free(p->left);
    p->X = mem_array((size_t)(room * m->d), dtype_size(m->dtype));
    p->columns = mem_array((size_t)(room * m->t), sizeof(double));
    p->left = mem_array((size_t)room, sizeof(double));
    if (p->X == NULL || p->columns == NULL || p->left == NULL) {
        return err_no_memory(err);
    }
    const int r = p->be->ops->mat_new(p->be, DTYPE_F64, room, m->t, &p->Y, err);
    p->room = r == 0 ? room : 0;
    return r;
}

/* The bits of the product do not depend on it. */
static int threads_for(const struct predictor *p, int64_t rows, int64_t columns)
{
    const int64_t panels = (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const double work = row_work(p, columns) * (double)(p->lanes ? rows : panels * PANEL_ROWS);
    return work < ALONE ? 1 : p->be->threads;
}

static int multiply(struct predictor *p, struct view rows, const struct mat *A, const struct mat *Y,
                    struct err *err)
{
    const int threads = p->be->threads;
    p->be->threads = threads_for(p, rows.count, A->cols);
    const int r = p->be->ops->kmv(p->be, rows, view_all(p->centers, p->m->m), 1.0, A, 0.0, Y, err);
    p->be->threads = threads;
    return r;
}

/* ---- variances ---- */

/* Rows at a time, for memory's sake. */
static int64_t rows_varied(const struct predictor *p, int64_t rows)
{
    const int64_t fitting = CHUNK_NUMBERS / p->m->p;
    return fitting < 1 ? 1 : fitting < rows ? fitting : rows;
}

static int make_room_varied(struct predictor *p, int64_t rows, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    if (rows <= p->varied) {
        return 0;
    }
    p->varied = 0;
    o->mat_free(p->be, &p->Q);
    o->mat_free(p->be, &p->q);
    p->Q = p->q = (struct mat){.data = NULL};
    int r = o->mat_new(p->be, DTYPE_F64, rows, p->m->p, &p->Q, err);
    r = r == 0 ? o->mat_new(p->be, DTYPE_F64, rows, 1, &p->q, err) : r;
    p->varied = r == 0 ? rows : 0;
    return r;
}

/* left[i] = k(x_i, x_i) - |V' k(c, x_i)|^2, at least 0; infinite where k(x_i, x_i) is. */
static int leave(struct predictor *p, const struct points *points, int64_t rows, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    const int64_t most = rows_varied(p, rows);
    int r = make_room_varied(p, most, err);
    for (int64_t i = 0; r == 0 && i < rows; i += most) {
        const int64_t count = rows - i < most ? rows - i : most;
        const struct view some = view_range(points, i, count);
        const struct mat Q = mat_rows(p->Q, 0, count), q = mat_rows(p->q, 0, count);
        double *own = p->columns + i; /* predictions have been taken from there */
        r = o->kdiag(p->be, some, &q, err);
        r = r == 0 ? o->mat_get(p->be, &q, own, count, err) : r;
        r = r == 0 ? multiply(p, some, &p->V, &Q, err) : r;
        r = r == 0 ? o->deflate_diag(p->be, &Q, &q, err) : r;
        r = r == 0 ? o->mat_get(p->be, &q, p->left + i, count, err) : r;
        for (int64_t k = 0; r == 0 && k < count; k++) {
            p->left[i + k] = isfinite(own[k]) ? p->left[i + k] : INFINITY;
        }
    }
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

static int predict(struct predictor *p, const struct points *points, int64_t rows, double *ret,
                   struct err *err)
{
    const struct model *m = p->m;
    const struct mat Y = mat_rows(p->Y, 0, rows);
    int r = multiply(p, view_all(points, rows), &p->A, &Y, err);
    r = r == 0 ? p->be->ops->mat_get(p->be, &Y, p->columns, rows, err) : r;
    for (int64_t i = 0; r == 0 && i < rows; i++) {
        for (int64_t j = 0; j < m->t; j++) {
            ret[i * m->t + j] = m->target_mean[j] + m->target_scale[j] * p->columns[i + j * rows];
        }
    }
    return r;
}

static int vary(struct predictor *p, const struct points *points, int64_t rows, double *ret,
                struct err *err)
{
    const struct model *m = p->m;
    const int r = leave(p, points, rows, err);
    for (int64_t i = 0; r == 0 && i < rows; i++) {
        for (int64_t j = 0; j < m->t; j++) {
            ret[i * m->t + j] = m->prior_variance[j] * p->left[i];
        }
    }
    return r;
}

/* At most `chunk` rows. */
static int run_chunk(struct predictor *p, const double *X, int64_t rows, double *ret,
                     double *ret_variance, struct err *err)
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
    r = predict(p, points, rows, ret, err);
    r = r == 0 && ret_variance != NULL ? vary(p, points, rows, ret_variance, err) : r;
    o->points_free(p->be, points);
    return r;
}

int predictor_run(struct predictor *p, const double *X, int64_t first_row, int64_t rows,
                  double *ret, double *ret_variance, struct err *err)
{
    const int64_t t = p->m->t;
    for (int64_t first = 0; first < rows; first += p->chunk) {
        const int64_t count = rows - first < p->chunk ? rows - first : p->chunk;
        double *variance = ret_variance != NULL ? ret_variance + first * t : NULL;
        const int r = run_chunk(p, X + first * p->m->d, count, ret + first * t, variance, err);
        if (r == -ERR_INVALID) {
            return err_set(err, ERR_INVALID,
                           "Row %lld (counted from 0) has features that are too large for the "
                           "model: scaled as its training rows were they exceed %s.",
                           (long long)(first_row + first + unfit_row(p, count)),
                           dtype_name(p->m->dtype));
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
