/*
 * A tile of distances on the GPU. A block of THREADS threads takes XT rows x against ZT rows z at a
 * time: ACROSS x DOWN threads hold X x Z distances each in registers. Features come from panels
 * (launch.h) in steps of DEPTH<T>, which the block copies to shared memory while it works on the
 * step before (cp.async where the device has it), in pieces of 16 bytes on both sides.
 *
 * Distances are sums in the order of the features, by differences, in which nothing cancels and
 * k(x,z) and k(z,x) have the same bits; or, for products in float32, |x|^2/2 + |z|^2/2 - x.z, half
 * as many instructions, where both norms are so small that cancelling does not matter
 * (launch_kernel.inner). Which of both is decided for each row x and tile of z rows, so what a row
 * gets does not depend on the rows beside it.
 *
 * Products and sums that the compiler might or might not fuse are written as fma: all copies of a
 * formula must round alike.
 */
#pragma once

#include <cuda_pipeline.h>

extern "C" {
#include "gpu/launch.h"
}

#include "gpu/functions.cuh"
#include "gpu/start.cuh"

namespace {

constexpr int ACROSS = 16, DOWN = 8, THREADS = ACROSS * DOWN, PANEL = LAUNCH_PANEL;
constexpr int X = 8, XT = DOWN * X; /* x rows of a thread, of a tile */

template <class T> constexpr int VECTOR = 16 / sizeof(T); /* numbers in 16 bytes */
template <class T> constexpr int Z = 32 / sizeof(T);      /* z rows of a thread: 8 or 4 */
template <class T> constexpr int ZT = ACROSS *Z<T>;       /* of a tile: 128 or 64 */

/* Features of a step, by the shared memory of a multiprocessor, which is 64 KiB before 8.0. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <class T> constexpr int DEPTH = 10;
#else
template <class T> constexpr int DEPTH = sizeof(T) == 4 ? 16 : 10;
#endif

static_assert(LAUNCH_TILE % ZT<float> == 0 && LAUNCH_TILE % ZT<double> == 0 &&
                  LAUNCH_TILE % XT == 0 && XT % PANEL == 0,
              "launches are cut at whole tiles, and tiles at whole panels");

/* A warp is 8 threads across and 4 down, so that its reads of 16 bytes a thread are 128 bytes of z
 * rows and 64 of x rows. Its lanes are in the order in
 * which they would hold a product of matrices by mma. */
__device__ int across()
{
    return threadIdx.x % 32 / 4 + threadIdx.x / 32 % 2 * 8;
}

__device__ int down()
{
    return threadIdx.x % 4 + threadIdx.x / 64 * 4;
}

/* Where in the tile the thread's x row i and z row j stand. */
template <class T> __device__ int x_row(int i)
{
    constexpr int V = VECTOR<T>;
    return i / V * (DOWN * V) + down() * V + i % V;
}

template <class T> __device__ int z_row(int j)
{
    constexpr int V = VECTOR<T>;
    return j / V * (ACROSS * V) + across() * V + j % V;
}

/* ret[0 .. COUNT-1] <- the thread's numbers of `from` [SPAN x COUNT], which stand in groups of
 * VECTOR<T>; its group is the `place`-th of SPAN. GAP numbers lie between one SPAN and the next. */
template <class T, int SPAN, int GAP = 0, int COUNT, class W>
__device__ void take(const W *from, int place, W (&ret)[COUNT])
{
    constexpr int V = VECTOR<T>;
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

/* ---- staging ---- */

/* In float32, GAP numbers lie behind each panel of x rows, and twice as many behind the z rows: so
 * four lanes with a feature each, and eight with a row each, read from all banks of shared memory.
 */
template <class T> constexpr int GAP = sizeof(T) == 4 ? 4 : 0;

template <class T> struct alignas(16) stage {
    T x[DEPTH<T>][XT + XT / PANEL * GAP<T>], z[DEPTH<T>][ZT<T> + 2 * GAP<T>];
};

/* Where this thread copies from when WIDTH members from `first` on (a multiple of PANEL) are
 * staged: its first number of the first feature it takes. The threads share a feature's pieces, and
 * take several features at once. */
template <int WIDTH, class T>
__device__ const T *source(const struct launch_view &view, int64_t ld, int64_t first)
{
    constexpr int V = VECTOR<T>, PIECES = WIDTH / V;
    const int row = (int)threadIdx.x % PIECES * V, k = (int)threadIdx.x / PIECES;
    const int64_t panel = view.panel + (first + row) / PANEL;
    return (const T *)view.data + (panel * ld + k) * PANEL + row % PANEL;
}

/* Begins to copy `count` features of the members of source() from feature k0 on. */
template <int WIDTH, int GAP = 0, int STRIDE, class T>
__device__ void fetch(const T *source, int k0, int count, T (*to)[STRIDE])
{
    constexpr int V = VECTOR<T>, PIECES = WIDTH / V, TOGETHER = THREADS / PIECES;
    const int row = (int)threadIdx.x % PIECES * V, k = (int)threadIdx.x / PIECES;
    T *const first = &to[k][row + row / PANEL * GAP];
    source += (int64_t)k0 * PANEL;
#pragma unroll
    for (int i = 0; i < DEPTH<T>; i += TOGETHER) {
        if (k + i < count) {
            __pipeline_memcpy_async(first + i * STRIDE, source + i * PANEL, 16);
        }
    }
}

/* ---- distances ---- */

enum way {
    WAY_DIFFERENCES,
    WAY_INNER, /* |x|^2/2 + |z|^2/2 - x.z */
    WAY_MIXED, /* each x row by one of both */
    WAY_L1,
    WAY_DOT
};

template <way WAY, class T> __device__ T add_feature(T sum, T x, T z, bool inner)
{
    if constexpr (WAY == WAY_DOT) {
        return fma(x, z, sum);
    } else if constexpr (WAY == WAY_INNER) {
        return fma(-x, z, sum);
    } else {
        const T diff = x - z;
        if constexpr (WAY == WAY_L1) {
            return sum + fabs(diff);
        } else if constexpr (WAY == WAY_MIXED) {
            return fma(inner ? -x : diff, inner ? z : diff, sum);
        } else {
            return fma(diff, diff, sum);
        }
    }
}

template <way WAY, class T>
__device__ void add_features(const T *all_x, const T *all_z, unsigned inner, T (&D)[X][Z<T>])
{
    T x[X], z[Z<T>];
    take<T, DOWN, GAP<T>>(all_x, 0, x);
    take<T, ACROSS>(all_z, 0, z);
#pragma unroll
    for (int i = 0; i < X; i++) {
#pragma unroll
        for (int j = 0; j < Z<T>; j++) {
            D[i][j] = add_feature<WAY>(D[i][j], x[i], z[j], (inner >> i & 1) != 0);
        }
    }
}

template <way WAY, class T>
__device__ void add_step(const stage<T> &s, int count, unsigned inner, T (&D)[X][Z<T>])
{
    constexpr int ALL = DEPTH<T>, NEXT_X = sizeof s.x[0] / sizeof(T),
                  NEXT_Z = sizeof s.z[0] / sizeof(T);
    const T *x = s.x[0] + down() * VECTOR<T>, *z = s.z[0] + across() * VECTOR<T>;
    if (WAY != WAY_MIXED && count == ALL) {
#pragma unroll(ALL / 2)
        for (int k = 0; k < ALL; k++, x += NEXT_X, z += NEXT_Z) {
            add_features<WAY>(x, z, inner, D);
        }
        return;
    }
#pragma unroll(WAY == WAY_MIXED ? 1 : 2)
    for (int k = 0; k < count; k++, x += NEXT_X, z += NEXT_Z) {
        add_features<WAY>(x, z, inner, D);
    }
}

/* D <- 0 in the rows of `which`. */
template <class T> __device__ void clear_rows(unsigned which, T (&D)[X][Z<T>])
{
#pragma unroll
    for (int i = 0; i < X; i++) {
#pragma unroll
        for (int j = 0; j < Z<T>; j++) {
            D[i][j] = (which >> i & 1) != 0 ? (T)0 : D[i][j];
        }
    }
}

/* ---- which way ---- */

template <launch_form FORM, class T> constexpr bool HAS_NORMS = FORM == FORM_L2 && sizeof(T) == 4;

/* How a thread's x rows meet a tile of z rows; bit i of `inner`: row i by WAY_INNER. */
struct choice {
    way by;
    unsigned inner;
};

/* `by` is the same for all threads of the block: least and most are of the norms of all the tile's
 * x rows, `reach` is the most of its z rows. */
inline __device__ choice choose(float limit, const float (&norms)[X], float least, float most,
                                float reach)
{
    if (most + reach <= limit) {
        return {WAY_INNER, (1U << X) - 1};
    }
    if (!(least + reach <= limit)) {
        return {WAY_DIFFERENCES, 0};
    }
    choice c = {WAY_MIXED, 0};
#pragma unroll
    for (int i = 0; i < X; i++) {
        c.inner |= norms[i] + reach <= limit ? 1U << i : 0U;
    }
    return c;
}

template <launch_form FORM, class T>
__device__ void add_step_by(const choice &c, const stage<T> &s, int count, T (&D)[X][Z<T>])
{
    if constexpr (FORM == FORM_L1) {
        add_step<WAY_L1>(s, count, 0, D);
    } else if constexpr (FORM == FORM_DOT) {
        add_step<WAY_DOT>(s, count, 0, D);
    } else if constexpr (HAS_NORMS<FORM, T>) {
        switch (c.by) {
        case WAY_INNER:
            add_step<WAY_INNER>(s, count, 0, D);
            break;
        case WAY_MIXED:
            add_step<WAY_MIXED>(s, count, c.inner, D);
            break;
        default:
            add_step<WAY_DIFFERENCES>(s, count, 0, D);
        }
    } else {
        add_step<WAY_DIFFERENCES>(s, count, 0, D);
    }
}

/* ---- the walk through the features of a tile ---- */

/* What a walk needs in shared memory. The second half of z_norms is of the tile after. */
template <class T> struct tile_memory {
    stage<T> stages[2];
    alignas(16) T x_norms[XT], z_norms[2][ZT<T>];
};

/* Where a block is. */
template <class T> struct place {
    const T *x, *z; /* source() of the tile's x and z rows */
    float reach;    /* of these z rows */
    bool fresh;     /* the x rows are new, and least and most, of their norms, not known yet */
    float least = 0, most = 0;
    int slot = 0; /* the stage that holds, or will hold, the next step's features */
    int tile = 0; /* counts the tiles: the lowest bit tells which half of z_norms is theirs */
};

/* Begins to copy features from k0 on into the stage. */
template <class T> __device__ void fetch_step(const place<T> &at, int k0, int d, stage<T> &s)
{
    const int count = min(DEPTH<T>, d - k0);
    fetch<XT, GAP<T>>(at.x, k0, count, s.x);
    fetch<ZT<T>>(at.z, k0, count, s.z);
}

/* Begins to copy what the first step of a tile needs into stages[slot]. */
template <launch_form FORM, class T>
__device__ void fetch_tile(const struct launch_tiles &t, const place<T> &at, tile_memory<T> &s)
{
    fetch_step(at, 0, (int)t.d, s.stages[at.slot]);
    if constexpr (HAS_NORMS<FORM, T>) {
        if (t.kernel.inner > 0) {
            fetch<ZT<T>>(at.z, (int)t.d, 1, &s.z_norms[at.tile & 1]);
            if (at.fresh) {
                fetch<XT>(at.x, (int)t.d, 1, &s.x_norms);
            }
        }
    }
}

template <class T> __device__ void find_range(place<T> &at, const T (&norms)[XT])
{
    at.fresh = false;
    at.least = at.most = norms[0];
#pragma unroll 1
    for (int r = 1; r < XT; r++) {
        at.least = fmin(at.least, norms[r]);
        at.most = fmax(at.most, norms[r]);
    }
}

/* D begins with 0, or with the norms of the pairs that are taken by inner products. */
template <launch_form FORM, class T>
__device__ choice begin(const struct launch_kernel &k, place<T> &at, const tile_memory<T> &s,
                        T (&D)[X][Z<T>])
{
    choice c = {WAY_DIFFERENCES, 0};
    if constexpr (HAS_NORMS<FORM, T>) {
        if (at.reach <= k.inner) { /* else there are differences only, whatever the rows */
            T x[X], z[Z<T>];
            if (at.fresh) {
                find_range(at, s.x_norms);
            }
            take<T, DOWN>(s.x_norms, down(), x);
            take<T, ACROSS>(s.z_norms[at.tile & 1], across(), z);
            c = choose(k.inner, x, at.least, at.most, at.reach);
#pragma unroll
            for (int i = 0; i < X; i++) {
#pragma unroll
                for (int j = 0; j < Z<T>; j++) {
                    D[i][j] = x[i] + z[j];
                }
            }
        }
    }
    if (c.by != WAY_INNER) {
        clear_rows(~c.inner, D);
    }
    return c;
}

/* Where D is half the sum of squares, it is that so far for inner products alone. */
template <launch_form FORM, class T>
__device__ void halve(const struct launch_kernel &k, const choice &c, T (&D)[X][Z<T>])
{
    if constexpr (HAS_NORMS<FORM, T>) {
        if (k.inner > 0 && c.by != WAY_INNER) {
#pragma unroll
            for (int i = 0; i < X; i++) {
#pragma unroll
                for (int j = 0; j < Z<T>; j++) {
                    D[i][j] *= (c.inner >> i & 1) != 0 ? (T)1 : (T)0.5;
                }
            }
        }
    }
}

/* D <- distances or inner products of the tile at `at`, of which the first step is on its way; puts
 * on its way what fetch_next() asks for, which has at.slot to itself. */
template <launch_form FORM, class T, class F>
__device__ void distances(const struct launch_tiles &t, place<T> &at, tile_memory<T> &s,
                          const F &fetch_next, T (&D)[X][Z<T>])
{
    const int d = (int)t.d;
    choice c = {WAY_DIFFERENCES, 0};
    int k0 = 0;
    do {
        __pipeline_wait_prior(0);
        __syncthreads(); /* this step is there, and the other stage is read */
        const stage<T> &now = s.stages[at.slot];
        at.slot ^= 1;
        if (k0 + DEPTH<T> < d) {
            fetch_step(at, k0 + DEPTH<T>, d, s.stages[at.slot]);
        } else {
            fetch_next();
        }
        __pipeline_commit();
        if (k0 == 0) {
            c = begin<FORM>(t.kernel, at, s, D);
        }
        add_step_by<FORM>(c, now, min(DEPTH<T>, d - k0), D);
        k0 += DEPTH<T>;
    } while (k0 < d);
    halve<FORM>(t.kernel, c, D);
}

} // namespace
