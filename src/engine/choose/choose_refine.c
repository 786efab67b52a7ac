/* Finer steps of ridge and bandwidth, about the best pair of a sample. */
#include <math.h>

#include "base/mem.h"
#include "engine/choose/choose_parts.h"

/* Pairs are tried with ridges thirty times apart, and bandwidths four times: here it is half of
 * that, in logarithms, and each step has to be worth so much, for noise prefers something always.
 */
static const double finer_ridge = 5.477, finer_bandwidth = 2, worth = 0.99;

/* Bandwidths that were learned in this sample's folds. */
static bool has_each(const struct sample *s, const struct pair *p)
{
    return s->folds > 1 && p->choice.bandwidths != NULL;
}

/* The pair's kernels, one for each fold or one for all, with `times` its bandwidths, of which
 * `ret_scaled` holds those of features. 1: there is none that can be written. */
static int scaled_kernels(struct sample *s, const struct pair *p, double times, struct kernel *ret,
                          double **ret_scaled, struct err *err)
{
    const int64_t d = s->data->X->d;
    const int count = has_each(s, p) ? s->folds : 1;
    struct kernel k = {.id = p->choice.kernel, .d = d, .bandwidth = 1.0, .gamma = 1.0};
    const int r = choose__take_bandwidth(s, &p->choice, &k, err);
    k.bandwidth = k.bandwidths == NULL ? k.bandwidth * times : 1.0;
    double *scaled = r == 0 ? mem_array((size_t)(d * count), sizeof(double)) : NULL;
    if (r != 0 || scaled == NULL) {
        return r != 0 ? r : err_no_memory(err);
    }
    for (int64_t j = 0; k.bandwidths != NULL && j < d * count; j++) {
        scaled[j] = k.bandwidths[j] * times;
    }
    for (int i = 0; i < count; i++) {
        ret[i] = k;
        ret[i].bandwidths = k.bandwidths != NULL ? scaled + i * d : NULL;
    }
    *ret_scaled = scaled;
    return 0;
}

/* The pair's next: its bandwidth, or bandwidths, are `times` what they were. */
static void take_step(const struct sample *s, struct pair *p, double times, double ridge,
                      double error)
{
    const int64_t d = s->data->X->d * (has_each(s, p) ? s->folds : 1);
    p->error = error;
    p->choice.ridge = ridge;
    p->choice.regularization = ridge / (double)s->fit;
    p->choice.medians *= times;
    p->scale *= times;
    for (int64_t j = 0; p->choice.bandwidths != NULL && j < d; j++) {
        p->choice.bandwidths[j] *= times;
    }
}

/* 1: it is better, and taken. */
static int try_step(struct sample *s, struct pair *p, double times, double ridge, struct err *err)
{
    struct kernel kernels[RULE_CHOICE_FOLDS];
    cleanup_mem double *scaled = NULL;
    double error = INFINITY;
    int r = scaled_kernels(s, p, times, kernels, &scaled, err);
    r = r == 0 ? choose__try_ridge(s, kernels, has_each(s, p), ridge, &error, err) : r;
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    const bool better = error < worth * p->error;
    if (better) {
        take_step(s, p, times, ridge, error);
    }
    return better;
}

/* Upwards as long as it is better, or else downwards, within what pairs are tried with. */
static int refine_ridge(struct sample *s, struct pair *p, struct err *err)
{
    const double least = choose__ridge(s, choose__first_ridge(s));
    const double most = choose__ridge(s, CHOOSE_RIDGES - 1);
    const double from = p->choice.ridge;
    for (int way = 1; way >= -1 && p->choice.ridge == from; way -= 2) {
        int r = 1;
        while (r > 0) {
            const double next = p->choice.ridge * pow(finer_ridge, way);
            r = next >= least && next <= most ? try_step(s, p, 1.0, next, err) : 0;
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* One step wider or else narrower: 1 where it is taken. */
static int refine_bandwidth(struct sample *s, struct pair *p, struct err *err)
{
    const double ridge = p->choice.ridge;
    const bool wide = p->choice.medians * finer_bandwidth > CHOOSE_WIDEST;
    const int r = wide ? 0 : try_step(s, p, finer_bandwidth, ridge, err);
    return r == 0 ? try_step(s, p, 1.0 / finer_bandwidth, ridge, err) : r;
}

int choose__refine(struct sample *s, struct pairs *pairs, struct err *err)
{
    struct pair *best = &pairs->all[choose__best_index(pairs)];
    const bool ridges = s->data->any_regularization;
    if (s->late || isinf(best->error)) {
        return 0;
    }
    int r = ridges ? refine_ridge(s, best, err) : 0;
    if (r == 0 && s->data->any_bandwidth) {
        r = refine_bandwidth(s, best, err);
        r = r > 0 && ridges ? refine_ridge(s, best, err) : r;
    }
    return r < 0 ? r : 0;
}
