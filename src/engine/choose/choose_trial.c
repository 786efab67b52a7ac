/* Fits on a sample: each kernel with a bandwidth, and the regularizations that it walks through. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/choose/choose_parts.h"
#include "engine/search/ridge_path.h"
#include "engine/squares.h"

static const double regularization_min = 1e-8;
static const double ridges[CHOOSE_RIDGES] = {1e-4, 1e-3, 3e-2, 1,
                                             30,   1e3,  1e4,  1e5}; /* times lambda0 */
/* Below lambda0 systems are harder to solve: each step there has to be worth so much. */
static const double worth = 0.97;

void choose__sample_deinit(struct sample *s)
{
    mem_free(s->points);
    mem_free(s->Y);
    mem_free(s->plain);
}

/* Errors follow the targets, and their squares are to be numbers: see squares.h. */
static void shrink_targets(struct sample *s)
{
    const int64_t size = s->stored * s->data->t;
    double largest = 0;
    for (int64_t k = 0; k < size; k++) {
        largest = fmax(largest, fabs(s->Y[k]));
    }
    const double factor = squares_factor(squares_exponent(largest));
    for (int64_t k = 0; k < size; k++) {
        s->Y[k] *= factor;
    }
}

int choose__draw(struct sample *s, struct err *err)
{
    const struct choose_data *data = s->data;
    const struct rows *X = data->X;
    s->count = s->fit + s->held;
    s->stored = s->count + (s->folds - 1) * s->held;
    const size_t row = (size_t)X->d * dtype_size(X->dtype);
    cleanup_mem int64_t *index = mem_array((size_t)s->count, sizeof(*index));
    s->points = mem_array((size_t)s->stored, row);
    s->Y = mem_array((size_t)(s->stored * data->t), sizeof(double));
    if (index == NULL || s->points == NULL || s->Y == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new(data->seed, RNG_AUTO);
    const int r = rng_choose(&rng, X->n, s->count, index, err);
    for (int64_t i = 0; r == 0 && i < s->stored; i++) {
        const int64_t from = index[i % s->count];
        memcpy((char *)s->points + (size_t)i * row, (const char *)X->data + (size_t)from * row,
               row);
        for (int64_t j = 0; j < data->t; j++) {
            s->Y[i + j * s->stored] = data->Y[from + j * X->n];
        }
    }
    if (r == 0) {
        shrink_targets(s);
    }
    return r;
}

/* One candidate's matrices; those of one kernel and bandwidth serve all regularizations. */
struct trial {
    int kernels; /* 1, or one for each fold */
    struct points *X[RULE_CHOICE_FOLDS];
    struct mat K, A, E;
    struct ridge_path *path; /* in their place, where no rows are held out */
    bool all;                /* fitted rows judge, too, in one fit: */
    struct mat M;            /* the identity, [fit, fit] */
};

/* K = K(fit,fit) + ridge I = L L', A = L^-T L^-1 Y, E = Y_held - K(held,fit) A. */
static int solve_trial(const struct sample *s, struct trial *t, int fold, double ridge,
                       double *ret_dots, struct err *err)
{
    struct backend *be = s->data->be;
    const struct backend_ops *o = be->ops;
    const struct points *X = t->X[fold % t->kernels];
    const int64_t first = fold * s->held, behind = first + s->fit;
    const struct view fit = view_range(X, first, s->fit);
    int r = o->kblock(be, fit, fit, &t->K, err);
    if (r == 0) {
        r = o->add_diag(be, ridge, &t->K, err);
    }
    if (r == 0) {
        r = o->potrf(be, &t->K, 0.0, NULL, err);
    }
    if (r == 0) {
        r = o->mat_put(be, s->Y + first, s->stored, &t->A, err);
    }
    if (r == 0) {
        r = o->mat_put(be, s->Y + behind, s->stored, &t->E, err);
    }
    if (r == 0) {
        r = o->trsm(be, false, false, &t->K, &t->A, err);
    }
    if (r == 0) {
        r = o->trsm(be, false, true, &t->K, &t->A, err);
    }
    if (r == 0) {
        r = o->kmv(be, view_range(X, behind, s->held), fit, -1.0, &t->A, 1.0, &t->E, err);
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

/* Likewise of the fitted rows, of which each is left out: (G^-1)_ii = sum_k (L^-1)_ki^2. */
static int fitted_error(const struct sample *s, struct trial *t, double *ret, struct err *err)
{
    struct backend *be = s->data->be;
    const struct backend_ops *o = be->ops;
    const int64_t n = s->fit, all = n * s->data->t;
    cleanup_mem double *A = mem_array((size_t)all, sizeof *A);
    cleanup_mem double *inverse = mem_array((size_t)n, sizeof *inverse);
    if (A == NULL || inverse == NULL) {
        return err_no_memory(err);
    }
    int r = o->add_diag(be, 1.0, &t->M, err);
    r = r == 0 ? o->trsm(be, false, false, &t->K, &t->M, err) : r;
    r = r == 0 ? o->col_dots(be, &t->M, &t->M, inverse, err) : r;
    r = r == 0 ? o->mat_get(be, &t->A, A, n, err) : r;
    *ret = 0;
    for (int64_t k = 0; r == 0 && k < all; k++) {
        const double e = A[k] / inverse[k % n];
        *ret += e * e;
    }
    return r;
}

/* The sum of squared errors on the held-out rows; infinity when the matrix has no factor. */
static int held_out_error(const struct sample *s, struct trial *t, int fold, double ridge,
                          double *ret, struct err *err)
{
    cleanup_mem double *dots = mem_array((size_t)s->data->t, sizeof(double));
    if (dots == NULL) {
        return err_no_memory(err);
    }
    const int r = solve_trial(s, t, fold, ridge, dots, err);
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

double choose__ridge(const struct sample *s, int i)
{
    return (double)s->fit * fmax(s->data->regularization, regularization_min) * ridges[i];
}

int choose__go_on(struct sample *s, struct err *err)
{
    const struct choose_data *data = s->data;
    const int r = data->stop != NULL ? data->stop(data->stop_context, err) : 0;
    s->late = s->late || (r == 0 && data->late != NULL && data->late(data->stop_context));
    return r < 0 ? r : s->late;
}

/* The sum of the folds' errors; 1: the time is up. */
static int try_folds(struct sample *s, struct trial *t, double ridge, double *ret, struct err *err)
{
    double error = 0;
    int r = 0;
    *ret = 0;
    for (int k = 0; r == 0 && k < s->folds && isfinite(*ret); k++) {
        r = choose__go_on(s, err);
        if (r == 0) {
            r = s->held > 0 ? held_out_error(s, t, k, ridge, &error, err)
                            : left_out_error(s, t, ridge, &error, err);
            *ret += error;
            s->fits++;
        }
    }
    return r;
}

int choose__first_ridge(const struct sample *s)
{
    /* Of values in float32 less than their rounding is no regularization. */
    return s->data->points_dtype == DTYPE_F32 ? CHOOSE_USUAL_RIDGE : 0;
}

/* 1: this regularization is better than those of the pair before, and taken. */
static int try_ridge(struct sample *s, struct trial *t, int i, struct pair *pair, struct err *err)
{
    const double ridge = choose__ridge(s, i);
    const double than = i < pair->at && i < CHOOSE_USUAL_RIDGE ? worth * pair->error : pair->error;
    double error;
    const int r = try_folds(s, t, ridge, &error, err);
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
    int r = 1;
    for (int i = pair->at + by; r > 0 && i >= choose__first_ridge(s) && i < CHOOSE_RIDGES;
         i += by) {
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
    const struct rows rows = {data->X->dtype, s->stored, data->X->d, s->points};
    if (s->held == 0) {
        return ridge_path_new(be, k, data->points_dtype, &rows, s->Y, data->t, &t->path, err);
    }
    int r = 0;
    for (int i = 0; r == 0 && i < t->kernels; i++) {
        r = o->points_new(be, k + i, data->points_dtype, &rows, &t->X[i], err);
    }
    if (r == 0) {
        r = o->mat_new(be, DTYPE_F64, s->fit, s->fit, &t->K, err);
    }
    if (r == 0) {
        r = o->mat_new(be, DTYPE_F64, s->fit, data->t, &t->A, err);
    }
    if (r == 0 && t->all) {
        r = o->mat_new(be, DTYPE_F64, s->fit, s->fit, &t->M, err);
    }
    return r == 0 ? o->mat_new(be, DTYPE_F64, s->held, data->t, &t->E, err) : r;
}

static void trial_deinit(struct backend *be, struct trial *t)
{
    const struct backend_ops *o = be->ops;
    ridge_path_free(t->path);
    o->mat_free(be, &t->M);
    o->mat_free(be, &t->E);
    o->mat_free(be, &t->A);
    o->mat_free(be, &t->K);
    for (int i = 0; i < t->kernels; i++) {
        if (t->X[i] != NULL) {
            o->points_free(be, t->X[i]);
        }
    }
}

int choose__try_kernel(struct sample *s, const struct kernel *k, bool each, struct pair *pair,
                       struct err *err)
{
    struct trial t = {.kernels = each ? s->folds : 1};
    int r = trial_init(s, k, &t, err);
    if (r == 0) {
        r = try_ridges(s, &t, pair, err);
    }
    trial_deinit(s->data->be, &t);
    return r;
}

bool choose__all_judge(const struct sample *s)
{
    return rule_choice_leaves_out(s->fit, s->held, s->folds);
}

int choose__try_ridge(struct sample *s, const struct kernel *k, bool each, double ridge,
                      double *ret_error, double *ret_fitted, struct err *err)
{
    struct trial t = {.kernels = each ? s->folds : 1, .all = choose__all_judge(s)};
    int r = trial_init(s, k, &t, err);
    *ret_fitted = 0;
    r = r == 0 ? try_folds(s, &t, ridge, ret_error, err) : r;
    if (r == 0 && t.all && isfinite(*ret_error)) {
        r = fitted_error(s, &t, ret_fitted, err);
    }
    trial_deinit(s->data->be, &t);
    return r;
}
