#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/choose/choose_parts.h"

/* A sample flatters wide kernels, for more rows want narrower ones (adr/0015): each step has to be
 * worth so much. Likewise bandwidths one a feature, which are many numbers. */
static const double worth_bandwidth = 0.9;

/* Of the targets that are held out. */
static double sum_squares(const struct sample *s)
{
    const int64_t n = s->held > 0 ? s->held : s->count;
    double ret = 0;
    for (int64_t j = 0; j < s->data->t; j++) {
        for (int k = 0; k < s->folds; k++) {
            const double *Y = s->Y + j * s->stored + (s->held > 0 ? k * s->held + s->fit : 0);
            for (int64_t i = 0; i < n; i++) {
                ret += Y[i] * Y[i];
            }
        }
    }
    return ret;
}

/* How the kernels did, each by its best pair. */
static void note_errors(const struct sample *s, const struct pairs *pairs, struct choice *ret)
{
    const struct pairs best = choose__keep(pairs, 0);
    const double squares = sum_squares(s);
    for (int i = 0; i < best.count; i++) {
        const struct pair *p = &best.all[i];
        const bool tried = squares > 0 && p->error < INFINITY;
        ret->errors[p->choice.kernel] = tried ? p->error / squares : 0;
    }
    ret->fitted = s->fit;
    ret->held = s->folds > 1 ? 0 : s->held;
}

/* The best pair of a sample, with bandwidths that `keep` holds where its features are as they are.
 */
static int settle(struct sample *s, const struct pairs *pairs, struct pairs *keep, struct pair *ret,
                  struct err *err)
{
    const size_t bytes = (size_t)s->data->X->d * sizeof(double);
    struct kernel k = {.bandwidth = 1.0};
    *ret = choose__best(pairs);
    note_errors(s, pairs, &ret->choice);
    if (!ret->choice.plain || ret->choice.bandwidths != NULL) {
        return 0;
    }
    if (keep->plain == NULL) {
        keep->plain = mem_array(bytes, 1);
    }
    const int r = choose__take_bandwidth(s, &ret->choice, &k, err);
    if (r < 0 || keep->plain == NULL) {
        return r < 0 ? r : err_no_memory(err);
    }
    memcpy(keep->plain, k.bandwidths, bytes);
    ret->choice.bandwidths = keep->plain;
    return 0;
}

static int64_t held_out(const struct choose_data *data, int64_t fit, int times)
{
    const struct rows *X = data->X;
    return rule_choice_held(X->n, fit, X->d + data->t, times);
}

static int try_first(const struct choose_data *data, struct pairs *pairs, struct pair *best,
                     struct err *err)
{
    const int64_t n = data->X->n, most = rule_choice_first(n, data->time_budget_s);
    const int64_t fit = n < CHOOSE_HELD_OUT ? n : most;
    const bool plain = data->any_bandwidth && n >= CHOOSE_HELD_OUT;
    struct sample s = {.data = data,
                       .fit = fit,
                       .held = held_out(data, fit, RULE_HELD_FIRST),
                       .folds = rule_choice_folds(n, data->time_budget_s)};
    int r = choose__draw(&s, err);
    r = r == 0 ? choose__try(&s, pairs, err) : r;
    r = r == 0 && data->any_bandwidth ? choose__try_beyond(&s, pairs, worth_bandwidth, err) : r;
    r = r == 0 && plain ? choose__try_plain(&s, pairs, worth_bandwidth, err) : r;
    r = r == 0 && data->learns ? choose__learn(&s, pairs, worth_bandwidth, err) : r;
    r = r == 0 ? choose__refine(&s, pairs, err) : r;
    r = r == 0 && data->learns ? choose__learn_whole(&s, pairs, err) : r;
    r = r == 0 ? settle(&s, pairs, pairs, best, err) : r;
    choose__sample_deinit(&s);
    best->choice.fits = s.fits;
    best->choice.late = s.late;
    return r;
}

/* The best of the first stage on more rows; what was chosen stays where those have no factor, or
 * where not all of them could be tried. */
static int try_again(const struct choose_data *data, struct pairs *pairs, struct pair *best,
                     struct err *err)
{
    const int64_t rule = rule_choice_rows(data->n, data->time_budget_s), third = data->X->n / 3;
    const int64_t rows = rule < third ? rule : third;
    struct pairs again = choose__keep(pairs, RULE_CHOICE_PAIRS);
    if (rows == 0 || best->choice.late) {
        return 0;
    }
    struct sample s = {
        .data = data, .fit = rows, .held = held_out(data, rows, RULE_HELD_AGAIN), .folds = 1};
    struct pair found = *best;
    int r = choose__draw(&s, err);
    r = r == 0 ? choose__try(&s, &again, err) : r;
    if (r == 0 && choose__best(&again).error < INFINITY && !s.late) {
        r = choose__refine(&s, &again, err);
        r = r == 0 ? settle(&s, &again, pairs, &found, err) : r;
    }
    choose__sample_deinit(&s);
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
    struct pairs pairs = choose__list(data);
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
    mem_free(pairs.plain);
    return r;
}
