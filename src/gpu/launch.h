/*
 * The line between C and CUDA: what the .cu files can be asked to do. Every launcher puts its
 * kernels on `stream` (a cudaStream_t of the current device), does not wait for them, and returns
 * a cudaError_t, 0 for success. All pointers are device pointers unless said otherwise; shapes were
 * checked by the caller, and nothing is empty.
 *
 * No kernel uses an atomic sum, and who adds what to what depends on the shapes of Q and V alone:
 * results have the same bits on every run, on every device with the same arithmetic.
 *
 * The .cu files include this header inside extern "C".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/mat.h"

/* ---- columns.cu: column operations, memory-bound ---- */

#define LAUNCH_AXPBY_COLS 32 /* columns one launch_axpby takes */

/* dst <- src, converting. */
int launch_convert(void *stream, const struct mat *src, const struct mat *dst);
/* As col_axpby of engine/backend.h; a and b on the host, at most LAUNCH_AXPBY_COLS columns. */
int launch_axpby(void *stream, const double *a, const struct mat *X, const double *b,
                 const struct mat *Y);
/* sums[j] <- A(:,j) . B(:,j). `work` has room for launch_dots_work(rows, cols) doubles. */
int launch_dots(void *stream, const struct mat *A, const struct mat *B, double *work, double *sums);
int64_t launch_dots_work(int64_t rows, int64_t cols);
/* B(i,:) <- A(index[i],:). */
int launch_gather(void *stream, const struct mat *A, const int64_t *index, const struct mat *B);
/* B(index[i],j) += a[j] A(i,j); a on the host, index on the device, at most LAUNCH_AXPBY_COLS
 * columns. */
int launch_add_rows(void *stream, const double *a, const struct mat *A, const int64_t *index,
                    const struct mat *B);
/* d(i) <- max(d(i) - sum_j F(i,j)^2, 0). */
int launch_deflate(void *stream, const struct mat *F, const struct mat *d);
int launch_add_diag(void *stream, double value, const struct mat *A);
/* A(i,:) <- factors[i] A(i,:); factors on the device. */
int launch_scale_rows(void *stream, const double *factors, const struct mat *A);
/* A(i,j) <- 0 for j > i. */
int launch_clear_upper(void *stream, const struct mat *A);
/* ret[i] <- A(i,i). */
int launch_get_diag(void *stream, const struct mat *A, double *ret);
/* C <- b C, or its lower triangle; b = 0 writes zeros whatever C held. */
int launch_scale(void *stream, bool lower, double b, const struct mat *C);

/* ---- pack.cu: points as the tiles want them ---- */

/* Points lie in panels of LAUNCH_PANEL rows, each [ld][LAUNCH_PANEL]: a feature's numbers of the
 * panel's rows stand side by side. ld is d, or d + 1 where the panel ends with |x|^2/2 of its rows.
 * There are panels for a multiple of LAUNCH_TILE rows; those behind the last are 0, or anything
 * finite. */
#define LAUNCH_PANEL 32
#define LAUNCH_TILE 128 /* rows that every tile divides: launches are cut at multiples */
/* Behind the last panel is memory for so many features of one. It is never read, but where features
 * end in the middle of a step, copies of no bytes name it, which checkers of memory may not like.
 */
#define LAUNCH_BEHIND 16
/* Row i: (from(i,j) - center[j]) * scale[j] of row-major `from` [n, d], computed in float64. When a
 * number leaves the type's range, *bad becomes the least such row, counted from first_row. */
struct pack {
    const void *from;
    enum dtype from_dtype;
    void *to; /* the first row's panel */
    enum dtype to_dtype;
    int64_t n, d, ld;
    const double *scale, *center;
    int64_t first_row;
    int64_t *bad;
};
int launch_pack(void *stream, const struct pack *pack);

#define LAUNCH_SHORT_FEATURES 92 /* up to which short.cuh lays points out */
/* The numbers of panels in two parts of float16 each, as group.cuh and short.cuh want them: the
 * panels have launch_parts_bytes(d) each. `to` begins a tile. */
struct parts {
    const void *panels; /* float32 */
    void *to;
    int64_t d, ld, rows;
};
int launch_parts(void *stream, const struct parts *parts);
int64_t launch_parts_bytes(int64_t d);

/* Panels `to` of the rows index[0 .. count-1], or first .. first+count-1, of the panels `from`. */
struct gather_panels {
    const void *from;
    void *to;
    enum dtype dtype;
    int64_t ld;
    const int64_t *index;
    int64_t first, count;
};
int launch_gather_panels(void *stream, const struct gather_panels *gather);

/* ---- the kernel oracle ---- */

/* The last three are the kernels of the first and third that use tensor cores, by warps or by
 * groups of four; launch_kernel.form is one of the first three. */
enum launch_form { FORM_L2, FORM_L1, FORM_DOT, FORM_L2_TENSOR, FORM_DOT_TENSOR, FORM_L2_GROUP };

/* Of D = |x-z|_2^2, |x-z|_1 or x.z on packed points, whose scale is such that exponentials are
 * powers of two: FUNCTION_EXP is 2^-D, ROOT_EXP 2^-sqrt(D). */
enum launch_function {
    FUNCTION_EXP,
    FUNCTION_ROOT_EXP,
    FUNCTION_MATERN32,
    FUNCTION_MATERN52,
    FUNCTION_LINEAR,
    FUNCTION_POLYNOMIAL,
    FUNCTION_SIGMOID
};

struct launch_kernel {
    enum launch_form form;
    enum launch_function function;
    /* 0, or points carry norms, D is |x-z|_2^2 / 2, and products may take it from inner products
     * where |x|^2/2 + |z|^2/2 is at most this. */
    float inner;
    /* Products may take inner products from the tensor cores, where the device has any (compute
     * capability 8.0); `inner` is then for these. */
    bool tensor;
    /* They do so by groups of four warps (group.cuh; compute capability 9.0), of points that have
     * parts; another tile then. */
    bool group;
    double gamma, coef0; /* dot-product kernels */
    int degree;
};

/* Member i is row i % LAUNCH_PANEL of panel panel + i / LAUNCH_PANEL; `panel` begins a tile. */
struct launch_view {
    const void *data, *parts; /* parts: NULL where the kernel is not `group` */
    int64_t panel, count;
};

struct launch_tiles {
    struct launch_kernel kernel;
    enum dtype dtype; /* of the points, and of kernel values */
    int64_t d, ld;
    struct launch_view P, Q;
};

/* ---- products.cu ---- */

/* What a product needs of Q's members, for their tiles in order: weights[tile][V.cols][rows of a
 * tile] of `type` from V [Q.count, cols], 0 behind the last member up to a multiple of LAUNCH_TILE,
 * and reach[tile], the most |z|^2/2 of its members, where points carry norms. Tiles have
 * launch_tile_rows() rows. */
struct launch_weights {
    enum dtype dtype; /* of the points */
    bool group;       /* as launch_kernel.group */
    int64_t d, ld;
    struct launch_view Q;
    struct mat V;
    enum dtype type;
    bool norms;
    void *weights;
    float *reach;
};
int launch_weights(void *stream, const struct launch_weights *weights);
int64_t launch_tile_rows(enum dtype dtype, bool group);

/* All members of P against those of Q in chunks of `chunk`, a multiple of LAUNCH_TILE, of which
 * there are at most 65535; at most launch_cols() columns of weights, of float32 or, as `type` says,
 * float64: partials[(chunk * cols + column) * P.count + row] <- that chunk's share of K(P,Q) V.
 * values[x * across + z], where not NULL, <- the values of P's x-th tile with Q's z-th, as
 * launch_panel has them. */
struct launch_sums {
    struct launch_tiles tiles;
    int64_t chunk;
    int cols;
    enum dtype type;
    const void *weights;
    const float *reach;
    double *partials;
    void *values;
    int64_t across;
};
int launch_sums(void *stream, const struct launch_sums *sums);
/* Right-hand sides that share one evaluation of the kernel, by the types of points and weights. */
int launch_cols(enum dtype points, enum dtype weights);

/* Adds the partials in the order of the chunks to `totals` [cols][rows], or, when `first`, to zero.
 * When `last`, Y <- a totals + b Y (Y has the rows and columns of this part); otherwise the totals
 * are kept. b = 0 does not read Y. chunks may be 0. */
struct launch_finish {
    const double *partials;
    int64_t chunks;
    double *totals;
    bool first, last;
    double a, b;
    struct mat Y;
};
int launch_finish(void *stream, const struct launch_finish *finish);

/* Values of launch_both's pairs of blocks, kept in memory. Pair q is that of block q % blocks in
 * step q / blocks, the last one that of the half step of an even number. Kept are `slots` of the
 * `pairs` from first_pair on, spread evenly among them. A slot has room for the values of whole
 * blocks and holds the tiles of its pair, row after row, masked but for the 1-norm. A
 * tile lies as its threads hold it: of all the threads their first 16 bytes, then the next ones.
 * `half`: as KERNEL_STORE_HALF of engine/kernel.h. */
struct launch_kept {
    void *values;
    int64_t first_pair, pairs;
    int64_t slots; /* 0: nothing is kept */
    bool half;
};

#define LAUNCH_BOTH_ROWS 256 /* of a block, at most */
/* The same where they are `few`. */
#define LAUNCH_SHORT_ROWS 2048

/* Shares of Y = K(P,P) V with every value but those of diagonal blocks computed once and used on
 * both sides. P's members are cut in `blocks` of `rows` members (a multiple of LAUNCH_TILE). In
 * step s, of `steps` from `first_step` on, block I meets block J = (I + s) % blocks; the steps up
 * to blocks / 2 bring each pair of blocks together once (the last of an even number is done by half
 * of the blocks). partials of `type`: [step][2][cols][blocks * rows], the shares of each I's rows
 * and of each J's. Weights are those of all members; at most launch_both_cols() columns. */
struct launch_both {
    struct launch_tiles tiles; /* Q is P */
    int64_t rows, blocks, first_step;
    int steps, cols;
    bool first; /* totals are not added to */
    bool few; /* by short_products.cuh, since launch_takes_short() says so; nothing kept is used */
    enum dtype type;
    const void *weights;
    const float *reach;
    void *partials;
    struct launch_kept kept;
};
int launch_both(void *stream, const struct launch_both *both);
/* Products of so many columns of weights of this type may go by short_products.cuh, where values
 * come sooner than memory would bring them. */
bool launch_takes_short(const struct launch_tiles *tiles, int cols, enum dtype type);
/* As launch_cols, where a value serves both sides. */
int launch_both_cols(enum dtype points, enum dtype weights);
/* kept.values of the slots first .. first+count-1 <- the values; no weights are needed, and of the
 * steps only where they begin. */
int launch_keep(void *stream, const struct launch_both *both, int64_t first, int64_t count);
/* totals [cols][P.count] += the partials, step by step; or, when `first`, <- them. */
int launch_add_both(void *stream, const struct launch_both *both, double *totals);

/* ---- normal.cu: K' diag(w) (K V - T) with the values of some of P's rows, a panel ---- */

/* Bytes of a stored tile; it has launch_tile_rows() rows of Q. */
int64_t launch_tile_bytes(enum dtype dtype);
/* Values by launch_sums: panel of `rows` rows against all `members` of Q, in `across` tiles. `type`
 * is that of both sides' weights; at most launch_cols() columns. */
struct launch_panel {
    enum dtype dtype, type;
    bool group; /* as launch_kernel.group */
    int64_t rows, members, across;
    const void *values;
    int cols;
    int64_t chunk;         /* members of Q whose share of a row's sum is formed in one piece */
    int64_t segment;       /* rows, likewise for a column's; a multiple of LAUNCH_TILE */
    const void *q_weights; /* as launch_weights lays them */
    double *row_sums;      /* [chunk][cols][rows], as those of launch_sums with values */
    void *p_weights;       /* [tile of P][cols][its rows], 0 behind the last row */
    double *column_sums;   /* [segment][cols][members] */
};
/* row_sums <- the shares of K V, from stored values; of the bits of the launch_sums that stored
 * them. */
int launch_panel_rows(void *stream, const struct launch_panel *panel);
/* p_weights <- weights o (the sum of row_sums in their order - T), and U likewise. weights [rows]
 * or NULL; T and U have the panel's rows and columns, or data NULL. U may be T. */
int launch_residual(void *stream, const struct launch_panel *panel, const double *weights,
                    const struct mat *T, const struct mat *U);
/* column_sums <- the segments' shares of K' p_weights, added to what is there unless `first`. */
int launch_panel_columns(void *stream, const struct launch_panel *panel, bool first);

/* ---- sketch.cu ---- */

/* S <- scale Phi K + b S for Phi's entries begin[r] .. begin[r+1]-1 of each row r, which are 2 i of
 * K's row i, or 2 i + 1 where it is to be subtracted; added in float64 in their order. K' is given:
 * transposed [S.cols, K's rows]. b = 0 does not read S. */
struct launch_signs {
    struct mat transposed, S;
    const int32_t *begin, *entries;
    double scale, b;
};
int launch_signs(void *stream, const struct launch_signs *signs);

/* ---- blocks.cu ---- */

/* K <- K(P,Q). */
int launch_block(void *stream, const struct launch_tiles *tiles, const struct mat *K);
/* d(i) <- k(p_i, p_i). Only P of the tiles is used. */
int launch_diagonal(void *stream, const struct launch_tiles *tiles, const struct mat *d);

/* ---- product_l2.cu, product_l1.cu, product_dot.cu: the launchers above for one form ---- */

int launch_sums_l2(void *stream, const struct launch_sums *sums);
int launch_sums_l1(void *stream, const struct launch_sums *sums);
int launch_sums_dot(void *stream, const struct launch_sums *sums);
int launch_both_l2(void *stream, const struct launch_both *both);
int launch_both_l1(void *stream, const struct launch_both *both);
int launch_both_dot(void *stream, const struct launch_both *both);
int launch_keep_l2(void *stream, const struct launch_both *both, int64_t first, int64_t count);
int launch_keep_l1(void *stream, const struct launch_both *both, int64_t first, int64_t count);
int launch_keep_dot(void *stream, const struct launch_both *both, int64_t first, int64_t count);

/* ---- kept.cu: the part of launch_both that is kept ---- */

int launch_both_kept(void *stream, const struct launch_both *both);
