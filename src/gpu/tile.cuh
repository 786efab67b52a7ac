/*
 * A tile of distances on the GPU. A block of THREADS threads takes XT rows x against ZT rows z at a
 * time: ACROSS x DOWN threads hold X x Z distances each in registers. Features come from panels
 * (launch.h) in steps of DEPTH<T>, which the block copies to shared memory while it works on the
 * step before (cp.async where the device has it), in pieces of 16 bytes on both sides.
 *
 * Distances are sums in the order of the features, by differences, in which nothing cancels and
 * k(x,z) and k(z,x) have the same bits; or, for products, |x|^2/2 + |z|^2/2 - x.z, half as many
 * instructions, where both norms are so small that cancelling does not matter
 * (launch_kernel.inner). Which of both is decided for each row x and tile of z rows, so what a row
 * gets does not depend on the rows beside it. Inner products of many features come from the tensor
 * cores (launch_kernel.tensor), those of float32 in parts (tensor.cuh).
 *
 * Products and sums that the compiler might or might not fuse are written as fma: all copies of a
 * formula must round alike.
 */
#pragma once

#include <type_traits>

#include <cuda_pipeline.h>

extern "C" {
#include "gpu/launch.h"
}

#include "gpu/functions.cuh"
#include "gpu/shape.cuh"
#include "gpu/start.cuh"
#include "gpu/tensor.cuh"

namespace {

constexpr int ACROSS = 16, DOWN = 8, X = 8;
template <class T> constexpr int VECTOR = 16 / sizeof(T); /* numbers in 16 bytes */
template <class T> constexpr int Z = 32 / sizeof(T);      /* z rows of a thread: 8 or 4 */
constexpr int XT = DOWN * X;                              /* x rows of a tile */
template <class T> constexpr int ZT = ACROSS *Z<T>;       /* z rows of one: 128 or 64 */

/* Whether points may meet on the tensor cores, and the features of a step, whole products of them:
 * shared memory has room for fewer where there are none. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool TENSOR = false;
#else
constexpr bool TENSOR = true;
#endif
template <class T> constexpr int DEPTH = !TENSOR ? 10 : sizeof(T) == 4 ? 16 : 12;

static_assert(DEPTH<float> <= LAUNCH_BEHIND, "a step names no memory that is not there");
static_assert(LAUNCH_TILE % ZT<float> == 0 && LAUNCH_TILE % ZT<double> == 0 &&
                  LAUNCH_TILE % XT == 0 && XT % PANEL == 0 && DOWN * VECTOR<float> == PANEL,
              "launches are cut at whole tiles, and tiles at whole panels");

/* A warp is 8 threads across and 4 down, so that its reads of 16 bytes a thread are 128 bytes of z
 * rows and 64 of x rows. Its lanes are in the order in which they hold products of matrices. */
struct lanes_place {
    static __device__ int across()
    {
        return threadIdx.x % 32 / 4 + threadIdx.x / 32 % 2 * 8;
    }
    static __device__ int down()
    {
        return threadIdx.x % 4 + threadIdx.x / 64 * 4;
    }
    static __device__ int thread(int across, int down)
    {
        return (down / 4 * 2 + across / 8) * 32 + across % 8 * 4 + down % 4;
    }
};

inline __device__ int across()
{
    return lanes_place::across();
}

inline __device__ int down()
{
    return lanes_place::down();
}

/* Where in the tile the thread's x row i and z row j stand. */
template <class T> __device__ int x_row(int i)
{
    return shape<T, ACROSS, DOWN, X, Z<T>, lanes_place>::x_row(i);
}

template <class T> __device__ int z_row(int j)
{
    return shape<T, ACROSS, DOWN, X, Z<T>, lanes_place>::z_row(j);
}

/* ---- staging ---- */

/* 32 bytes lie behind each feature of the x rows, and of the z rows, so that four lanes with a
 * feature each and their neighbours with a row each read from all banks of shared memory; in
 * float32 GAP numbers, half of them, lie behind each panel of x rows. */
template <class T> constexpr int GAP = sizeof(T) == 4 ? 4 : 0;

/* From one feature to the next. */
template <class T> constexpr int NEXT_X = XT + 32 / sizeof(T);
template <class T> constexpr int NEXT_Z = ZT<T> + 32 / sizeof(T);
static_assert(NEXT_X<float> == XT + XT / PANEL * GAP<float>, "the gaps are what lies behind");

template <class T> struct alignas(16) stage {
    T x[DEPTH<T>][NEXT_X<T>], z[DEPTH<T>][NEXT_Z<T>];
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

/* Begins to copy `count` features of the members of source() from feature k0 on. FILLS: those
 * behind become 0. */
template <int WIDTH, bool FILLS, int GAP = 0, int STRIDE, class T>
__device__ void fetch(const T *source, int k0, int count, T (*to)[STRIDE])
{
    constexpr int V = VECTOR<T>, PIECES = WIDTH / V, TOGETHER = THREADS / PIECES;
    const int row = (int)threadIdx.x % PIECES * V, k = (int)threadIdx.x / PIECES;
    T *const first = &to[k][row + row / PANEL * GAP];
    source += (int64_t)k0 * PANEL;
#pragma unroll
    for (int i = 0; i < DEPTH<T>; i += TOGETHER) {
        const bool there = k + i < count;
        if constexpr (FILLS) {
            __pipeline_memcpy_async(first + i * STRIDE, source + i * PANEL, 16, there ? 0 : 16);
        } else if (there) {
            __pipeline_memcpy_async(first + i * STRIDE, source + i * PANEL, 16);
        }
    }
}

/* Begins to copy the k-th feature alone. */
template <int WIDTH, class T> __device__ void fetch_one(const T *source, int k, T (&to)[WIDTH])
{
    constexpr int V = VECTOR<T>;
    if (threadIdx.x < WIDTH / V) {
        __pipeline_memcpy_async(to + threadIdx.x * V, source + (int64_t)k * PANEL, 16);
    }
}

/* ---- distances ---- */

enum way {
    WAY_DIFFERENCES,
    WAY_INNER, /* |x|^2/2 + |z|^2/2 - x.z */
    WAY_MIXED, /* each x row by one of both */
    WAY_FAR,   /* differences of those x rows that are not by inner products */
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
        } else if constexpr (WAY == WAY_FAR) {
            return fma(inner ? (T)0 : diff, diff, sum);
        } else {
            return fma(diff, diff, sum);
        }
    }
}

template <way WAY, class T>
__device__ void add_features(const T *all_x, const T *all_z, unsigned inner, T (&D)[X][Z<T>])
{
    T x[X], z[Z<T>];
    take<VECTOR<T>, DOWN, GAP<T>>(all_x, 0, x);
    take<VECTOR<T>, ACROSS>(all_z, 0, z);
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
    constexpr int ALL = DEPTH<T>;
    const T *x = s.x[0] + down() * VECTOR<T>, *z = s.z[0] + across() * VECTOR<T>;
    constexpr bool SELECTS = WAY == WAY_MIXED || WAY == WAY_FAR;
    if (!SELECTS && count == ALL) {
#pragma unroll(ALL / 2)
        for (int k = 0; k < ALL; k++, x += NEXT_X<T>, z += NEXT_Z<T>) {
            add_features<WAY>(x, z, inner, D);
        }
        return;
    }
#pragma unroll(SELECTS ? 1 : 2)
    for (int k = 0; k < count; k++, x += NEXT_X<T>, z += NEXT_Z<T>) {
        add_features<WAY>(x, z, inner, D);
    }
}

/* D += x.z of a product's features, or -=, but for columns that are not `taken`. */
template <class PARTS, bool MINUS>
__device__ void add_products(const float *all_x, const float *all_z, unsigned taken,
                             float (&D)[X][Z<float>])
{
    constexpr int HALF = X / 2;
    row_parts x[HALF];
    split_rows<PARTS, NEXT_X<float>>(all_x, taken, x);
#pragma unroll
    for (int first = 0; first < Z<float>; first += VECTOR<float>) {
        row_parts z[VECTOR<float>];
        split_rows<PARTS, NEXT_Z<float>>(all_z + first * ACROSS, ALL_TAKEN, z);
#pragma unroll
        for (int i = 0; i < HALF; i++) {
#pragma unroll
            for (int j = 0; j < VECTOR<float>; j += 2) {
                float c[4];
                multiply<PARTS>(z[j], z[j + 1], x[i], c);
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    float &sum = D[i + k % 2 * HALF][first + j + k / 2];
                    sum = MINUS ? sum - c[k] : sum + c[k];
                }
            }
        }
    }
}

/* The same in float64, whose products need no parts and round as lanes do: they have 16 z rows, of
 * which a thread holds two, and 8 x rows next to each other, of which it holds two. */
template <class PARTS, bool MINUS>
__device__ void add_products(const double *all_x, const double *all_z, unsigned taken,
                             double (&D)[X][Z<double>])
{
    double z[Z<double>];
    take<VECTOR<double>, ACROSS>(all_z, 0, z);
#pragma unroll
    for (int i = 0; i < X; i += 2) {
        const double there = (taken >> i / 2 & 1) != 0 ? all_x[i * DOWN] : 0;
        const double x = MINUS ? -there : there;
#pragma unroll
        for (int j = 0; j < Z<double>; j += 2) {
            const double rows[2] = {z[j], z[j + 1]};
            double c[4] = {D[i][j], D[i + 1][j], D[i][j + 1], D[i + 1][j + 1]};
            add_product_float64(c, rows, x);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                D[i + k % 2][j + k / 2] = c[k];
            }
        }
    }
}

/* The x rows that this lane brings to products as their columns, 4 of them, are not its own: where
 * the i-th stands in a feature of x rows whose panels are GAP apart. In float32 the two columns
 * that lane 0 holds of a product come from lanes 0 and 4, and so on. */
template <class T, int GAP> __device__ int column_place(int i)
{
    const int column = threadIdx.x % 32 / 4, half = threadIdx.x / 64;
    if constexpr (sizeof(T) == sizeof(double)) {
        return i * (DOWN * VECTOR<T>)+half * (DOWN * VECTOR<T> / 2) + column;
    } else {
        return column % 2 * (PANEL + GAP) + (column / 2 + half * 4) * VECTOR<T> + i;
    }
}

/* As add_step, by the tensor cores. A lane brings every fourth feature. Those that fill up the last
 * product are 0. */
template <class PARTS, bool MINUS, class T>
__device__ void add_step_of_products(const stage<T> &s, int count, unsigned taken, T (&D)[X][Z<T>])
{
    const T *x = s.x[threadIdx.x % 4] + column_place<T, GAP<T>>(0);
    const T *z = s.z[threadIdx.x % 4] + across() * VECTOR<T>;
#pragma unroll 1
    for (int k = 0; k < count; k += PARTS::FEATURES) {
        add_products<PARTS, MINUS>(x, z, taken, D);
        x += PARTS::FEATURES * NEXT_X<T>;
        z += PARTS::FEATURES * NEXT_Z<T>;
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

template <launch_form FORM> constexpr bool HAS_NORMS = PLAIN<FORM> == FORM_L2;
template <launch_form FORM> constexpr bool USES_TENSOR = TENSOR &&PLAIN<FORM> != FORM;

/* How products take a form's numbers. */
template <launch_form FORM, class T>
using parts_for =
    std::conditional_t<sizeof(T) == sizeof(double), float64_parts,
                       std::conditional_t<PLAIN<FORM> == FORM_L2, float16_parts, tf32_parts>>;

/* How a thread's x rows meet a tile of z rows; bit i of `inner`: row i by WAY_INNER; of `columns`,
 * that the tensor cores take the row at column_place(i). */
struct choice {
    way by;
    unsigned inner, columns;
};

/* `by` is the same for all threads of the block: least and most are of `all` norms of the tile's x
 * rows, `reach` is the most of its z rows. */
template <class T>
__device__ choice choose(float limit, const T (&norms)[X], const T (&all)[XT], float least,
                         float most, float reach)
{
    if (most + reach <= limit) {
        return {WAY_INNER, (1U << X) - 1, ALL_TAKEN};
    }
    if (!(least + reach <= limit)) {
        return {WAY_DIFFERENCES, 0, 0};
    }
    choice c = {WAY_MIXED, 0, 0};
#pragma unroll
    for (int i = 0; i < X; i++) {
        c.inner |= (float)norms[i] + reach <= limit ? 1U << i : 0U;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        c.columns |= (float)all[column_place<T, 0>(i)] + reach <= limit ? 1U << i : 0U;
    }
    return c;
}

/* By differences or inner products. */
template <launch_form FORM, class T>
__device__ void add_step_of_either(const choice &c, const stage<T> &s, int count, T (&D)[X][Z<T>])
{
    if (c.by == WAY_DIFFERENCES) {
        add_step<WAY_DIFFERENCES>(s, count, 0, D);
    } else if constexpr (USES_TENSOR<FORM>) {
        add_step_of_products<parts_for<FORM, T>, true>(s, count, c.columns, D);
        if (c.by == WAY_MIXED) {
            add_step<WAY_FAR>(s, count, c.inner, D);
        }
    } else if (c.by == WAY_MIXED) {
        add_step<WAY_MIXED>(s, count, c.inner, D);
    } else {
        add_step<WAY_INNER>(s, count, 0, D);
    }
}

template <launch_form FORM, class T>
__device__ void add_step_by(const choice &c, const stage<T> &s, int count, T (&D)[X][Z<T>])
{
    if constexpr (FORM == FORM_L1) {
        add_step<WAY_L1>(s, count, 0, D);
    } else if constexpr (HAS_NORMS<FORM>) {
        add_step_of_either<FORM>(c, s, count, D);
    } else if constexpr (USES_TENSOR<FORM>) {
        add_step_of_products<parts_for<FORM, T>, false>(s, count, ALL_TAKEN, D);
    } else {
        add_step<WAY_DOT>(s, count, 0, D);
    }
}

/* ---- the walk through the features of a tile ---- */

/* What a walk needs in shared memory. The second half of z_norms is of the tile after. */
template <class T> struct tile_memory {
    stage<T> stages[2];
    alignas(16) T x_norms[XT], z_norms[2][ZT<T>];
};

/* Where a block is. */
template <class T> struct tile_place {
    const T *x, *z; /* source() of the tile's x and z rows */
    float reach;    /* of these z rows */
    bool fresh;     /* the x rows are new, and least and most, of their norms, not known yet */
    float least = 0, most = 0;
    int slot = 0; /* the stage that holds, or will hold, the next step's features */
    int tile = 0; /* counts the tiles: the lowest bit tells which half of z_norms is theirs */
};

/* Begins to copy features from k0 on into the stage. */
template <launch_form FORM, class T>
__device__ void fetch_step(const struct launch_tiles &t, const tile_place<T> &at, int k0,
                           stage<T> &s)
{
    const int count = min(DEPTH<T>, (int)t.d - k0);
    constexpr bool fills = USES_TENSOR<FORM>;
    fetch<XT, fills, GAP<T>>(at.x, k0, count, s.x);
    fetch<ZT<T>, fills>(at.z, k0, count, s.z);
}

/* Begins to copy what the first step of a tile needs into stages[slot]. */
template <launch_form FORM, class T>
__device__ void fetch_tile(const struct launch_tiles &t, const tile_place<T> &at, tile_memory<T> &s)
{
    fetch_step<FORM>(t, at, 0, s.stages[at.slot]);
    if constexpr (HAS_NORMS<FORM>) {
        if (t.kernel.inner > 0) {
            fetch_one(at.z, (int)t.d, s.z_norms[at.tile & 1]);
            if (at.fresh) {
                fetch_one(at.x, (int)t.d, s.x_norms);
            }
        }
    }
}

template <class T> __device__ void find_range(tile_place<T> &at, const T (&norms)[XT])
{
    at.fresh = false;
    at.least = at.most = (float)norms[0];
#pragma unroll 1
    for (int r = 1; r < XT; r++) {
        at.least = fmin(at.least, (float)norms[r]);
        at.most = fmax(at.most, (float)norms[r]);
    }
}

/* D begins with 0, or with the norms of the pairs that are taken by inner products. */
template <launch_form FORM, class T>
__device__ choice begin(const struct launch_kernel &k, tile_place<T> &at, const tile_memory<T> &s,
                        T (&D)[X][Z<T>])
{
    choice c = {WAY_DIFFERENCES, 0, 0};
    if constexpr (HAS_NORMS<FORM>) {
        /* Else there are differences only, whatever the rows; without norms reach is 0. */
        if (k.inner > 0 && at.reach <= k.inner) {
            T x[X], z[Z<T>];
            if (at.fresh) {
                find_range(at, s.x_norms);
            }
            take<VECTOR<T>, DOWN>(s.x_norms, down(), x);
            take<VECTOR<T>, ACROSS>(s.z_norms[at.tile & 1], across(), z);
            c = choose(k.inner, x, s.x_norms, at.least, at.most, at.reach);
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
    if constexpr (HAS_NORMS<FORM>) {
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
__device__ void distances(const struct launch_tiles &t, tile_place<T> &at, tile_memory<T> &s,
                          const F &fetch_next, T (&D)[X][Z<T>])
{
    const int d = (int)t.d;
    choice c = {WAY_DIFFERENCES, 0, 0};
    int k0 = 0;
    do {
        __pipeline_wait_prior(0);
        __syncthreads(); /* this step is there, and the other stage is read */
        const stage<T> &now = s.stages[at.slot];
        at.slot ^= 1;
        if (k0 + DEPTH<T> < d) {
            fetch_step<FORM>(t, at, k0 + DEPTH<T>, s.stages[at.slot]);
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

/* ---- for those who use values ---- */

template <class NUMBER> struct lanes_tile : shape<NUMBER, ACROSS, DOWN, X, Z<NUMBER>, lanes_place> {
    using T = NUMBER;
    using memory = tile_memory<T>;
    using place = tile_place<T>;
    /* Bytes that the walk has behind the memory of its block. */
    static size_t bytes_behind(int64_t)
    {
        return 0;
    }
    /* At the tile of row x against row z. */
    static __device__ place begin(const struct launch_tiles &t, int64_t x, int64_t z, float reach,
                                  void *)
    {
        return {source<XT, T>(t.P, t.ld, x), source<ZT<T>, T>(t.Q, t.ld, z), reach, true};
    }
    /* At other x rows. */
    static __device__ place begin_row(const struct launch_tiles &t, const place &at, int64_t x,
                                      int64_t z, float reach)
    {
        place next = begin(t, x, z, reach, nullptr);
        next.slot = at.slot;
        next.tile = at.tile;
        return next;
    }
    /* At the z rows behind; the reach is the caller's to know. */
    static __device__ place behind(const struct launch_tiles &t, const place &at)
    {
        place next = at;
        next.z += ZT<T> / PANEL * t.ld * PANEL;
        next.tile++;
        next.fresh = false;
        return next;
    }
    /* To the z rows of `next`, which behind() gave; the tile is counted by the caller. */
    static __device__ void go_on(place &at, const place &next)
    {
        at.z = next.z;
        at.reach = next.reach;
    }
};

} // namespace
