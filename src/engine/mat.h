/*
 * Dense column-major matrices (LAPACK's order) in a backend's memory. A struct mat is a plain view:
 * copying it copies no numbers; whoever called mat_new frees it. Vectors are n x 1.
 */
#pragma once

#include <stdint.h>

#include "wire/dtype.h"

struct mat {
    enum dtype dtype;
    int64_t rows, cols, ld; /* ld >= max(rows, 1) */
    void *data;             /* backend memory: never dereferenced outside the backend */
};

/* Columns j .. j+n-1, rows i .. i+n-1: views into the same memory. */
static inline struct mat mat_cols(struct mat m, int64_t j, int64_t n)
{
    m.data = (char *)m.data + (size_t)(j * m.ld) * dtype_size(m.dtype);
    m.cols = n;
    return m;
}

static inline struct mat mat_rows(struct mat m, int64_t i, int64_t n)
{
    m.data = (char *)m.data + (size_t)i * dtype_size(m.dtype);
    m.rows = n;
    return m;
}

/* Points on the host: row-major [n, d], float32 or float64. A view as well. */
struct rows {
    enum dtype dtype;
    int64_t n, d;
    const void *data;
};

static inline double rows_at(const struct rows *r, int64_t i, int64_t j)
{
    const int64_t k = i * r->d + j;
    return r->dtype == DTYPE_F32 ? (double)((const float *)r->data)[k]
                                 : ((const double *)r->data)[k];
}
