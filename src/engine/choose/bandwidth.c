#include "engine/choose/bandwidth.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/sort.h"

enum { ROWS_MAX = 1000, ROWS_MIN = 50 };
static const double differences_max = 2e9;

/* |x_a - x_b|_2 where squares of its parts leave the range of numbers. */
static double scaled_distance(const struct rows *X, int64_t a, int64_t b)
{
    double largest = 0, sum = 0;
    for (int64_t j = 0; j < X->d; j++) {
        largest = fmax(largest, fabs(rows_at(X, a, j) - rows_at(X, b, j)));
    }
    for (int64_t j = 0; j < X->d && largest > 0 && isfinite(largest); j++) {
        const double e = (rows_at(X, a, j) - rows_at(X, b, j)) / largest;
        sum += e * e;
    }
    return isfinite(largest) ? largest * sqrt(sum) : largest;
}

static double distance(const struct rows *X, int64_t a, int64_t b, bool l1)
{
    double sum = 0;
    for (int64_t j = 0; j < X->d; j++) {
        const double e = rows_at(X, a, j) - rows_at(X, b, j);
        sum += l1 ? fabs(e) : e * e;
    }
    if (l1) {
        return sum;
    }
    return sum >= DBL_MIN && sum <= DBL_MAX ? sqrt(sum) : scaled_distance(X, a, b);
}

/* The median of n sorted distances, zeros skipped if it is one of them; 0 when all are zero. */
static double positive_median(const double *sorted, int64_t n)
{
    if (n == 0 || sorted[n - 1] == 0) {
        return 0;
    }
    if (sorted[(n - 1) / 2] > 0) {
        return sorted[(n - 1) / 2];
    }
    int64_t zeros = (n - 1) / 2;
    while (sorted[zeros] == 0) {
        zeros++;
    }
    return sorted[zeros + (n - zeros - 1) / 2];
}

int bandwidth_median(const struct rows *X, bool l1, uint64_t seed, double *ret,
                     bool *ret_degenerate, struct err *err)
{
    const double most = fmax(sqrt(2.0 * differences_max / (double)X->d), ROWS_MIN);
    int64_t k = X->n < ROWS_MAX ? X->n : ROWS_MAX;
    k = (double)k > most ? (int64_t)most : k;
    const int64_t pairs = k * (k - 1) / 2;
    cleanup_mem int64_t *sample = mem_array((size_t)k, sizeof(*sample));
    cleanup_mem double *distances = mem_array((size_t)pairs, sizeof(*distances));
    if (sample == NULL || distances == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new(seed, RNG_BANDWIDTH);
    const int r = rng_choose(&rng, X->n, k, sample, err);
    if (r < 0) {
        return r;
    }
    int64_t at = 0;
    for (int64_t a = 0; a < k; a++) {
        for (int64_t b = 0; b < a; b++) {
            distances[at++] = distance(X, sample[a], sample[b], l1);
        }
    }
    sort_f64(distances, pairs);
    const double median = positive_median(distances, pairs);
    if (!isfinite(median)) {
        return err_at(err, ERR_INVALID, "#/kernel/bandwidth",
                      "The rows' median distance is beyond the range of numbers: scale the "
                      "features, or standardize them.");
    }
    *ret_degenerate = !(median > 0);
    *ret = *ret_degenerate ? 1.0 : median;
    return 0;
}
