/*
 * Rows on the host that need not all be in memory: n standardised points of d features with t
 * targets, read by range or by index list, as often as one likes. What streams over more rows than
 * memory holds (centers, restricted solvers) asks here; what implements it reads mapped files.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "wire/dtype.h"

struct row_source {
    void *context;
    int64_t n, d, t;
    enum dtype dtype; /* of X below */
    /* Rows first .. first+count-1, or index[0 .. count-1] when index is not NULL (any order,
     * repeats allowed), into X [count, d] row-major and Y [count, t] column-major; Y may be NULL.
     */
    int (*read)(const struct row_source *s, int64_t first, const int64_t *index, int64_t count,
                void *ret_X, double *ret_Y, struct err *err);
};
