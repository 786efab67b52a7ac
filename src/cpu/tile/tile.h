/*
 * The innermost loops of the CPU's kernel oracle. A tile is a panel of `lanes` rows x_i against a
 * run of up to TILE_RUN rows z_j. It is taken in blocks of a few z rows, and a block never leaves
 * the registers:
 *
 *   distances   D(j,i) = |x_i - z_j|_2^2, |x_i - z_j|_1 or x_i . z_j
 *   function    K(j,i) = f(D(j,i)), or K(j,i) is read from where it was kept
 *   use         x_sums(c,i) += sum_j K(j,i) z_weights(c,j)
 *               z_sums(c,j) += sum_i K(j,i) x_weights(c,i)   when the tile serves the other side
 *               or K(j,i) is stored
 *
 * Distances are sums of explicit differences in the order of the features, so nothing cancels,
 * k(x,z) and k(z,x) have the same bits, and k(x,x) is exactly 1. For rows z near the origin there
 * are faster forms, in which some 2e-6 of a value cancel (4e-15 in float64; more where many
 * features of a row are equal), of k(x,x), too:
 *
 *   by_max    |x - z|_1 = sum 2 max(x,z) - sum x - sum z
 *             of points that are doubled (2 x) sum max - sum x - sum z: no product, which would
 *             share pipes with the maximum. It is exact, so the bits are the same
 *   by_fixed  the same in fixed point, for float32 (tile_loops.turn_row): rows come as integers of
 *             2^-24, in which nothing more is rounded, and k(x,x) is 1
 *   by_powers 2^-|x - z|_1 = prod min(4^x, 4^z) prod 2^-x prod 2^-z: rows come as their powers
 *             (tile_loops.turn_row), and there is no function left to evaluate
 *   by_inner  |x - z|_2^2 = |x|^2 + |z|^2 - 2 x.z, one instruction a feature instead of two. Of
 *             kernels with a slope at 0, pairs that are near come by differences (`nearest`)
 *   by_factor of gaussian, where operations count, the factor of z stands with its weight:
 *             exp(-|x-z|^2) = exp(2 x.z - |x|^2) exp(-|z|^2). Sums begin with x's number alone; the
 *             values that tiles make and sum are 2^(|z|^2/2) times the kernel's, of |z|^2/2 < 18
 *             (kernel_inner_limit)
 *   pairs     and there, where additions have pipes of their own, two features in one product
 *             (Winograd, IEEE Trans. Comput. C-17, 1968, p. 693):
 *             x1 z1 + x2 z2 = (x1 + z2) (x2 + z1) - x1 x2 - z1 z2
 *             of features 3 k and 3 k + 1; the next one stands by itself, so that additions and
 *             multiply-adds are as many
 *
 * Points come scaled: f needs no bandwidth and its exponential is a bare power of two (tile_scale).
 * What happens in one lane does not depend on the other lanes or on the width of the panel.
 *
 * Layouts (T is float or double, W the weights' type): panel T[d][lanes]; z T[d] each; K
 * T[TILE_RUN][lanes]; weights W[cols][TILE_RUN] and W[cols][lanes]; x_sums
 * likewise; z_sums keep a vector register of partial sums for each number, TILE_ALIGN bytes at
 * most, [TILE_RUN][z_ld].
 * Values kept in 16 bits are of kernels that lie in [0, 1], hence without a sign: 5 bits of
 * exponent and 11 of mantissa, of the value + 2^-31 (relative error 2^-12; 0 stays exact, 1 to
 * 2^-31). For the faster forms points carry one more feature, with which sums begin: the sum of the
 * others (in fixed point and of doubled points half of it; of powers one over the root of their
 * product), or -|x|^2/2 less the products x1 x2. Panel, K and sums are 64-byte aligned.
 *
 * cpu/tile/tile.c is compiled once for each instruction set, from one text.
 */
#pragma once

#include <stdbool.h>

#include "engine/backend.h"
#include "engine/kernel.h"

#define TILE_RUN 120  /* also what a float32 sum's length is counted in (cpu/sweep.h) */
#define TILE_COLS 64  /* right-hand sides that share one evaluation of the kernel */
#define TILE_LANES 64 /* most lanes of any panel */
#define TILE_ALIGN 64 /* bytes */
#define TILE_BLOCK 30 /* z rows that are whole blocks everywhere; divides TILE_RUN */
#define TILE_SHORT 15 /* z rows of the shortest runs, rounded down to whole blocks */
#define TILE_DEEP 10  /* vectors of a panel of cpu/lanes.h: sums enough to keep the units busy */

/* Of rows z in fixed point and as powers the sizes |z|_1 are at most TILE_TURNED_NEAR. The kernel
 * values of rows x that are larger than TILE_TURNED_REACH are below 2^-88 (2^-244 in float64): they
 * are scaled down to it, or their values are 0. All others are normal numbers on their whole way.
 */
#define TILE_TURNED_NEAR_F32 16.0F
#define TILE_TURNED_REACH_F32 104.0F
#define TILE_TURNED_NEAR_F64 256.0
#define TILE_TURNED_REACH_F64 500.0

/* Vectors from a row of z_sums to the next, for so many columns. Rows whole pages apart would have
 * the same places in the first-level cache, and loads of one wait for stores of the other. */
static inline int tile_z_ld(int cols)
{
    return cols % 16 == 0 ? cols + 1 : cols;
}

/* A kernel on scaled points. */
struct tile_kernel {
    enum kernel_id id;
    double gamma, coef0; /* dot-product kernels */
    int degree;
    bool by_max, by_fixed, by_powers; /* the faster forms of laplacian_l1 */
    bool doubled;                     /* of it, for which the points were made; see tile_doubles */
    bool by_inner;                    /* of gaussian, and of the Materns; see `nearest` */
    double nearest;   /* of by_inner, laplacian and matern12: sums above this one are too
                         rough, and made from differences */
    bool by_factor;   /* of by_inner and gaussian, where loops have it (tile_loops.factors) */
    int64_t pairs;    /* of by_inner, for which the points were made */
    bool near;        /* distance kernels: all powers are normal numbers. Changes no bit */
    bool panel_ahead; /* of by_inner; see tile_panel_ahead. Changes no bit */
};

/* One panel against one run; see above. Members that a use does not need are ignored. */
struct tile {
    const struct tile_kernel *kernel;
    const void *panel;
    const void *const *z; /* `count`, then up to TILE_BLOCK spare ones to any valid row */
    int64_t d;
    int64_t ahead; /* bytes from a row to one to fetch, where loops do (tile_loops.fetches), or 0 */
    int count;
    void *K;
    int cols, z_ld;        /* tile_z_ld(cols) */
    const void *z_weights; /* 0 for the spare rows */
    void *x_sums;
    const void *x_weights; /* 0 for lanes without a row */
    void *z_sums;
    const void *kept; /* [TILE_RUN][lanes] values, spare rows finite; NULL: compute them */
    enum kernel_storage storage; /* of `kept` */
};

/* A few rows z_i against TILE_RUN rows x_j in each lane (cpu/lanes.h): sums(i,c) of a lane += sum_j
 * K(j,i) weights(c,j), in the order of j. W is the type of weights and sums, all of them
 * TILE_ALIGN-ed. */
struct lane_tile {
    const struct tile_kernel *kernel;
    const void *panels;   /* T[TILE_RUN / deep][ld][deep][lanes] */
    const void *const *z; /* T[d] each */
    int64_t d, ld;
    int rows, cols;
    const void *weights; /* W[cols][TILE_RUN][lanes], 0 where a run has no row */
    void *sums;          /* W[rows][cols][lanes] */
};

/* Kernel values of whole blocks of a sign_sketch on their way into it: K's rows times `flip`, mixed
 * in each block, times `sign` are added to the rows of `sums` that `index` names, if it is not
 * negative. K and sums are TILE_ALIGN-ed. */
struct mix_tile {
    const void *K; /* T[rows][lanes] */
    int64_t rows;
    int lanes, block, copies;
    const int64_t *index;    /* [rows][copies] */
    const signed char *sign; /* likewise */
    const signed char *flip; /* [rows] */
    double *sums;            /* [..][lanes] */
};

/* Windows of cpu/grid/window.h: along an axis place k of a point's first WINDOW_ROW ones has the
 * weight sum_t term[t][k] s^t, 0 from `width` on, where s says in [-1, 1] where the point is before
 * the first of them. */
#define WINDOW_ROW 16
#define WINDOW_TERMS 20
struct window {
    int width, terms;
    double term[WINDOW_TERMS][WINDOW_ROW];
};

/* A point's window: so many lines along the last axis, by so many, `stride` places apart. */
struct window_at {
    int lines[2];
    int64_t stride[2];
    double s[3];
};

/* A function of the distance r (cpu/grid/near.h): sum_t term[t] (scale r - 1)^t below its reach, 0
 * from there on. */
#define NEAR_TERMS 48
#define NEAR_DIMS 3
#define NEAR_COLS 8   /* right-hand sides that share an evaluation */
#define NEAR_SPARE 16 /* numbers behind the last row's that may be read */
struct near_function {
    int terms;
    double reach, scale;
    double term_f64[NEAR_TERMS];
    float term_f32[NEAR_TERMS];
};

/* As many rows x as a vector has lanes, against rows z. */
struct near_tile {
    const struct near_function *function;
    int dims, cols;
    int64_t count;                           /* of z */
    const void *x[NEAR_DIMS], *z[NEAR_DIMS]; /* T[..], the coordinates along each axis */
    const void *weights;                     /* T[cols][ld], of z */
    int64_t ld;
    void *sums; /* T[cols][lanes], TILE_ALIGN-ed */
};

/* What becomes of the values: stored, or summed for x, for both sides, for z. */
enum tile_use { TILE_VALUES, TILE_ROWS, TILE_BOTH, TILE_COLUMNS, TILE_USES_ };

struct tile_loops {
    int wide, narrow; /* the two panel widths, in lanes */
    int step;         /* z rows of a block; divides TILE_BLOCK */
    bool fetches;     /* tile.ahead */
    int pairs_from;   /* gaussians of so many features have tile_kernel.pairs; 0: no loops do */
    bool mends;       /* has tile_kernel.by_inner for laplacian and matern12 */
    bool factors;     /* has tile_kernel.by_factor */
    /* tile_kernel.by_powers is the best up to so many features, or so many where turned rows are
     * kept; beyond them by_fixed, where there is one, or by_max. */
    int64_t powers_to, powers_kept_to;
    bool fixes;
    bool doubles;        /* has tile_kernel.doubled */
    bool turns;          /* near and far blocks may take turns (cpu/far.c): they gain more by the */
    int root_turns_from; /* faster form than turns cost; kernels with roots from so many features */
    /* Features from which tile_kernel.by_inner pays where additions have pipes of their own, of
     * gaussian and of the Materns; where there are pairs, the gaussian always, and for the Materns
     * tile_pairs decides. Elsewhere it always does. Of kernels with a slope at 0: tile_has_inner.
     */
    int inner_from, inner_root_from;
    double scale_gaussian, scale_root; /* what tile_scale has beyond the kernel's own; `root`: of
                                          the kernels of |x - z|_2 itself */

    /* panel T[ld][lanes] <- rows[0 .. lanes-1], each T[ld]. */
    void (*pack)(const void *const *rows, int64_t ld, int lanes, void *panel);

    /* For tile_kernel.by_fixed or by_powers: a packed panel's rows of d features and one more, in
     * place, and a single row, whose |z|_1 is TILE_TURNED_NEAR at most, into ret: numbers of T's
     * size. A row has the same numbers either way. */
    void (*turn_panel)(const struct tile_kernel *k, void *panel, int64_t d, int lanes);
    void (*turn_row)(const struct tile_kernel *k, const void *row, int64_t d, void *ret);

    /* With weights and sums of type T, or float64. */
    void (*run)(enum tile_use use, int lanes, const struct tile *t);
    void (*run_f64)(enum tile_use use, int lanes, const struct tile *t);

    /* Few rows: lanes are `narrow`, a panel holds `deep` rows of each. */
    int deep;
    void (*run_lanes)(const struct lane_tile *t);
    void (*run_lanes_f64)(const struct lane_tile *t);

    /* For x_sums of type T: totals[c * ld + i] += sums[c][i]; sums[c][i] <- 0. */
    void (*drain)(void *x_sums, int lanes, int cols, double *totals, int64_t ld);
    /* The same for z_sums of so many rows: totals[c * ld + j] += the sum of a vector, times
     * factors[j] unless that is NULL. Up to TILE_BLOCK rows behind the last block are read and set
     * to 0, and as many factors as a vector has lanes behind the last one are read. */
    void (*fold)(void *z_sums, const void *factors, int rows, int cols, double *totals, int64_t ld);
    /* n values of type T in [0, 1] (whole vectors, both aligned) in the 16 bits of
     * KERNEL_STORE_HALF. */
    void (*to_half)(const void *values, int64_t n, uint16_t *ret);

    void (*mix)(const struct mix_tile *t);

    /* sums += the function's values, times weights. */
    void (*near)(const struct near_tile *t);
};

struct fft_loops;
struct tile_isa {
    const char *name; /* "avx512", "avx512_intel", "avx2", "portable" */
    struct tile_loops f32, f64;
    const struct fft_loops *fft; /* cpu/grid/fft.h */

    /* A number times the weights of a window is added to its places, of which `first` is the
     * first: WINDOW_ROW of each line are read and written. */
    void (*spread)(const struct window *w, const struct window_at *at, double value, double *first);
    /* The sum of a window's places, times its weights. */
    double (*gather)(const struct window *w, const struct window_at *at, const double *first);
};

/* What this processor can run, best first; NULL after the last. */
const struct tile_isa *tile_isa_list(int i);

/* tile_kernel.pairs for points of d features, where they pay; and whether points of a kernel take
 * by_inner at all, near the origin. */
int64_t tile_pairs(const struct tile_loops *loops, enum kernel_id id, int64_t d);
bool tile_has_inner(const struct tile_loops *loops, enum kernel_id id, int64_t d);

/* Whether points of a kernel are doubled, as tile_scale says then, too. */
bool tile_doubles(const struct tile_loops *loops, enum kernel_id id);

/* Whether points of laplacian_l1 take by_powers, near the origin. `kept`: their turned rows are. */
bool tile_has_powers(const struct tile_loops *loops, int64_t d, bool kept);

/* Whether a form's rows are turned before loops take them. */
static inline bool tile_turns(const struct tile_kernel *k)
{
    return k->by_fixed || k->by_powers;
}

/* Whether loops fetch the features of a panel before their use: it is too long for the first-level
 * cache, and the processor does not do so by itself. `number`: bytes. */
bool tile_panel_ahead(const struct tile_loops *loops, int64_t d, size_t number);

/* What to multiply a point's coordinates with, besides dividing them by the bandwidth. */
double tile_scale(const struct tile_loops *loops, enum kernel_id id);
