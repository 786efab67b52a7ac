/* Inside the CPU's kernel oracle: what its two files share. */
#pragma once

#include "engine/cpu.h"

/* Everything a task needs to know; read-only while threads run. */
struct oracle {
    const struct tile_loops *loops;
    struct tile_kernel kernel;
    struct view P, Q;
    enum dtype dtype;
    int64_t d, ld;
    int threads;
};

/* A panel's worth of rows of P. */
struct group {
    int64_t first; /* member of P */
    int rows;      /* 1 .. lanes */
    int lanes;
};

/* Y <- a K(P,Q) V + b Y for at most TILE_COLS columns. */
struct product {
    struct oracle o;
    double a, b;
    struct mat V, Y;
    enum dtype weights;            /* float32 only when points and vectors are */
    const struct tile_loops *sums; /* the loops of that type */
};

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* panel <- the group's rows, T[ld][lanes]. Lanes without a row repeat the last one. */
void oracle__load_panel(const struct oracle *o, struct group g, void *panel);

/* z[0 ..] <- members first .. first+count-1 of Q, and the spare rows a tile asks for. */
void oracle__load_rows(const struct oracle *o, int64_t first, int count, const void **z);

/* weights[c][at .. at+ld-1] <- V(first .. first+count-1, c), the rest 0. */
void oracle__load_weights(const struct product *p, int64_t first, int count, int ld, void *weights);

/* One tile of the product. */
void oracle__run(const struct product *p, enum tile_use use, int lanes, const struct tile *t);

/* Y(first .. first+rows-1, c) <- a totals[c * ld + i] + b Y. */
void oracle__write(const struct product *p, int64_t first, int64_t rows, const double *totals,
                   int64_t ld);

/* cpu_symmetric.c: the product when P and Q are the same view. `oracle__symmetric` tells whether
 * it pays and its sums fit the memory it may take; that depends on the shape alone. */
bool oracle__symmetric(const struct product *p);
int oracle__symmetric_product(struct product *p, struct err *err);
