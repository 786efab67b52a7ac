#include "engine/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

static double smape_term(double p, double y)
{
    const double size = (fabs(p) + fabs(y)) / 2.0;
    return size > 0 ? fabs(p - y) / size : 0.0;
}

/* 1 - sum (y - p)^2 / sum (y - mean)^2, in numbers beyond y[0]: those of a constant are exactly 0,
 * whatever its binary form. */
static double r_squared(const double *y, int64_t n, double squares)
{
    double mean = 0, total = 0;
    for (int64_t i = 0; i < n; i++) {
        mean += (y[i] - y[0]) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        const double e = (y[i] - y[0]) - mean;
        total += e * e;
    }
    return total > 0 ? 1.0 - squares / total : (double)NAN;
}

struct metrics metrics_regression(const double *predicted, const double *truth, int64_t n,
                                  int64_t t)
{
    struct metrics m = metrics_none();
    if (n == 0) {
        return m;
    }
    double smape = 0, absolute = 0, squares = 0, r2 = 0;
    for (int64_t j = 0; j < t; j++) {
        const double *p = predicted + j * n, *y = truth + j * n;
        double column = 0;
        for (int64_t i = 0; i < n; i++) {
            smape += smape_term(p[i], y[i]);
            absolute += fabs(p[i] - y[i]);
            column += (p[i] - y[i]) * (p[i] - y[i]);
        }
        squares += column;
        r2 += r_squared(y, n, column) / (double)t;
    }
    const double count = (double)n * (double)t;
    m.smape = smape / count;
    m.mae = absolute / count;
    m.rmse = sqrt(squares / count);
    m.r2 = r2;
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
