/* Finer steps of ridge and bandwidth, about the best pair of a sample. Where fewer rows are held
 * out than are fitted the fitted ones judge too, each left out: a few large errors decide
 * otherwise. */
#include <math.h>

#include "base/mem.h"
#include "engine/choose/choose_parts.h"

/* Pairs are tried with ridges thirty times apart, and bandwidths four times: here it is half of
 * that, in logarithms, and each step has to be worth so much, for noise prefers something always.
 */
static const double finer_ridge = 5.477, finer_bandwidth = 2, worth = 0.99;

struct walk {
    struct sample *s;
    struct pair *at;
    double error; /* of all rows that judge */
};

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

/* The pair's next: its bandwidth, or bandwidths, are `times` what they were. It stays the best one
 * where fewer rows say otherwise. */
static void take_step(const struct sample *s, struct pair *p, double times, double ridge,
                      double error)
{
    const int64_t d = s->data->X->d * (has_each(s, p) ? s->folds : 1);
    p->error = fmin(p->error, error);
    p->choice.ridge = ridge;
    p->choice.regularization = ridge / (double)s->fit;
    p->choice.medians *= times;
    p->scale *= times;
    for (int64_t j = 0; p->choice.bandwidths != NULL && j < d; j++) {
        p->choice.bandwidths[j] *= times;
    }
}

static int judge(const struct walk *w, double times, double ridge, double *ret_held,
                 double *ret_all, struct err *err)
{
    struct kernel kernels[RULE_CHOICE_FOLDS];
    cleanup_mem double *scaled = NULL;
    double fitted = 0;
    int r = scaled_kernels(w->s, w->at, times, kernels, &scaled, err);
    if (r == 0) {
        const bool each = has_each(w->s, w->at);
        r = choose__try_ridge(w->s, kernels, each, ridge, ret_held, &fitted, err);
    }
    *ret_all = *ret_held + fitted;
    return r;
}

/* 1: it is better, and taken. */
static int try_step(struct walk *w, double times, double ridge, struct err *err)
{
    double held = INFINITY, all;
    const int r = judge(w, times, ridge, &held, &all, err);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    const bool better = all < worth * w->error;
    if (better) {
        take_step(w->s, w->at, times, ridge, held);
        w->error = all;
    }
    return better;
}

/* Upwards as long as it is better, or else downwards, within what pairs are tried with. */
static int refine_ridge(struct walk *w, struct err *err)
{
    const double least = choose__ridge(w->s, choose__first_ridge(w->s));
    const double most = choose__ridge(w->s, CHOOSE_RIDGES - 1);
    const double from = w->at->choice.ridge;
    for (int way = 1; way >= -1 && w->at->choice.ridge == from; way -= 2) {
        int r = 1;
        while (r > 0) {
            const double next = w->at->choice.ridge * pow(finer_ridge, way);
            r = next >= least && next <= most ? try_step(w, 1.0, next, err) : 0;
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* One step wider or else narrower: 1 where it is taken. */
static int refine_bandwidth(struct walk *w, struct err *err)
{
    const double ridge = w->at->choice.ridge;
    const bool wide = w->at->choice.medians * finer_bandwidth > CHOOSE_WIDEST;
    const int r = wide ? 0 : try_step(w, finer_bandwidth, ridge, err);
    return r == 0 ? try_step(w, 1.0 / finer_bandwidth, ridge, err) : r;
}

static int refine(struct walk *w, struct err *err)
{
    const struct choose_data *data = w->s->data;
    int r = data->any_regularization ? refine_ridge(w, err) : 0;
    if (r == 0 && data->any_bandwidth) {
        r = refine_bandwidth(w, err);
        r = r > 0 && data->any_regularization ? refine_ridge(w, err) : r;
    }
    return r < 0 ? r : 0;
}

/* Fewer rows than some are held out of do not tell steps like these apart (docs/adr/0081). */
int choose__refine(struct sample *s, struct pairs *pairs, struct err *err)
{
    struct pair *best = &pairs->all[choose__best_index(pairs)];
    struct walk w = {.s = s, .at = best, .error = best->error};
    const bool open = s->data->any_regularization || s->data->any_bandwidth;
    if (!open || s->held == 0 || s->late || isinf(best->error)) {
        return 0;
    }
    double held = INFINITY;
    const int r =
        choose__all_judge(s) ? judge(&w, 1.0, best->choice.ridge, &held, &w.error, err) : 0;
    return r == 0 ? refine(&w, err) : r < 0 ? r : 0;
}
