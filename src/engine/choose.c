#include "engine/choose.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/bandwidth.h"
#include "engine/squares.h"
#include "plan/rules.h"

enum { FIT_MAX = 1000, ROWS_MIN = 20, PAIRS = RULE_KERNELS * RULE_BANDWIDTHS };
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

/* Of a sample whose sizes are there. */
static int draw(struct sample *s, struct err *err)
{
    const struct choose_data *data = s->data;
    const struct rows *X = data->X;
    s->count = s->fit + s->held;
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

/* A kernel with a bandwidth, with the best of its regularizations. */
struct pair {
    struct choice choice;
    double error;
};

/* In the order of choose.h. */
struct pairs {
    struct pair all[PAIRS];
    int count;
};

static double ridge_of(const struct sample *s, int i)
{
    return (double)s->fit * fmax(s->data->regularization, regularization_min) * ridges[i];
}

static int go_on(const struct choose_data *data, struct err *err)
{
    return data->stop != NULL ? data->stop(data->stop_context, err) : 0;
}

/* Every regularization of one kernel and bandwidth. */
static int try_ridges(const struct sample *s, struct trial *t, struct pair *pair, struct err *err)
{
    const int count = s->data->any_regularization ? RULE_RIDGES : 1;
    int r = 0;
    for (int i = 0; r == 0 && i < count; i++) {
        double error = INFINITY;
        const double ridge = ridge_of(s, i);
        r = go_on(s->data, err);
        if (r == 0) {
            r = held_out_error(s, t, ridge, &error, err);
        }
        if (r == 0 && error < pair->error) {
            pair->choice.ridge = ridge;
            pair->error = error;
        }
    }
    return r;
}

static int try_kernel(const struct sample *s, const struct kernel *k, struct pair *pair,
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
        r = try_ridges(s, &t, pair, err);
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

/* What one sample says of the pairs; those of one kernel come after each other. */
static int try_pairs(const struct sample *s, struct pairs *pairs, struct err *err)
{
    struct kernel k = {.d = s->data->X->d, .bandwidth = 1.0, .gamma = 1.0};
    double first = 1.0;
    int r = 0;
    for (int i = 0; r == 0 && i < pairs->count; i++) {
        struct pair *p = &pairs->all[i];
        if (i == 0 || p->choice.kernel != k.id) {
            k.id = p->choice.kernel;
            r = take_bandwidth(s, &k, err);
            first = k.bandwidth;
        }
        k.bandwidth = first * p->choice.medians;
        p->choice.ridge = ridge_of(s, 0);
        p->error = INFINITY;
        if (r == 0) {
            r = try_kernel(s, &k, p, err);
        }
    }
    return r;
}

static int try_on_sample(const struct choose_data *data, int64_t fit, int64_t held,
                         struct pairs *pairs, struct err *err)
{
    struct sample s = {.data = data, .fit = fit, .held = held};
    int r = draw(&s, err);
    if (r == 0) {
        r = try_pairs(&s, pairs, err);
    }
    sample_deinit(&s);
    return r;
}

static struct pairs list_pairs(const struct choose_data *data)
{
    const int count = data->any_kernel ? RULE_KERNELS : 1;
    const int each = data->any_bandwidth ? RULE_BANDWIDTHS : 1;
    struct pairs ret = {.count = count * each};
    for (int i = 0; i < ret.count; i++) {
        const enum kernel_id id = data->any_kernel ? kernels[i / each] : data->kernel;
        ret.all[i] = (struct pair){{id, medians[i % each], 0}, INFINITY};
    }
    return ret;
}

/* How many are better than the one at `index`: the first of equal ones is the better one. */
static int count_better(const struct pairs *pairs, int index)
{
    int ret = 0;
    for (int i = 0; i < pairs->count; i++) {
        const double error = pairs->all[i].error, than = pairs->all[index].error;
        ret += error < than || (error == than && i < index);
    }
    return ret;
}

/* The best `most` of them, in their order. */
static struct pairs keep_best(const struct pairs *pairs, int most)
{
    struct pairs ret = {.count = 0};
    for (int i = 0; i < pairs->count; i++) {
        if (count_better(pairs, i) < most) {
            ret.all[ret.count++] = pairs->all[i];
        }
    }
    return ret;
}

static int try_first(const struct choose_data *data, struct pairs *pairs, struct pair *best,
                     struct err *err)
{
    const int64_t n = data->X->n, most = n - n / 3, fit = most < FIT_MAX ? most : FIT_MAX;
    const int64_t held = n - fit < 2 * fit ? n - fit : 2 * fit;
    const int r = try_on_sample(data, fit, held, pairs, err);
    *best = keep_best(pairs, 1).all[0];
    return r;
}

/* The best of the first stage on more rows; what was chosen stays where those have no factor. */
static int try_again(const struct choose_data *data, const struct pairs *pairs, struct pair *best,
                     struct err *err)
{
    const int64_t rule = rule_choice_rows(data->n, data->time_budget_s), third = data->X->n / 3;
    const int64_t rows = rule < third ? rule : third;
    struct pairs again = keep_best(pairs, RULE_CHOICE_PAIRS);
    if (rows == 0) {
        return 0;
    }
    const int r = try_on_sample(data, rows, 2 * rows, &again, err);
    const struct pair found = keep_best(&again, 1).all[0];
    if (r == 0 && found.error < INFINITY) {
        *best = found;
    }
    return r;
}

int choose_kernel(const struct choose_data *data, struct choice *ret, struct err *err)
{
    struct pairs pairs = list_pairs(data);
    struct pair best = pairs.all[0];
    int r = 0;
    if (data->X->n >= ROWS_MIN) {
        r = try_first(data, &pairs, &best, err);
    }
    if (r == 0 && data->X->n >= ROWS_MIN) {
        r = try_again(data, &pairs, &best, err);
    }
    *ret = best.choice;
    return r;
}
