/* Pairs of kernel and bandwidth, tried on a sample. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "engine/choose/bandwidth.h"
#include "engine/choose/choose_parts.h"

static const enum kernel_id kernels[RULE_KERNELS] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN,
                                                     KERNEL_LAPLACIAN_L1, KERNEL_MATERN52};
static const double medians[RULE_BANDWIDTHS] = {1, 4};
static const double step = 4, widest = CHOOSE_WIDEST, narrowest = 0.25;

struct pairs choose__list(const struct choose_data *data)
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
            .scale = 1.0,
            .error = INFINITY,
        };
    }
    return ret;
}

/* How many are better than the one at `index`, all of them or those of its kernel: the first of
 * equal ones is the better one. */
static int count_better(const struct pairs *pairs, int index, bool of_kernel)
{
    const struct pair *p = &pairs->all[index];
    int ret = 0;
    for (int i = 0; i < pairs->count; i++) {
        const struct pair *other = &pairs->all[i];
        const bool counts = !of_kernel || other->choice.kernel == p->choice.kernel;
        ret += counts && (other->error < p->error || (other->error == p->error && i < index));
    }
    return ret;
}

struct pairs choose__keep(const struct pairs *pairs, int most)
{
    struct pairs ret = {.count = 0};
    for (int i = 0; i < pairs->count; i++) {
        if (count_better(pairs, i, false) < most || count_better(pairs, i, true) == 0) {
            ret.all[ret.count++] = pairs->all[i];
        }
    }
    return ret;
}

int choose__best_index(const struct pairs *pairs)
{
    int i = 0;
    while (count_better(pairs, i, false) > 0) {
        i++;
    }
    return i;
}

struct pair choose__best(const struct pairs *pairs)
{
    return pairs->all[choose__best_index(pairs)];
}

/* The points times what their features were divided by, which float32 may not hold; NULL on lack of
 * memory. */
static double *scaled_points(const struct sample *s)
{
    const struct choose_data *data = s->data;
    const int64_t d = data->X->d;
    const struct rows rows = {data->X->dtype, s->count, d, s->points};
    double *ret = mem_array((size_t)(s->count * d), sizeof(double));
    for (int64_t i = 0; ret != NULL && i < s->count * d; i++) {
        ret[i] = rows_at(&rows, i / d, i % d) * data->scales[i % d];
    }
    return ret;
}

/* Of features as they are: infinite where it is beyond the range of numbers. */
static int plain_median(const struct sample *s, bool l1, double *ret, struct err *err)
{
    cleanup_mem double *points = scaled_points(s);
    const struct rows rows = {DTYPE_F64, s->count, s->data->X->d, points};
    bool degenerate;
    if (points == NULL) {
        return err_no_memory(err);
    }
    const int r = bandwidth_median(&rows, l1, s->data->seed, ret, &degenerate, err);
    *ret = r == -ERR_INVALID ? (double)INFINITY : *ret;
    return r == -ERR_INVALID ? 0 : r;
}

/* The median of the sample's distances, which two kernels share. */
static int take_median(struct sample *s, bool l1, bool plain, double *ret, struct err *err)
{
    const struct rows rows = {s->data->X->dtype, s->count, s->data->X->d, s->points};
    double *median = plain ? &s->plain_medians[l1] : &s->medians[l1];
    bool degenerate;
    int r = 0;
    if (*median <= 0) {
        r = plain ? plain_median(s, l1, median, err)
                  : bandwidth_median(&rows, l1, s->data->seed, median, &degenerate, err);
    }
    *ret = *median;
    return r;
}

/* One bandwidth for all features as they are, in standardised ones, which differ by the features'
 * units: 1 where by more than a model can have. */
static int spread(struct sample *s, double bandwidth, struct kernel *k, struct err *err)
{
    static const double most = 1e30;
    const int64_t d = s->data->X->d;
    if (s->plain == NULL) {
        s->plain = mem_array((size_t)d, sizeof(double));
    }
    if (s->plain == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < d; j++) {
        const double here = s->plain[j] = bandwidth / s->data->scales[j];
        if (!(here < most && here > 1.0 / most)) {
            return 1;
        }
    }
    k->bandwidths = s->plain;
    k->bandwidth = 1.0;
    return 0;
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
    const int r = take_median(s, kernel_uses_l1(c->kernel), c->plain, &k->bandwidth, err);
    k->bandwidth *= c->medians;
    return r == 0 && c->plain ? spread(s, k->bandwidth, k, err) : r;
}

static int try_pair(struct sample *s, struct pair *p, struct err *err)
{
    struct kernel k = {.id = p->choice.kernel, .d = s->data->X->d, .bandwidth = 1.0, .gamma = 1.0};
    p->choice.ridge = choose__ridge(s, p->at);
    p->choice.regularization = p->choice.ridge / (double)s->fit;
    p->error = INFINITY;
    const int r = choose__take_bandwidth(s, &p->choice, &k, err);
    return r == 0 ? choose__try_kernel(s, &k, false, p, err) : r < 0 ? r : 0;
}

int choose__try(struct sample *s, struct pairs *pairs, struct err *err)
{
    int r = 0;
    for (int i = 0; r == 0 && i < pairs->count && !s->late; i++) {
        r = try_pair(s, &pairs->all[i], err);
    }
    return r;
}

/* Whether the pair's bandwidth times that is one to try. */
static bool is_beyond(const struct pairs *pairs, const struct pair *p, double times)
{
    const double there = p->choice.medians * times;
    bool ret = isfinite(p->error) && there <= widest && there >= narrowest;
    for (int i = 0; i < pairs->count; i++) {
        const struct choice *c = &pairs->all[i].choice;
        ret = ret && !(c->kernel == p->choice.kernel && c->plain == p->choice.plain &&
                       c->medians == there);
    }
    return ret;
}

static int walk(struct sample *s, struct pairs *pairs, double times, double worth, struct err *err)
{
    int r = 0;
    for (bool better = true; r == 0 && better && !s->late;) {
        const struct pair best = choose__best(pairs);
        struct pair *next = &pairs->all[pairs->count];
        if (!is_beyond(pairs, &best, times)) {
            return 0;
        }
        *next = best;
        next->choice.medians *= times;
        r = try_pair(s, next, err);
        better = next->error < worth * best.error;
        pairs->count += better;
    }
    return r;
}

int choose__try_beyond(struct sample *s, struct pairs *pairs, double worth, struct err *err)
{
    const int r = walk(s, pairs, step, worth, err);
    return r == 0 ? walk(s, pairs, 1.0 / step, worth, err) : r;
}

/* Whether features differ in what they were divided by, so much that it can matter. Of constant
 * ones that is 1, and says nothing: their differences are 0. */
static bool scales_differ(const struct choose_data *data)
{
    static const double alike = 2;
    double least = INFINITY, most = 0;
    for (int64_t j = 0; data->scales != NULL && j < data->X->d; j++) {
        const double scale = data->scales[j];
        if (scale != 1.0) {
            least = fmin(least, scale);
            most = fmax(most, scale);
        }
    }
    return most > alike * least;
}

int choose__try_plain(struct sample *s, struct pairs *pairs, double worth, struct err *err)
{
    const struct pairs from = choose__keep(pairs, 0);
    const double than = worth * choose__best(pairs).error;
    struct pairs plain = {.count = 0};
    int r = 0;
    for (int i = 0; r == 0 && scales_differ(s->data) && i < from.count && !s->late; i++) {
        struct pair *next = &plain.all[plain.count++];
        *next = from.all[i];
        next->choice.plain = true;
        r = try_pair(s, next, err);
    }
    r = r == 0 && plain.count > 0 ? choose__try_beyond(s, &plain, worth, err) : r;
    for (int i = 0; r == 0 && i < plain.count; i++) {
        if (plain.all[i].error < than) {
            pairs->all[pairs->count++] = plain.all[i];
        }
    }
    return r;
}
