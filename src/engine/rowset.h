/*
 * The training rows of a restricted problem, or its test rows, on a backend: tiles of one size,
 * each a view of points with the targets beside it. All tiles stay on the backend where the
 * caller's budget has room for them; otherwise each is read from the source when it is asked for,
 * so that rows are bounded by the disk and not by memory. What is computed from tiles has the same
 * bits either way: their size follows from the shape alone.
 */
#pragma once

#include "engine/backend.h"
#include "engine/row_source.h"

struct rowset;

struct rowset_spec {
    struct backend *be;
    const struct kernel *kernel;
    const struct row_source *source;
    enum dtype points; /* precision of kernel values */
    enum dtype vectors;
    int64_t centers;   /* m: a tile has at most RULE_TILE_VALUES values with them */
    int64_t budget;    /* bytes for tiles that stay */
    int64_t tile_rows; /* 0: by the shape (plan/rules.h) */
};

struct row_tile {
    int64_t first, count; /* rows of the source; first is -1 for a batch */
    struct view rows;
    struct mat Y; /* count x t */
};

/* Borrows what the spec points to. */
int rowset_new(const struct rowset_spec *spec, struct rowset **ret, struct err *err);
struct rowset *rowset_free(struct rowset *r); /* NULL is fine */

int64_t rowset_rows(const struct rowset *r);
int64_t rowset_tiles(const struct rowset *r);
bool rowset_resident(const struct rowset *r);

/* Tile i, rows in their order. Valid until the next call with this rowset. */
int rowset_tile(struct rowset *r, int64_t i, struct row_tile *ret, struct err *err);

/* Gives back what passing tiles took; the next one allocates it again. */
void rowset_rest(struct rowset *r);

/* Any rows, count >= 1, repeats allowed; always read. Valid until the next call with this rowset.
 */
int rowset_batch(struct rowset *r, const int64_t *index, int64_t count, struct row_tile *ret,
                 struct err *err);
