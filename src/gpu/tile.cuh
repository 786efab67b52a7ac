/*
 * A tile of distances on the GPU. A block of threads computes tiles of TILE x TILE kernel values:
 * SIDE x SIDE threads hold PER x PER distances each in registers, and walk through the features in
 * steps of DEPTH, which the block stages in shared memory. Distances are sums of explicit
 * differences in the order of the features: nothing cancels, k(x,z) and k(z,x) have the same bits,
 * and k(x,x) is exactly 1.
 *
 * Products and sums that the compiler might or might not fuse are written as fma: all copies of a
 * formula must round alike.
 */
#pragma once

extern "C" {
#include "gpu/launch.h"
}

namespace {

constexpr int TILE = 64, SIDE = 16, PER = TILE / SIDE, DEPTH = 16;
constexpr int THREADS = SIDE * SIDE;

/* Thread t holds x rows down(t) + i SIDE against z rows across(t) + j SIDE of the tile. */
__device__ int across()
{
    return threadIdx.x % SIDE;
}

__device__ int down()
{
    return threadIdx.x / SIDE;
}

/* One step's features of both sides of a tile, and where each row's features begin. The spare
 * column keeps threads that store along k on different banks. */
template <class T> struct stage {
    T x[DEPTH][TILE + 1], z[DEPTH][TILE + 1];
    int64_t x_at[TILE], z_at[TILE];
};

/* Rows beyond the view repeat its last member; what they give is dropped. */
__device__ void find_rows(const struct launch_view &view, int64_t first, int64_t d, int64_t *at)
{
    for (int r = threadIdx.x; r < TILE; r += THREADS) {
        const int64_t member = min(first + r, view.count - 1);
        at[r] = (view.index != nullptr ? view.index[member] : view.first + member) * d;
    }
}

template <class T>
__device__ void load_features(const void *data, const int64_t *at, int64_t k0, int count,
                              T (*ret)[TILE + 1])
{
    for (int e = threadIdx.x; e < TILE * DEPTH; e += THREADS) {
        const int row = e / DEPTH, k = e % DEPTH;
        if (k < count) {
            ret[k][row] = ((const T *)data)[at[row] + k0 + k];
        }
    }
}

template <launch_form FORM, class T> __device__ T add_feature(T sum, T x, T z)
{
    if constexpr (FORM == FORM_DOT) {
        return fma(x, z, sum);
    }
    const T diff = x - z;
    return FORM == FORM_L1 ? sum + fabs(diff) : fma(diff, diff, sum);
}

/* D[i][j] <- distance (or inner product) of the thread's x rows i and z rows j. All threads call
 * it, after x_at and z_at were written; it returns when the block no longer reads the stage. */
template <launch_form FORM, class T>
__device__ void distances(const void *x, const void *z, int64_t d, stage<T> &s, T (&D)[PER][PER])
{
    for (int i = 0; i < PER; i++) {
        for (int j = 0; j < PER; j++) {
            D[i][j] = 0;
        }
    }
    __syncthreads();
    for (int64_t k0 = 0; k0 < d; k0 += DEPTH) {
        const int count = (int)min((int64_t)DEPTH, d - k0);
        load_features(x, s.x_at, k0, count, s.x);
        load_features(z, s.z_at, k0, count, s.z);
        __syncthreads();
        for (int k = 0; k < count; k++) {
            T xs[PER], zs[PER];
            for (int i = 0; i < PER; i++) {
                xs[i] = s.x[k][down() + i * SIDE];
                zs[i] = s.z[k][across() + i * SIDE];
            }
            for (int i = 0; i < PER; i++) {
                for (int j = 0; j < PER; j++) {
                    D[i][j] = add_feature<FORM>(D[i][j], xs[i], zs[j]);
                }
            }
        }
        __syncthreads();
    }
}

} // namespace
