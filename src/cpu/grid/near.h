/*
 * Products with a function of the distance that is 0 beyond some reach, in one to three dimensions:
 * points are sorted by cells, and each meets those of the cells around it alone. Between, the
 * function is a polynomial of the distance. Values and short sums are of the points'
 * type.
 */
#pragma once

#include "cpu/cpu.h"
#include "engine/grid.h"

/* What sets of points share. The axes in use are the last ones. */
struct near {
    struct near_function function;
    int dims;
    int64_t feature[NEAR_DIMS], cells[NEAR_DIMS];
    double origin[NEAR_DIMS], side[NEAR_DIMS]; /* of a cell; along the last axis they are shorter */
};

/* One set in the order of its cells. */
struct near_set {
    enum dtype dtype;
    int64_t n, ld, blocks;
    int64_t *row;   /* [n] */
    int64_t *first; /* [cells + 1] */
    int64_t *block; /* [blocks + 1]: rows that lie in a line of cells, as many as vectors have lanes
                       at most */
    double *at;     /* [dims][ld]: coordinates */
    double *weights; /* [NEAR_COLS][ld]: of the product at hand */
};

/* How many of all pairs of a set are how near, by a sample. */
struct census {
    double total, within[64]; /* pairs nearer than longest / 2^(k / 2) */
    double longest;
};

/* What points lie between, along each of their axes. */
struct near_range {
    int dims;
    const int64_t *feature;
    const double *least, *most;
};

/* Of such points, and a function of distances up to `reach`; false: no polynomial is within 64
 * `loss` of it. `rows`: of a set, to say how many cells are worth while. */
bool near_lay(struct near *ret, const struct near_range *range, double reach, double loss,
              int64_t rows, double (*f)(const void *context, double r), const void *context);

/* The share of all pairs of a set that its cells bring together; 1 where there is no memory to
 * count them. */
double near_share(const struct near *s, const struct rows *X);

/* For products by these loops, of the points' type. */
int near_sort(const struct near *s, const struct tile_loops *loops, const struct points *p,
              struct near_set *ret, struct err *err);
/* At most. */
int64_t near_set_bytes(const struct near *s, enum dtype dtype, int64_t n);
void near_set_deinit(struct near_set *s);

/* Y += a F V, of sets of one type; q's weights are worked in, so that products with it take turns.
 */
void near_product(const struct near *s, const struct tile_loops *loops, int threads,
                  const struct near_set *p, struct near_set *q, double a, const struct mat *V,
                  const struct mat *Y);

/* Of these coordinates, between which no distance is longer. */
struct census census_take(const struct rows *X, int dims, const int64_t *feature, double longest);
/* The share of pairs that cells of that reach bring together. */
double census_share(const struct census *c, int dims, double reach);
