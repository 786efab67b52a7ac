#include "base/sort.h"

#include <stdlib.h>

static int compare_i64(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int compare_f64(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_i64(int64_t *a, int64_t n)
{
    qsort(a, (size_t)n, sizeof(*a), compare_i64);
}

void sort_f64(double *a, int64_t n)
{
    qsort(a, (size_t)n, sizeof(*a), compare_f64);
}

int64_t sort_first_above(const double *a, int64_t n, double v)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (a[middle] > v) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}
