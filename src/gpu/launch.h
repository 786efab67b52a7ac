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

/* to(i,j) <- (from(i,j) - center[j]) * scale[j], both row-major [n, d], computed in float64. When a
 * number leaves the type's range, *bad becomes the least such row, counted from first_row. */
struct pack {
    const void *from;
    enum dtype from_dtype;
    void *to;
    enum dtype to_dtype;
    int64_t n, d;
    const double *scale, *center;
    int64_t first_row;
    int64_t *bad;
};
int launch_pack(void *stream, const struct pack *pack);

/* ---- products.cu, blocks.cu: the kernel oracle ---- */

#define LAUNCH_CHUNK 1024 /* rows of Q whose share of a sum is formed in one piece */
#define LAUNCH_COLS 8     /* right-hand sides that share one evaluation of the kernel */

enum launch_form { FORM_L2, FORM_L1, FORM_DOT };

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
    double gamma, coef0; /* dot-product kernels */
    int degree;
};

/* Members of a view: rows first .. first+count-1 of data, or index[0 .. count-1]. */
struct launch_view {
    const void *data; /* row-major [., d] */
    const int64_t *index;
    int64_t first, count;
};

struct launch_tiles {
    struct launch_kernel kernel;
    enum dtype dtype; /* of the points, and of kernel values */
    int64_t d;
    struct launch_view P, Q;
};

/* Members first_row .. first_row+rows-1 of P against `chunks` chunks of Q from first_chunk on, with
 * at most LAUNCH_COLS columns of weights V and at most 65535 chunks:
 * partials[(chunk * V.cols + column) * rows + row] <- that chunk's share of K(P,Q) V. */
struct launch_sums {
    struct launch_tiles tiles;
    int64_t first_row, rows;
    int64_t first_chunk, chunks;
    struct mat V;
    double *partials;
};
int launch_sums(void *stream, const struct launch_sums *sums);

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

/* K <- K(P,Q). */
int launch_block(void *stream, const struct launch_tiles *tiles, const struct mat *K);
/* d(i) <- k(p_i, p_i). Only P of the tiles is used. */
int launch_diagonal(void *stream, const struct launch_tiles *tiles, const struct mat *d);
