/*
 * A band of P's rows against rows of Q: the loop that plain and symmetric products share.
 *
 * A band is a few panels, small enough for the second-level cache, with the weights and sums of
 * their rows. Rows of Q come in runs, short enough for the first-level cache; every panel meets a
 * run before the next one is fetched, so rows of Q are read from memory once a band.
 *
 * A row's sums are added up in float64 after every TILE_RUN rows of Q, or twice as many when tiles
 * serve both sides, counted from the first row of the call, or from the first block of the points
 * where rows before it have a run to themselves (oracle__rows_to_block): what is added to what
 * depends neither on the panels of a band nor on the runs. Rows that an index names are added near
 * ones first (oracle__near_first).
 */
#pragma once

#include "cpu/cache.h"

/* The shape of the bands of one product; read-only while threads run. */
struct sweep {
    const struct product *p;
    int cols;
    int panels;            /* most in a band */
    int run;               /* rows of Q at a time; divides TILE_RUN */
    int span;              /* of which z_sums are kept; runs of it */
    size_t number, weight; /* bytes of a T and of a W */
    size_t size;           /* bytes of a band, a multiple of TILE_ALIGN */
};

/* One thread's band. Where its kernel values are kept its tiles read them. T is the points' type, W
 * the weights'. */
struct band {
    int64_t first, end; /* members of P */
    int lanes;          /* of its panels, the last of which may be partly filled */
    char *panels;       /* T[panels][ld][lanes] */
    char *x_sums;       /* W[panels][cols][lanes], 0 between calls */
    char *x_weights;    /* likewise, 0 for lanes without a row */
    char *z_weights;    /* W[cols][TILE_RUN] */
    char *z_sums;       /* [span][tile_z_ld] vectors, 0 between calls */
    char *z_factors;    /* W[span] of the rows of z_sums, for tile_kernel.by_factor */
    struct run_rows *rows;
    struct cache_tiles kept;
    bool apart; /* its rows meet themselves: distances are differences (oracle.apart) */
};

/* Sums that a call adds to: row i (of P or of Q, from the call's first on) and column c at
 * sums[c * ld + i]. */
struct sweep_sums {
    double *sums;
    int64_t ld;
};

/* Rows of a run: the most of TILE_RUN, its half, ... that are whole blocks of `step` rows and stay
 * in the first-level cache, with their sums where tiles serve both sides. row_size: bytes. */
int sweep_run_length(enum tile_use use, int64_t row_size, int cols, int step);

/* Bands of at most `panels` panels that serve one side (TILE_ROWS) or both. */
void sweep_init(struct sweep *s, const struct product *p, enum tile_use use, int64_t panels);

/* A band in s->size bytes of TILE_ALIGN-ed memory. */
void sweep_place(const struct sweep *s, char *memory, struct band *ret);

/* Packs rows first .. end-1 of P into panels of so many lanes; TILE_BOTH needs their weights. */
void sweep_load(const struct sweep *s, enum tile_use use, int64_t first, int64_t end, int lanes,
                struct band *b);

/* x += K(band, z_first .. z_end-1) V, and when `use` is TILE_BOTH z += K' V. */
void sweep_run(const struct sweep *s, enum tile_use use, int64_t z_first, int64_t z_end,
               struct sweep_sums x, struct sweep_sums z, struct band *b);
