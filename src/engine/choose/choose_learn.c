#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/choose/choose_parts.h"
#include "engine/choose/relevance.h"

static int go_on(void *context, struct err *err)
{
    return choose__go_on(context, err);
}

/* `n` rows of the sample, column by column. */
static double *take_points(const struct sample *s, int64_t first, int64_t n)
{
    const struct rows rows = {s->data->X->dtype, s->stored, s->data->X->d, s->points};
    double *ret = mem_array((size_t)(n * rows.d), sizeof(double));
    for (int64_t i = 0; ret != NULL && i < n; i++) {
        for (int64_t j = 0; j < rows.d; j++) {
            ret[j * n + i] = rows_at(&rows, first + i, j);
        }
    }
    return ret;
}

static bool is_constant(const double *numbers, int64_t n)
{
    int64_t i = 1;
    while (i < n && numbers[i] == numbers[0]) {
        i++;
    }
    return i >= n;
}

/* A target that is the same number in all of these rows, a rare class say, says nothing: 0. */
static double *take_targets(const struct sample *s, int64_t first, int64_t n)
{
    double *ret = mem_array((size_t)(n * s->data->t), sizeof(double));
    for (int64_t j = 0; ret != NULL && j < s->data->t; j++) {
        const double *from = s->Y + j * s->stored + first;
        const bool constant = is_constant(from, n);
        for (int64_t i = 0; i < n; i++) {
            ret[j * n + i] = constant ? 0.0 : from[i];
        }
    }
    return ret;
}

/* The number of the nearest regularization, where it is open. */
static int nearest(const struct sample *s, double ridge)
{
    int ret = CHOOSE_USUAL_RIDGE;
    for (int i = choose__first_ridge(s); s->data->any_regularization && i < CHOOSE_RIDGES; i++) {
        const double there = fabs(log(choose__ridge(s, i) / ridge));
        ret = there < fabs(log(choose__ridge(s, ret) / ridge)) ? i : ret;
    }
    return ret;
}

/* Where nothing is narrow kernel values are 1 but for their last digits: the ratios are kept, and
 * the narrowest is `widest`. */
static void narrow(double *bandwidths, int64_t d, double widest)
{
    double narrowest = INFINITY;
    for (int64_t j = 0; j < d; j++) {
        narrowest = fmin(narrowest, bandwidths[j]);
    }
    for (int64_t j = 0; narrowest > widest && j < d; j++) {
        bandwidths[j] *= widest / narrowest;
    }
}

/* Where a second learning begins: in medians, and a row. What varies fast along a few features, all
 * of them together, looks like noise from a wide bandwidth, whose slopes lead away from it. It is
 * to gain so much a row (relevance_learn's cost): else both came to the same place. */
static const double second_medians = 0.25, second_regularization = 1e-4, second_worth = 0.05;

/* Exponentials of the distance begin narrow in any case: their values fall at once. */
static bool begins_twice(enum kernel_id kernel)
{
    return kernel != KERNEL_LAPLACIAN && kernel != KERNEL_LAPLACIAN_L1 && kernel != KERNEL_MATERN12;
}

/* Likewise from the narrow bandwidth on; what is likelier by far is taken. */
static int learn_again(const struct relevance_task *task, double narrow_bandwidth,
                       double *bandwidths, double *ridge, double *cost, struct err *err)
{
    const size_t d = (size_t)task->d;
    cleanup_mem double *second = mem_array(d, sizeof(double));
    double there = second_regularization * (double)task->n, second_cost = INFINITY;
    if (second == NULL) {
        return err_no_memory(err);
    }
    for (size_t j = 0; j < d; j++) {
        second[j] = narrow_bandwidth;
    }
    const int r = relevance_learn(task, second, &there, &second_cost, err);
    if (r == 0 && second_cost < *cost - second_worth) {
        memcpy(bandwidths, second, d * sizeof(double));
        *ridge = there;
        *cost = second_cost;
    }
    return r;
}

/* From the pair's bandwidth and ridge, of `n` rows. `bandwidths` [d]; *ret_cost as relevance_learn.
 */
static int learn_from(struct sample *s, const struct pair *from, int64_t first, int64_t n,
                      double *bandwidths, double *ret_ridge, double *ret_cost, struct err *err)
{
    const int64_t d = s->data->X->d;
    cleanup_mem double *X = take_points(s, first, n), *Y = take_targets(s, first, n);
    struct kernel k = {.bandwidth = 1.0};
    if (X == NULL || Y == NULL) {
        return err_no_memory(err);
    }
    const struct relevance_task task = {.be = s->data->be,
                                        .kernel = from->choice.kernel,
                                        .n = n,
                                        .d = d,
                                        .t = s->data->t,
                                        .X = X,
                                        .Y = Y,
                                        .go_on = go_on,
                                        .context = s};
    const struct choice usual = {.kernel = from->choice.kernel, .medians = 1};
    int r = choose__take_bandwidth(s, &usual, &k, err);
    const double median = k.bandwidth;
    r = r == 0 ? choose__take_bandwidth(s, &from->choice, &k, err) : r;
    for (int64_t j = 0; r == 0 && j < d; j++) {
        bandwidths[j] = k.bandwidths != NULL ? k.bandwidths[j] : k.bandwidth;
    }
    *ret_ridge = from->choice.ridge;
    r = r == 0 ? relevance_learn(&task, bandwidths, ret_ridge, ret_cost, err) : r;
    if (r == 0 && !s->late && begins_twice(task.kernel)) {
        r = learn_again(&task, second_medians * median, bandwidths, ret_ridge, ret_cost, err);
    }
    if (r == 0) {
        narrow(bandwidths, d, CHOOSE_WIDEST * median);
    }
    return r;
}

/* The best pair of a kernel with a bandwidth that was not learned, or NULL. */
static const struct pair *best_with(const struct pairs *pairs, enum kernel_id kernel)
{
    const struct pair *ret = NULL;
    for (int i = 0; i < pairs->count; i++) {
        const struct pair *p = &pairs->all[i];
        const bool tried = isfinite(p->error) && p->choice.bandwidths == NULL;
        const bool better = tried && (ret == NULL || p->error < ret->error);
        ret = p->choice.kernel == kernel && better ? p : ret;
    }
    return ret;
}

static int64_t learned_rows(const struct sample *s)
{
    return s->held == 0
               ? 0
               : rule_learned_rows(s->fit, s->folds, s->data->X->d, s->data->time_budget_s);
}

/* In each fold: bandwidths [d, folds], and the ridge in their mean. 1: nothing was. */
static int learn_folds(struct sample *s, const struct pair *from, double *bandwidths,
                       double *ret_ridge, struct err *err)
{
    const int64_t n = learned_rows(s), d = s->data->X->d;
    double ridge, cost = INFINITY, sum = 0;
    int r = 0;
    for (int k = 0; r == 0 && k < s->folds; k++) {
        r = learn_from(s, from, k * s->held, n, bandwidths + k * d, &ridge, &cost, err);
        r = r == 0 ? s->late || isinf(cost) : r;
        sum += r == 0 ? log(ridge) : 0;
    }
    *ret_ridge = exp(sum / s->folds);
    return r;
}

/* With the bandwidths of each fold, [d, folds]. */
static int judge(struct sample *s, struct pair *p, const double *bandwidths, struct err *err)
{
    const int64_t d = s->data->X->d;
    struct kernel kernels[RULE_CHOICE_FOLDS];
    for (int k = 0; k < s->folds; k++) {
        kernels[k] = (struct kernel){.id = p->choice.kernel,
                                     .d = d,
                                     .bandwidth = 1.0,
                                     .gamma = 1.0,
                                     .bandwidths = bandwidths + k * d};
    }
    p->choice.ridge = choose__ridge(s, p->at);
    p->choice.regularization = p->choice.ridge / (double)s->fit;
    return choose__try_kernel(s, kernels, true, p, err);
}

/* The pair with what was learned from `from` is next in the list, with the first fold's bandwidths:
 * its error is infinite where nothing was. `bandwidths` [d, folds]. */
static int try_learned(struct sample *s, struct pairs *pairs, const struct pair *from,
                       double *bandwidths, struct err *err)
{
    struct pair *next = &pairs->all[pairs->count];
    double ridge;
    *next = *from;
    next->error = INFINITY;
    const int r = learn_folds(s, from, bandwidths, &ridge, err);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    next->choice.bandwidths = bandwidths;
    next->choice.plain = false;
    next->at = nearest(s, ridge);
    return judge(s, next, bandwidths, err);
}

/* What the first fold has taught the best pair is learned of all rows, held-out ones too. */
int choose__learn_whole(struct sample *s, const struct pairs *pairs, struct err *err)
{
    const struct pair best = choose__best(pairs);
    const struct pair *from = best_with(pairs, best.choice.kernel);
    const int64_t d = s->data->X->d;
    cleanup_mem double *bandwidths = mem_array((size_t)d, sizeof(double));
    double ridge, cost = INFINITY;
    if (best.choice.bandwidths == NULL || s->folds == 1 || s->late) {
        return 0;
    }
    if (bandwidths == NULL) {
        return err_no_memory(err);
    }
    const int r = learn_from(s, from, 0, s->count, bandwidths, &ridge, &cost, err);
    for (int64_t j = 0; r == 0 && isfinite(cost) && j < d; j++) {
        best.choice.bandwidths[j] = bandwidths[j] * best.scale;
    }
    return r;
}

int choose__learn(struct sample *s, struct pairs *pairs, double worth, struct err *err)
{
    const size_t size = (size_t)(s->data->X->d * s->folds);
    const struct pair best = choose__best(pairs);
    int r = 0, learned = 0;
    for (int id = 0; r == 0 && !s->late && id < KERNEL_COUNT_; id++) {
        const struct pair *from = best_with(pairs, (enum kernel_id)id);
        if (from == NULL || learned_rows(s) == 0) {
            continue;
        }
        double *bandwidths = mem_array(size, sizeof(double));
        pairs->learned[learned++] = bandwidths;
        if (bandwidths == NULL) {
            return err_no_memory(err);
        }
        r = try_learned(s, pairs, from, bandwidths, err);
        pairs->count += pairs->all[pairs->count].error < worth * best.error;
    }
    return r;
}
