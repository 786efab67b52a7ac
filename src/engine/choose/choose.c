#include <math.h>
#include <stddef.h>

#include "base/mem.h"
#include "engine/choose/bandwidth.h"
#include "engine/choose/choose_parts.h"

static const enum kernel_id kernels[RULE_KERNELS] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN,
                                                     KERNEL_LAPLACIAN_L1, KERNEL_MATERN52};
static const double medians[RULE_BANDWIDTHS] = {1, 4};
static const double step = 4, widest = CHOOSE_WIDEST, narrowest = 0.25;
/* A sample flatters wide kernels, for more rows want narrower ones (adr/0015): each step has to be
 * worth so much. Likewise bandwidths one a feature, which are many numbers. */
static const double worth_bandwidth = 0.9;

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

/* The job's bandwidth, or one a feature, or so many medians. */
int choose__take_bandwidth(struct sample *s, const struct choice *c, struct kernel *k,
                           struct err *err)
{
    const struct choose_data *data = s->data;
    k->bandwidths = data->any_bandwidth ? c->bandwidths : data->bandwidths;
    k->bandwidth = data->bandwidth;
    if (k->bandwidths != NULL || (!data->any_bandwidth && data->bandwidth > 0)) {
        return 0;
    }
    const int r = take_median(s, kernel_uses_l1(c->kernel), &k->bandwidth, err);
    k->bandwidth *= c->medians;
    return r;
}

int choose__try_pair(struct sample *s, struct pair *p, struct err *err)
{
    struct kernel k = {.id = p->choice.kernel, .d = s->data->X->d, .bandwidth = 1.0, .gamma = 1.0};
    p->choice.ridge = choose__ridge(s, p->at);
    p->choice.regularization = p->choice.ridge / (double)s->fit;
    p->error = INFINITY;
    const int r = choose__take_bandwidth(s, &p->choice, &k, err);
    return r == 0 ? choose__try_kernel(s, &k, false, p, err) : r;
}

/* What one sample says of the pairs. */
static int try_pairs(struct sample *s, struct pairs *pairs, struct err *err)
{
    int r = 0;
    for (int i = 0; r == 0 && i < pairs->count && !s->late; i++) {
        r = choose__try_pair(s, &pairs->all[i], err);
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
            .at = CHOOSE_USUAL_RIDGE,
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
    for (bool better = true; r == 0 && better && !s->late &&
                             pairs->count < RULE_KERNELS * RULE_BANDWIDTHS + CHOOSE_BEYOND;) {
        const struct pair best = best_of(pairs);
        struct pair *next = &pairs->all[pairs->count];
        *next = best;
        next->choice.medians = beyond(pairs, &best);
        if (next->choice.medians == 0 || !isfinite(best.error)) {
            return 0;
        }
        r = choose__try_pair(s, next, err);
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
    struct sample s = {.data = data,
                       .fit = fit,
                       .held = n - fit < 2 * fit ? n - fit : 2 * fit,
                       .folds = rule_choice_folds(n, data->time_budget_s)};
    int r = choose__draw(&s, err);
    r = r == 0 ? try_pairs(&s, pairs, err) : r;
    r = r == 0 && data->any_bandwidth ? try_beyond(&s, pairs, err) : r;
    r = r == 0 && data->learns ? choose__learn(&s, pairs, worth_bandwidth, err) : r;
    choose__sample_deinit(&s);
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
    struct sample s = {.data = data, .fit = rows, .held = 2 * rows, .folds = 1};
    int r = choose__draw(&s, err);
    r = r == 0 ? try_pairs(&s, &again, err) : r;
    choose__sample_deinit(&s);
    struct pair found = best_of(&again);
    found = found.error < INFINITY && !s.late ? found : *best;
    found.choice.fits = best->choice.fits + s.fits;
    found.choice.late = s.late;
    *best = found;
    return r;
}

/* The list's bandwidths end with it. */
static int take_choice(const struct choose_data *data, const struct choice *best,
                       struct choice *ret, struct err *err)
{
    *ret = *best;
    if (best->bandwidths != NULL) {
        ret->bandwidths = mem_dup(best->bandwidths, (size_t)data->X->d * sizeof(double));
    }
    return best->bandwidths == NULL || ret->bandwidths != NULL ? 0 : err_no_memory(err);
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
    *ret = (struct choice){.bandwidths = NULL};
    r = r == 0 ? take_choice(data, &best.choice, ret, err) : r;
    for (int i = 0; i < RULE_KERNELS; i++) {
        mem_free(pairs.learned[i]);
    }
    return r;
}
