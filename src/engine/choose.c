#include "engine/choose.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/bandwidth.h"

enum { SAMPLE_MAX = 1500, ROWS_MIN = 20 };
static const double regularization_min = 1e-8;

/* The sample: rows 0 .. fit-1 are fitted, the other `held` are held out. */
struct sample {
    const struct choose_data *data;
    int64_t count, fit, held;
    void *points; /* [count, d] of the points' dtype */
    double *Y;    /* [count, t] column-major */
};

static void sample_deinit(struct sample *s)
{
    mem_free(s->points);
    mem_free(s->Y);
}

static int draw(const struct choose_data *data, struct sample *s, struct err *err)
{
    const struct rows *X = data->X;
    s->data = data;
    s->count = X->n < SAMPLE_MAX ? X->n : SAMPLE_MAX;
    s->held = s->count / 3;
    s->fit = s->count - s->held;
    const size_t row = (size_t)X->d * dtype_size(X->dtype);
    cleanup_mem int64_t *index = mem_array((size_t)s->count, sizeof(*index));
    s->points = mem_array((size_t)s->count, row);
    s->Y = mem_array((size_t)(s->count * data->t), sizeof(double));
    if (index == NULL || s->points == NULL || s->Y == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new(data->seed, RNG_AUTO);
    const int r = rng_choose(&rng, X->n, s->count, index, err);
    for (int64_t i = 0; r == 0 && i < s->count; i++) {
        memcpy((char *)s->points + (size_t)i * row, (const char *)X->data + (size_t)index[i] * row,
               row);
        for (int64_t j = 0; j < data->t; j++) {
            s->Y[i + j * s->count] = data->Y[index[i] + j * X->n];
        }
    }
    return r;
}

/* One candidate's matrices. */
struct trial {
    struct points *X;
    struct mat K, A, E;
};

/* K = K(fit,fit) + n lambda I = L L', A = L^-T L^-1 Y, E = Y_held - K(held,fit) A. */
static int solve_trial(const struct sample *s, struct trial *t, double *ret_dots, struct err *err)
{
    struct backend *be = s->data->be;
    const struct backend_ops *o = be->ops;
    const double ridge = (double)s->fit * fmax(s->data->regularization, regularization_min);
    const struct view fit = view_range(t->X, 0, s->fit);
    int r = o->kblock(be, fit, fit, &t->K, err);
    if (r == 0) {
        r = o->add_diag(be, ridge, &t->K, err);
    }
    if (r == 0) {
        r = o->potrf(be, &t->K, 0.0, NULL, err);
    }
    if (r == 0) {
        r = o->mat_put(be, s->Y, s->count, &t->A, err);
    }
    if (r == 0) {
        r = o->mat_put(be, s->Y + s->fit, s->count, &t->E, err);
    }
    if (r == 0) {
        r = o->trsm(be, false, false, &t->K, &t->A, err);
    }
    if (r == 0) {
        r = o->trsm(be, false, true, &t->K, &t->A, err);
    }
    if (r == 0) {
        r = o->kmv(be, view_range(t->X, s->fit, s->held), fit, -1.0, &t->A, 1.0, &t->E, err);
    }
    return r == 0 ? o->col_dots(be, &t->E, &t->E, ret_dots, err) : r;
}

static int run_trial(const struct sample *s, const struct kernel *k, double *ret_dots,
                     struct err *err)
{
    struct backend *be = s->data->be;
    const struct backend_ops *o = be->ops;
    const struct rows rows = {s->data->X->dtype, s->count, s->data->X->d, s->points};
    struct trial t = {.X = NULL};
    int r = o->points_new(be, k, s->data->points_dtype, &rows, &t.X, err);
    if (r == 0) {
        r = o->mat_new(be, DTYPE_F64, s->fit, s->fit, &t.K, err);
    }
    if (r == 0) {
        r = o->mat_new(be, DTYPE_F64, s->fit, s->data->t, &t.A, err);
    }
    if (r == 0) {
        r = o->mat_new(be, DTYPE_F64, s->held, s->data->t, &t.E, err);
    }
    if (r == 0) {
        r = solve_trial(s, &t, ret_dots, err);
    }
    o->mat_free(be, &t.E);
    o->mat_free(be, &t.A);
    o->mat_free(be, &t.K);
    if (t.X != NULL) {
        o->points_free(be, t.X);
    }
    return r;
}

/* The sum of squared errors on the held-out rows; infinity when the matrix has no factor. */
static int held_out_error(const struct sample *s, enum kernel_id id, double *ret, struct err *err)
{
    const struct choose_data *data = s->data;
    const struct rows rows = {data->X->dtype, s->count, data->X->d, s->points};
    struct kernel k = {.id = id,
                       .d = rows.d,
                       .bandwidth = data->bandwidth,
                       .bandwidths = data->bandwidths,
                       .gamma = 1.0};
    cleanup_mem double *dots = mem_array((size_t)data->t, sizeof(double));
    if (dots == NULL) {
        return err_no_memory(err);
    }
    int r = 0;
    if (k.bandwidths == NULL && !(k.bandwidth > 0)) {
        bool degenerate;
        r = bandwidth_median(&rows, kernel_uses_l1(id), data->seed, &k.bandwidth, &degenerate, err);
    }
    if (r == 0) {
        r = run_trial(s, &k, dots, err);
    }
    if (r == -ERR_NOT_POSITIVE_DEFINITE) {
        *ret = INFINITY;
        return 0;
    }
    double sum = 0;
    for (int64_t j = 0; r == 0 && j < data->t; j++) {
        sum += dots[j];
    }
    *ret = isnan(sum) ? INFINITY : sum;
    return r;
}

int choose_kernel(const struct choose_data *data, enum kernel_id *ret, struct err *err)
{
    if (data->X->n < ROWS_MIN) {
        *ret = KERNEL_GAUSSIAN;
        return 0;
    }
    struct sample s = {0};
    double gaussian = 0, laplacian = 0;
    int r = draw(data, &s, err);
    if (r == 0) {
        r = held_out_error(&s, KERNEL_GAUSSIAN, &gaussian, err);
    }
    if (r == 0) {
        r = held_out_error(&s, KERNEL_LAPLACIAN, &laplacian, err);
    }
    sample_deinit(&s);
    if (r == 0) {
        *ret = laplacian < gaussian ? KERNEL_LAPLACIAN : KERNEL_GAUSSIAN;
    }
    return r;
}
