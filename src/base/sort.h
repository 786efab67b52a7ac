/* Numbers in ascending order. */
#pragma once

#include <stdint.h>

/* In place. */
void sort_i64(int64_t *a, int64_t n);
void sort_f64(double *a, int64_t n); /* no NaN among them */

/* The first of n > 0 ascending numbers that exceeds v, n - 1 where none before the last does. With
 * running sums of weights and v uniform below the last: i with chance a_i - a_(i-1). */
int64_t sort_first_above(const double *a, int64_t n, double v);
