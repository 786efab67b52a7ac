#include "engine/choose.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/bandwidth.h"
#include "engine/squares.h"
#include "plan/rules.h"

enum { SAMPLE_MAX = 1500, ROWS_MIN = 20 };
static const double regularization_min = 1e-8;

static const enum kernel_id kernels[RULE_KERNELS] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN,
                                                     KERNEL_LAPLACIAN_L1};
static const double medians[RULE_BANDWIDTHS] = {1, 4};
static const double ridges[RULE_RIDGES] = {1, 30, 1e3, 1e4, 1e5}; /* times lambda0 */

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

/* Errors follow the targets, and their squares are to be numbers: see squares.h. */
static void shrink_targets(struct sample *s)
{
    const int64_t size = s->count * s->data->t;
    double largest = 0;
    for (int64_t k = 0; k < size; k++) {
        largest = fmax(largest, fabs(s->Y[k]));
    }
    const double factor = squares_factor(squares_exponent(largest));
    for (int64_t k = 0; k < size; k++) {
        s->Y[k] *= factor;
    }
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
    if (r == 0) {
        shrink_targets(s);
    }
    return r;
}

/* One candidate's matrices; those of one kernel and bandwidth serve all regularizations. */
struct trial {
    struct points *X;
    struct mat K, A, E;
};

/* K = K(fit,fit) + ridge I = L L', A = L^-T L^-1 Y, E = Y_held - K(held,fit) A. */
static int solve_trial(const struct sample *s, struct trial *t, double ridge, double *ret_dots,
                       struct err *err)
{
    struct backend *be = s->data->be;
    const struct backend_ops *o = be->ops;
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

/* The sum of squared errors on the held-out rows; infinity when the matrix has no factor. */
static int held_out_error(const struct sample *s, struct trial *t, double ridge, double *ret,
                          struct err *err)
{
    cleanup_mem double *dots = mem_array((size_t)s->data->t, sizeof(double));
    if (dots == NULL) {
        return err_no_memory(err);
    }
    const int r = solve_trial(s, t, ridge, dots, err);
    if (r == -ERR_NOT_POSITIVE_DEFINITE) {
        *ret = INFINITY;
        return 0;
    }
    double sum = 0;
    for (int64_t j = 0; r == 0 && j < s->data->t; j++) {
        sum += dots[j];
    }
    *ret = isnan(sum) ? INFINITY : sum;
    return r;
}

/* The best so far. */
struct best {
    struct choice choice;
    double error;
};

static double ridge_of(const struct sample *s, int i)
{
    return (double)s->fit * fmax(s->data->regularization, regularization_min) * ridges[i];
}

/* Every regularization of one kernel and bandwidth. */
static int try_ridges(const struct sample *s, struct trial *t, struct choice c, struct best *best,
                      struct err *err)
{
    const int count = s->data->any_regularization ? RULE_RIDGES : 1;
    int r = 0;
    for (int i = 0; r == 0 && i < count; i++) {
        double error = INFINITY;
        c.ridge = ridge_of(s, i);
        r = held_out_error(s, t, c.ridge, &error, err);
        if (r == 0 && error < best->error) {
            *best = (struct best){c, error};
        }
    }
    return r;
}

static int try_kernel(const struct sample *s, const struct kernel *k, struct choice c,
                      struct best *best, struct err *err)
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
        r = try_ridges(s, &t, c, best, err);
    }
    o->mat_free(be, &t.E);
    o->mat_free(be, &t.A);
    o->mat_free(be, &t.K);
    if (t.X != NULL) {
        o->points_free(be, t.X);
    }
    return r;
}

/* The job's bandwidth, or the median of the sample's distances. */
static int take_bandwidth(const struct sample *s, struct kernel *k, struct err *err)
{
    const struct choose_data *data = s->data;
    const struct rows rows = {data->X->dtype, s->count, data->X->d, s->points};
    bool degenerate;
    if (!data->any_bandwidth && data->bandwidths != NULL) {
        k->bandwidths = data->bandwidths;
        return 0;
    }
    if (!data->any_bandwidth && data->bandwidth > 0) {
        k->bandwidth = data->bandwidth;
        return 0;
    }
    return bandwidth_median(&rows, kernel_uses_l1(k->id), data->seed, &k->bandwidth, &degenerate,
                            err);
}

static int try_bandwidths(const struct sample *s, enum kernel_id id, struct best *best,
                          struct err *err)
{
    struct kernel k = {.id = id, .d = s->data->X->d, .bandwidth = 1.0, .gamma = 1.0};
    const int count = s->data->any_bandwidth ? RULE_BANDWIDTHS : 1;
    int r = take_bandwidth(s, &k, err);
    const double first = k.bandwidth;
    for (int i = 0; r == 0 && i < count; i++) {
        k.bandwidth = first * medians[i];
        r = try_kernel(s, &k, (struct choice){.kernel = id, .medians = medians[i]}, best, err);
    }
    return r;
}

int choose_kernel(const struct choose_data *data, struct choice *ret, struct err *err)
{
    struct sample s = {0};
    const int count = data->any_kernel ? RULE_KERNELS : 1;
    struct best best = {.choice = {data->any_kernel ? kernels[0] : data->kernel, 1, 0},
                        .error = INFINITY};
    int r = 0;
    if (data->X->n >= ROWS_MIN) {
        r = draw(data, &s, err);
        best.choice.ridge = ridge_of(&s, 0);
    }
    for (int i = 0; r == 0 && data->X->n >= ROWS_MIN && i < count; i++) {
        r = try_bandwidths(&s, data->any_kernel ? kernels[i] : data->kernel, &best, err);
    }
    sample_deinit(&s);
    *ret = best.choice;
    return r;
}
