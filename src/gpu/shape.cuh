/*
 * How a block's threads share a tile of values: ACROSS x DOWN threads hold X x Z values each, those
 * of X of the tile's XT x rows with Z of its ZT z rows. What is done with values (functions, sums,
 * masks, storing) is written for every shape; tile.cuh and group.cuh have one each, and compute the
 * distances.
 */
#pragma once

#include <stdint.h>

extern "C" {
#include "gpu/launch.h"
}

#include "gpu/start.cuh"

namespace {

constexpr int THREADS = 128, PANEL = LAUNCH_PANEL;

/* PLACE::across() and PLACE::down() tell where a thread is, PLACE::thread() who is there. Its rows
 * stand in groups of VECTOR, so that it reads what belongs to them in pieces of 16 bytes. */
template <class T, int ACROSS_, int DOWN_, int X_, int Z_, class PLACE> struct shape : PLACE {
    static constexpr int ACROSS = ACROSS_, DOWN = DOWN_, X = X_, Z = Z_;
    static constexpr int XT = DOWN * X, ZT = ACROSS * Z, VECTOR = 16 / sizeof(T);
    static_assert(ACROSS * DOWN == THREADS, "each thread has its place");
    static_assert(LAUNCH_TILE % ZT == 0 && LAUNCH_TILE % XT == 0 && XT % PANEL == 0 &&
                      ZT % PANEL == 0,
                  "launches are cut at whole tiles, and tiles at whole panels");

    /* Where in the tile the thread's x row i and z row j stand. */
    static __device__ int x_row(int i)
    {
        return i / VECTOR * (DOWN * VECTOR) + PLACE::down() * VECTOR + i % VECTOR;
    }
    static __device__ int z_row(int j)
    {
        return j / VECTOR * (ACROSS * VECTOR) + PLACE::across() * VECTOR + j % VECTOR;
    }
};

template <class S> using tile_values = typename S::T[S::X][S::Z];

/* ret[0 .. COUNT-1] <- the thread's numbers of `from` [SPAN x COUNT], which stand in groups of
 * V; its group is the `place`-th of SPAN. GAP numbers lie between one SPAN and the next. */
template <int V, int SPAN, int GAP = 0, int COUNT, class W>
__device__ void take(const W *from, int place, W (&ret)[COUNT])
{
    struct alignas(16) sixteen {
        W w[16 / sizeof(W)];
    };
    constexpr int EACH = 16 / sizeof(W);
#pragma unroll
    for (int i = 0; i < COUNT; i += EACH) {
        const int at = i / V * (SPAN * V + GAP) + place * V + i % V;
        const sixteen part = *(const sixteen *)(from + at);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            ret[i + k] = part.w[k];
        }
    }
}

/* As start, with THREADS threads and more dynamic memory than a kernel may have without asking. */
template <class... Parameters, class... Arguments>
int start_with(void (*kernel)(Parameters...), dim3 grid, size_t bytes, void *stream,
               const Arguments &...arguments)
{
    const int status =
        (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return status != 0 ? status : start(kernel, grid, THREADS, bytes, stream, arguments...);
}

} // namespace
