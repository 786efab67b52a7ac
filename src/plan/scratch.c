#include "plan/scratch.h"

#include <math.h>

/* As in src/cpu. */
static const double kib = 1024.0, most_columns = 64.0; /* TILE_COLS */
static const double run = 120.0, spare = 30.0;         /* TILE_RUN, TILE_BLOCK */
static const double few = 15.0;                        /* TILE_SHORT */
static const double vector = 64.0;                     /* TILE_ALIGN */
static const double turned_ld = 129.0; /* of float64 rows that are turned, at most */
static const double panel_row = 256.0; /* a number of each lane of a panel */

static double together(const struct scratch_shape *s)
{
    return fmin(s->columns, most_columns);
}

/* Rows of Q on their way into a tile, and up to `most` bytes of them, or the least number of rows,
 * turned. */
static double run_bytes(const struct scratch_shape *s, double most)
{
    const double row = s->point > 4.0 && s->ld > turned_ld ? 0.0 : s->point * s->ld;
    return (run + spare) * 9.0 + 2.0 * vector + fmax(fmin(most, run * row), few * row);
}

/* cpu/sweep.c: panels with weights and sums of their rows; weights and sums of a run. */
static double band(const struct scratch_shape *s, double block)
{
    const double cols = together(s), lanes = panel_row / s->point, whole = 512.0 * kib;
    const double panel = panel_row * s->ld + 2.0 * cols * lanes * s->weight;
    const double span = fmin(fmax(1280.0 / cols, few), run);
    return fmax(fmin(whole, panel * block / lanes), panel) + cols * run * 8.0 + vector +
           (span + spare) * cols * vector + span * 8.0 + vector + run_bytes(s, 16.0 * kib);
}

double scratch_symmetric(const struct scratch_shape *s)
{
    const double lanes = panel_row / s->point;
    const double rows = ceil(s->rows / 8.0), fewer = 0.75 * lanes; /* of panels that are narrower */
    const double block = fmin(fmax(ceil(rows / lanes) * lanes, ceil(rows / fewer) * fewer), 2048.0);
    return s->threads * (band(s, block) + 2.0 * together(s) * block * 8.0);
}

double scratch_totals(const struct scratch_shape *s)
{
    return fmin(8.0 * s->rows * together(s), 48.0 * kib * kib);
}

double scratch_normal(const struct scratch_shape *s)
{
    const double all = 32.0 * kib * kib, each = 8.0 * s->rows * (s->threads + 1.0);
    const double cols = fmin(s->columns, fmin(fmax(floor(all / each), 1.0), most_columns));
    const double lanes = panel_row / s->point, rows = s->rows + spare;
    /* Of the values of one panel no more than these are kept. */
    const double values = fmin(panel_row * rows, 16.0 * kib * kib), panel = panel_row * s->ld;
    const double group = fmax(fmin(512.0 * kib, 8.0 * (values + panel)), values + panel);
    const double sums =
        cols * (run * 8.0 + (run + spare) * vector + lanes * (8.0 + 9.0 * s->weight));
    return s->threads *
               (group + sums + 8.0 * cols * s->rows + run_bytes(s, kib * kib) + 9.0 * vector) +
           8.0 * cols * s->rows;
}
