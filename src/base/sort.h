/* Numbers in ascending order, in place. */
#pragma once

#include <stdint.h>

void sort_i64(int64_t *a, int64_t n);
void sort_f64(double *a, int64_t n); /* no NaN among them */
