#include <math.h>

#include "base/mem.h"
#include "engine/model.h"
#include "engine/standardize.h"

/* Rows in one oracle call, and the most numbers their features may take: memory stays bounded
 * however many rows are asked for. */
enum { CHUNK_ROWS = 4096, CHUNK_NUMBERS = 1 << 22 };

struct predictor {
    const struct model *m;
    struct backend *be;
    struct points *centers;
    struct mat A; /* m x t float64 */
    struct mat Y; /* chunk x t float64 */
    int64_t chunk;
    void *X;         /* [chunk, d] standardised, of the model's dtype */
    double *columns; /* [chunk, t] column-major */
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

static int prepare(struct predictor *p, struct err *err)
{
    const struct model *m = p->m;
    const struct rows centers = {.dtype = m->dtype, .n = m->m, .d = m->d, .data = m->centers};
    const int64_t fitting = CHUNK_NUMBERS / m->d;
    p->chunk = fitting < 1 ? 1 : fitting < CHUNK_ROWS ? fitting : CHUNK_ROWS;
    p->X = mem_array((size_t)(p->chunk * m->d), dtype_size(m->dtype));
    p->columns = mem_array((size_t)(p->chunk * m->t), sizeof(double));
    if (p->X == NULL || p->columns == NULL) {
        return err_no_memory(err);
    }
    int r = p->be->ops->points_new(p->be, &m->kernel, m->dtype, &centers, &p->centers, err);
    if (r == 0) {
        r = p->be->ops->mat_new(p->be, DTYPE_F64, p->chunk, m->t, &p->Y, err);
    }
    return r == 0 ? put_coefficients(p, err) : r;
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

/* At most `chunk` rows. */
static int run_chunk(struct predictor *p, const double *X, int64_t rows, double *ret,
                     struct err *err)
{
    const struct model *m = p->m;
    const struct backend_ops *o = p->be->ops;
    for (int64_t i = 0; i < rows; i++) {
        standardize_row(X + i * m->d, m->d, m->feature_mean, m->feature_scale, m->dtype, p->X, i);
    }
    const struct rows host = {.dtype = m->dtype, .n = rows, .d = m->d, .data = p->X};
    const struct mat Y = mat_rows(p->Y, 0, rows);
    struct points *points = NULL;
    int r = o->points_new(p->be, &m->kernel, m->dtype, &host, &points, err);
    if (r < 0) {
        return r;
    }
    r = o->kmv(p->be, view_all(points, rows), view_all(p->centers, m->m), 1.0, &p->A, 0.0, &Y, err);
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
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
