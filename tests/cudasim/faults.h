/* Kernels for the simulator's tests, most of them with a fault that it must find. */
#pragma once

#include <stdint.h>

/* Each starts its kernel, or kernels, on the stream and returns the cudaError_t of the start. */

/* sums[b] <- the sum of block b's 256 of x[256 blocks]; `barriers`: with the __syncthreads() that
 * the tree needs. */
int start_block_sums(void *stream, const double *x, int blocks, double *sums, int barriers);
/* y[i] <- x[i + shift], i < n. */
int start_shift(void *stream, const float *x, int64_t n, int64_t shift, float *y);
/* y[0 .. 63] <- x through shared memory by asynchronous copies; waits for them or not. */
int start_async_copy(void *stream, const float *x, float *y, int wait);
/* ret[0] <- the sum of x[32] by shuffles; `mask` is theirs. */
int start_warp_sum(void *stream, const float *x, unsigned mask, float *ret);
/* Threads below `limit` of 64 wait for all. */
int start_divergent(void *stream, int limit);
/* Half of a warp waits for its lanes, the other half for the block. */
int start_split_warp(void *stream);
/* Writes one number behind its 64 of shared memory. */
int start_write_behind(void *stream);
/* ret[0] <- a number of shared memory that nobody wrote. */
int start_read_unwritten(void *stream, float *ret);
/* 49 KiB of static shared memory. */
int start_too_much_shared(void *stream);
/* ret[0 .. bytes-1] through dynamic shared memory; `allow` asks for more than 48 KiB before. */
int start_dynamic(void *stream, int64_t bytes, int allow, unsigned char *ret);
/* A kernel that does nothing. */
int start_nothing(void *stream, unsigned grid_x, unsigned grid_y, unsigned threads);
/* order[k] <- the thread that came k-th of 64. */
int start_order(void *stream, int *next, int *order);

/* C <- C + A B, [16 x 16] by [16 x 8] of float16, or, if `tf32`, of the first 8 columns and rows,
 * all row-major; `lanes` of a warp take part. */
int start_matrix_product(void *stream, const float *A, const float *B, float *C, int tf32,
                         int lanes);

enum group_fault {
    GROUP_RIGHT,
    GROUP_WITHOUT_A_WARP,
    GROUP_WITHOUT_PROXY_FENCE,
    GROUP_WITHOUT_BARRIER, /* for watched kernels */
    GROUP_WITHOUT_FENCE,
    GROUP_WITHOUT_COMMIT,
    GROUP_WITHOUT_WAIT,
    GROUP_TOUCHED, /* registers, between two products */
    GROUP_OUTSIDE  /* of shared memory */
};
/* C <- 2 A B by a group of warps, [64 x 16] by [16 x 64]: both as pairs of float16 in pieces of 8
 * numbers of a row of A, or a column of B, the first halves of all and then the others. C by rows.
 */
int start_group_product(void *stream, const unsigned *A, const unsigned *B, float *C, int fault);

enum arrival_fault {
    ARRIVAL_RIGHT,
    ARRIVAL_WITHOUT_FENCE,
    ARRIVAL_TWICE,      /* bytes are expected while others are on their way */
    ARRIVAL_TOO_MUCH,   /* more is copied than is expected */
    ARRIVAL_TOO_LITTLE, /* or less */
    ARRIVAL_CROOKED,    /* from no multiple of 16 bytes */
    ARRIVAL_NOT_WAITED_FOR
};
/* y[i] <- x[256 + i] + x[i], i < 256, which come as two copies in turns to the same place. */
int start_arrivals(void *stream, const float *x, float *y, int fault);

/* ---- for watched kernels ---- */

/* y[i] <- x[shift + i], i < 16, four at a time. */
int start_fours(void *stream, const float *x, int shift, float *y);

/* ret[b] <- x[b], read by all 64 threads of block b; block b writes to ret[b / share]. */
int start_share(void *stream, const float *x, int blocks, int share, float *ret);
/* ret[i] <- x[31 - i] + x[0] through shared memory, i < 32, of which thread 0 changes x[0] then,
 * with
 * __syncwarp() between or not. */
int start_reverse(void *stream, const float *x, int wait, float *ret);
/* All 64 threads read what thread 0 changes then, with no barrier between. */
int start_change_of_all(void *stream, float *x);
/* As start_async_copy with both waits, but each thread reads its neighbour's number; `barrier`:
 * after
 * __syncthreads(). */
int start_async_neighbour(void *stream, const float *x, float *y, int barrier);
