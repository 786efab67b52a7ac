#include "engine/choose.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/bandwidth.h"
#include "engine/ridge_path.h"
#include "engine/squares.h"
#include "plan/rules.h"

/* Bandwidths beyond the two that every kernel is tried with, in steps of four times. */
enum { MORE_BANDWIDTHS = 3, PAIRS = RULE_KERNELS * RULE_BANDWIDTHS + MORE_BANDWIDTHS };
enum { RIDGES = 8, USUAL_RIDGE = 3 };
static const double regularization_min = 1e-8;

static const enum kernel_id kernels[RULE_KERNELS] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN,
                                                     KERNEL_LAPLACIAN_L1};
static const double medians[RULE_BANDWIDTHS] = {1, 4};
static const double step = 4, widest = 64, narrowest = 0.25;
static const double ridges[RIDGES] = {1e-4, 1e-3, 3e-2, 1, 30, 1e3, 1e4, 1e5}; /* times lambda0 */
/* Below lambda0 systems are harder to solve: each step there has to be worth so much. */
static const double worth = 0.97;
/* A sample flatters wide kernels, for more rows want narrower ones (adr/0015): likewise. */
static const double worth_bandwidth = 0.9;

/* The sample: rows 0 .. fit-1 are fitted, the other `held` are held out. None: each row is left
 * out in its turn. */
struct sample {
    const struct choose_data *data;
    int64_t count, fit, held;
    void *points;      /* [count, d] of the points' dtype */
    double *Y;         /* [count, t] column-major */
    double medians[2]; /* of Euclidean and of l1 distances, once either is wanted; else 0 */
    int fits;          /* so far */
    bool late;         /* the time for them ended */
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
    struct ridge_path *path; /* in their place, where no rows are held out */
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

/* The sum of squared errors of rows that are left out one by one: A_i / (G^-1)_ii (ridge_path.h).
 */
static int left_out_error(const struct sample *s, struct trial *t, double ridge, double *ret,
                          struct err *err)
{
    const int64_t n = s->count, all = n * s->data->t;
    cleanup_mem double *A = mem_array((size_t)all, sizeof *A);
    cleanup_mem double *inverse = mem_array((size_t)n, sizeof *inverse);
    *ret = INFINITY;
    if (A == NULL || inverse == NULL) {
        return err_no_memory(err);
    }
    if (!ridge_path_defined(t->path, ridge)) {
        return 0;
    }
    int r = ridge_path_solve(t->path, ridge, false, A, err);
    r = r == 0 ? ridge_path_diagonals(t->path, &ridge, 1, inverse, err) : r;
    double sum = 0;
    for (int64_t k = 0; r == 0 && k < all; k++) {
        const double e = A[k] / inverse[k % n];
        sum += e * e;
    }
    *ret = r < 0 || isnan(sum) ? INFINITY : sum;
    return r;
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

/* A kernel with a bandwidth, with the best of its regularizations: ridges[at]. */
struct pair {
    struct choice choice;
    int at;
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

/* 1: the time is up, also before the first fit, or a negative code. */
static int go_on(struct sample *s, struct err *err)
{
    const struct choose_data *data = s->data;
    const int r = data->stop != NULL ? data->stop(data->stop_context, err) : 0;
    s->late = s->late || (r == 0 && data->late != NULL && data->late(data->stop_context));
    return r < 0 ? r : s->late;
}

/* 1: this regularization is better than those of the pair before, and taken. */
static int try_ridge(struct sample *s, struct trial *t, int i, struct pair *pair, struct err *err)
{
    const double ridge = ridge_of(s, i);
    const double than = i < pair->at && i < USUAL_RIDGE ? worth * pair->error : pair->error;
    double error = INFINITY;
    int r = go_on(s, err);
    if (r == 0) {
        r = s->held > 0 ? held_out_error(s, t, ridge, &error, err)
                        : left_out_error(s, t, ridge, &error, err);
        s->fits++;
    }
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    const bool better = error < than || (isinf(pair->error) && i >= pair->at);
    if (better) {
        pair->at = i;
        pair->error = error;
        pair->choice.ridge = ridge;
        pair->choice.regularization = ridge / (double)s->fit;
    }
    return better;
}

/* From the best one on, as long as each is better than the one before. */
static int walk(struct sample *s, struct trial *t, int by, struct pair *pair, struct err *err)
{
    /* Of values in float32 less than their rounding is no regularization. */
    const int first = s->data->points_dtype == DTYPE_F32 ? USUAL_RIDGE : 0;
    int r = 1;
    for (int i = pair->at + by; r > 0 && i >= first && i < RIDGES; i += by) {
        r = try_ridge(s, t, i, pair, err);
    }
    return r < 0 ? r : 0;
}

/* The error falls with the regularization, and then rises: so it is looked for from where it was
 * least before. */
static int try_ridges(struct sample *s, struct trial *t, struct pair *pair, struct err *err)
{
    const int from = pair->at;
    int r = try_ridge(s, t, from, pair, err);
    if (r < 0 || !s->data->any_regularization) {
        return r < 0 ? r : 0;
    }
    r = walk(s, t, 1, pair, err);
    return r == 0 && pair->at == from ? walk(s, t, -1, pair, err) : r;
}

static int trial_init(const struct sample *s, const struct kernel *k, struct trial *t,
                      struct err *err)
{
    const struct choose_data *data = s->data;
    struct backend *be = data->be;
    const struct backend_ops *o = be->ops;
    const struct rows rows = {data->X->dtype, s->count, data->X->d, s->points};
    if (s->held == 0) {
        return ridge_path_new(be, k, data->points_dtype, &rows, s->Y, data->t, &t->path, err);
    }
    int r = o->points_new(be, k, data->points_dtype, &rows, &t->X, err);
    if (r == 0) {
        r = o->mat_new(be, DTYPE_F64, s->fit, s->fit, &t->K, err);
    }
    if (r == 0) {
        r = o->mat_new(be, DTYPE_F64, s->fit, data->t, &t->A, err);
    }
    return r == 0 ? o->mat_new(be, DTYPE_F64, s->held, data->t, &t->E, err) : r;
}

static int try_kernel(struct sample *s, const struct kernel *k, struct pair *pair, struct err *err)
{
    struct backend *be = s->data->be;
    const struct backend_ops *o = be->ops;
    struct trial t = {.X = NULL};
    int r = trial_init(s, k, &t, err);
    if (r == 0) {
        r = try_ridges(s, &t, pair, err);
    }
    ridge_path_free(t.path);
    o->mat_free(be, &t.E);
    o->mat_free(be, &t.A);
    o->mat_free(be, &t.K);
    if (t.X != NULL) {
        o->points_free(be, t.X);
    }
    return r;
}

/* The median of the sample's distances, which two kernels share. */
static int take_median(struct sample *s, bool l1, double *ret, struct err *err)
{
    const struct choose_data *data = s->data;
    const struct rows rows = {data->X->dtype, s->count, data->X->d, s->points};
    bool degenerate;
    double *median = &s->medians[l1];
    const int r =
        *median > 0 ? 0 : bandwidth_median(&rows, l1, data->seed, median, &degenerate, err);
    *ret = *median;
    return r;
}

/* The job's bandwidth, or so many medians. */
static int take_bandwidth(struct sample *s, const struct choice *c, struct kernel *k,
                          struct err *err)
{
    const struct choose_data *data = s->data;
    k->bandwidths = !data->any_bandwidth ? data->bandwidths : NULL;
    k->bandwidth = data->bandwidth;
    if (k->bandwidths != NULL || (!data->any_bandwidth && data->bandwidth > 0)) {
        return 0;
    }
    const int r = take_median(s, kernel_uses_l1(c->kernel), &k->bandwidth, err);
    k->bandwidth *= c->medians;
    return r;
}

static int try_pair(struct sample *s, struct pair *p, struct err *err)
{
    struct kernel k = {.id = p->choice.kernel, .d = s->data->X->d, .bandwidth = 1.0, .gamma = 1.0};
    p->choice.ridge = ridge_of(s, p->at);
    p->choice.regularization = p->choice.ridge / (double)s->fit;
    p->error = INFINITY;
    const int r = take_bandwidth(s, &p->choice, &k, err);
    return r == 0 ? try_kernel(s, &k, p, err) : r;
}

/* What one sample says of the pairs. */
static int try_pairs(struct sample *s, struct pairs *pairs, struct err *err)
{
    int r = 0;
    for (int i = 0; r == 0 && i < pairs->count && !s->late; i++) {
        r = try_pair(s, &pairs->all[i], err);
    }
    return r;
}

static struct pairs list_pairs(const struct choose_data *data)
{
    const int count = data->any_kernel ? RULE_KERNELS : 1;
    const int each = data->any_bandwidth ? RULE_BANDWIDTHS : 1;
    struct pairs ret = {.count = count * each};
    for (int i = 0; i < ret.count; i++) {
        const enum kernel_id id = data->any_kernel ? kernels[i / each] : data->kernel;
        ret.all[i] = (struct pair){
            .choice = {.kernel = id,
                       .medians = medians[i % each],
                       .regularization = data->regularization},
            .at = USUAL_RIDGE,
            .error = INFINITY,
        };
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

static struct pair best_of(const struct pairs *pairs)
{
    return keep_best(pairs, 1).all[0];
}

/* The bandwidth beyond the best pair's where that is the last one of its kernel on a side, in
 * medians; 0: it is not. */
static double beyond(const struct pairs *pairs, const struct pair *best)
{
    const double here = best->choice.medians;
    bool wider = here<widest, narrower = here> narrowest;
    for (int i = 0; i < pairs->count; i++) {
        const struct choice *c = &pairs->all[i].choice;
        wider = wider && !(c->kernel == best->choice.kernel && c->medians > here);
        narrower = narrower && !(c->kernel == best->choice.kernel && c->medians < here);
    }
    return wider ? here * step : narrower ? here / step : 0;
}

/* Further bandwidths of the best kernel, as long as each is better than all before. */
static int try_beyond(struct sample *s, struct pairs *pairs, struct err *err)
{
    int r = 0;
    for (bool better = true; r == 0 && better && !s->late && pairs->count < PAIRS;) {
        const struct pair best = best_of(pairs);
        struct pair *next = &pairs->all[pairs->count];
        *next = best;
        next->choice.medians = beyond(pairs, &best);
        if (next->choice.medians == 0 || !isfinite(best.error)) {
            return 0;
        }
        r = try_pair(s, next, err);
        better = next->error < worth_bandwidth * best.error;
        pairs->count += better;
    }
    return r;
}

static int try_first(const struct choose_data *data, struct pairs *pairs, struct pair *best,
                     struct err *err)
{
    const int64_t n = data->X->n, most = rule_choice_first(n, data->time_budget_s);
    const int64_t fit = n < CHOOSE_HELD_OUT ? n : most;
    struct sample s = {.data = data, .fit = fit, .held = n - fit < 2 * fit ? n - fit : 2 * fit};
    int r = draw(&s, err);
    r = r == 0 ? try_pairs(&s, pairs, err) : r;
    r = r == 0 && data->any_bandwidth ? try_beyond(&s, pairs, err) : r;
    sample_deinit(&s);
    *best = best_of(pairs);
    best->choice.fits = s.fits;
    best->choice.late = s.late;
    return r;
}

/* The best of the first stage on more rows; what was chosen stays where those have no factor, or
 * where not all of them could be tried. */
static int try_again(const struct choose_data *data, const struct pairs *pairs, struct pair *best,
                     struct err *err)
{
    const int64_t rule = rule_choice_rows(data->n, data->time_budget_s), third = data->X->n / 3;
    const int64_t rows = rule < third ? rule : third;
    struct pairs again = keep_best(pairs, RULE_CHOICE_PAIRS);
    if (rows == 0 || best->choice.late) {
        return 0;
    }
    struct sample s = {.data = data, .fit = rows, .held = 2 * rows};
    int r = draw(&s, err);
    r = r == 0 ? try_pairs(&s, &again, err) : r;
    sample_deinit(&s);
    struct pair found = best_of(&again);
    found = found.error < INFINITY && !s.late ? found : *best;
    found.choice.fits = best->choice.fits + s.fits;
    found.choice.late = s.late;
    *best = found;
    return r;
}

int choose_kernel(const struct choose_data *data, struct choice *ret, struct err *err)
{
    struct pairs pairs = list_pairs(data);
    struct pair best = pairs.all[0];
    int r = 0;
    if (data->X->n > 1) {
        r = try_first(data, &pairs, &best, err);
    }
    if (r == 0 && data->X->n >= CHOOSE_HELD_OUT) {
        r = try_again(data, &pairs, &best, err);
    }
    *ret = best.choice;
    return r;
}
