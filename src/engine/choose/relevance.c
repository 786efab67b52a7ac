#include "engine/choose/relevance.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "plan/rules.h"

/* Of logarithms: the first step, the least and the longest, and how far from where it began. */
static const double first_step = 0.2, least_step = 1e-3, longest_step = 1.0, farthest = 16;
static const double grows = 1.2, shrinks = 0.5;
/* It ends where so many steps have gained no more than this. */
enum { PATIENCE = 8 };
static const double worth = 1e-3;
static const double least_ridge = 1e-9;

/* The parameters are ln bandwidth of each feature, and ln ridge behind them: count = d + 1. */
struct learner {
    const struct relevance_task *task;
    int64_t count;
    double *at, *begun, *best, *slope, *before, *step; /* [count] */
    double *scaled;                                    /* [n, d]: X in bandwidths */
    double *distance, *fall, *C; /* [n, n]; below the diagonal. C, then W, column-major */
    struct mat L, M, Y, A;
    double cost, best_cost;
};

static void learner_deinit(struct learner *l)
{
    struct backend *be = l->task->be;
    const struct backend_ops *o = be->ops;
    o->mat_free(be, &l->A);
    o->mat_free(be, &l->Y);
    o->mat_free(be, &l->M);
    o->mat_free(be, &l->L);
    mem_free(l->C);
    mem_free(l->fall);
    mem_free(l->distance);
    mem_free(l->scaled);
    mem_free(l->at);
}

static int learner_init(struct learner *l, struct err *err)
{
    const struct relevance_task *task = l->task;
    struct backend *be = task->be;
    const struct backend_ops *o = be->ops;
    const size_t n = (size_t)task->n, count = (size_t)l->count;
    l->at = mem_zarray(6 * count, sizeof(double));
    l->scaled = mem_array(n * (size_t)task->d, sizeof(double));
    l->distance = mem_array(n, sizeof(double));
    l->fall = mem_array(n * n, sizeof(double));
    l->C = mem_zarray(n * n, sizeof(double));
    if (!l->at || !l->scaled || !l->distance || !l->fall || !l->C) {
        return err_no_memory(err);
    }
    l->begun = l->at + count;
    l->best = l->begun + count;
    l->slope = l->best + count;
    l->before = l->slope + count;
    l->step = l->before + count;
    int r = o->mat_new(be, DTYPE_F64, task->n, task->n, &l->L, err);
    r = r == 0 ? o->mat_new(be, DTYPE_F64, task->n, task->n, &l->M, err) : r;
    r = r == 0 ? o->mat_new(be, DTYPE_F64, task->n, task->t, &l->Y, err) : r;
    r = r == 0 ? o->mat_new(be, DTYPE_F64, task->n, task->t, &l->A, err) : r;
    return r == 0 ? o->mat_put(be, task->Y, task->n, &l->Y, err) : r;
}

static double ridge_at(const struct learner *l)
{
    return exp(l->at[l->count - 1]);
}

/* ---- the cost ---- */

static void scale_points(struct learner *l)
{
    const int64_t n = l->task->n;
    for (int64_t j = 0; j < l->task->d; j++) {
        const double by = exp(-l->at[j]);
        for (int64_t i = 0; i < n; i++) {
            l->scaled[j * n + i] = l->task->X[j * n + i] * by;
        }
    }
}

/* Of row k from the rows behind it: |x-z|_1, or |x-z|_2. */
static void take_distances(struct learner *l, int64_t k, bool l1)
{
    const int64_t n = l->task->n, behind = n - k - 1;
    double *restrict distance = l->distance;
    memset(distance, 0, (size_t)behind * sizeof(double));
    for (int64_t j = 0; j < l->task->d; j++) {
        const double *restrict x = l->scaled + j * n + k + 1;
        const double here = x[-1];
        for (int64_t i = 0; i < behind; i++) {
            const double diff = x[i] - here;
            distance[i] += l1 ? fabs(diff) : diff * diff;
        }
    }
    for (int64_t i = 0; !l1 && i < behind; i++) {
        distance[i] = sqrt(distance[i]);
    }
}

/* C = K + ridge I, and how K falls with the distances. */
static void fill_values(struct learner *l)
{
    const enum kernel_id id = l->task->kernel;
    const int64_t n = l->task->n;
    for (int64_t k = 0; k < n; k++) {
        double *restrict value = l->C + k * n, *restrict fall = l->fall + k * n;
        take_distances(l, k, kernel_uses_l1(id));
        value[k] = 1.0 + ridge_at(l);
        for (int64_t i = k + 1; i < n; i++) {
            value[i] = kernel_of_distance(id, l->distance[i - k - 1]);
            fall[i] = kernel_fall(id, l->distance[i - k - 1]);
        }
    }
}

/* ln |C| of C = L L'. */
static int take_log_det(struct learner *l, double *ret, struct err *err)
{
    const int64_t n = l->task->n;
    const int r = l->task->be->ops->mat_get(l->task->be, &l->L, l->C, n, err);
    *ret = 0;
    for (int64_t i = 0; r == 0 && i < n; i++) {
        *ret += 2.0 * log(l->C[i * n + i]);
    }
    return r;
}

/* L = the factor of C, A = L^-1 Y, and y_j'C^-1 y_j. */
static int factorise(struct learner *l, double *ret_dots, struct err *err)
{
    struct backend *be = l->task->be;
    const struct backend_ops *o = be->ops;
    int r = o->mat_put(be, l->C, l->task->n, &l->L, err);
    r = r == 0 ? o->potrf(be, &l->L, 0.0, NULL, err) : r;
    r = r == 0 ? o->copy(be, &l->Y, &l->A, err) : r;
    r = r == 0 ? o->trsm(be, false, false, &l->L, &l->A, err) : r;
    return r == 0 ? o->col_dots(be, &l->A, &l->A, ret_dots, err) : r;
}

/* Targets that are 0 have no amplitude, and no say. */
static void take_cost(struct learner *l, const double *dots, double log_det)
{
    const double n = (double)l->task->n;
    double sum = 0, targets = 0;
    for (int64_t j = 0; j < l->task->t; j++) {
        sum += dots[j] > 0 ? log(dots[j] / n) : 0;
        targets += dots[j] > 0;
    }
    l->cost = targets > 0 ? 0.5 * (log_det / n + sum / targets) : (double)INFINITY;
    l->cost = isfinite(l->cost) ? l->cost : (double)INFINITY;
}

/* ---- its slope ---- */

/* l->C <- W / t, with M = L^-1 and A = L^-1 Y on the way; t counts the targets that are not 0. */
static int take_weights(struct learner *l, const double *dots, double *factors, struct err *err)
{
    struct backend *be = l->task->be;
    const struct backend_ops *o = be->ops;
    const int64_t n = l->task->n, t = l->task->t;
    double targets = 0;
    for (int64_t j = 0; j < t; j++) {
        targets += dots[j] > 0;
    }
    for (int64_t j = 0; j < t; j++) {
        factors[j] = dots[j] > 0 ? sqrt((double)n / dots[j] / targets) : 0;
        factors[t + j] = 0;
    }
    memset(l->C, 0, (size_t)(n * n) * sizeof(double));
    int r = o->mat_put(be, l->C, n, &l->M, err);
    r = r == 0 ? o->add_diag(be, 1.0, &l->M, err) : r;
    r = r == 0 ? o->trsm(be, false, false, &l->L, &l->M, err) : r;
    r = r == 0 ? o->trsm(be, false, true, &l->L, &l->A, err) : r;
    r = r == 0 ? o->col_axpby(be, factors, &l->A, factors + t, &l->A, err) : r;
    r = r == 0 ? o->syrk(be, true, 1.0, &l->M, 0.0, &l->L, err) : r;
    r = r == 0 ? o->syrk(be, false, -1.0, &l->A, 1.0, &l->L, err) : r;
    return r == 0 ? o->mat_get(be, &l->L, l->C, n, err) : r;
}

/* sum_i w_i |x_i - here|, or of the squares, in the order of eight sums. */
static double weigh(const double *restrict w, const double *restrict x, double here, int64_t count,
                    bool l1)
{
    enum { LANES = 8 };
    double sums[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            const double diff = x[i + k] - here;
            sums[k] += w[i + k] * (l1 ? fabs(diff) : diff * diff);
        }
    }
    for (; i < count; i++) {
        const double diff = x[i] - here;
        sum += w[i] * (l1 ? fabs(diff) : diff * diff);
    }
    for (int k = 0; k < LANES; k++) {
        sum += sums[k];
    }
    return sum;
}

/* A wider bandwidth raises K by what it falls with the distance. False: the points are so far from
 * each other that slopes are no numbers. */
static bool take_slope(struct learner *l)
{
    const int64_t n = l->task->n, d = l->task->d;
    const bool l1 = kernel_uses_l1(l->task->kernel);
    double trace = 0;
    memset(l->slope, 0, (size_t)l->count * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
        double *restrict w = l->C + k * n;
        trace += w[k];
        for (int64_t i = k + 1; i < n; i++) {
            w[i] *= l->fall[k * n + i];
        }
        for (int64_t j = 0; j < d; j++) {
            const double *x = l->scaled + j * n + k;
            l->slope[j] += weigh(w + k + 1, x + 1, x[0], n - k - 1, l1) / (double)n;
        }
    }
    l->slope[d] = 0.5 * ridge_at(l) * trace / (double)n;
    bool finite = true;
    for (int64_t j = 0; j < l->count; j++) {
        finite = finite && isfinite(l->slope[j]);
    }
    return finite;
}

/* Cost and slope of where it is; a matrix without a factor costs infinity. */
static int look(struct learner *l, struct err *err)
{
    const size_t t = (size_t)l->task->t;
    cleanup_mem double *numbers = mem_array(3 * t, sizeof(double));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    double log_det;
    l->cost = INFINITY;
    scale_points(l);
    fill_values(l);
    int r = factorise(l, numbers, err);
    if (r == -ERR_NOT_POSITIVE_DEFINITE) {
        return 0;
    }
    r = r == 0 ? take_log_det(l, &log_det, err) : r;
    if (r == 0) {
        take_cost(l, numbers, log_det);
    }
    if (r < 0 || isinf(l->cost)) {
        return r;
    }
    r = take_weights(l, numbers, numbers + t, err);
    if (r == 0 && !take_slope(l)) {
        l->cost = INFINITY;
    }
    return r;
}

/* ---- steps ---- */

static void move(struct learner *l, int64_t j, double by)
{
    const double low = j == l->count - 1 ? log(least_ridge) : l->begun[j] - farthest;
    const double high = l->begun[j] + farthest;
    l->at[j] = fmin(fmax(l->at[j] + by, low), high);
}

/* A parameter whose slope has changed its sign waits for a step. */
static void make_step(struct learner *l)
{
    for (int64_t j = 0; j < l->count; j++) {
        const double turned = l->slope[j] * l->before[j];
        if (turned > 0) {
            l->step[j] = fmin(l->step[j] * grows, longest_step);
        } else if (turned < 0) {
            l->step[j] = fmax(l->step[j] * shrinks, least_step);
        }
        l->before[j] = turned < 0 ? 0 : l->slope[j];
        const double sign = l->before[j] > 0 ? 1 : l->before[j] < 0 ? -1 : 0;
        move(l, j, -sign * l->step[j]);
    }
}

/* Back to the best, with shorter steps. */
static void step_back(struct learner *l)
{
    memcpy(l->at, l->best, (size_t)l->count * sizeof(double));
    for (int64_t j = 0; j < l->count; j++) {
        l->before[j] = 0;
        l->step[j] = fmax(l->step[j] * shrinks, least_step);
    }
}

static void keep_better(struct learner *l)
{
    if (l->cost < l->best_cost) {
        l->best_cost = l->cost;
        memcpy(l->best, l->at, (size_t)l->count * sizeof(double));
    }
}

/* Without a first matrix there is nowhere to go. */
static bool gains(const struct learner *l, int steps, double *than)
{
    if (steps % PATIENCE != 0) {
        return isfinite(l->best_cost);
    }
    const double gained = *than - l->best_cost;
    *than = l->best_cost;
    return gained > worth;
}

static int learn(struct learner *l, struct err *err)
{
    double than = INFINITY;
    bool gaining = true;
    int r = 0;
    for (int i = 1; r == 0 && gaining && i <= RULE_LEARNED_STEPS; i++) {
        r = l->task->go_on(l->task->context, err);
        r = r == 0 ? look(l, err) : r;
        if (r != 0) {
            break;
        }
        keep_better(l);
        gaining = gains(l, i, &than);
        if (isfinite(l->cost)) {
            make_step(l);
        } else {
            step_back(l);
        }
    }
    return r < 0 ? r : 0;
}

static void begin(struct learner *l, const double *bandwidths, double ridge)
{
    for (int64_t j = 0; j < l->task->d; j++) {
        l->at[j] = log(bandwidths[j]);
    }
    l->at[l->count - 1] = log(fmax(ridge, least_ridge));
    memcpy(l->begun, l->at, (size_t)l->count * sizeof(double));
    memcpy(l->best, l->at, (size_t)l->count * sizeof(double));
    for (int64_t j = 0; j < l->count; j++) {
        l->step[j] = first_step;
    }
}

int relevance_learn(const struct relevance_task *task, double *bandwidths, double *ridge,
                    double *ret_cost, struct err *err)
{
    struct learner l = {.task = task, .count = task->d + 1, .best_cost = INFINITY};
    int r = learner_init(&l, err);
    if (r == 0) {
        begin(&l, bandwidths, *ridge);
        r = learn(&l, err);
    }
    for (int64_t j = 0; r == 0 && j < task->d; j++) {
        bandwidths[j] = exp(l.best[j]);
    }
    if (r == 0) {
        *ridge = exp(l.best[l.count - 1]);
        *ret_cost = l.best_cost;
    }
    learner_deinit(&l);
    return r;
}
