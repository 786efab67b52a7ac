#include "engine/metrics.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/squares.h"

/* One column: its predictions p and truth y, both of n numbers that are taken times `half`. */
struct column {
    const double *p, *y;
    int64_t n;
    double half; /* 0.5 where their differences would overflow, else 1 */
};

struct sums {
    double smape, mae;             /* a row */
    struct squares misses, spread; /* of p - y; of y around its mean */
};

static struct column column_of(const double *p, const double *y, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fmax(fabs(p[i]), fabs(y[i])));
    }
    return (struct column){p, y, n, largest > DBL_MAX / 4.0 ? 0.5 : 1.0};
}

static double miss(const struct column *c, int64_t i)
{
    return c->p[i] * c->half - c->y[i] * c->half;
}

/* From the first value: a constant column has exactly 0 everywhere. */
static double beyond_first(const struct column *c, int64_t i)
{
    return c->y[i] * c->half - c->y[0] * c->half;
}

static double smape_term(const struct column *c, int64_t i)
{
    const double size = fabs(c->p[i] * c->half) + fabs(c->y[i] * c->half);
    return size == 0 ? 0.0 : 2.0 * (fabs(miss(c, i)) / size);
}

/* The exponent of squares of numbers of up to `largest`, and of their sum before it was halved. */
static int exponent_of(const struct column *c, double largest, double *ret_factor)
{
    const int exponent = squares_exponent(largest);
    *ret_factor = squares_factor(exponent);
    return c->half < 1.0 ? exponent + 1 : exponent;
}

static void sum_misses(const struct column *c, struct sums *ret)
{
    double largest = 0, factor, smape = 0, sum = 0;
    for (int64_t i = 0; i < c->n; i++) {
        largest = fmax(largest, fabs(miss(c, i)));
        smape += smape_term(c, i);
    }
    ret->smape = smape / (double)c->n;
    ret->misses.exponent = exponent_of(c, largest, &factor);
    for (int64_t i = 0; i < c->n; i++) {
        const double e = miss(c, i) * factor;
        sum += fabs(e);
        ret->misses.sum += e * e;
    }
    ret->mae = ldexp(sum / (double)c->n, ret->misses.exponent);
}

static void sum_spread(const struct column *c, struct sums *ret)
{
    double largest = 0, factor, mean = 0;
    for (int64_t i = 0; i < c->n; i++) {
        largest = fmax(largest, fabs(beyond_first(c, i)));
    }
    ret->spread.exponent = exponent_of(c, largest, &factor);
    for (int64_t i = 0; i < c->n; i++) {
        mean += beyond_first(c, i) * factor / (double)c->n;
    }
    for (int64_t i = 0; i < c->n; i++) {
        const double e = beyond_first(c, i) * factor - mean;
        ret->spread.sum += e * e;
    }
}

/* 1 - sum (y - p)^2 / sum (y - mean)^2. */
static double r_squared(const struct sums *s)
{
    return s->spread.sum > 0 ? 1.0 - squares_ratio(s->misses, s->spread) : (double)NAN;
}

struct metrics metrics_regression(const double *predicted, const double *truth, int64_t n,
                                  int64_t t)
{
    struct metrics m = metrics_none();
    if (n == 0) {
        return m;
    }
    struct squares misses = {0, 0};
    m.smape = m.mae = m.r2 = 0;
    for (int64_t j = 0; j < t; j++) {
        const struct column c = column_of(predicted + j * n, truth + j * n, n);
        struct sums s = {0};
        sum_misses(&c, &s);
        sum_spread(&c, &s);
        misses = squares_add(misses, s.misses);
        m.smape += s.smape / (double)t;
        m.mae += s.mae / (double)t;
        m.r2 += r_squared(&s) / (double)t;
    }
    m.rmse = squares_root_mean(misses, (double)n * (double)t);
    return m;
}

struct ranked {
    double score;
    bool positive;
};

static int by_score(const void *a, const void *b)
{
    const double x = ((const struct ranked *)a)->score, y = ((const struct ranked *)b)->score;
    return (x > y) - (x < y);
}

/* (sum of the positives' ranks - P (P + 1) / 2) / (P N), ranks from 1, the same for equal scores.
 */
int metrics_auc(const double *score, const int64_t *positive, int64_t n, double *ret,
                struct err *err)
{
    cleanup_mem struct ranked *list = mem_array((size_t)n, sizeof(*list));
    if (list == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < n; i++) {
        list[i] = (struct ranked){.score = score[i], .positive = positive[i] != 0};
    }
    qsort(list, (size_t)n, sizeof(*list), by_score);
    double positives = 0, ranks = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = i;
        double here = 0;
        while (end < n && list[end].score == list[i].score) {
            here += list[end++].positive;
        }
        if (end == i) { /* NaN equals nothing, itself included */
            *ret = NAN;
            return 0;
        }
        ranks += here * ((double)(i + 1) + (double)end) / 2.0;
        positives += here;
        i = end;
    }
    const double negatives = (double)n - positives;
    *ret = positives > 0 && negatives > 0
               ? (ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives)
               : (double)NAN;
    return 0;
}

static int64_t best_class(const double *scores, int64_t n, int64_t t, int64_t i)
{
    int64_t best = 0;
    for (int64_t j = 1; j < t; j++) {
        if (scores[i + j * n] > scores[i + best * n]) {
            best = j;
        }
    }
    return best;
}

int metrics_classification(const double *scores, const int64_t *truth, int64_t n, int64_t t,
                           struct metrics *ret, struct err *err)
{
    struct metrics m = metrics_none();
    if (n > 0) {
        int64_t right = 0;
        for (int64_t i = 0; i < n; i++) {
            right += best_class(scores, n, t, i) == truth[i];
        }
        m.accuracy = (double)right / (double)n;
    }
    if (t == 2 && n > 0) {
        cleanup_mem double *difference = mem_array((size_t)n, sizeof(double));
        if (difference == NULL) {
            return err_no_memory(err);
        }
        for (int64_t i = 0; i < n; i++) {
            difference[i] = scores[i + n] - scores[i];
        }
        const int r = metrics_auc(difference, truth, n, &m.auc, err);
        if (r < 0) {
            return r;
        }
    }
    *ret = m;
    return 0;
}
