/*
 * Kernel values of all points with each other, kept in memory for products of the whole set with
 * itself (backend.h, points_cache). They are kept as the symmetric product asks for them: task by
 * task of its grid, tile by tile, each value once. A task is kept as a whole or not at all; when
 * not all fit, those kept are spread evenly, so that threads that read memory work beside threads
 * that compute. The tiles read kept values instead of computing them and do the same with them in
 * the same order, so exact values leave every bit of a product as it was.
 *
 * A task is a panel after panel of its block I; a panel is [rows of J and spare ones][wide] values.
 */
#pragma once

#include "cpu/oracle.h"

struct cache {
    struct symmetric_grid grid;
    enum kernel_storage storage;
    int wide;
    size_t row_bytes; /* of `wide` values */
    size_t *at;       /* [tasks + 1]: bytes from `values` to a task; it ends where the next begins,
                         and is not kept when it is empty */
    char *values;
};

/* The values of one task. */
struct cache_tiles {
    char *values; /* NULL: not kept */
    enum kernel_storage storage;
    int wide;
    size_t row_bytes;
    int64_t first, z_first; /* rows of the points where the blocks begin */
    int64_t panel_rows;
};

/* `c` may be NULL. */
struct cache_tiles cache_tiles(const struct cache *c, int64_t task);

/* The tile of the panel at row x and of the rows from z on; NULL when the task is not kept. */
static inline void *cache_at(const struct cache_tiles *c, int64_t x, int64_t z)
{
    if (c->values == NULL) {
        return NULL;
    }
    const int64_t row = (x - c->first) / c->wide * c->panel_rows + (z - c->z_first);
    return c->values + (size_t)row * c->row_bytes;
}

/* Whether rows of Q have their factors with the weights (tile_kernel.by_factor) where a product has
 * that cache, or NULL: values in 16 bits lie in [0, 1]. */
static inline bool cache_leaves_factors(const struct cache *c, const struct points *q)
{
    return q->factors != NULL && (c == NULL || c->storage == KERNEL_STORE_EXACT);
}

struct cache *cache_free(struct backend *be,
                         struct cache *c); /* accepts NULL and half-built ones */
